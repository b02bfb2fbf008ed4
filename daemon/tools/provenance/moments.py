"""Dates, times and durations, as people write them and as tools want them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH = r"(?P<{name}>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
ISO = re.compile(r"(?<!\d)(?P<y>\d{4})[-/](?P<m>\d{1,2})[-/](?P<d>\d{1,2})(?!\d)")
DOTTED = re.compile(r"(?<![\d.])(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})(?!\d)")
NAMED = re.compile(
    rf"\b{MONTH.format(name='m1')}\s+(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(?P<y1>\d{{4}})\b)?"
    rf"|\b(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?{MONTH.format(name='m2')}\b(?:,?\s+(?P<y2>\d{{4}})\b)?",
    re.I,
)
CLOCK = re.compile(r"(?<![\d:.])(?P<h>\d{1,2}):(?P<min>\d{2})(?::(?P<s>\d{2}))?(?:\s*(?P<half>[ap])\.?m\b\.?)?(?![\d:])", re.I)
HOUR = re.compile(r"(?<![\d:.])(?P<h>\d{1,2})\s*(?P<half>[ap])\.?m\b", re.I)
LASTING = re.compile(
    r"\b(?P<n>\d{1,4}(?:\.\d{1,4})?|an?|one|two|three|four|five|six|half an)[\s-]*(?P<unit>hour|hr|h|minute|min)s?\b", re.I
)
WORDS = {"a": 1.0, "an": 1.0, "one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "six": 6.0, "half an": 0.5}
WHOLE = re.compile(r"(?P<date>\d{4}-\d{1,2}-\d{1,2})?[T ]?(?P<time>\d{1,2}:\d{2}(?::\d{2})?)?(?:Z|[+-]\d{2}:?\d{2})?")
DAY = timedelta(days=1)

Date = tuple[int | None, int, int]


@dataclass(frozen=True, slots=True)
class Moments:
    """What a text says of time, and the text with a gap where each of them stood. A date without a year has None there."""

    dates: frozenset[Date]
    times: frozenset[timedelta]
    rest: str

    def holds(self, value: str) -> bool | None:
        """Whether this date, time or both are said there; None for a value that is neither."""
        found = WHOLE.fullmatch(value.strip())
        if found is None or not (found["date"] or found["time"]):
            return None
        return self._dated(found["date"]) and self._timed(found["time"])

    def _dated(self, date: str | None) -> bool:
        if not date:
            return True
        year, month, day = (int(part) for part in date.split("-"))
        return (year, month, day) in self.dates or (None, month, day) in self.dates

    def _timed(self, time: str | None) -> bool:
        if not time:
            return True
        hours, minutes, *seconds = (int(part) for part in time.split(":"))
        return timedelta(hours=hours, minutes=minutes, seconds=sum(seconds)) in self.times


@lru_cache(maxsize=256)
def moments_in(text: str) -> Moments:
    """Look for them. An end is said too, where a beginning and how long it lasts are."""
    dates = frozenset(_dates(text))
    rest = _without(text, ISO, DOTTED, NAMED)
    begun = frozenset(_times(rest))
    lasting = [_length(match) for match in LASTING.finditer(rest)]
    ends = frozenset((time + length) % DAY for time in begun for length in lasting)
    return Moments(dates, begun | ends, _without(rest, CLOCK, HOUR, LASTING))


def _without(text: str, *patterns: re.Pattern[str]) -> str:
    for pattern in patterns:
        text = pattern.sub(" \0 ", text)
    return text


def _dates(text: str) -> Iterator[Date]:
    for pattern in (ISO, DOTTED):
        yield from ((int(match["y"]), int(match["m"]), int(match["d"])) for match in pattern.finditer(text))
    for match in NAMED.finditer(text):
        name, day, year = match["m1"] or match["m2"], match["d1"] or match["d2"], match["y1"] or match["y2"]
        yield int(year) if year else None, MONTHS.index(name[:3].lower()) + 1, int(day)


def _times(text: str) -> Iterator[timedelta]:
    for match in CLOCK.finditer(text):
        yield timedelta(hours=_hour(match), minutes=int(match["min"]), seconds=int(match["s"] or 0))
    for match in HOUR.finditer(text):
        yield timedelta(hours=_hour(match))


def _hour(match: re.Match[str]) -> int:
    hour, half = int(match["h"]), (match["half"] or "").lower()
    return hour % 12 + 12 * (half == "p") if half else hour


def _length(match: re.Match[str]) -> timedelta:
    number = match["n"].lower()
    amount = WORDS[number] if number in WORDS else float(number)
    return timedelta(hours=amount) if match["unit"].lower().startswith("h") else timedelta(minutes=amount)
