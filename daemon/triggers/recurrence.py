"""When a schedule is due: once, at an interval, or by a cron expression in a time zone. Pure.

A cron expression is about local time. Fixed times ("30 2 * * *") are due once each: where clocks
go back, at the first pass; where clocks jump over one, at the end of the jump. An expression with
"*", a range or a step as its minute or hour follows real time: it is due at every instant whose
local time fits, so in both passes, and never in a jump.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from daemon.core import value
from daemon.core.errors import UsageError
from daemon.triggers.said_time import DEFAULT_HOUR
from daemon.triggers.time_words import DAYS, MONTHS
from daemon.triggers.when import read_times

INTERVAL = re.compile(r"every\s+(?:(\d{1,6})\s*)?([a-z]+)", re.IGNORECASE)
UNITS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
UNITS |= {"d": 86400, "day": 86400, "w": 604800, "week": 604800}
DAYS_APART = re.compile(r"every (\d{1,4}) days at (\d{1,2}:\d{2}) from (\d{4}-\d{2}-\d{2})")
LEAST_INTERVAL = timedelta(minutes=1)
WORD = r"(?:\d{1,7}|[a-z]{3})"
PART = rf"(?:\*|{WORD}(?:-{WORD})?)(?:/[1-9]\d{{0,3}})?"
FIELD = re.compile(rf"{PART}(?:,{PART}){{0,99}}")
LAST_DAY = "l"
PLACED = re.compile(r"([0-7]|[a-z]{3})(?:#([1-5])|l)")  # a weekday of a month: 1#2, fril
NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MINUTE = timedelta(minutes=1)
PLACES = ("last", "1st", "2nd", "3rd", "4th", "5th")
SHOWN_RUNS, MOST_COUNTED = 3, 500
MONTH, YEAR = timedelta(days=30), timedelta(days=365)
MAX_CHARS = 200
CRON = re.compile(r"(?=\S*[\d*])[\d*/,a-z#-]+( [\d*/,a-z#-]+){4}")
NAMES = {one for words in (DAYS, MONTHS) for one in words["en"].replace("/", " ").split()}
ZONED = (
    re.compile(r"(?P<rule>.*[^\s\[(])\s*[\s\[(](?P<zone>[A-Za-z_]+/[\w/+-]+|UTC|GMT)[\])]?"),
    re.compile(r"(?:CRON_)?TZ=(?P<zone>\S+) (?P<rule>.+)"),
)
EPOCH = re.compile(r"@?([0-9]{10})([0-9]{3})?")  # in seconds, or in milliseconds
SOON = timedelta(days=5 * 366)
DATE = re.compile(r"[\dW-]+")
REPEATS = re.compile(r"[*/-]")  # in a cron expression's minute or hour
YEARS_AHEAD = 9  # the 29th of February may be eight years away
EXPECTED = (
    'say it like "tomorrow at 9:00", "in 20 minutes", "every monday at 18:00", "weekdays at 7:30",'
    ' "every 2 hours" or "2026-12-24 18:00"'
)
EXPECTED_CRON = (
    'expected five fields such as "0 8 * * 1-5" (minute, hour, day, month, weekday; 0 and 7 are'
    " Sunday)"
)
UNCLEAR = "{text!r} may mean {readings}. Which one? Say it with am or pm, or with the date."


class BadRule(UsageError):
    """A rule or a zone that cannot be used; the message says what was expected."""


@value
class Due:
    """One occurrence. `key` names it whatever happens to clocks and zones: of a fixed local time
    that time, so that one that comes again is the same occurrence; else the instant in UTC.
    """

    at: datetime
    key: str


@value
class Recurrence:
    """A rule as it was read: `text` is its canonical form, `at` the instant of a single one,
    `every` the interval, `start` what intervals are counted from. `days`: an interval of days, at
    the same local time; its `start` is one, too.
    """

    kind: Literal["once", "interval", "days", "cron"]
    text: str
    zone: str
    at: datetime | None = None
    every: timedelta = timedelta()
    start: datetime | None = None

    def next_due(self, after: datetime) -> Due | None:
        """The first occurrence later than this instant; None when there is none."""
        if self.kind == "once":
            return Due(self.at, "once") if self.at and self.at > after else None
        if self.kind == "interval":
            start = self.start or after
            steps = max(1, (after - start) // self.every + 1)
            at = start + steps * self.every
            return Due(at, at.astimezone(UTC).isoformat())
        if self.kind == "days" and self.start:
            return _next_day(self.start, self.every, ZoneInfo(self.zone), after)
        return _next_cron(self.text, ZoneInfo(self.zone), after)


def load_zone(name: str) -> ZoneInfo:
    """Raises BadRule for a zone that is not known here."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadRule(
            f"there is no time zone {name[:100]!r}; expected a name such as"
            ' "Europe/Berlin" or "UTC"'
        ) from error


