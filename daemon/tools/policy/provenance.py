"""Provenance of the arguments of a call: the owner's words, memory and contacts, or what was read
(trust.md).
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from daemon.core import value
from daemon.core.provenance import Origin, SourcedText
from daemon.core.trust import Effect, Label
from daemon.tools.base import Tool
from daemon.tools.policy.gate import Provenance
from daemon.tools.policy.text_values import (
    FILE_ENDINGS,
    find_addresses,
    find_dates,
    is_mail,
    lowercase,
    mentions,
    mentions_address,
    parse_web_address,
    split_words,
)
from daemon.tools.registry import ToolRegistry

NamedValue = tuple[str, str | int | float]
OWNER_ORIGINS = (Origin.PERSON, Origin.MEMORY, Origin.RESULT)
PLAIN_CHOICE = re.compile(r"[A-Za-z]{1,12}(?:[ _-][A-Za-z]{1,12}){0,2}")
# What a service calls a record by; an ordinary word may stand in any sentence.
TITLE_KEYS = ("title", "name", "filename", "file_name", "subject", "display_name", "full_name")
ORDINARY_NAME = re.compile(r"[^\W\d_]+|[^A-Z\d_.]*")
PLAIN_VALUE = re.compile(r"\S{1,128}")
QUOTE_SIGNS = "'\"“”‘’«»`"
CONTROLS = ("Cc", "Cf", "Cs", "Zl", "Zp")


def text_holds(text: str, found: str | float, name: str, tool: str) -> bool:
    """The text contains the value `found`, the argument `name` of `tool`.

    A mail address, URL, path or id counts only as a whole; a number only where the text says what
    it numbers; an ordinary word only in quotes or beside its kind ("the general channel").
    """
    wanted = str(found)
    if (
        wanted != wanted.strip()
        or not unicodedata.is_normalized("NFC", wanted)
        or any(unicodedata.category(char) in CONTROLS for char in wanted)
    ):
        return False  # what arrives may differ from what is read
    addresses = find_addresses(text)
    if is_mail(wanted):
        return lowercase(wanted) in addresses.mails
    address = parse_web_address(wanted)
    if address and addresses.links_to(address):
        return True
    if address and address.rest:
        return False
    dates = find_dates(addresses.rest)
    words = split_words(dates.rest)
    if address and (address.scheme or wanted.startswith("www.")):
        is_file = address.host.rpartition(".")[2] in FILE_ENDINGS
        named = any(lowercase(word.text) == address.host for word in words.words)
        return named and address.is_web and not is_file
    if (dated := dates.holds(wanted)) is not None:
        return dated
    return words.holds(found, name, tool)


def iter_values(
    argument: object, name: str, known: frozenset[str] = frozenset()
) -> Iterator[NamedValue]:
    """The single values of an argument with their names, without null, true and blanks.

    A key is a value too, unless it is one of the tool's own names in `known`.
    """
    match argument:
        case None | bool():
            return
        case str() | int() | float():
            if str(argument).strip():
                yield name, argument
        case Mapping():
            for key, part in argument.items():
                if str(key) not in known:
                    yield name, str(key)
                yield from iter_values(part, str(key) if str(key) in known else name, known)
        case list() | tuple():
            for part in argument:
                yield from iter_values(part, name, known)
        case _:
            yield name, str(argument)


@value
class Evidence:
    """All texts of a conversation, oldest first. Contacts count as the owner's words."""

    texts: Sequence[SourcedText]
    registry: ToolRegistry
    contacts: Sequence[str] = ()

    def check(self, tool: Tool, arguments: Mapping[str, object]) -> Provenance:
        """Check every critical argument, and the addresses that a message carries."""
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
        strangers = [
            found
            for key, argument in critical.items()
            for name, found in iter_values(argument, key, known)
            if not _is_choice(tool, declared.get(key), found)
            and not self.is_owners(name, found, tool.name)
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
                if not self.is_owners("", address, tool.name)
            ]
        not_read = (str(found) for found in strangers if not self.was_read(str(found)))
        return Provenance(next(iter(not_owned), ""), next(not_read, ""))

    def is_owners(self, name: str, found: str | float, tool: str) -> bool:
        """A person said it, or memory or a trusted tool knows it.

        A tool's result counts only if the model had not said it before: tools repeat requests.
        """
        if any(text_holds(contact, found, name, tool) for contact in self.contacts):
            return True
        by_model = False
        for text in self.texts:
            if text.label is Label.TRUSTED and text.origin in OWNER_ORIGINS and text.owned:
                counts = text.origin is Origin.PERSON or not by_model
                if counts and text_holds(text.text, found, name, tool):
                    return True
            by_model = by_model or (text.origin is Origin.MODEL and mentions(text.text, str(found)))
        return bool(self.list_titles(str(found)))

    def list_titles(self, found: str) -> list[str]:
        """The value stands in the owner's own records of these titles, which the owner named. Two
        different records of one title are none. A longer text in a record is a stranger's.
        """
        listed = [text.records for text in self.texts if text.records]
        if not listed or not PLAIN_VALUE.fullmatch(found):
            return []
        records = [record for part in listed for record in iter_records(json.loads(part))]
        said = [text.text for text in self.texts if text.origin is Origin.PERSON and text.owned]
        holding = [record for record in records if found in record.leaves - {record.title}]
        titles = {record.title for record in holding if is_named(record.title, said)}
        return sorted(
            title
            for title in titles
            if all(found in record.leaves for record in records if record.title == title)
        )

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
                source and source.meta.returns_outside_text and source.meta.source not in written
            )
            if is_read and find_addresses(text.text).links_to(address):
                return True
            if text.origin in OWNER_ORIGINS and text.owned:
                links = find_addresses(text.text).parsed
                named = named or any(link.host == address.host for link in links)
        return False


@value
class OwnRecord:
    """One of the owner's own records: what it is called, and all its single values."""

    title: str
    leaves: frozenset[str]


def iter_records(part: object) -> Iterator[OwnRecord]:
    """Every table in a structured result that has a title."""
    if isinstance(part, list):
        for one in part:
            yield from iter_records(one)
    if not isinstance(part, dict):
        return
    leaves = set[str]()
    for inner in part.values():
        yield from iter_records(inner)
        single = inner if isinstance(inner, list) else [inner]
        leaves |= {str(one) for one in single if isinstance(one, str | int | float)}
    title = next((part[key] for key in TITLE_KEYS if isinstance(part.get(key), str)), "")
    if title:
        yield OwnRecord(title, frozenset(leaves))


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


def _is_choice(tool: Tool, shape: object, found: object) -> bool:
    """One of the few values in the tool's own schema carries nothing.

    Of an MCP server's enum only plain words count: an address in it may be a stranger's.
    """
    if isinstance(shape, Mapping) and "$ref" in shape:
        shape = _resolve(tool.spec.parameters, str(shape["$ref"]))
    choices = shape.get("enum") if isinstance(shape, Mapping) else None
    if not isinstance(choices, list) or found not in choices:
        return False
    return not tool.meta.source or PLAIN_CHOICE.fullmatch(str(found)) is not None
