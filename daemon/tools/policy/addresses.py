"""Addresses in a text: mail and web addresses, each as a whole (a URL does not count by its host).

Whether somebody has written a value before, in whatever form: a tool that repeats it may well write it otherwise.
"""

import html
import json
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import unquote

from daemon.core import value

DELIMITERS = r"\s<>()\[\],;:\"“”„‘’«»`|\\{}@\0"
MAIL = re.compile(rf"(?<![^{DELIMITERS}])[^{DELIMITERS}]++@[^{DELIMITERS}/?#!'*=&%$]++(?!@)")
DOMAIN = re.compile(r"[^.]+(?:\.[^.]+)+")
REST = r"[^\s<>\"'`|{}\\^\[\]]"
LINK = re.compile(
    rf"(?:[a-z][a-z0-9+.-]{{0,30}}://|www\.){REST}+|(?<![\w@./-])(?:[\w-]+\.)+[a-z]{{2,24}}/{REST}*",
    re.I,
)
HOST = re.compile(r"(?:[\w-]+\.)+[a-z]{2,24}", re.I)
URL_PARTS = re.compile(
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?(?P<host>[^/?#]*)(?P<rest>.*)", re.I | re.S
)
NEXT_SENTENCE = re.compile(r"(?<=[a-z0-9])\.(?=[A-Z][a-z]*$)")
TAIL = ".,;:!?*_"
WEB_SCHEMES = frozenset(("", "http", "https"))
FILE_ENDINGS = frozenset(
    ["app", "cc", "md", "mk", "ml", "mov", "pl", "pm", "ps", "py", "rs", "sh", "tf", "zip"]
)


@value
class WebAddress:
    """A web address. `scheme` is "" where none was written; `rest` is path, query and fragment."""

    scheme: str
    host: str
    rest: str

    def same_place(self, other: "WebAddress") -> bool:
        """They lead to the same place; one without a scheme stands for a page of the web, whichever way it is fetched."""
        alike = self.scheme == other.scheme or (
            "" in (self.scheme, other.scheme) and {self.scheme, other.scheme} <= WEB_SCHEMES
        )
        return alike and self.host == other.host and self.rest == other.rest

    @property
    def is_site(self) -> bool:
        """A host of the web and nothing more; not what a text would mean as the name of a file ("readme.md")."""
        return (
            not self.rest
            and self.scheme in WEB_SCHEMES
            and self.host.rpartition(".")[2] not in FILE_ENDINGS
        )


def parse_web_address(text: str) -> WebAddress | None:
    """This text as an address; None when it is none."""
    if any(char.isspace() for char in text) or not (LINK.fullmatch(text) or HOST.fullmatch(text)):
        return None
    found = URL_PARTS.fullmatch(text)
    if found is None:
        return None
    rest = found["rest"]
    return WebAddress(
        (found["scheme"] or "").lower(), lowercase(found["host"]), "" if rest == "/" else rest
    )


def is_mail(text: str) -> bool:
    """All of it is a mail address."""
    return (
        MAIL.fullmatch(text) is not None and DOMAIN.fullmatch(text.rpartition("@")[2]) is not None
    )


def lowercase(text: str) -> str:
    """In small letters, one for one: none becomes another one ("ß" is not "ss", and the sign of kelvin is no "k")."""
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
    rest: str

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts of the links."""
        return frozenset(
            address.host for link in self.links if (address := parse_web_address(link))
        )


@lru_cache(maxsize=512)
def find_addresses(text: str) -> TextAddresses:
    """Look for them."""
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

    rest = MAIL.sub(mail, LINK.sub(link, unicodedata.normalize("NFC", text)))
    return TextAddresses(frozenset(mails), tuple(links), rest)


def _trim_link(link: str) -> str:
    """Without what belongs to the sentence around it."""
    while link and (link[-1] in TAIL or (link[-1] == ")" and "(" not in link)):
        link = link[:-1]
    scheme, mark, rest = link.rpartition("://")
    if "/" not in rest and (glued := NEXT_SENTENCE.search(rest)):
        return (
            scheme + mark + rest[: glued.start()]
        )  # "www.example.com.They said": no space after the sentence
    return link


JSON_ESCAPE = re.compile(r"\\{1,8}u([0-9a-fA-F]{4})")
MIN_LENGTH = 6


def mentions(text: str, value: str) -> bool:
    """It stands somewhere in the text: as it is, in any case, or, where it is long enough to be told from others, in any other
    spelling: with the escapes of JSON, of URLs or of HTML, in other widths, in pieces.
    """
    if value.casefold() in _folded_text(text):
        return True
    wanted = _alnum_only(value)
    return len(wanted) >= MIN_LENGTH and wanted in _normalized_text(text)


@lru_cache(maxsize=512)
def _folded_text(text: str) -> str:
    """As it was written, and the values in it where it is JSON."""
    return "\n".join((text, *_json_values(text))).casefold()


@lru_cache(maxsize=512)
def _normalized_text(text: str) -> str:
    keyless = _json_values(text, keys=False)
    return "\n".join(
        (_alnum_only(text), _alnum_only("".join(_json_values(text))), _alnum_only("".join(keyless)))
    )


def _json_values(text: str, *, keys: bool = True) -> tuple[str, ...]:
    if not text.lstrip().startswith(("{", "[")):
        return ()
    try:
        read: object = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    return tuple(_walk_json(read, keys=keys))


def _walk_json(read: object, *, keys: bool) -> Iterator[str]:
    match read:
        case dict():
            yield from map(str, read if keys else ())
            for part in read.values():
                yield from _walk_json(part, keys=keys)
        case list():
            for part in read:
                yield from _walk_json(part, keys=keys)
        case _:
            yield str(read)


def _alnum_only(text: str) -> str:
    """Only letters and digits, with nothing encoded."""
    text = JSON_ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    plain = unicodedata.normalize("NFKC", html.unescape(unquote(unquote(text)))).casefold()
    return "".join(filter(str.isalnum, plain))