def parse_rule(text: str, zone: str, start: datetime) -> Recurrence:
    """A rule in a time zone, unless it names one itself; `start` is when it was made, which
    intervals count from. Raises BadRule.
    """
    if len(text) > MAX_CHARS:
        raise BadRule(f"a rule of {len(text)} characters: {EXPECTED}, in {MAX_CHARS} characters")
    load_zone(zone)
    words, zone = _split_zone(" ".join(text.strip(" \n\"'`").split()), zone)
    words = NICKNAMES.get(words.lower(), words)
    words = words.removeprefix("@") if words.startswith("@every ") else words
    found, place = INTERVAL.fullmatch(words), load_zone(zone)
    if found and (_find_unit(found[2]) or not _read_words(words, zone, start)):
        return _parse_interval(found, zone, start)
    if apart := DAYS_APART.fullmatch(words):
        return _parse_days(apart, zone)
    if CRON.fullmatch(cron := _make_plain_cron(words)):
        try:
            _check_cron(cron, start)
        except BadRule:
            if not _read_words(words, zone, start):
                raise
        else:
            return Recurrence("cron", cron, zone)
    if epoch := EPOCH.fullmatch(words):
        instant = datetime.fromtimestamp(int(epoch[1]), UTC)
        if abs(instant - start) < SOON:  # else they are the digits of something else
            return _make_once(instant, place)
    try:
        at = datetime.fromisoformat(words)
    except ValueError:
        return _parse_words(words, zone, start)
    if DATE.fullmatch(words):
        at = at.replace(hour=DEFAULT_HOUR)
    return _make_once(at if at.tzinfo else to_instant(at, place), place)


def _make_once(at: datetime, place: ZoneInfo) -> Recurrence:
    local = at.astimezone(place)
    return Recurrence("once", local.isoformat(), place.key, at=at.astimezone(UTC))


def _split_zone(words: str, zone: str) -> tuple[str, str]:
    """What is said without its zone, and that zone: "18:00 UTC", "0 9 * * * Asia/Tokyo"."""
    for pattern in ZONED:
        if found := pattern.fullmatch(words):
            with suppress(BadRule):
                load_zone(found["zone"])
                return found["rule"], found["zone"]
    return words, zone


def _make_plain_cron(words: str) -> str:
    """With five fields, and short names: others have seconds before, years behind, or both, "?" for
    "*", and write names out. Where weekdays have numbers there, they are other days.
    """
    plain = re.sub("[a-z]+", lambda one: one[0][:3] if one[0] in NAMES else one[0], words.lower())
    fields = plain.split(" ")
    if len(fields) == 7 and fields[6] == "*":
        fields.pop()
        has_seconds = True
    else:  # a day that is left open, or a weekday by its name, tells which fields these are
        days = [place for place, one in enumerate(fields) if one == "?" or one[:3] in WEEKDAYS]
        has_seconds = bool(days) and not {*days} - {3, 5}
        if len(fields) == 6 and days and not {*days} - {2, 4} and fields[5] == "*":
            fields.pop()
    if len(fields) == 6 and fields[0] == "0" and has_seconds and not re.search(r"\d", fields[5]):
        del fields[0]
    return " ".join(fields).replace("?", "*")


def _parse_words(text: str, zone: str, start: datetime) -> Recurrence:
    """What people write; where it may mean two times, they are asked which."""
    rules = [parse_rule(one, zone, start) for one in _read_words(text, zone, start)]
    if len(rules) == 1:
        return rules[0]
    if not rules:
        expected = EXPECTED_CRON if "*" in text else EXPECTED
        raise BadRule(f"{text!r} cannot be read as a time; {expected}")
    raise BadRule(UNCLEAR.format(text=text, readings=" or ".join(map(_show_rule, rules[:2]))))


def _read_words(text: str, zone: str, start: datetime) -> Sequence[str]:
    return read_times(text, start.astimezone(load_zone(zone)).replace(tzinfo=None))


def _show_rule(rule: Recurrence) -> str:
    """As a person reads it."""
    if rule.at is None:
        return f'"{rule.text}"'
    return f"{rule.at.astimezone(load_zone(rule.zone)):%A, %Y-%m-%d %H:%M}"


