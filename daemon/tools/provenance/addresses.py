"""Addresses in a text: mail and web addresses, each as a whole (a URL does not count by its host)."""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

APART = r"\s<>()\[\],;:\"“”„‘’«»`|\\{}@\0"
MAIL = re.compile(rf"(?<![^{APART}])[^{APART}]++@[^{APART}/?#!'*=&%$]++(?!@)")
DOMAIN = re.compile(r"[^.]+(?:\.[^.]+)+")
REST = r"[^\s<>\"'`|{}\\^\[\]]"
LINK = re.compile(rf"(?:[a-z][a-z0-9+.-]{{0,30}}://|www\.){REST}+|(?<![\w@./-])(?:[\w-]+\.)+[a-z]{{2,24}}/{REST}*", re.I)
HOST = re.compile(r"(?:[\w-]+\.)+[a-z]{2,24}", re.I)
PARTS = re.compile(r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?(?P<host>[^/?#]*)(?P<rest>.*)", re.I | re.S)
RUN_ON = re.compile(r"(?<=[a-z0-9])\.(?=[A-Z][a-z]*$)")
TAIL = ".,;:!?*_"
WEB = frozenset(("", "http", "https"))
FILES = frozenset(["app", "cc", "md", "mk", "ml", "mov", "pl", "pm", "ps", "py", "rs", "sh", "tf", "zip"])


@dataclass(frozen=True, slots=True)
class Address:
    """A web address. `scheme` is "" where none was written; `rest` is path, query and fragment."""

    scheme: str
    host: str
    rest: str

    def same(self, other: "Address") -> bool:
        """They lead to the same place; one without a scheme stands for a page of the web, whichever way it is fetched."""
        alike = self.scheme == other.scheme or ("" in (self.scheme, other.scheme) and {self.scheme, other.scheme} <= WEB)
        return alike and self.host == other.host and self.rest == other.rest

    @property
    def is_site(self) -> bool:
        """A host of the web and nothing more; not what a text would mean as the name of a file ("readme.md")."""
        return not self.rest and self.scheme in WEB and self.host.rpartition(".")[2] not in FILES


def web_address(text: str) -> Address | None:
    """This text as an address; None when it is none."""
    if any(char.isspace() for char in text) or not (LINK.fullmatch(text) or HOST.fullmatch(text)):
        return None
    found = PARTS.fullmatch(text)
    if found is None:
        return None
    rest = found["rest"]
    return Address((found["scheme"] or "").lower(), lowered(found["host"]), "" if rest == "/" else rest)


def is_mail(text: str) -> bool:
    """All of it is a mail address."""
    return MAIL.fullmatch(text) is not None and DOMAIN.fullmatch(text.rpartition("@")[2]) is not None


def lowered(text: str) -> str:
    """In small letters, one for one: none becomes another one ("ß" is not "ss", and the sign of kelvin is no "k")."""
    if text.isascii():
        return text.lower()
    return "".join(low if len(low := char.lower()) == 1 and low.isascii() == char.isascii() else char for char in text)


@dataclass(frozen=True, slots=True)
class Found:
    """The addresses of a text, and the text with a gap where each stood."""

    mails: frozenset[str]
    links: tuple[str, ...]
    rest: str

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts of the links."""
        return frozenset(address.host for link in self.links if (address := web_address(link)))


@lru_cache(maxsize=512)
def found_in(text: str) -> Found:
    """Look for them."""
    mails: list[str] = []
    links: list[str] = []

    def mail(match: re.Match[str]) -> str:
        whole = match[0].lstrip("'*").rstrip(".-_…")
        if not is_mail(whole):
            return match[0]
        mails.append(lowered(whole))
        return " \0 "

    def link(match: re.Match[str]) -> str:
        whole = _trimmed(match[0])
        links.append(whole)
        return f" \0 {match[0][len(whole) :]} "

    rest = MAIL.sub(mail, LINK.sub(link, unicodedata.normalize("NFC", text)))
    return Found(frozenset(mails), tuple(links), rest)


def _trimmed(link: str) -> str:
    """Without what belongs to the sentence around it."""
    while link and (link[-1] in TAIL or (link[-1] == ")" and "(" not in link)):
        link = link[:-1]
    scheme, mark, rest = link.rpartition("://")
    if "/" not in rest and (glued := RUN_ON.search(rest)):
        return scheme + mark + rest[: glued.start()]  # "www.example.com.They said": no space after the sentence
    return link
