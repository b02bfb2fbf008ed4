"""Mail and web addresses in a text, each as a whole; and whether a text mentions a value in any
spelling.
"""

import html
import json
import re
import unicodedata
from contextlib import suppress
from functools import lru_cache
from urllib.parse import unquote

from daemon.core import value
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
URL_PARTS = re.compile(
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?(?P<host>[^/?#]*)(?P<rest>.*)", re.I | re.S
)
NEXT_SENTENCE = re.compile(r"(?<=[a-z0-9])\.(?=[A-Z][a-z]*$)")
JSON_ESCAPE = re.compile(r"\\{1,8}u([0-9a-fA-F]{4})")
MIN_LENGTH = 6
TAIL = ".,;:!?*_"
FILE_ENDINGS = word_set("app cc md mk ml mov pl pm ps py rs sh tf zip")


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

    rest = MAIL.sub(mail, LINK.sub(link, unicodedata.normalize("NFC", text)))
    parsed = tuple(address for link in links if (address := parse_web_address(link)))
    return TextAddresses(frozenset(mails), tuple(links), parsed, rest)


def _trim_link(link: str) -> str:
    """Remove what belongs to the sentence around the link."""
    while link and (link[-1] in TAIL or (link[-1] == ")" and "(" not in link)):
        link = link[:-1]
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
        with_keys += map(str, read)
        read = list(read.values())
    if isinstance(read, list):
        for part in read:
            _collect_json(part, leaves, with_keys)
    else:
        leaves.append(str(read))
        with_keys.append(str(read))


def _alnum_only(text: str) -> str:
    text = JSON_ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    plain = unicodedata.normalize("NFKC", html.unescape(unquote(unquote(text)))).casefold()
    return "".join(filter(str.isalnum, plain))
