"""Times in ordinary words, in four languages: "tomorrow at 9", "every monday 9am", "in einer halben
Stunde". Pure.

Every word of a phrase must be read; all ways of reading it are tried. Where they mean one time,
that is it; where they mean two, the person is asked which.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from daemon.triggers.said_time import FIRST_SURE_HOUR, LAST, SECONDS, Facts, join_hours, resolve
from daemon.triggers.time_words import (
    DAY,
    HOUR,
    LANGUAGES,
    MINUTE,
    MONTH,
    WEEK,
    YEAR,
    load_words,
)

MAX_WORDS, MAX_READINGS = 24, 2000
NUMBER = "number"
HOURS = ("h", "heure", "heures", "hora", "horas")
SHORT_UNITS = {"h": HOUR, "m": MINUTE, "min": MINUTE, "s": "second", "d": DAY, "w": WEEK}
TOKEN = re.compile(
    r"\d{4}-\d{2}-\d{2}|\d{1,2}\.\d{1,2}\.(?:\d{4})?|\d{1,2}/\d{1,2}(?:/\d{4})?"
    r"|\d{1,2}[:.]\d{2}|\d{1,2}h\d{2}(?!\s?m)|\d{1,3}[.,]\d(?=\s?[a-z])|\d{1,2}(?:st|nd|rd|th|er|\.)(?=[\s,]|$)|\d{1,6}(?!\d)|[^\W\d_]+(?:['-][^\W\d_]+)*-?"
)
BETWEEN = re.compile(r"[\s,;!?.@]*")
DECIMAL = re.compile(r"(\d{1,3})[.,](\d)")
YEAR_FIRST = re.compile(r"\b(\d{4})/(\d{1,2})/(\d{1,2})\b")
SHORT_YEAR = re.compile(r"\b(\d{1,2}\.\d{1,2}\.)(\d{2})(?![\d:.]|\s*(?:uhr|h)\b)")
NO_SECONDS = re.compile(r"\b(\d{1,2}:\d{2}):00\b")
CLOCK = re.compile(r"(\d{1,2})[:.h](\d{2})")
ORDINAL = re.compile(r"(\d{1,2})(?:st|nd|rd|th|er|\.)")
NUMERIC = re.compile(r"(\d{1,2})([./])(\d{1,2})[./]?(\d{4})?")
ISO = re.compile(r"(\d{4})-(\d{2})-(\d{2})")


Step = tuple[Facts, int]


def read_times(text: str, now: datetime) -> list[str]:
    """The rules that the phrase may mean, as `parse_rule` takes them: none where it cannot be read,
    several where it is not clear. `now` is local.
    """
    plain = unicodedata.normalize("NFC", text).lower().replace("\u2019", "'")
    plain = re.sub(r"\b([ap])\.m\.", r"\1m", plain).replace("demi-", "demi ")
    plain = re.sub(r"\b([a-z]{3,9})[-\u2013]([a-z]{3,9})\b", _split_days, plain)
    plain = YEAR_FIRST.sub(lambda one: f"{one[1]}-{one[2]:0>2}-{one[3]:0>2}", plain)
    plain = NO_SECONDS.sub(r"\1", SHORT_YEAR.sub(r"\g<1>20\2", plain))
    plain = re.sub(r"^\+(?=\d)", "in ", plain)
    tokens, at = list[str](), 0
    plain = plain.rstrip()
    while at < len(plain):
        at = end.end() if (end := BETWEEN.match(plain, at)) else at
        if at >= len(plain):
            break
        if len(tokens) == MAX_WORDS or not (found := TOKEN.match(plain, at)):
            return []
        tokens.append(found[0])
        at = found.end()
    if not 0 < len(tokens) <= MAX_WORDS:
        return []
    found_rules: dict[str, None] = {}
    for language in LANGUAGES:
        try:
            rules = list(_Reader(tuple(tokens), language).read(now))
        except OverflowError:  # further off than a calendar goes
            rules = []
        found_rules |= dict.fromkeys(rules)
        if rules:
            break
    return list(found_rules)


def _split_days(found: re.Match[str]) -> str:
    """ "mon-fri" as three words; other words with a hyphen stay one."""
    days = load_words("en")
    is_range = all(any(w.kind == "weekday" for w in days.get((one,), ())) for one in found.groups())
    return f"{found[1]} to {found[2]}" if is_range else found[0]


class _Reader:
    """One phrase in one language."""

    def __init__(self, tokens: tuple[str, ...], language: str) -> None:
        self.tokens, self.words = tokens, load_words(language)
        self.longest = max(map(len, self.words))

    def read(self, now: datetime) -> Iterator[str]:
        """What all its words together may mean."""
        seen = set[Step]()
        open_steps: list[Step] = [(Facts(), 0)]
        complete: dict[Facts, None] = {}
        while open_steps and len(seen) < MAX_READINGS:
            step = open_steps.pop()
            if step in seen:
                continue
            seen.add(step)
            facts, at = step
            if at == len(self.tokens):
                complete[facts] = None
            else:
                open_steps += self._next(facts, at)
        for facts in complete:
            yield from resolve(facts, now)

    def _token(self, at: int) -> str:
        """ "" behind the last."""
        return self.tokens[at] if at < len(self.tokens) else ""

    def _of(self, kind: str, at: int) -> Iterator[tuple[Any, int]]:
        """The words of this kind that stand here: (which, what comes behind them)."""
        if kind == "count" and self._token(at).isdecimal():
            yield int(self.tokens[at]), at + 1
        for size in range(min(self.longest, len(self.tokens) - at), 0, -1):
            for word in self.words.get(self.tokens[at : at + size], ()):
                if word.kind == (NUMBER if kind == "count" else kind):
                    yield word.value, at + size

    def _match(self, at: int, *kinds: str) -> Iterator[tuple[tuple[Any, ...], int]]:
        """Words of these kinds one behind the other; those of "?KIND" may be absent, and give no
        value.
        """
        if not kinds:
            yield (), at
            return
        kind, rest = kinds[0], kinds[1:]
        if kind.startswith("?"):
            yield from self._match(at, *rest)
        for which, end in self._of(kind.lstrip("?"), at):
            given = () if kind.startswith("?") else (which,)
            for values, last in self._match(end, *rest):
                yield (*given, *values), last

    def _after(self, at: int, *kinds: str) -> Iterator[int]:
        for _, end in self._match(at, *kinds):
            yield end

    def _next(self, facts: Facts, at: int) -> Iterator[Step]:
        """Everything that may stand here."""
        for end in self._after(at, "skip"):
            yield facts, end
        yield from self._read_duration(facts, at)
        yield from self._read_every(facts, at)
        yield from self._read_place(facts, at)
        yield from self._read_day(facts, at)
        yield from self._read_date(facts, at)
        if facts.every == "interval" and facts.until is None:
            yield from self._read_part_of_day(facts, at)
        if facts.hour is None:
            for end in self._after(at, "?at"):
                yield from self._read_clock(facts, end)
        elif facts.every and not facts.from_now:
            yield from self._read_more_clocks(facts, at)

    def _read_duration(self, facts: Facts, at: int) -> Iterator[Step]:
        if facts.from_now or facts.every:
            return
        for start in self._after(at, "in"):
            for seconds, months, end in self._amount(start):
                yield replace(facts, seconds=seconds, months=months, from_now=True), end
        for seconds, months, start in self._amount(at):
            is_all = at == 0 and start == len(self.tokens)
            is_clock = self.tokens[-1] in HOURS or CLOCK.fullmatch(self.tokens[0])
            if is_all and not is_clock:  # 21h is a time of day
                yield replace(facts, seconds=seconds, months=months, from_now=True), start
            for end in self._after(start, "from now"):
                yield replace(facts, seconds=seconds, months=months, from_now=True), end

    def _amount(self, at: int) -> Iterator[tuple[int, int, int]]:
        """(seconds, months, behind it) of "two hours", "1h30", "an hour and a half"."""
        if (found := CLOCK.fullmatch(self._token(at))) and "h" in found[0]:
            yield int(found[1]) * 3600 + int(found[2]) * 60, 0, at + 1
        for seconds, end in self._part_of_hour(at):
            yield seconds, 0, end
        if found := DECIMAL.fullmatch(self._token(at)):
            for unit, end in self._unit(at + 1):
                if unit in SECONDS:
                    yield (int(found[1]) * 10 + int(found[2])) * SECONDS[unit] // 10, 0, end
        for (number,), start in self._match(at, "count"):
            for unit, end in self._unit(start):
                if unit in (MONTH, YEAR):
                    yield 0, number * (12 if unit == YEAR else 1), end
                    continue
                size = SECONDS[unit]
                seconds = number * size
                yield seconds, 0, end
                for last in self._after(end, "and half"):
                    yield seconds + size // 2, 0, last
                for more in self._after(end, "?and") if unit in (HOUR, DAY) else ():
                    for rest, months, last in self._amount(more):
                        if rest < size and not months:
                            yield seconds + rest, 0, last

    def _part_of_hour(self, at: int) -> Iterator[tuple[int, int]]:
        """(seconds, behind it) of "half an hour", "a quarter of an hour", "anderthalb Stunden"."""
        forms = (
            (1800, ("?number", "half", "?number", "unit")),
            (900, ("?number", "quarter", "?skip", "?number", "unit")),
            (5400, ("one and a half", "unit")),
        )
        for seconds, kinds in forms:
            for (*_, unit), end in self._match(at, *kinds):
                if unit == HOUR:
                    yield seconds, end

    def _unit(self, at: int) -> Iterator[tuple[str, int]]:
        yield from self._of("unit", at)
        if short := SHORT_UNITS.get(self._token(at)):
            yield short, at + 1

    def _read_every(self, facts: Facts, at: int) -> Iterator[Step]:
        """What says that it comes again."""
        is_part = facts.every == "interval" and facts.seconds < SECONDS[DAY]
        if (is_part or facts.every == DAY) and not facts.weekdays:
            for days, end in (*self._weekdays(at, "weekday"), *self._repeated_days(at)):
                yield replace(facts, weekdays=days), end
        if facts.from_now or facts.every not in ("", WEEK, MONTH):
            return
        for unit, end in self._of("cycle", at):
            every = "interval" if unit == HOUR else unit
            yield replace(facts, every=every, seconds=3600 if unit == HOUR else 0), end
        for part, end in self._of("every part", at):
            yield replace(facts, every=DAY, part=part), end
        for days, end in self._repeated_days(at):
            yield replace(facts, every=WEEK, weekdays=days), end
        for start in self._after(at, "every"):
            yield from self._read_what_comes_again(facts, start)

    def _repeated_days(self, at: int) -> Iterator[tuple[tuple[int, ...], int]]:
        """Days of the week that are meant each time, as they stand."""
        yield from self._weekdays(at, "weekdays")
        for start in self._after(at, "plural"):
            yield from self._weekdays(start, "weekday")
        for end in self._after(at, "workdays"):
            yield (0, 1, 2, 3, 4), end
        for end in self._after(at, "weekends"):
            yield (5, 6), end
        yield from self._range(at)

    def _read_what_comes_again(self, facts: Facts, at: int) -> Iterator[Step]:
        for seconds, months, end in self._amount(at):
            if not months and seconds:
                yield replace(facts, every="interval", seconds=seconds), end
            if 12 % (months or 5) == 0:  # a part of a year
                yield replace(facts, every=MONTH, months=months), end
        for end in self._after(at, "quarter"):
            yield replace(facts, every=MONTH, months=3), end
        for unit, end in self._unit(at):
            if unit in (DAY, WEEK, MONTH, YEAR):
                yield replace(facts, every=unit), end
            else:
                yield replace(facts, every="interval", seconds=SECONDS[unit]), end
        for (_, unit), end in self._match(at, "other", "unit"):
            if unit in (DAY, WEEK):
                yield replace(facts, every="interval", seconds=2 * SECONDS[unit]), end
        for (_, day), end in self._match(at, "other", "weekday"):
            two_weeks = 2 * SECONDS[WEEK]
            yield replace(facts, every="interval", seconds=two_weeks, weekdays=(day,)), end
        for part, end in self._of("part", at):
            yield replace(facts, every=DAY, part=part), end
        for days, end in (*self._weekdays(at, "weekday"), *self._repeated_days(at)):
            yield replace(facts, every=WEEK, weekdays=days), end
        for end in self._after(at, "weekend"):
            yield replace(facts, every=WEEK, weekdays=(5, 6)), end
        for dated, end in self._read_date(facts, at):
            yield replace(dated, every=YEAR if dated.month else MONTH), end

    def _read_place(self, facts: Facts, at: int) -> Iterator[Step]:
        """A day by its place in each month: "the first monday of the month", "every last day of the
        month", "the 2nd friday of each month".
        """
        if facts.every or facts.from_now or facts.weekdays or facts.dom:
            return
        for kind in ("?skip", "?every", "?habit"):
            for start in self._after(at, kind):
                for place, end in self._place(start):
                    for behind in self._of_month(end) if place in (1, LAST) else ():
                        yield replace(facts, every=MONTH, place=place), behind
                    for (day,), last in self._match(end, "weekday"):
                        for behind in self._of_month(last):
                            found = replace(facts, every=MONTH, place=place, weekdays=(day,))
                            yield found, behind
                    for (unit,), last in self._match(end, "unit"):
                        for behind in self._of_month(last) if unit == DAY else ():
                            yield replace(facts, every=MONTH, place=place), behind

    def _place(self, at: int) -> Iterator[tuple[int, int]]:
        yield from self._of("place", at)
        found = ORDINAL.fullmatch(self._token(at))
        if found and 1 <= int(found[1]) <= 5:
            yield int(found[1]), at + 1

    def _of_month(self, at: int) -> Iterator[int]:
        """What says that it is of each month."""
        for kinds in (
            ("?skip", "?skip", "unit"),
            ("?skip", "?number", "unit"),
            ("?skip", "every", "unit"),
        ):
            for (*_, unit), end in self._match(at, *kinds):
                if unit == MONTH:
                    yield end

    def _weekdays(self, at: int, kind: str) -> Iterator[tuple[tuple[int, ...], int]]:
        """One or more: "monday", "monday, wednesday and friday"."""
        for day, end in self._of(kind, at):
            yield (day,), end
            for more in self._after(end, "?and"):
                for days, last in self._weekdays(more, kind):
                    yield tuple(sorted({day, *days})), last

    def _range(self, at: int) -> Iterator[tuple[tuple[int, ...], int]]:
        """ "monday to friday"; "mon-fri" was taken apart before."""
        for kind in ("?from", "?skip"):
            for (first, _, last), end in self._match(at, kind, "weekday", "through", "weekday"):
                if first < last:
                    yield tuple(range(first, last + 1)), end

    def _read_day(self, facts: Facts, at: int) -> Iterator[Step]:
        """A day, or a part of one."""
        has_day = facts.day is not None or bool(facts.weekdays)
        if not facts.part:
            for (part,), end in self._match(at, "?at", "part"):
                yield replace(facts, part=part), end
        for part, end in self._of("parts", at) if not (facts.part or facts.from_now) else ():
            again = facts.every or (WEEK if facts.weekdays else DAY)
            yield replace(facts, part=part, every=again if facts.day is None else ""), end
        if has_day or facts.from_now:
            return
        if not facts.part:
            for (_, part), end in self._match(at, "this", "part"):
                yield replace(facts, part=part, day=0), end
            for end in self._after(at, "tonight"):
                yield replace(facts, part="night", day=0), end
        if facts.month or not facts.dom:  # "2nd tuesday" is no date
            yield from self._read_weekday(facts, at)
        if facts.dom:
            return
        for day, end in self._of("day", at) if not facts.every else ():
            yield replace(facts, day=day), end
        for (_, unit), end in self._match(at, "next", "unit"):
            if unit == WEEK and not facts.week:
                yield replace(facts, week=True), end

    def _read_weekday(self, facts: Facts, at: int) -> Iterator[Step]:
        is_weeks = facts.every == "interval" and facts.seconds % SECONDS[WEEK] == 0
        if facts.every not in ("", WEEK) and not is_weeks:
            return
        for days, end in self._weekdays(at, "weekday") if not facts.every else ():
            if len(days) > 1:  # several days are each week's
                yield replace(facts, every=WEEK, weekdays=days), end
        forms = ("?this", "weekday"), ("?next", "weekday"), ("weekday", "?next")
        for kinds in forms:
            for (day,), end in self._match(at, *kinds):
                yield replace(facts, weekdays=(day,)), end
        for part in ("morning", "afternoon", "evening"):
            for day, end in self._of(f"weekday {part}", at):
                yield replace(facts, weekdays=(day,), part=part), end

    def _read_date(self, facts: Facts, at: int) -> Iterator[Step]:
        if facts.dom or facts.day is not None or facts.from_now:
            return
        if facts.weekdays and (facts.every or len(facts.weekdays) > 1):
            return
        token = self._token(at)
        if found := ISO.fullmatch(token):
            year, month, day = map(int, found.groups())
            yield replace(facts, year=year, month=month, dom=day), at + 1
        if found := NUMERIC.fullmatch(token):
            first, second = int(found[1]), int(found[3])
            year = int(found[4]) if found[4] else None
            orders = {(first, second)} | ({(second, first)} if found[2] == "/" else set())
            for day, month in orders:
                if month <= 12:
                    yield replace(facts, year=year, month=month, dom=day), at + 1
        for place in {*self._after(at, "?skip"), *self._after(at, "?habit")}:
            for day, end in self._day_of_month(place):
                yield replace(facts, dom=day), end
                if not facts.every and ORDINAL.fullmatch(self._token(place)):
                    yield from self._more_days(replace(facts, dom=day, every=MONTH), end)
                for (month,), last in self._match(end, "?skip", "month"):
                    yield from self._with_year(replace(facts, dom=day, month=month), last)
        for month, start in self._of("month", at):
            for day, end in self._day_of_month(start):
                yield from self._with_year(replace(facts, dom=day, month=month), end)

    def _more_days(self, facts: Facts, at: int) -> Iterator[Step]:
        """Of each month: "the 1st and 15th", "the 15th of the month"."""
        for end in self._of_month(at):
            yield facts, end
        for start in self._after(at, "?and", "?skip"):
            if found := ORDINAL.fullmatch(self._token(start)):
                more = replace(facts, dom=int(found[1]), doms=(*facts.doms, facts.dom or 0))
                yield more, start + 1
                yield from self._more_days(more, start + 1)

    def _with_year(self, facts: Facts, at: int) -> Iterator[Step]:
        yield facts, at
        if re.fullmatch(r"2\d{3}", self._token(at)):
            yield replace(facts, year=int(self.tokens[at])), at + 1

    def _day_of_month(self, at: int) -> Iterator[tuple[int, int]]:
        """Of a bare number only beside a month, or behind an article, where languages write it
        so.
        """
        token = self._token(at)
        if found := ORDINAL.fullmatch(token):
            yield int(found[1]), at + 1
        elif token.isdecimal() and 1 <= int(token) <= 31:
            is_dated = any(self._match(at + 1, "?skip", "month")) or (
                at and any(self._of("month", at - 1))
            )
            if is_dated or (at and self.tokens[at - 1] in ("le", "el", "día")):
                yield int(token), at + 1

    def _read_clock(self, facts: Facts, at: int) -> Iterator[Step]:
        token = self._token(at)
        if (found := CLOCK.fullmatch(token)) and int(found[1]) < 24 and int(found[2]) < 60:
            timed = replace(facts, hour=int(found[1]), minute=int(found[2]))
            for end in self._after(at + 1, "?oclock"):
                yield from self._half_day(timed, end)
        for (hour,), end in self._match(at, "count"):
            if hour > 24:
                continue
            spoken = replace(facts, hour=hour % 24, spoken=1 <= hour <= 12)
            for place in (*self._after(end, "?oclock"), *self._hour_word(end)):
                yield from self._half_day(spoken, place)
                for kind, minute in (("and half", 30), ("and quarter", 15)):
                    for last in self._after(place, kind):
                        yield from self._half_day(replace(spoken, minute=minute), last)
                written = self._token(place)
                if place > end and written.isdecimal() and int(written) < 60:
                    yield replace(spoken, minute=int(written), spoken=False), place + 1
        yield from self._read_spoken(facts, at)

    def _read_part_of_day(self, facts: Facts, at: int) -> Iterator[Step]:
        """ "from 9 to 17", "between 9am and 5pm": both at the same minute."""
        for start in self._after(at, "span", "?at"):
            for first, middle in self._read_clock(replace(facts, hour=None, minute=0), start):
                for kind in ("through", "and"):
                    for place in self._after(middle, kind, "?at"):
                        open_end = replace(facts, hour=None, minute=0)
                        for last, end in self._read_clock(open_end, place):
                            if found := join_hours(first, last):
                                yield found, end

    def _read_more_clocks(self, facts: Facts, at: int) -> Iterator[Step]:
        """Further times of the same days: "at 8:00, 12:00 and 18:00"; at the same minute each."""
        first = facts.hour or 0
        if facts.spoken and first < FIRST_SURE_HOUR:
            return
        is_sure = CLOCK.fullmatch(self._token(at)) or self._token(at + 1) in ("am", "pm")
        for start in self._after(at, *(("?and",) if is_sure else ("and",)), "?at"):
            for more, end in self._read_clock(replace(facts, hour=None, minute=0), start):
                if more.minute == facts.minute and more.hour is not None and more.hour > first:
                    yield replace(more, more=(*facts.more, first)), end

    def _hour_word(self, at: int) -> Iterator[int]:
        """A word for hours behind their number: "9 heures", "17h"."""
        if self._token(at) in HOURS[:3]:
            yield at + 1

    def _read_spoken(self, facts: Facts, at: int) -> Iterator[Step]:
        """ "half past six", "quarter to ten", "halb neun"."""
        forms = (
            (("half", "past", "count"), 0, 30),
            (("half", "before", "count"), -1, 30),
            (("quarter", "past", "count"), 0, 15),
            (("quarter", "before", "count"), -1, 45),
            (("half to", "count"), -1, 30),
        )
        for kinds, shift, minute in forms:
            for (*_, hour), end in self._match(at, *kinds):
                if hour <= 24:
                    told = replace(
                        facts, hour=(hour + shift) % 24, minute=minute, spoken=hour <= 12
                    )
                    yield from self._half_day(told, end)

    def _half_day(self, facts: Facts, at: int) -> Iterator[Step]:
        """Perhaps with a word for which half of the day it is of."""
        yield facts, at
        hour = facts.hour or 0
        for kind, late in (("am", False), ("pm", True)):
            for end in self._after(at, kind):
                if 1 <= hour <= 12:
                    yield replace(facts, hour=hour % 12 + 12 * late, spoken=False), end
