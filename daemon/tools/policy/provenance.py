"""Provenance of the arguments of a call: the owner's words, memory and contacts, or what was read
(trust.md).
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from daemon.core import value
from daemon.core.provenance import Origin, SourcedText
from daemon.core.trust import Effect, Label
from daemon.tools.base import Tool
from daemon.tools.policy.addresses import (
    find_addresses,
    iter_values,
    leads_outside,
    mentions,
    mentions_address,
    parse_web_address,
    stands_in,
)
from daemon.tools.policy.facts import Provenance
from daemon.tools.registry import ToolRegistry

OWNER_ORIGINS = (Origin.PERSON, Origin.MEMORY, Origin.RESULT)
PLAIN_CHOICE = re.compile(r"[A-Za-z]{1,12}(?:[ _-][A-Za-z]{1,12}){0,2}")
# What a service calls a record by.
TITLE_KEYS = ("title", "name", "filename", "file_name", "subject", "display_name", "full_name")
ID_ENDINGS = ("_id", "Id", "id")
PLAIN_VALUE = re.compile(r"\S{1,128}")
MAX_LOOKED_UP = 400


@value
class Evidence:
    """All texts of a conversation, oldest first. Contacts count as the owner's words."""

    texts: Sequence[SourcedText]
    registry: ToolRegistry
    contacts: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def check(
        self, tool: Tool, arguments: Mapping[str, object], *, ordered: bool = False
    ) -> Provenance:
        """Check every critical argument, and the addresses that a message carries. `ordered`: the
        owner's words are asked for the ids of their records, so these are no stranger's here.
        """
        own = tool.spec.parameters.get("properties")
        declared: Mapping[str, object] = own if isinstance(own, Mapping) else {}
        critical = arguments
        if tool.meta.critical is not None:  # an argument that is not declared may be anything
            critical = {
                key: argument
                for key, argument in arguments.items()
                if key in tool.meta.critical or (declared and key not in declared)
            }
        known, sends = _schema_names(tool.spec.parameters), tool.meta.effect is not Effect.WRITE
        # What a server is asked for leaves as it is: only what the owner typed is theirs to say.
        asks = tool.meta.effect is Effect.FETCH and bool(tool.meta.source)
        is_own: Callable[[str | float], bool] = self.is_typed if asks else self.is_owners
        strangers = [
            found
            for key, argument in critical.items()
            for name, found in iter_values(argument, key, known)
            if not is_choice(tool, key, found)
            and not is_own(found)
            and not (ordered and any(one.gives(name, found, sends) for one in self.list_records()))
        ]
        not_owned = [str(found) for found in strangers]
        flags = [key for key in tool.meta.critical or () if arguments.get(key) is True]
        not_owned += [f"{key} = true" for key in flags]  # nobody says a yes in so many words
        if tool.meta.effect is Effect.EGRESS and not not_owned:
            carried = [
                find_addresses(str(leaf))
                for key, argument in arguments.items()
                if key not in critical and key not in tool.meta.ids
                for _, leaf in iter_values(argument, key)
            ]
            not_owned = [
                address
                for found in carried
                for address in (*found.links, *sorted(found.mails))
                if not self.is_owners(address)
            ]
        not_read = (str(found) for found in strangers if not self.was_read(str(found)))
        return Provenance(next(iter(not_owned), ""), next(not_read, ""))

    def is_owners(self, found: str | float) -> bool:
        """A person said it, or memory or a trusted tool knows it.

        A tool's result counts only if the model had not said it before: tools repeat requests.
        """
        if any(stands_in(one, found) for known in self.contacts.values() for one in known):
            return True
        by_model = False
        for text in self.texts:
            if text.label is Label.TRUSTED and text.origin in OWNER_ORIGINS and text.owned:
                counts = text.origin is Origin.PERSON or (not by_model and self._is_known(text))
                if counts and stands_in(text.text, found):
                    return True
            by_model = by_model or (text.origin is Origin.MODEL and mentions(text.text, str(found)))
        return False

    def is_typed(self, found: str | float) -> bool:
        """The owner wrote it, here or in their contacts: no file, memory or result counts."""
        own = [text.text for text in self.texts if text.origin is Origin.PERSON and text.owned]
        known = [one for addresses in self.contacts.values() for one in addresses]
        return any(stands_in(text, found) for text in (*own, *known))

    def has_under(self, said: str, name: str, found: str | float, *, sends: bool) -> bool:
        """The owner's contacts, records or look-ups have the value of the argument `name` under
        what they said. Nothing is sent to what stands in a record, which a stranger may have
        written: only ids of it count then (`sends`). What the model had said before counts for
        nothing: tools repeat requests.
        """
        wanted, name_said = str(found), said.casefold()
        known = (
            one for who, own in self.contacts.items() if who.casefold() == name_said for one in own
        )
        if any(stands_in(one, found) for one in known):
            return True
        records = self._find_records(said)
        if records and all(one.gives(name, found, sends) for one in records):
            return True
        for text in self.texts:
            if text.origin is Origin.MODEL and mentions(text.text, wanted):
                return False
            both = stands_in(text.text, said) and stands_in(text.text, found)
            if both and self.is_look_up(text):
                return True
        return False

    def _is_known(self, text: SourcedText) -> bool:
        """A memory, or a result of a tool that tells what the owner knows: no file, command or list
        of ours, which may repeat what was read.
        """
        if text.origin is Origin.MEMORY:
            return True
        source = self.registry.get(text.tool) if text.origin is Origin.RESULT else None
        return bool(source and source.meta.evidence == "known" and not text.holds)

    def is_look_up(self, text: SourcedText) -> bool:
        """A memory, or a short result that tells what the owner knows, that has one address."""
        is_owners = text.label is Label.TRUSTED and text.owned and not text.records
        if not (is_owners and self._is_known(text)):
            return False
        found = find_addresses(text.text)
        return len(text.text) <= MAX_LOOKED_UP and len(found.mails) + len(found.links) == 1

    def _find_records(self, said: str) -> list["OwnRecord"]:
        """Those with the said title; where there is none, those whose title begins with it."""
        parts, listed = _split_title(said), self.list_records()
        same = [one for one in listed if _split_title(one.title) == parts]
        begun = [one for one in listed if _split_title(one.title)[: len(parts)] == parts]
        return (same or begun) if parts else []

    def list_records(self) -> set["OwnRecord"]:
        """All records of the owner's that tools have listed."""
        listed = [text.records for text in self.texts if text.records]
        wholes = [json.loads(part) for part in listed]
        return {record for one in wholes for record in (*iter_records(one), *iter_names(one))}

    def was_read(self, url: str) -> bool:
        """The whole address stands in a text from outside, before the model wrote it.

        What a source returns after it was written to may be the model's own.
        """
        address = parse_web_address(url)
        if address is None:
            return False
        named, written = False, set[str]()
        for text in self.texts:
            if text.origin is Origin.MODEL:
                host = replace(address, rest="")
                if not named and mentions_address(text.text, host):
                    return False  # the model named the host first
                if address.rest and mentions_address(text.text, address):
                    return False
                continue
            source = self.registry.get(text.tool) if text.origin is Origin.RESULT else None
            if source and text.changes and source.meta.source:
                written.add(source.meta.source)
            is_read = text.origin is Origin.QUOTED or (
                source
                and (source.meta.returns_outside_text or source.meta.evidence == "read")
                and source.meta.source not in written
                and not text.holds  # it was made by somebody who had read what is the owner's
            )
            if is_read and find_addresses(text.text).links_to(address):
                return True
            if text.origin in OWNER_ORIGINS and text.owned:
                links = find_addresses(text.text).parsed
                named = named or any(link.host == address.host for link in links)
        return False


