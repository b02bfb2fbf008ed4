"""Whether a text holds a value: whole, and as what it is (DESIGN 6).

What the arguments of a call stand on: the owner's own words, memory and contacts, or what was read before (DESIGN 6).
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence

from daemon.core import value
from daemon.core.provenance import Origin, SourcedText
from daemon.core.trust import Effect, Label
from daemon.tools.base import Tool, ToolMeta
from daemon.tools.policy.addresses import (
    WebAddress,
    find_addresses,
    is_mail,
    lowercase,
    mentions,
    parse_web_address,
)
from daemon.tools.policy.table import Provenance
from daemon.tools.policy.text_values import find_dates, split_words

NamedValue = tuple[str, str | int | float]


def text_holds(text: str, value: str | float, name: str, tool: str) -> bool:
    """The text holds this value, which is given as the argument `name` of `tool`; the names tell what kind of thing is meant.

    A mail address, a URL, a path, an id counts as a whole or not at all; a number only where the text says what it numbers; an
    ordinary word only in quotes or beside its kind ("the general channel"), for such words stand in every text.
    """
    said = str(value)
    if not _is_plain_value(said):
        return False
    found = find_addresses(text)
    if is_mail(said):
        return lowercase(said) in found.mails
    address = parse_web_address(said)
    if address and any(
        address.same_place(other) for link in found.links if (other := parse_web_address(link))
    ):
        return True
    if address and address.rest:
        return False
    moments = find_dates(found.rest)
    words = split_words(moments.rest)
    if address and (address.scheme or said.startswith("www.")):
        return address.is_site and words.names_site(address.host)
    if (timely := moments.holds(said)) is not None:
        return timely
    return words.holds(value, name, tool)


def iter_values(
    value: object, name: str, known: frozenset[str] = frozenset()
) -> Iterator[NamedValue]:
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
                yield from iter_values(part, str(key) if str(key) in known else name, known)
        case list() | tuple():
            for part in value:
                yield from iter_values(part, name, known)
        case _:
            yield name, str(value)


def _is_plain_value(text: str) -> bool:
    """On one line, nothing around it, composed as people compose it: else what arrives may be another thing than what is read."""
    return (
        text == text.strip()
        and unicodedata.is_normalized("NFC", text)
        and not any(map(_is_control, text))
    )


def _is_control(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")


FindMeta = Callable[[str], ToolMeta | None]
OWNER_ORIGINS = (Origin.PERSON, Origin.MEMORY, Origin.RESULT)
PLAIN_CHOICE = re.compile(r"[A-Za-z]{1,12}(?:[ _-][A-Za-z]{1,12}){0,2}")


@value
class Evidence:
    """Everything that was said in a conversation, oldest first. `known` tells of a tool; contacts count as the owner's words."""

    texts: Sequence[SourcedText]
    find_meta: FindMeta
    contacts: Sequence[str] = ()

    def check(self, tool: Tool, arguments: Mapping[str, object]) -> Provenance:
        """Look at every critical argument, and at the addresses that a message to somebody carries."""
        name = tool.name
        critical = _critical_arguments(tool, arguments)
        values = list(_critical_values(tool, critical))
        strange = next(
            (str(value) for key, value in values if not self.is_owners(key, value, name)), ""
        ) or _true_flag(tool, arguments)
        if not strange and tool.meta.effect is Effect.EGRESS:
            strange = next(
                (
                    link
                    for link in _carried_addresses(arguments, critical)
                    if not self.is_owners("", link, name)
                ),
                "",
            )
        unread = next(
            (
                str(value)
                for key, value in values
                if not (self.was_read(str(value)) or self.is_owners(key, value, name))
            ),
            "",
        )
        return Provenance(strange, unread)

    def is_owners(self, name: str, value: str | float, tool: str) -> bool:
        """A person said it, memory or a trusted tool knows it. What a tool says counts only when the model had not said it
        before: many a tool repeats what it was asked.
        """
        if any(text_holds(contact, value, name, tool) for contact in self.contacts):
            return True
        by_model = False
        for said in self.texts:
            if said.label is Label.TRUSTED and said.origin in OWNER_ORIGINS and said.owned:
                heard = said.origin is Origin.PERSON or not by_model
                if heard and text_holds(said.text, value, name, tool):
                    return True
            by_model = by_model or (said.origin is Origin.MODEL and mentions(said.text, str(value)))
        return False

    def was_read(self, value: str) -> bool:
        """The address stands, whole, in a text that came from outside; and before that nobody but others had named its host.

        What a source gives back after it was written to may be the model's own.
        """
        address = parse_web_address(value)
        if address is None:
            return False
        named, written = False, set[str]()
        for said in self.texts:
            if said.origin is Origin.MODEL:
                if _wrote_first(said.text, address, named):
                    return False
                continue
            meta = self.find_meta(said.tool) if said.origin is Origin.RESULT else None
            if meta and said.changes and meta.source:
                written.add(meta.source)
            if (
                meta
                and meta.returns_outside_text
                and meta.source not in written
                and _links_to(said.text, address)
            ):
                return True
            named = named or (
                said.origin in OWNER_ORIGINS
                and said.owned
                and address.host in find_addresses(said.text).hosts
            )
        return False


