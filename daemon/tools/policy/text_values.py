"""Kinds of things: what the name of an argument, or of its tool, says that a value is.

Words of a text, with what makes one stand for something: quotes, a name's capital, the kind of thing named beside it.

Dates, times and durations, as people write them and as tools want them.
"""

import re
import unicodedata
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache

from daemon.core import value
from daemon.tools.policy.addresses import lowercase


def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


SMALL_WORDS = (
    "the",
    "a",
    "an",
    "with",
    "of",
    "is",
    "as",
    "to",
    "named",
    "called",
    "my",
    "our",
    "this",
)
FILLERS = frozenset(("id", "ids", "number", "no", "nr", *SMALL_WORDS))
BEFORE_NAMES = _word_set("named called invite tell message email mail ask cc ping notify")
TOWARDS = _word_set("to with")
SEND_VERBS = _word_set(
    "send mail email forward give share write post reply answer transfer pay message say deliver invite assign book make create"
    " schedule add set plan arrange hand show report pass speak talk"
)
PEOPLE = _word_set(
    "to cc bcc recipient user username participant attendee invitee guest member assignee contact person people name who whom"
    " group team channel room address"
)
AMOUNTS = _word_set("amount price sum total cost fee budget value money payment")
GENERIC_NAMES = _word_set("id number no nr key name new value list")
TOOL_VERBS = _word_set(
    "add append assign book cancel change close copy create delete do edit find forward get insert invite list make mark move"
    " open pay post put read remove rename reply reschedule run search send set share show start stop transfer update upload use"
    " write"
)
NAME_BREAKS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


@value
class ArgumentKinds:
    """What an argument is about. `own`: what its name says; `all`: where that says nothing, what its tool is about;
    `measures`: words that may stand behind a number of it ("30 minutes"): never those of an id.
    """

    own: frozenset[str]
    all: frozenset[str]
    measures: frozenset[str]


def argument_kinds(name: str, tool: str) -> ArgumentKinds:
    """The kinds that names are made of: "file_id" is about a file, "newStartTime" about a start and a time."""
    parts = [part.lower() for part in NAME_BREAKS.split(name) if part]
    own = frozenset(map(singular, parts))
    telling = own - GENERIC_NAMES
    about = (
        frozenset(
            singular(part.lower()) for part in NAME_BREAKS.split(tool.rpartition("__")[2]) if part
        )
        - TOOL_VERBS
        - GENERIC_NAMES
    )
    is_id = not FILLERS.isdisjoint(parts)
    return ArgumentKinds(own, telling or about, frozenset() if is_id else frozenset(parts))