@value
class OwnRecord:
    """One of the owner's own records: what it is called, and its single values by their keys."""

    title: str
    leaves: frozenset[tuple[str, str]]

    def gives(self, name: str, found: str | float, sends: bool) -> bool:
        """It has the value; where something is sent, as what the record is known by for the
        argument `name`, and no address: a stranger may have written that there.
        """
        keys = [key for key, leaf in self.leaves if leaf == str(found)]
        is_id = any(key == name or key.strip("_").endswith(ID_ENDINGS) for key in keys)
        return bool(keys) and (not sends or (is_id and not leads_outside(found)))


def iter_records(part: object) -> Iterator[OwnRecord]:
    """Every table in a structured result that has a title."""
    if isinstance(part, list):
        for one in part:
            yield from iter_records(one)
    if not isinstance(part, dict):
        return
    leaves = set[tuple[str, str]]()
    for key, inner in part.items():
        yield from iter_records(inner)
        single = inner if isinstance(inner, list) else [inner]
        plain = (str(one) for one in single if isinstance(one, str | int | float))
        leaves |= {(key, one) for one in plain if PLAIN_VALUE.fullmatch(one)}
    title = next((part[key] for key in TITLE_KEYS if isinstance(part.get(key), str)), "")
    if title:
        yield OwnRecord(title, frozenset(leaves))


def iter_names(whole: object) -> Iterator[OwnRecord]:
    """A result that is a plain list of names: each is the id of its record."""
    names = next(iter(whole.values())) if isinstance(whole, dict) and len(whole) == 1 else whole
    if isinstance(names, list) and all(isinstance(one, str) for one in names):
        yield from (OwnRecord(one, frozenset((("id", one),))) for one in names)


def _split_title(title: str) -> list[str]:
    """Its words: "grocery-list.docx" and "Grocery list docx" are one title."""
    return re.findall(r"[^\W_]+", title.casefold())


def _schema_names(schema: object) -> frozenset[str]:
    """All property names in a schema."""
    if isinstance(schema, list):
        return frozenset().union(*map(_schema_names, schema))
    if not isinstance(schema, Mapping):
        return frozenset()
    own = schema.get("properties")
    names = frozenset(own if isinstance(own, Mapping) else ())
    return names.union(*map(_schema_names, schema.values()))


def _resolve(schema: object, reference: str) -> object:
    """What a reference within the schema means."""
    for name in reference.removeprefix("#/").split("/"):
        schema = schema.get(name) if isinstance(schema, Mapping) else None
    return schema


def is_choice(tool: Tool, name: str, found: object) -> bool:
    """One of the few values in the tool's own schema carries nothing.

    Of an MCP server's enum only plain words count: an address in it may be a stranger's.
    """
    declared = tool.spec.parameters.get("properties")
    shape = declared.get(name) if isinstance(declared, Mapping) else None
    if isinstance(shape, Mapping) and "$ref" in shape:
        shape = _resolve(tool.spec.parameters, str(shape["$ref"]))
    choices = shape.get("enum") if isinstance(shape, Mapping) else None
    if not isinstance(choices, list) or found not in choices:
        return False
    return not tool.meta.source or PLAIN_CHOICE.fullmatch(str(found)) is not None