def _find_unit(word: str) -> int:
    """Its seconds; 0 where there is no such unit."""
    return UNITS.get(word.lower()) or UNITS.get(word.lower().removesuffix("s"), 0)


def _parse_interval(found: re.Match[str], zone: str, start: datetime) -> Recurrence:
    if not (seconds := _find_unit(found[2])):
        raise BadRule(f"{found[0]!r}: the unit {found[2]!r} is not known: {EXPECTED}")
    every = timedelta(seconds=int(found[1] or 1) * seconds)
    if not LEAST_INTERVAL <= every <= timedelta(days=3660):
        raise BadRule(f"{found[0]!r}: expected an interval between one minute and ten years")
    return Recurrence("interval", found[0].lower(), zone, every=every, start=start)


def _parse_days(found: re.Match[str], zone: str) -> Recurrence:
    try:
        start = datetime.fromisoformat(f"{found[3]}T{found[2]:0>5}")
    except ValueError as error:
        raise BadRule(f"{found[0]!r}: {error}") from error
    count = int(found[1]) or 1
    text = f"every {count} days at {start:%H:%M} from {start:%Y-%m-%d}"
    return Recurrence("days", text, zone, every=timedelta(days=count), start=start)


def _next_day(start: datetime, every: timedelta, zone: ZoneInfo, after: datetime) -> Due | None:
    wall = after.astimezone(zone).replace(tzinfo=None)
    wall = start + max(0, (wall - start) // every) * every
    while (at := to_instant(wall, zone)) <= after:
        wall += every
    return Due(at, wall.isoformat(timespec="minutes"))


def to_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """The instant when the clock on the wall of this zone shows this time: its first pass, or the
    end of the jump over it.
    """
    at = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if at.astimezone(zone).replace(tzinfo=None) == wall:
        return at
    return _find_change(wall.replace(tzinfo=zone, fold=1).astimezone(UTC), at, zone)


def _find_change(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    """The instant between these two when the zone changes its offset."""
    offset = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) / 2
        if middle.astimezone(zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)


def _next_cron(words: str, zone: ZoneInfo, after: datetime) -> Due | None:
    minute, hour, *_ = words.split(" ")
    if REPEATS.search(f"{minute} {hour}"):
        at = _next_instant(words, zone, after)
        return Due(at, at.isoformat()) if at else None
    # Clocks may have gone back: times that were due before `after` come again and are left out.
    wall: datetime | None = after.astimezone(zone).replace(tzinfo=None)
    while wall is not None:
        wall = _next_wall(words, wall)
        if wall is not None and (at := to_instant(wall, zone)) > after:
            return Due(at, at.astimezone(zone).replace(tzinfo=None).isoformat(timespec="minutes"))
    return None


def _next_instant(words: str, zone: ZoneInfo, after: datetime) -> datetime | None:
    """The first instant in UTC, later than this one, whose local time fits."""
    local = after.astimezone(zone)
    at = _next_pass(words, zone, after, local.replace(tzinfo=None))
    offset, later = local.utcoffset(), local.replace(fold=1).utcoffset()
    if offset is None or later is None or later >= offset:
        return at
    back = _find_change(after.astimezone(UTC), after.astimezone(UTC) + offset - later, zone)
    if at and at < back:
        return at
    # The rest of the first pass has none: local times before `after` come again.
    just_before = back.astimezone(zone).replace(tzinfo=None) - timedelta.resolution
    return _next_pass(words, zone, back - timedelta.resolution, just_before)


def _next_pass(words: str, zone: ZoneInfo, after: datetime, wall: datetime) -> datetime | None:
    """The first instant, later than `after`, of a local time later than `wall` that fits and
    exists.
    """
    while (fits := _next_wall(words, wall)) is not None:
        wall = fits
        passes = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        for at in passes:
            if at > after and at.astimezone(zone).replace(tzinfo=None) == wall:
                return at
    return None


def _next_wall(words: str, after: datetime) -> datetime | None:
    """The first time later than this one that fits, as if no clock ever jumped."""
    start = after.replace(second=0, microsecond=0) + MINUTE
    limit = f"{start.year}-{min(start.year + YEARS_AHEAD, 9999)}"
    now = start.replace(tzinfo=UTC)
    found = [trigger.get_next_fire_time(None, now) for trigger in _triggers(words, limit)]
    times = [one.replace(tzinfo=None) for one in found if one]
    return min(times, default=None)


@lru_cache(maxsize=4096)
def _triggers(words: str, years: str):
    """Of a day of the month and a weekday, either is enough, as in cron, unless one of them begins
    with "*": then both must fit.
    """
    from apscheduler.triggers.cron import CronTrigger  # lazy: 50 ms

    minute, hour, day, month, weekday = words.split(" ")
    base = {"minute": minute, "hour": hour, "month": month, "year": years, "timezone": UTC}
    day = "last" if day == LAST_DAY else day
    if placed := _find_placed(weekday):
        return [CronTrigger(**base, day=placed)]
    fits = {"day": day, "day_of_week": _weekdays(weekday)}
    is_both = day.startswith("*") or weekday.startswith("*")
    days = [fits] if is_both else [{key: field} for key, field in fits.items()]
    return [CronTrigger(**base, **one) for one in days]


def _weekdays(field: str) -> str:
    """Weekdays as names, for numbers mean other days in APScheduler."""
    found = set[int]()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        if span == "*":
            low, high = 0, 6
        else:
            low = _weekday(first)
            high = _weekday(last) if last else 6 if step else low
            high += 7 if high < low else 0
        found |= {number % 7 for number in range(low, high + 1, int(step or 1))}
    return ",".join(WEEKDAYS[number] for number in sorted(found))


def _find_placed(field: str) -> str:
    """Weekdays by their place in a month, as APScheduler has them: "2nd mon,last fri"; "" for
    others.
    """
    found = [PLACED.fullmatch(part) for part in field.split(",")]
    return ",".join(
        f"{PLACES[int(one[2] or 0)]} {WEEKDAYS[_weekday(one[1]) % 7]}" for one in found if one
    )


def _weekday(word: str) -> int:
    if word.isdecimal() and int(word) <= 7:
        return int(word)
    if word not in WEEKDAYS:
        raise ValueError(f"{word!r} is no weekday")
    return WEEKDAYS.index(word)


def _check_cron(words: str, start: datetime) -> None:
    fields = words.split(" ")
    names = ("minute", "hour", "day", "month", "weekday")
    is_placed = fields[2] == "*" and all(map(PLACED.fullmatch, fields[4].split(",")))
    for name, field in zip(names, fields, strict=True):
        is_last = name == "day" and field == LAST_DAY
        if not (FIELD.fullmatch(field) or is_last or (name == "weekday" and is_placed)):
            raise BadRule(f"{words!r}: the field {name} is {field!r}: {EXPECTED_CRON}")
    try:
        wall = _next_wall(words, start.replace(tzinfo=None))
    except (ValueError, TypeError, IndexError) as error:
        raise BadRule(f"{words!r}: {error}: {EXPECTED_CRON}") from error
    if wall is None:
        raise BadRule(f"{words!r} is never due: no such day comes in {YEARS_AHEAD} years")


def list_runs(
    rule: Recurrence, now: datetime, most: int, until: datetime | None = None
) -> Iterator[datetime]:
    """The next due times, at most so many, and none later than `until`."""
    due = rule.next_due(now)
    while due and most > 0 and not (until and due.at > until):
        yield due.at
        due, most = rule.next_due(due.at), most - 1


def describe_runs(
    rule: Recurrence,
    now: datetime,
    usd_per_run: float | None,
    *,
    once: bool = False,
    until: datetime | None = None,
) -> str:
    """The next three runs, how often that is in a month, and what it may cost."""
    zone, most = load_zone(rule.zone), 1 if once else SHOWN_RUNS
    times = [at.astimezone(zone) for at in list_runs(rule, now, most, until)]
    if not times:
        return "This time lies in the past."
    shown = ", ".join(f"{at:%a %Y-%m-%d %H:%M} {at.tzname()}" for at in times)
    if rule.kind == "once" or once:
        return f"It runs once: {shown} ({rule.zone})."
    span, words = MONTH, "30 days"
    if sum(1 for _ in list_runs(rule, now, 2, now + MONTH)) < 2:
        span, words = YEAR, "a year"
    end = min(until, now + span) if until else now + span
    found = list(list_runs(rule, now, MOST_COUNTED, end))
    count = float(len(found))
    if len(found) == MOST_COUNTED:
        count = (end - now) / (found[-1] - now) * MOST_COUNTED
    cost = ""
    if usd_per_run is not None:
        cost = f", about ${usd_per_run * count:.2f}; a turn has lately cost ${usd_per_run:.4f}"
    return f"The next runs: {shown} ({rule.zone}).\nAbout {count:.0f} in {words}{cost}."