def singular(word: str) -> str:
    """One of them."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


QUOTES = re.compile(
    r"(?<!\w)'([^'\n]+)'(?!\w)|\"([^\"\n]+)\"|“([^”\n]+)”|‘([^’\n]+)’|«([^»\n]+)»|`([^`\n]+)`"
)
EDGES = ".,;:!?()[]{}<>\"'“”‘’«»`*~#…"
MONEY = "$€£¥"
NUMBER = re.compile(r"-?[0-9]+(?:[.,][0-9]{3})*(?:\.[0-9]+)?|-?[0-9]+(?:,[0-9]{1,2})?")
DECIMAL_COMMA = re.compile(r"-?[0-9]+,[0-9]{1,2}")
ORDINARY = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
ENDS = ".!?:"


@value
class Word:
    """A word as it was written and without what is around it; whether a sentence begins with it."""

    raw: str
    text: str
    first: bool

    @property
    def plain(self) -> str:
        """As it is compared with the names of kinds."""
        return lowercase(self.text.strip(MONEY))

    @property
    def number(self) -> Decimal | None:
        """What it is as a number."""
        return parse_number(self.text.strip(MONEY))

    @property
    def is_name(self) -> bool:
        """It can only stand for one thing: it has a digit, a sign or a capital that no sentence asks for."""
        if not ORDINARY.fullmatch(self.text) or self.raw.startswith(("#", "@")):
            return True
        capital = any(char.isupper() for char in self.text[1:]) or (
            self.text[0].isupper() and not self.first
        )
        return capital and len(self.text) > 1

    def matches(self, value: str) -> bool:
        """It is this, with nothing around it but signs of its own sentence. Only ordinary words may be written large or small."""
        ordinary = ORDINARY.fullmatch(value) is not None
        mine, wanted = (lowercase(self.raw), lowercase(value)) if ordinary else (self.raw, value)
        before, found, after = mine.partition(wanted)
        return (
            bool(found)
            and not before.removeprefix("./").strip(EDGES)
            and after.strip(EDGES) in ("", "s", "’s", "'s")
        )


@value
class TextWords:
    """The words of a text in order, and what stands in quotes; a gap is where an address or a date was taken out."""

    words: tuple[Word, ...]
    quotes: frozenset[str]

    def holds(self, value: str | float, name: str, tool: str) -> bool:
        """Whether this value stands there as a whole, and as the kind of thing that is meant."""
        said = str(value)
        if parse_number(said) is not None:
            return any(
                self._is_number_of(at, value, argument_kinds(name, tool))
                for at in range(len(self.words))
            )
        if lowercase(said) in self.quotes:
            return True
        if " " in said:
            return self._has_phrase(said.split(" "))
        kinds = argument_kinds(name, tool)
        bare = said.removeprefix("./")
        return any(
            word.matches(bare) and self._is_meant(at, kinds) for at, word in enumerate(self.words)
        )

    def names_site(self, host: str) -> bool:
        """A host that is named without more: "look at example.com"."""
        return any(lowercase(word.text) == host for word in self.words)

    def _is_meant(self, at: int, kinds: ArgumentKinds) -> bool:
        """An ordinary word stands for somebody or something: "to bob", "the general channel"."""
        word = self.words[at]
        if word.plain in FILLERS:
            return False
        return (
            word.is_name
            or self._kind_precedes(at, kinds.own)
            or self._kind_follows(at, kinds.own)
            or self._follows_lead(at, kinds.own)
        )

    def _follows_lead(self, at: int, kinds: frozenset[str]) -> bool:
        """Somebody is meant: "tell bob", "send it to bob"; not "I want to know"."""
        if not at or not kinds & PEOPLE:
            return False
        lead = self.words[at - 1].plain
        return lead in BEFORE_NAMES or (
            lead in TOWARDS and any(word.plain in SEND_VERBS for word in self._sentence_before(at))
        )

    def _sentence_before(self, at: int) -> Iterator[Word]:
        """What stands before this word in its sentence, from the nearest on."""
        for word in reversed(self.words[: at + 1]):
            yield word
            if word.first:
                return

    def _has_phrase(self, wanted: list[str]) -> bool:
        size = len(wanted)
        starts = range(len(self.words) - size + 1)
        return any(all(map(Word.matches, self.words[at : at + size], wanted)) for at in starts)

    def _is_number_of(self, at: int, value: str | float, kinds: ArgumentKinds) -> bool:
        """A bare number is nobody's file, and neither are "13 files": an amount may be any number that was said, all else has to
        be named as what it is, and written as it was.
        """
        word = self.words[at]
        if word.number is None or word.number != parse_number(str(value)):
            return False
        if kinds.own & AMOUNTS:
            return True
        if isinstance(value, str) and not word.matches(value):
            return False
        return self._kind_precedes(at, kinds.all) or (
            at + 1 < len(self.words) and self.words[at + 1].plain in kinds.measures
        )

    def _kind_follows(self, at: int, kinds: frozenset[str]) -> bool:
        """The kind is named right behind it: "the general channel"."""
        return at + 1 < len(self.words) and singular(self.words[at + 1].plain) in kinds

    def _kind_precedes(self, at: int, kinds: frozenset[str]) -> bool:
        """The kind is named before it, with nothing but small words between: "file number 13"."""
        for word in reversed(self.words[max(at - 5, 0) : at]):
            if singular(word.plain) in kinds:
                return True
            if word.plain not in FILLERS:
                return False
        return False


def parse_number(text: str) -> Decimal | None:
    """The number that this is, exactly; None when it is none."""
    if not NUMBER.fullmatch(text):
        return None
    return Decimal(
        text.replace(",", ".") if DECIMAL_COMMA.fullmatch(text) else text.replace(",", "")
    )


@lru_cache(maxsize=512)
def split_words(text: str) -> TextWords:
    """Look at it once."""
    text = unicodedata.normalize("NFC", text)
    found = (next(part for part in match.groups() if part) for match in QUOTES.finditer(text))
    quoted = frozenset(form for part in found for form in _quote_forms(part))
    words: list[Word] = []
    first = True
    for raw in text.replace("\n", " \n ").split(" "):
        bare = _strip_edges(raw.strip())
        if bare:
            words.append(Word(raw.strip(), bare, first))
        if raw.strip() or "\n" in raw:
            first = (
                "\n" in raw
                or raw.rstrip(EDGES.translate({ord(mark): None for mark in ENDS}))[-1:] in ENDS
            )
    return TextWords(tuple(words), quoted)


def _quote_forms(quoted: str) -> tuple[str, str]:
    """What is quoted, with and without the signs of the sentence around it."""
    plain = " ".join(lowercase(quoted).split())
    return plain, plain.strip(EDGES + " ")


def _strip_edges(raw: str) -> str:
    bare = raw.rstrip(EDGES).lstrip(EDGES.replace(".", ""))
    for ending in ("'s", "’s"):
        bare = bare.removesuffix(ending)
    return bare.removeprefix("./") if len(bare) > 2 else bare


MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH = r"(?P<{name}>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
ISO_DATE = re.compile(r"(?<!\d)(?P<y>\d{4})[-/](?P<m>\d{1,2})[-/](?P<d>\d{1,2})(?!\d)")
DOTTED_DATE = re.compile(r"(?<![\d.])(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})(?!\d)")
MONTH_DATE = re.compile(
    rf"\b{MONTH.format(name='m1')}\s+(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(?P<y1>\d{{4}})\b)?"
    rf"|\b(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?{MONTH.format(name='m2')}\b(?:,?\s+(?P<y2>\d{{4}})\b)?",
    re.I,
)
CLOCK_TIME = re.compile(
    r"(?<![\d:.])(?P<h>\d{1,2}):(?P<min>\d{2})(?::(?P<s>\d{2}))?(?:\s*(?P<half>[ap])\.?m\b\.?)?(?![\d:])",
    re.I,
)
HOUR = re.compile(r"(?<![\d:.])(?P<h>\d{1,2})\s*(?P<half>[ap])\.?m\b", re.I)
DURATION = re.compile(
    r"\b(?P<n>\d{1,4}(?:\.\d{1,4})?|an?|one|two|three|four|five|six|half an)[\s-]*(?P<unit>hour|hr|h|minute|min)s?\b",
    re.I,
)
NUMBER_WORDS = {
    "a": 1.0,
    "an": 1.0,
    "one": 1.0,
    "two": 2.0,
    "three": 3.0,
    "four": 4.0,
    "five": 5.0,
    "six": 6.0,
    "half an": 0.5,
}
DATE_VALUE = re.compile(
    r"(?P<date>\d{4}-\d{1,2}-\d{1,2})?[T ]?(?P<time>\d{1,2}:\d{2}(?::\d{2})?)?(?:Z|[+-]\d{2}:?\d{2})?"
)
DAY = timedelta(days=1)

DateParts = tuple[int | None, int, int]


@value
class TextDates:
    """What a text says of time, and the text with a gap where each of them stood. A date without a year has None there."""

    dates: frozenset[DateParts]
    times: frozenset[timedelta]
    rest: str

    def holds(self, value: str) -> bool | None:
        """Whether this date, time or both are said there; None for a value that is neither."""
        found = DATE_VALUE.fullmatch(value.strip())
        if found is None or not (found["date"] or found["time"]):
            return None
        return self._has_date(found["date"]) and self._has_time(found["time"])

    def _has_date(self, date: str | None) -> bool:
        if not date:
            return True
        year, month, day = (int(part) for part in date.split("-"))
        return (year, month, day) in self.dates or (None, month, day) in self.dates

    def _has_time(self, time: str | None) -> bool:
        if not time:
            return True
        hours, minutes, *seconds = (int(part) for part in time.split(":"))
        return timedelta(hours=hours, minutes=minutes, seconds=sum(seconds)) in self.times


@lru_cache(maxsize=256)
def find_dates(text: str) -> TextDates:
    """Look for them. An end is said too, where a beginning and how long it lasts are."""
    dates = frozenset(_dates(text))
    rest = _blank_out(text, ISO_DATE, DOTTED_DATE, MONTH_DATE)
    begun = frozenset(_times(rest))
    lasting = [_duration(match) for match in DURATION.finditer(rest)]
    ends = frozenset((time + length) % DAY for time in begun for length in lasting)
    return TextDates(dates, begun | ends, _blank_out(rest, CLOCK_TIME, HOUR, DURATION))


def _blank_out(text: str, *patterns: re.Pattern[str]) -> str:
    for pattern in patterns:
        text = pattern.sub(" \0 ", text)
    return text


def _dates(text: str) -> Iterator[DateParts]:
    for pattern in (ISO_DATE, DOTTED_DATE):
        yield from (
            (int(match["y"]), int(match["m"]), int(match["d"])) for match in pattern.finditer(text)
        )
    for match in MONTH_DATE.finditer(text):
        name, day, year = (
            match["m1"] or match["m2"],
            match["d1"] or match["d2"],
            match["y1"] or match["y2"],
        )
        yield int(year) if year else None, MONTHS.index(name[:3].lower()) + 1, int(day)


def _times(text: str) -> Iterator[timedelta]:
    for match in CLOCK_TIME.finditer(text):
        yield timedelta(hours=_hour(match), minutes=int(match["min"]), seconds=int(match["s"] or 0))
    for match in HOUR.finditer(text):
        yield timedelta(hours=_hour(match))


def _hour(match: re.Match[str]) -> int:
    hour, half = int(match["h"]), (match["half"] or "").lower()
    return hour % 12 + 12 * (half == "p") if half else hour


def _duration(match: re.Match[str]) -> timedelta:
    number = match["n"].lower()
    amount = NUMBER_WORDS[number] if number in NUMBER_WORDS else float(number)
    return (
        timedelta(hours=amount)
        if match["unit"].lower().startswith("h")
        else timedelta(minutes=amount)
    )
