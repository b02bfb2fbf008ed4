"""Whether a text holds a value: whole, and as what it is (DESIGN 6)."""

from collections.abc import Iterator, Mapping

from daemon.tools.provenance.addresses import found_in, is_mail, web_address
from daemon.tools.provenance.moments import moments_in
from daemon.tools.provenance.words import kinds_of, words_of

Leaf = tuple[str, str | int | float]


def holds(text: str, value: str | float, name: str, tool: str) -> bool:
    """The text holds this value, which is given as the argument `name` of `tool`; the names tell what kind of thing is meant.

    A mail address, a URL, a path, an id counts as a whole or not at all; a number only where the text says what it numbers; an
    ordinary word only in quotes or beside its kind ("the general channel"), for such words stand in every text.
    """
    found = found_in(text)
    said = str(value).strip()
    if is_mail(said):
        return said.casefold() in found.mails
    address = web_address(said)
    if address and any(address.same(other) for link in found.links if (other := web_address(link))):
        return True
    if address and address.rest:
        return False
    moments = moments_in(found.rest)
    if address:
        return words_of(moments.rest).holds(address.host, frozenset(), frozenset())
    if (timely := moments.holds(said)) is not None:
        return timely
    return words_of(moments.rest).holds(said, kinds_of(name), kinds_of(tool))


def leaves(value: object, name: str) -> Iterator[Leaf]:
    """The single values of an argument, each with the name it goes by. What carries nothing is left out: null, true, ""."""
    match value:
        case None | bool():
            return
        case str() if not value.strip():
            return
        case str() | int() | float():
            yield name, value
        case Mapping():
            for key, part in value.items():
                yield from leaves(part, str(key))
        case list() | tuple():
            for part in value:
                yield from leaves(part, name)
        case _:
            yield name, str(value)
