"""Provenance of the arguments of a call: the owner's words, memory and contacts, or what was read
(trust.md).
"""

import json
import re
from collections import Counter
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
# What a service calls a record by; an ordinary word may stand in any sentence.
TITLE_KEYS = ("title", "name", "filename", "file_name", "subject", "display_name", "full_name")
ORDINARY_NAME = re.compile(r"[^\W\d_]+|[^A-Z\d_.]*")
ID_ENDINGS = ("_id", "Id", "id")
PLAIN_VALUE = re.compile(r"\S{1,128}")
MAX_LOOKED_UP = 1000
QUOTE_SIGNS = "'\"“”‘’«»`"


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
        known = _schema_names(tool.spec.parameters)
        # What a server is asked for leaves as it is: only what the owner typed is theirs to say.
        asks = tool.meta.effect is Effect.FETCH and bool(tool.meta.source)
        is_own: Callable[[str | float], bool] = self.is_typed if asks else self.is_owners
        strangers = [
            found
            for key, argument in critical.items()
            for name, found in iter_values(argument, key, known)
            if not is_choice(tool, key, found)
            and not is_own(found)
            and not (ordered and any(one.is_id(name, str(found)) for one in self.list_records()))
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
        return any(record.holds(str(found)) for record in self.list_named_records())

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
        if any(stands_in(one, found) for one in known) or self._find_record(said, name, wanted):
            return True
        if not sends and any(
            one.title == said and one.holds(wanted) for one in self.list_named_records()
        ):
            return True
        for text in self.texts:
            if text.origin is Origin.MODEL and mentions(text.text, wanted):
                return False
            both = stands_in(text.text, said) and stands_in(text.text, found)
            if both and self._is_look_up(text):
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

    def _is_look_up(self, text: SourcedText) -> bool:
        """A memory, or a short result that tells what the owner knows, that has one address."""
        is_owners = text.label is Label.TRUSTED and text.owned and not text.records
        if not (is_owners and self._is_known(text)):
            return False
        found = find_addresses(text.text)
        return len(text.text) <= MAX_LOOKED_UP and len(found.mails) + len(found.links) == 1

    def _find_record(self, said: str, name: str, wanted: str) -> bool:
        """The value is the id of every listed record with the said title; where there is none, of
        every one whose title begins with it.
        """
        parts, listed = _split_title(said), self.list_records()
        same = [one for one in listed if _split_title(one.title) == parts]
        found = same or [one for one in listed if _split_title(one.title)[: len(parts)] == parts]
        return bool(parts and found) and all(one.is_id(name, wanted) for one in found)

    def list_records(self) -> set["OwnRecord"]:
        """All records of the owner's that tools have listed."""
        listed = [text.records for text in self.texts if text.records]
        wholes = [json.loads(part) for part in listed]
        return {record for one in wholes for record in (*iter_records(one), *iter_names(one))}

    def list_named_records(self) -> list["OwnRecord"]:
        """The owner's own records whose title stands in their words. Two different records of one
        title are none.
        """
        said = [text.text for text in self.texts if text.origin is Origin.PERSON and text.owned]
        records = self.list_records()
        titles = Counter(record.title for record in records)
        return [one for one in records if titles[one.title] == 1 and is_named(one.title, said)]

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

    def is_id(self, name: str, found: str) -> bool:
        """The value is what the record is known by, for the argument `name`. No address: a stranger
        may have written it there.
        """
        return not leads_outside(found) and any(
            leaf == found and (key == name or key.strip("_").endswith(ID_ENDINGS))
            for key, leaf in self.leaves
        )

    def holds(self, found: str) -> bool:
        """One of its values."""
        return any(leaf == found for _, leaf in self.leaves)


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


def is_named(title: str, said: Sequence[str]) -> bool:
    """The words hold the title as it is written: in quotes, or else plainly a name."""
    plain_name = not ORDINARY_NAME.fullmatch(title)
    for text in said:
        for found in re.finditer(rf"(?<!\w){re.escape(title)}(?!\w)", text):
            around = text[max(found.start() - 1, 0) : found.start()] + text[found.end() :][:1]
            if plain_name or (len(around) == 2 and all(one in QUOTE_SIGNS for one in around)):
                return True
    return False


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