def _wrote_first(text: str, address: WebAddress, named: bool) -> bool:
    """The model wrote it before it was read: its host, which nobody had named, or all of it."""
    return (not named and mentions(text, address.host)) or (
        bool(address.rest) and mentions(text, address.host + address.rest)
    )


def _true_flag(tool: Tool, arguments: Mapping[str, object]) -> str:
    """A yes that the owner's config calls critical ("public"): nobody says a yes in so many words, so it is asked about."""
    return next(
        (f"{key} = true" for key in tool.meta.critical or () if arguments.get(key) is True), ""
    )


def _critical_arguments(tool: Tool, arguments: Mapping[str, object]) -> Mapping[str, object]:
    """What decides where the effect goes; an argument that the tool does not declare may be anything."""
    wanted, declared = tool.meta.critical, _properties(tool)
    if wanted is None:
        return arguments
    return {
        key: value
        for key, value in arguments.items()
        if key in wanted or (declared and key not in declared)
    }


def _critical_values(tool: Tool, critical: Mapping[str, object]) -> Iterator[NamedValue]:
    known = _schema_names(tool.spec.parameters)
    for key, argument in critical.items():
        yield from (
            leaf for leaf in iter_values(argument, key, known) if not _is_choice(tool, key, leaf[1])
        )


def _properties(tool: Tool) -> Mapping[str, object]:
    found = tool.spec.parameters.get("properties")
    return found if isinstance(found, Mapping) else {}


def _schema_names(schema: object) -> frozenset[str]:
    """All names that a schema gives to what is in an argument."""
    match schema:
        case Mapping():
            below = schema.get("properties")
            own = frozenset(map(str, below)) if isinstance(below, Mapping) else frozenset()
            return own.union(*map(_schema_names, schema.values()))
        case list():
            return frozenset().union(*map(_schema_names, schema))
        case _:
            return frozenset()


def _is_choice(tool: Tool, name: str, value: object) -> bool:
    """One of the few values that the tool itself lists: it can carry nothing. Of a server's list, only plain words: an address or
    an id in it may be there because a stranger is.
    """
    shape = _properties(tool).get(name)
    choices = shape.get("enum") if isinstance(shape, Mapping) else None
    listed = isinstance(choices, list) and value in choices
    return listed and (not tool.meta.source or PLAIN_CHOICE.fullmatch(str(value)) is not None)


def _carried_addresses(
    arguments: Mapping[str, object], critical: Mapping[str, object]
) -> Iterator[str]:
    """The addresses in what else is sent."""
    for key, argument in arguments.items():
        if key in critical:
            continue
        for _, leaf in iter_values(argument, key):
            found = find_addresses(str(leaf))
            yield from (*found.links, *sorted(found.mails))


def _links_to(text: str, address: WebAddress) -> bool:
    return any(
        address.same_place(other)
        for link in find_addresses(text).links
        if (other := parse_web_address(link))
    )
