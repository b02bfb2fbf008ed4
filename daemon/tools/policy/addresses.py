"""Mail and web addresses in a text, whole values, and whether a text mentions one in any spelling
(trust.md).
"""

import html
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from urllib.parse import unquote

from daemon.core import value
from daemon.core.quoted import normalize
from daemon.tools.calls import to_printable

DELIMITERS = r"\s<>()\[\],;:\"“”„‘’«»`|\\{}@\0"
MAIL = re.compile(rf"(?<![^{DELIMITERS}])[^{DELIMITERS}]++@[^{DELIMITERS}/?#!'*=&%$]++(?!@)")
DOMAIN = re.compile(r"[^.]+(?:\.[^.]+)+")
REST = r"[^\s<>\"'`|{}\\^\[\]]"
LINK = re.compile(
    rf"(?:[a-z][a-z0-9+.-]{{0,30}}://|www\.){REST}+|(?<![\w@./-])(?:[\w-]+\.)+[a-z]{{2,24}}/{REST}*",
    re.I,
)
# Scripts without blanks: an address ends where its letters do.
GLUED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uff66-\uff9f"
)
GLUED_EDGE = re.compile(rf"(?<=[{GLUED}、。])(?=[!-~])|(?<=[!-~])(?=[{GLUED}、。])")
HOST = re.compile(r"(?:[\w-]+\.)+[a-z]{2,24}", re.I)
ADDRESS_PART = re.compile(rf"(?:(?<![\w.%-])|(?<=%\w\w))(?:{LINK.pattern}|{HOST.pattern})", re.I)
URL_PARTS = re.compile(
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?(?P<host>[^/?#]*)(?P<rest>.*)", re.I | re.S
)
NEXT_SENTENCE = re.compile(r"(?<=[a-z0-9])\.(?=[A-Z][a-z]*$)")
JSON_ESCAPE = re.compile(r"\\{1,8}u([0-9a-fA-F]{4})")
MIN_LENGTH = 6
TAIL = ".,;:!?*_"
CONTROLS = ("Cc", "Cf", "Cs", "Zl", "Zp")
NUMBER = re.compile(r"-?[0-9]+(?:[.,][0-9]{3})*(?:\.[0-9]+)?|-?[0-9]+(?:,[0-9]{1,2})?")
DECIMAL_COMMA = re.compile(r"-?[0-9]+,[0-9]{1,2}")
NUMBER_PART = re.compile(rf"(?<![\w.,-])(?:{NUMBER.pattern})(?!\w|[.,]\d)")
DATE_PART = re.compile(r"\d{4}-\d\d-\d\d|\d\d?:\d\d(?::\d\d)?")
FILE_ENDINGS = (
    "app",
    "cc",
    "md",
    "mk",
    "ml",
    "mov",
    "pl",
    "pm",
    "ps",
    "py",
    "rs",
    "sh",
    "tf",
    "zip",
)
NamedValue = tuple[str, str | int | float]
JOINING = "_-/.@%+\\"


def iter_values(
    argument: object, name: str, known: frozenset[str] = frozenset()
) -> Iterator[NamedValue]:
    """The single values of an argument with their names, without null, true and blanks.

    A key is a value too, unless it is one of the tool's own names in `known`.
    """
    match argument:
        case None | bool():
            return
        case str() | int() | float():
            if str(argument).strip():
                yield name, argument
        case Mapping():
            for key, part in argument.items():
                if str(key) not in known:
                    yield name, str(key)
                yield from iter_values(part, str(key) if str(key) in known else name, known)
        case list() | tuple():
            for part in argument:
                yield from iter_values(part, name, known)
        case _:
            yield name, str(argument)


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


def leads_outside(found: object) -> bool:
    """A mail or web address; "notes.txt" is none."""
    text = str(found)
    address = parse_web_address(text)
    return is_mail(text) or bool(address and (address.scheme or address.rest))


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

    rest = MAIL.sub(mail, GLUED_EDGE.sub(" ", LINK.sub(link, normalize("NFC", text))))
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


def stands_in(text: str, found: str | float) -> bool:
    """The text contains the value whole, letter for letter: no part of a longer word, address or
    path. A number may be written another way, a name in other capitals; of a date and a time each
    may stand for itself.
    """
    wanted = str(found).removeprefix("./")
    if (
        not wanted
        or wanted != wanted.strip()
        or not unicodedata.is_normalized("NFC", wanted)
        or any(unicodedata.category(char) in CONTROLS for char in wanted)
    ):
        return False  # what arrives may differ from what is read
    addresses = find_addresses(text)
    if is_mail(wanted):
        return lowercase(wanted) in addresses.mails
    address = parse_web_address(wanted)
    if address and (addresses.links_to(address) or address.rest):
        return addresses.links_to(address)
    if address and address.scheme:
        wanted = address.host
        if not address.is_web or wanted.rpartition(".")[2] in FILE_ENDINGS:
            return False  # readme.md is a file
    rest = addresses.rest
    if wanted.replace(" ", "").isalpha() or (address and address.scheme):
        rest, wanted = lowercase(rest), lowercase(wanted)
    parts = re.split(r"[T ]", wanted)
    if len(parts) == 2 and all(map(DATE_PART.fullmatch, parts)):
        return all(stands_in(text, part) for part in parts)
    if any(_is_whole(rest, at) for at in re.finditer(re.escape(wanted), rest)):
        return True
    number = parse_number(wanted) if isinstance(found, int | float) else None
    return number is not None and any(
        parse_number(part[0]) == number for part in NUMBER_PART.finditer(rest)
    )


def _is_whole(text: str, found: re.Match[str]) -> bool:
    """Nothing before or behind it belongs to the same word, number or path."""
    start, end = found.span()
    before, behind = text[max(0, start - 2) : start], text[end : end + 2]
    if before[-1:] and (before[-1].isalnum() or before[-1] in JOINING):
        return before == "./" or (before[-1] == "-" and not before.strip("-").strip())
    return not (
        behind[:1]
        and (behind[0].isalnum() or (behind[0] in JOINING and behind[1:].strip().isalnum()))
    )


def parse_number(text: str) -> Decimal | None:
    """The exact number, or None."""
    if not NUMBER.fullmatch(text):
        return None
    point = "." if DECIMAL_COMMA.fullmatch(text) else ""
    return Decimal(text.replace(",", point))
