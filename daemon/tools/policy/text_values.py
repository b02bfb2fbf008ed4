"""Mail and web addresses, words, numbers, dates and times in a text, and what they stand for
(trust.md); whether a text mentions a value in any spelling.
"""

import html
import json
import re
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from urllib.parse import unquote

from daemon.core import value
from daemon.core.disguise.find import normalize
from daemon.tools.calls import to_printable
from daemon.tools.policy.stemming import word_set

DELIMITERS = r"\s<>()\[\],;:\"“”„‘’«»`|\\{}@\0"
MAIL = re.compile(rf"(?<![^{DELIMITERS}])[^{DELIMITERS}]++@[^{DELIMITERS}/?#!'*=&%$]++(?!@)")
DOMAIN = re.compile(r"[^.]+(?:\.[^.]+)+")
REST = r"[^\s<>\"'`|{}\\^\[\]]"
LINK = re.compile(
    rf"(?:[a-z][a-z0-9+.-]{{0,30}}://|www\.){REST}+|(?<![\w@./-])(?:[\w-]+\.)+[a-z]{{2,24}}/{REST}*",
    re.I,
)
HOST = re.compile(r"(?:[\w-]+\.)+[a-z]{2,24}", re.I)
ADDRESS_PART = re.compile(rf"(?:(?<![\w.%-])|(?<=%\w\w))(?:{LINK.pattern}|{HOST.pattern})", re.I)
URL_PARTS = re.compile(
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?(?P<host>[^/?#]*)(?P<rest>.*)", re.I | re.S
)
NEXT_SENTENCE = re.compile(r"(?<=[a-z0-9])\.(?=[A-Z][a-z]*$)")
JSON_ESCAPE = re.compile(r"\\{1,8}u([0-9a-fA-F]{4})")
MIN_LENGTH, MAX_PHRASE = 6, 40
TAIL = ".,;:!?*_"
FILE_ENDINGS = word_set("app cc md mk ml mov pl pm ps py rs sh tf zip")
FILLERS = word_set("id ids number no nr the a an with of is as to named called my our this")
BEFORE_NAMES = word_set("named called invite tell message email mail ask cc ping notify")
SEND_VERBS = word_set(
    "send mail email forward give share write post reply answer transfer pay message say deliver"
    " invite assign book make create schedule add set plan arrange hand show report pass speak"
    " talk"
)
PEOPLE = word_set(
    "to cc bcc recipient user username participant attendee invitee guest member assignee contact"
    " person people name who whom group team channel room address"
)
AMOUNTS = word_set("amount price sum total cost fee budget value money payment")
GENERIC_NAMES = word_set("id number no nr key name new value list")
TOOL_VERBS = word_set(
    "add append assign book cancel change close copy create delete do edit find forward get insert"
    " invite list make mark move open pay post put read remove rename reply reschedule run search"
    " send set share show start stop transfer update upload use write"
)
NAME_BREAKS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
QUOTES = re.compile(
    r"(?<!\w)'([^'\n]+)'(?!\w)|\"([^\"\n]+)\"|“([^“”\n]+)”|‘([^‘’\n]+)’|«([^«»\n]+)»|`([^`\n]+)`"
)
EDGES = ".,;:!?()[]{}<>\"'“”‘’«»`*~#…"
MONEY = "$€£¥"
NUMBER = re.compile(r"-?[0-9]+(?:[.,][0-9]{3})*(?:\.[0-9]+)?|-?[0-9]+(?:,[0-9]{1,2})?")
DECIMAL_COMMA = re.compile(r"-?[0-9]+,[0-9]{1,2}")
ORDINARY = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
ENDS = ".!?:"
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH = rf"(?P<{{name}}>{'|'.join(MONTHS)})[a-z]*\.?"
ISO_DATE = re.compile(r"(?<!\d)(?P<y>\d{4})[-/](?P<m>\d{1,2})[-/](?P<d>\d{1,2})(?!\d)")
DOTTED_DATE = re.compile(r"(?<![\d.])(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})(?!\d)")
MONTH_DATE = re.compile(
    rf"\b{MONTH.format(name='m1')}\s+(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(?P<y1>\d{{4}})\b)?"
    rf"|\b(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?{MONTH.format(name='m2')}\b(?:,?\s+(?P<y2>\d{{4}})\b)?",
    re.I,
)
CLOCK_TIME = re.compile(
    r"(?<![\d:.])(?P<h>\d{1,2})(?::(?P<min>\d{2})(?::(?P<s>\d{2}))?"
    r"(?:\s*(?P<half>[ap])\.?m\b\.?)?(?![\d:])|\s*(?P<half2>[ap])\.?m\b)",
    re.I,
)
DURATION = re.compile(
    r"\b(?P<n>\d{1,4}(?:\.\d{1,4})?|an?|one|two|three|four|five|six|half an)[\s-]*"
    r"(?P<unit>hour|hr|h|minute|min)s?\b",
    re.I,
)
NUMBER_WORDS = ("half an", "one", "two", "three", "four", "five", "six")
DATE_VALUE = re.compile(
    r"(?P<date>\d{4}-\d{1,2}-\d{1,2})?[T ]?(?P<time>\d{1,2}:\d{2}(?::\d{2})?)?"
    r"(?:Z|[+-]\d{2}:?\d{2})?"
)
DAY_S = 24 * 3600

DateParts = tuple[int | None, int, int]


@value
class WebAddress:
    """`scheme` is "" where none was written; `rest` is path, query and fragment."""

    scheme: str
    host: str
    rest: str

    @property
    def is_web(self) -> bool:
        """A page, not a mail or a file."""
        return self.scheme in ("", "http", "https")


def parse_web_address(text: str) -> WebAddress | None:
    """The text as one address, or None."""
    found = URL_PARTS.fullmatch(text)
    if not found or text.split() != [text] or not (LINK.fullmatch(text) or HOST.fullmatch(text)):
        return None
    rest = "" if found["rest"] == "/" else found["rest"]
    return WebAddress((found["scheme"] or "").lower(), lowercase(found["host"]), rest)


def is_mail(text: str) -> bool:
    """The whole text is one mail address."""
    return bool(MAIL.fullmatch(text) and DOMAIN.fullmatch(text.rpartition("@")[2]))


def lowercase(text: str) -> str:
    """Letter for letter: "ß" does not become "ss", nor the kelvin sign "k"."""
    if text.isascii():
        return text.lower()
    return "".join(
        low if len(low := char.lower()) == 1 and low.isascii() == char.isascii() else char
        for char in text
    )


@value
class TextAddresses:
    """The addresses of a text, and the text with a gap where each stood."""

    mails: frozenset[str]
    links: tuple[str, ...]
    parsed: tuple[WebAddress, ...]
    rest: str

    def links_to(self, address: WebAddress) -> bool:
        """A link leads to the same place; one without a scheme matches http and https."""
        return any(
            other.host == address.host
            and other.rest == address.rest
            and (
                other.scheme == address.scheme
                or ("" in (other.scheme, address.scheme) and other.is_web and address.is_web)
            )
            for other in self.parsed
        )


@lru_cache(maxsize=512)
def find_addresses(text: str) -> TextAddresses:
    mails: list[str] = []
    links: list[str] = []

    def mail(match: re.Match[str]) -> str:
        whole = match[0].lstrip("'*").rstrip(".-_…")
        if not is_mail(whole):
            return match[0]
        mails.append(lowercase(whole))
        return " \0 "

    def link(match: re.Match[str]) -> str:
        whole = _trim_link(match[0])
        links.append(whole)
        return f" \0 {match[0][len(whole) :]} "

    rest = MAIL.sub(mail, LINK.sub(link, normalize("NFC", text)))
    parsed = tuple(address for link in links if (address := parse_web_address(link)))
    return TextAddresses(frozenset(mails), tuple(links), parsed, rest)


def _trim_link(link: str) -> str:
    """Remove what belongs to the sentence around the link."""
    link = link.rstrip(TAIL if "(" in link else TAIL + ")")
    scheme, mark, rest = link.rpartition("://")
    if "/" not in rest and (glued := NEXT_SENTENCE.search(rest)):
        return scheme + mark + rest[: glued.start()]  # "www.example.com.They said"
    return link


def mentions(text: str, wanted: str) -> bool:
    """The text contains the value in any case.

    A longer value also in another spelling: escaped for JSON, URLs or HTML, full-width, in pieces.
    """
    folded, plain = _normalize(text)
    letters = _alnum_only(wanted)
    return wanted.casefold() in folded or (len(letters) >= MIN_LENGTH and letters in plain)


def mentions_address(text: str, address: WebAddress) -> bool:
    """As mentions, but not as a part of a longer address; without a rest, as the host of any."""
    wanted = address.host + address.rest
    letters = _alnum_only(wanted)

    def drop_longer(found: re.Match[str]) -> str:
        link = parse_web_address(_trim_link(found[0]))
        if not link or (not address.rest and letters in _alnum_only(link.rest)):
            return found[0]
        spelt = _alnum_only(link.host + link.rest if address.rest else link.host)
        return " " if letters in spelt and letters != spelt else found[0]

    # A backslash may hide where an address begins.
    return mentions(text if "\\" in text else ADDRESS_PART.sub(drop_longer, text), wanted)


@lru_cache(maxsize=512)
def _normalize(text: str) -> tuple[str, str]:
    """The text with its JSON values, casefolded and as letters and digits only."""
    leaves: list[str] = []
    with_keys: list[str] = []
    if text.lstrip().startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            _collect_json(json.loads(text), leaves, with_keys)
    plain = (text, "".join(with_keys), "".join(leaves))
    return "\n".join((text, *with_keys)).casefold(), "\n".join(map(_alnum_only, plain))


def _collect_json(read: object, leaves: list[str], with_keys: list[str]) -> None:
    if isinstance(read, dict):
        with_keys += map(to_printable, map(str, read))
        read = list(read.values())
    if isinstance(read, list):
        for part in read:
            _collect_json(part, leaves, with_keys)
    else:
        leaves.append(to_printable(str(read)))  # as a result would repeat it
        with_keys.append(leaves[-1])


def _alnum_only(text: str) -> str:
    text = JSON_ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    plain = normalize("NFKC", html.unescape(unquote(unquote(text)))).casefold()
    return "".join(filter(str.isalnum, plain))


def singular(word: str) -> str:
    """Without the plural's s."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


@value
class Word:
    """`raw` as written, `text` without its edges, `plain` as it is compared with the names of
    kinds; `first` in its sentence.
    """

    raw: str
    text: str
    plain: str
    first: bool

    @property
    def is_name(self) -> bool:
        """It has a digit, a sign or a capital letter that is not the start of a sentence."""
        if not ORDINARY.fullmatch(self.text) or self.raw.startswith(("#", "@")):
            return True
        return len(self.text) > 1 and any(map(str.isupper, self.text[self.first :]))

    def matches(self, wanted: str) -> bool:
        """It is this, but for punctuation around it; only ordinary words ignore case."""
        mine = self.raw
        if ORDINARY.fullmatch(wanted):
            mine, wanted = lowercase(mine), lowercase(wanted)
        before, found, after = mine.partition(wanted)
        clean = not before.removeprefix("./").strip(EDGES)
        return bool(found) and clean and after.strip(EDGES) in ("", "s", "’s", "'s")


@value
class TextWords:
    """The words of a text in order, and its quotes; a gap is where an address or date was."""

    words: tuple[Word, ...]
    quotes: frozenset[str]

    def holds(self, found: str | float, name: str, tool: str) -> bool:
        """The value stands there as a whole, and as the kind of thing that is meant.

        The kinds are in the argument's name: "file_id" is about a file, "newStartTime" about a
        start and a time.
        """
        wanted, parts = str(found), {part.lower() for part in NAME_BREAKS.split(name) if part}
        kinds = set(map(singular, parts))
        if (number := parse_number(wanted)) is not None:
            nouns = {singular(one.lower()) for one in NAME_BREAKS.split(tool.rpartition("__")[2])}
            about = kinds - GENERIC_NAMES or nouns - TOOL_VERBS - GENERIC_NAMES - {""}
            # They may follow a number ("30 minutes"); an id has none.
            measures = set() if parts & FILLERS else parts
            exact = isinstance(found, str) and not kinds & AMOUNTS
            return any(
                parse_number(word.text.strip(MONEY)) == number
                and (not exact or word.matches(wanted))
                # An amount may be any number; all else must be named as what it is: not "13 files".
                and (
                    kinds & AMOUNTS
                    or self._get_next(at) in measures
                    or self._kind_precedes(at, about)
                )
                for at, word in enumerate(self.words)
            )
        if lowercase(wanted) in self.quotes:
            return True
        if " " in wanted:
            phrase = wanted.split(" ")
            size = len(phrase)
            starts = range(len(self.words) - size + 1) if size <= MAX_PHRASE else ()
            return any(all(map(Word.matches, self.words[at : at + size], phrase)) for at in starts)
        bare = wanted.removeprefix("./")
        return any(
            word.matches(bare) and self._is_meant(at, kinds) for at, word in enumerate(self.words)
        )

    def _is_meant(self, at: int, kinds: set[str]) -> bool:
        """It stands for something: "the general channel", "tell bob", "send it to bob"."""
        word = self.words[at]
        if word.plain in FILLERS:
            return False
        if word.is_name or singular(self._get_next(at)) in kinds or self._kind_precedes(at, kinds):
            return True
        if not at or not kinds & PEOPLE:
            return False
        lead = self.words[at - 1].plain
        return lead in BEFORE_NAMES or (lead in ("to", "with") and self._follows_send_verb(at))

    def _get_next(self, at: int) -> str:
        return self.words[at + 1].plain if at + 1 < len(self.words) else ""

    def _follows_send_verb(self, at: int) -> bool:
        """In the same sentence: "send it to bob", not "I want to know"."""
        for word in reversed(self.words[: at + 1]):
            if word.plain in SEND_VERBS:
                return True
            if word.first:
                break
        return False

    def _kind_precedes(self, at: int, kinds: set[str]) -> bool:
        """The kind is named before it, with only fillers between: "file number 13"."""
        for word in reversed(self.words[max(at - 5, 0) : at]):
            if singular(word.plain) in kinds:
                return True
            if word.plain not in FILLERS:
                return False
        return False


def parse_number(text: str) -> Decimal | None:
    """The exact number, or None."""
    if not NUMBER.fullmatch(text):
        return None
    point = "." if DECIMAL_COMMA.fullmatch(text) else ""
    return Decimal(text.replace(",", point))


@lru_cache(maxsize=512)
def split_words(text: str) -> TextWords:
    """The words and quotes of a text."""
    text = normalize("NFC", text)
    quotes = set()
    for match in QUOTES.finditer(text):
        plain = " ".join(lowercase(match[match.lastindex or 0]).split())
        quotes |= {plain, plain.strip(EDGES + " ")}
    words: list[Word] = []
    first = True
    for raw in text.replace("\n", " \n ").split(" "):
        stripped = raw.strip()
        bare = stripped.rstrip(EDGES).lstrip(EDGES.replace(".", ""))
        bare = bare.removesuffix("'s").removesuffix("’s")
        bare = bare.removeprefix("./") if len(bare) > 2 else bare
        if bare:
            words.append(Word(stripped, bare, lowercase(bare.strip(MONEY)), first))
        if stripped or "\n" in raw:
            last = raw.rstrip(EDGES.translate({ord(mark): None for mark in ENDS}))[-1:]
            first = "\n" in raw or last in ENDS
    return TextWords(tuple(words), frozenset(quotes))


@value
class TextDates:
    """Dates and times (seconds of the day) in a text, and the text with gaps in their place.

    A date without a year has None there.
    """

    dates: frozenset[DateParts]
    times: frozenset[float]
    rest: str

    def holds(self, wanted: str) -> bool | None:
        """The text has this date, time or both; None for a value that is neither."""
        found = DATE_VALUE.fullmatch(wanted.strip())
        if found is None or not (found["date"] or found["time"]):
            return None
        if found["date"]:
            year, month, day = map(int, found["date"].split("-"))
            if not self.dates & {(year, month, day), (None, month, day)}:
                return False
        if found["time"]:
            hours, minutes, *seconds = map(int, found["time"].split(":"))
            return hours * 3600 + minutes * 60 + sum(seconds) in self.times
        return True


@lru_cache(maxsize=256)
def find_dates(text: str) -> TextDates:
    """The dates and times of a text; a begin and a duration also give an end."""
    dates, rest = set[DateParts](), text
    for pattern in (ISO_DATE, DOTTED_DATE, MONTH_DATE):
        for match in pattern.finditer(text):
            parts = {name[0]: part for name, part in match.groupdict().items() if part}
            year, month = parts.get("y"), parts["m"]
            number = int(month) if month.isdigit() else MONTHS.index(month[:3].lower()) + 1
            dates.add((int(year) if year else None, number, int(parts["d"])))
        rest = pattern.sub(" \0 ", rest)
    times: set[float] = set()
    for match in CLOCK_TIME.finditer(rest):
        hour, half = int(match["h"]), (match["half"] or match["half2"] or "").lower()
        if half:
            hour = hour % 12 + 12 * (half == "p")
        times.add(hour * 3600 + int(match["min"] or 0) * 60 + int(match["s"] or 0))
    ends: set[float] = set()
    for match in DURATION.finditer(rest):
        number = match["n"].lower()
        if number in NUMBER_WORDS:
            amount = NUMBER_WORDS.index(number) or 0.5
        else:
            amount = 1.0 if number in ("a", "an") else float(number)
        length = amount * (3600 if match["unit"].lower().startswith("h") else 60)
        ends |= {(time + length) % DAY_S for time in times}
    for pattern in (CLOCK_TIME, DURATION):
        rest = pattern.sub(" \0 ", rest)
    return TextDates(frozenset(dates), frozenset(times | ends), rest)
