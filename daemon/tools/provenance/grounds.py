"""What the arguments of a call stand on: the owner's own words, memory and contacts, or what was read before (DESIGN 6)."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from daemon.core.label import Effect, Label
from daemon.core.sources import Origin, Said
from daemon.tools.base import Tool, ToolMeta
from daemon.tools.provenance.addresses import Address, found_in, web_address
from daemon.tools.provenance.echoes import mentions
from daemon.tools.provenance.reading import Leaf, holds, leaves
from daemon.tools.provenance.standing import Standing

Known = Callable[[str], ToolMeta | None]
OWNERS = (Origin.PERSON, Origin.MEMORY, Origin.RESULT)
CHOICE = re.compile(r"[A-Za-z]{1,12}(?:[ _-][A-Za-z]{1,12}){0,2}")


@dataclass(frozen=True, slots=True)
class Grounds:
    """Everything that was said in a conversation, oldest first. `known` tells of a tool; contacts count as the owner's words."""

    said: Sequence[Said]
    known: Known
    contacts: Sequence[str] = ()

    def standing(self, tool: Tool, arguments: Mapping[str, object]) -> Standing:
        """Look at every critical argument, and at the addresses that a message to somebody carries."""
        name = tool.name
        critical = _critical(tool, arguments)
        values = list(_values(tool, critical))
        strange = next((str(value) for key, value in values if not self.owns(key, value, name)), "") or _switched(tool, arguments)
        if not strange and tool.meta.effect is Effect.EGRESS:
            strange = next((link for link in _carried(arguments, critical) if not self.owns("", link, name)), "")
        unread = next((str(value) for key, value in values if not (self.reads(str(value)) or self.owns(key, value, name))), "")
        return Standing(strange, unread)

    def owns(self, name: str, value: str | float, tool: str) -> bool:
        """A person said it, memory or a trusted tool knows it. What a tool says counts only when the model had not said it
        before: many a tool repeats what it was asked.
        """
        if any(holds(contact, value, name, tool) for contact in self.contacts):
            return True
        by_model = False
        for said in self.said:
            if said.label is Label.TRUSTED and said.origin in OWNERS and said.owned:
                heard = said.origin is Origin.PERSON or not by_model
                if heard and holds(said.text, value, name, tool):
                    return True
            by_model = by_model or (said.origin is Origin.MODEL and mentions(said.text, str(value)))
        return False

    def reads(self, value: str) -> bool:
        """The address stands, whole, in a text that came from outside; and before that nobody but others had named its host.

        What a source gives back after it was written to may be the model's own.
        """
        address = web_address(value)
        if address is None:
            return False
        named, written = False, set[str]()
        for said in self.said:
            if said.origin is Origin.MODEL:
                if _made_up(said.text, address, named):
                    return False
                continue
            meta = self.known(said.tool) if said.origin is Origin.RESULT else None
            if meta and said.changes and meta.source:
                written.add(meta.source)
            if meta and meta.outside and meta.source not in written and _links_to(said.text, address):
                return True
            named = named or (said.origin in OWNERS and said.owned and address.host in found_in(said.text).hosts)
        return False


def _made_up(text: str, address: Address, named: bool) -> bool:
    """The model wrote it before it was read: its host, which nobody had named, or all of it."""
    return (not named and mentions(text, address.host)) or (bool(address.rest) and mentions(text, address.host + address.rest))


def _switched(tool: Tool, arguments: Mapping[str, object]) -> str:
    """A yes that the owner's config calls critical ("public"): nobody says a yes in so many words, so it is asked about."""
    return next((f"{key} = true" for key in tool.meta.critical or () if arguments.get(key) is True), "")


def _critical(tool: Tool, arguments: Mapping[str, object]) -> Mapping[str, object]:
    """What decides where the effect goes; an argument that the tool does not declare may be anything."""
    wanted, declared = tool.meta.critical, _properties(tool)
    if wanted is None:
        return arguments
    return {key: value for key, value in arguments.items() if key in wanted or (declared and key not in declared)}


def _values(tool: Tool, critical: Mapping[str, object]) -> Iterator[Leaf]:
    known = _names(tool.spec.parameters)
    for key, value in critical.items():
        yield from (leaf for leaf in leaves(value, key, known) if not _is_choice(tool, key, leaf[1]))


def _properties(tool: Tool) -> Mapping[str, object]:
    found = tool.spec.parameters.get("properties")
    return found if isinstance(found, Mapping) else {}


def _names(schema: object) -> frozenset[str]:
    """All names that a schema gives to what is in an argument."""
    match schema:
        case Mapping():
            below = schema.get("properties")
            own = frozenset(map(str, below)) if isinstance(below, Mapping) else frozenset()
            return own.union(*map(_names, schema.values()))
        case list():
            return frozenset().union(*map(_names, schema))
        case _:
            return frozenset()


def _is_choice(tool: Tool, name: str, value: object) -> bool:
    """One of the few values that the tool itself lists: it can carry nothing. Of a server's list, only plain words: an address or
    an id in it may be there because a stranger is.
    """
    shape = _properties(tool).get(name)
    choices = shape.get("enum") if isinstance(shape, Mapping) else None
    listed = isinstance(choices, list) and value in choices
    return listed and (not tool.meta.source or CHOICE.fullmatch(str(value)) is not None)


def _carried(arguments: Mapping[str, object], critical: Mapping[str, object]) -> Iterator[str]:
    """The addresses in what else is sent."""
    for key, value in arguments.items():
        if key in critical:
            continue
        for _, leaf in leaves(value, key):
            found = found_in(str(leaf))
            yield from (*found.links, *sorted(found.mails))


def _links_to(text: str, address: Address) -> bool:
    return any(address.same(other) for link in found_in(text).links if (other := web_address(link)))
