"""Whether a text holds a value: whole, and as what it is (DESIGN 6)."""

import unicodedata
from collections.abc import Iterator, Mapping

from daemon.tools.provenance.addresses import found_in, is_mail, lowered, web_address
from daemon.tools.provenance.moments import moments_in
from daemon.tools.provenance.words import words_of

Leaf = tuple[str, str | int | float]


def holds(text: str, value: str | float, name: str, tool: str) -> bool:
    """The text holds this value, which is given as the argument `name` of `tool`; the names tell what kind of thing is meant.

    A mail address, a URL, a path, an id counts as a whole or not at all; a number only where the text says what it numbers; an
    ordinary word only in quotes or beside its kind ("the general channel"), for such words stand in every text.
    """
    said = str(value)
    if not _plain(said):
        return False
    found = found_in(text)
    if is_mail(said):
        return lowered(said) in found.mails
    address = web_address(said)
    if address and any(address.same(other) for link in found.links if (other := web_address(link))):
        return True
    if address and address.rest:
        return False
    moments = moments_in(found.rest)
    words = words_of(moments.rest)
    if address and (address.scheme or said.startswith("www.")):
        return address.is_site and words.names_site(address.host)
    if (timely := moments.holds(said)) is not None:
        return timely
    return words.holds(value, name, tool)


def leaves(value: object, name: str, known: frozenset[str] = frozenset()) -> Iterator[Leaf]:
    """The single values of an argument, each with the name it goes by. What carries nothing is left out: null, true, "". A key
    is a value, too, unless it is one of the names that are `known`: the tool's own.
    """
    match value:
        case None | bool():
            return
        case str() if not value.strip():
            return
        case str() | int() | float():
            yield name, value
        case Mapping():
            for key, part in value.items():
                if str(key) not in known:
                    yield name, str(key)
                yield from leaves(part, str(key) if str(key) in known else name, known)
        case list() | tuple():
            for part in value:
                yield from leaves(part, name, known)
        case _:
            yield name, str(value)


def _plain(text: str) -> bool:
    """On one line, nothing around it, composed as people compose it: else what arrives may be another thing than what is read."""
    return text == text.strip() and unicodedata.is_normalized("NFC", text) and not any(map(_controls, text))


def _controls(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
