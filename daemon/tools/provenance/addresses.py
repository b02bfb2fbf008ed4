"""Addresses in a text: mail and web addresses, each as a whole (a URL does not count by its host)."""

import re
from dataclasses import dataclass
from functools import lru_cache

MAIL = re.compile(r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+")
REST = r"[^\s<>\"'`|{}\\^\[\]]"
LINK = re.compile(rf"(?:[a-z][a-z0-9+.-]*://|www\.){REST}+|(?<![\w@./-])(?:[\w-]+\.)+[a-z]{{2,24}}/{REST}*", re.I)
HOST = re.compile(r"(?:[\w-]+\.)+[a-z]{2,24}", re.I)
PARTS = re.compile(r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?(?P<host>[^/?#]*)(?P<rest>.*)", re.I | re.S)
RUN_ON = re.compile(r"(?<=[a-z0-9])\.(?=[A-Z][a-z]*$)")
TAIL = ".,;:!?*_"


@dataclass(frozen=True, slots=True)
class Address:
    """A web address. `scheme` is "" where none was written; `rest` is path, query and fragment."""

    scheme: str
    host: str
    rest: str

    def same(self, other: "Address") -> bool:
        """They lead to the same place; one without a scheme may stand for either."""
        schemes = {self.scheme, other.scheme} - {""}
        return self.host == other.host and self.rest == other.rest and len(schemes) < 2


def web_address(text: str) -> Address | None:
    """This text as an address; None when it is none."""
    if any(char.isspace() for char in text) or not (LINK.fullmatch(text) or HOST.fullmatch(text)):
        return None
    found = PARTS.fullmatch(text)
    if found is None:
        return None
    rest = found["rest"]
    return Address((found["scheme"] or "").lower(), found["host"].lower(), "" if rest == "/" else rest)


def is_mail(text: str) -> bool:
    """All of it is a mail address."""
    return MAIL.fullmatch(text) is not None


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
        mails.append(match[0].casefold())
        return " \0 "

    def link(match: re.Match[str]) -> str:
        whole = _trimmed(match[0])
        links.append(whole)
        return f" \0 {match[0][len(whole) :]} "

    rest = MAIL.sub(mail, LINK.sub(link, text))
    return Found(frozenset(mails), tuple(links), rest)


def _trimmed(link: str) -> str:
    """Without what belongs to the sentence around it."""
    while link and (link[-1] in TAIL or (link[-1] == ")" and "(" not in link)):
        link = link[:-1]
    scheme, mark, rest = link.rpartition("://")
    if "/" not in rest and (glued := RUN_ON.search(rest)):
        return scheme + mark + rest[: glued.start()]  # "www.example.com.They said": no space after the sentence
    return link
