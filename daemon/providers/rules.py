"""What the strictest servers take, once for all wire formats: ids, names, arguments, schemas,
texts.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeGuard
from urllib.parse import unquote

from daemon.core.messages import Message, MessageRole, Native, drop_lone_surrogates
from daemon.providers.text_values import read_value

Json = dict[str, object]
MAX_NAME = 64
MISSING_START = "[the beginning of this conversation is missing]"
GO_ON = "[go on]"
EMPTY_TEXT = "[an empty message]"
INVALID_NAME_CHAR = re.compile(r"[^A-Za-z0-9_-]")
VALID_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
NAMELESS = "unknown"
NAME_END = re.compile(r"[^\w-]+")
ALTERNATIVES = ("allOf", "anyOf", "oneOf")
NOT_AT_ROOT = (*ALTERNATIVES, "enum", "not", "const", "if", "then", "else")
NAMED = ("properties", "patternProperties", "$defs", "definitions")
MAX_ALTERNATIVES = 8
MAX_DEPTH = 50
# What models write around arguments: a fence, and brackets, tags and tokens at their end.
OPENING = re.compile(r"\s*```\w{0,20}\s|\s+")
ENDING = re.compile(r"(?:\s|```|[}\])]|</?\w{1,40}>|<[|｜]/?\w{1,40}[|｜]>)*")
TYPED_AS_TEXT = re.compile(r'":\s*"(?:[\[{\d-]|\\n|true|false)')
DECODER = json.JSONDecoder()
KIND_NAMES: Mapping[type, frozenset[str]] = {
    dict: frozenset({"object"}),
    list: frozenset({"array"}),
    bool: frozenset({"boolean"}),
    int: frozenset({"integer", "number"}),
    float: frozenset({"number"}),
}


def split_instructions(
    messages: Sequence[Message],
) -> tuple[Sequence[Message], Sequence[Message]]:
    """The system messages at the beginning, and the rest."""
    system = MessageRole.SYSTEM
    first = next((n for n, m in enumerate(messages) if m.role is not system), len(messages))
    return messages[:first], messages[first:]


def assign_ids(
    messages: Iterable[Message], valid: re.Pattern[str] = VALID_ID
) -> list[tuple[Message, tuple[str, ...]]]:
    """Each message with the ids of its calls, or of the call that it answers: valid, none twice,
    and the same at every request. Results answer the calls before them by place; one without a
    call is left out.
    """
    found, used, asked = [], set[str](), list[str]()
    for message in messages:
        if message.role is MessageRole.TOOL:
            if asked:
                found.append((message, (asked.pop(0),)))
        elif message.calls:
            asked = [_make_unique(call.provider_id, used, valid) for call in message.calls]
            found.append((message, tuple(asked)))
        else:
            found.append((message, ()))
    return found


def is_from(native: Native | None, owner: tuple[str, str]) -> TypeGuard[Native]:
    """A reply's own form comes from this provider and model, and may go back to it."""
    return native is not None and (native.provider, native.model) == owner


def _make_unique(wanted: str, used: set[str], valid: re.Pattern[str]) -> str:
    """The wanted id if it is valid and free; else one by place."""
    number = len(used)
    while not valid.fullmatch(wanted) or wanted in used:
        wanted = f"call_{number}"
        number += 1
    used.add(wanted)
    return wanted


def make_valid_name(name: str, invalid: re.Pattern[str] = INVALID_NAME_CHAR) -> str:
    """A model may invent a tool name that another provider refuses."""
    return invalid.sub("_", name)[:MAX_NAME] or NAMELESS


def find_offered(name: str, offered: Iterable[str]) -> str:
    """The tool that is meant: models write marks of their format around its name, such as
    `functions.NAME:0`, `default_api:NAME` or `NAME<|channel|>commentary`, or other letters in it.
    """
    names = set(offered)
    plain = name.partition("<|")[0].strip()
    if name in names or not plain or re.search(r"\s", plain):
        return name or NAMELESS
    folded = {_fold_name(one): one for one in names}
    words = (plain, *NAME_END.split(plain))
    found = {folded[word] for word in map(_fold_name, words) if word in folded}
    return found.pop() if len(found) == 1 else name


def _fold_name(name: str) -> str:
    return name.lower().replace("-", "_")


def parse_arguments(written: str) -> Json:
    """Arguments as a JSON object, which providers insist on; anything else is wrapped."""
    try:
        found: object = json.loads(written)
        json.dumps(found, allow_nan=False)  # Python reads NaN and 1e999, which are not JSON
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    return {"invalid": written} if written.strip() else {}


def make_valid_arguments(written: str) -> str:
    """As the model wrote them, unless that is no JSON object, which many servers refuse."""
    found = parse_arguments(written)
    return json.dumps(found) if found in ({}, {"invalid": written}) else written


def clean_arguments(written: str, schema: Mapping[str, object]) -> str:
    """One object, where servers write it twice, as a text, or behind an empty one, and where it is
    nearly JSON. A text that holds what the schema takes becomes that. Half characters, which stand
    in JSON as escapes, are replaced; else as the model wrote them.
    """
    written = _find_object(written)
    if TYPED_AS_TEXT.search(written):
        written = _fit_arguments(written, schema)
    if "\\ud" not in written.lower():
        return written
    try:
        found = json.dumps(json.loads(written), ensure_ascii=False)
    except (ValueError, RecursionError):
        return written
    cleaned = drop_lone_surrogates(found)
    return written if cleaned == found else cleaned


def _find_object(written: str) -> str:
    found: list[tuple[object, str]] = []
    rest = written.strip()
    try:
        while rest:
            value, end = DECODER.raw_decode(rest)
            found.append((value, rest[:end]))
            rest = rest[end:].lstrip()
        if len(found) == 1 and isinstance(inner := found[0][0], str):
            return inner if isinstance(json.loads(inner), dict) else written
    except (ValueError, RecursionError):
        return _mend_object(written)
    full = [one for one in found if one[0] != {}] or found[:1]
    if full == [(None, "null")]:
        return "{}"
    is_one = len(found) > 1 and isinstance(full[0][0], dict)
    return full[0][1] if is_one and all(value == full[0][0] for value, _ in full) else written


def _fit_arguments(written: str, schema: Mapping[str, object]) -> str:
    """With a list, an object, a number or a truth value where a model writes it as a text, and the
    schema takes no text there; else as it is.
    """
    shapes = schema.get("properties")
    try:
        found: object = json.loads(written)
    except (ValueError, RecursionError):
        return written
    if not isinstance(found, dict) or not isinstance(shapes, dict):
        return written
    read: Json = {}
    for key, given in found.items():
        kinds = _list_kinds(shapes.get(key)) if isinstance(given, str) else frozenset()
        if kinds and "string" not in kinds:
            with suppress(ValueError, RecursionError):
                inner: object = json.loads(given)
                json.dumps(inner, allow_nan=False)
                if kinds & KIND_NAMES.get(type(inner), frozenset()):
                    read[key] = inner
    with suppress(ValueError, RecursionError):
        return json.dumps(found | read) if read else written
    return written


def _list_kinds(shape: object) -> frozenset[object]:
    """The types that a schema allows; none where it does not say them all."""
    if not isinstance(shape, dict):
        return frozenset()
    kind = shape.get("type")
    if isinstance(kind, str | list):
        return frozenset([kind] if isinstance(kind, str) else map(str, kind))
    choices = shape.get("anyOf", shape.get("oneOf"))
    kinds = [_list_kinds(one) for one in choices] if isinstance(choices, list) else []
    return frozenset().union(*kinds) if all(kinds) else frozenset()


def _mend_object(written: str) -> str:
    """A whole object in Python's spelling, in a fence, or before the tokens that end it."""
    opening = OPENING.match(written)
    found = read_value(written, opening.end() if opening else 0)
    if not found or not isinstance(found[0], dict) or not ENDING.fullmatch(written, found[1]):
        return written
    return json.dumps(found[0], ensure_ascii=False)


def render_error(message: Message) -> str:
    """The text of a tool's result; a failure is marked as one (B7)."""
    if message.is_error:
        return json.dumps({"error": message.text}, ensure_ascii=False)
    return message.text


def fold_schema(schema: Mapping[str, object]) -> Json:
    """An object schema without alternatives and conditions at its root (what any alternative takes
    is shown), without empty members, and without references to what is not there.
    """
    root = _resolve(dict(schema), schema) if "$ref" in schema else dict(schema)
    properties, required = _collect(root, schema, 0)
    folded = {key: part for key, part in root.items() if key not in NOT_AT_ROOT}
    folded |= {"type": "object", "properties": properties}
    folded["required"] = [one for one in dict.fromkeys(required) if one in properties] or None
    cleaned = _clean(folded, schema, 0)
    assert isinstance(cleaned, dict)
    return cleaned


def _collect(part: Json, root: Mapping[str, object], depth: int) -> tuple[Json, list[object]]:
    """The properties of a schema and of its alternatives, and which of them are always needed."""
    properties: Json = {}
    required: list[object] = []
    for key in ALTERNATIVES if depth < MAX_ALTERNATIVES else ():
        choices = part.get(key)
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                shown, needed = _collect(_resolve(choice, root), root, depth + 1)
                properties |= shown
                required += needed if key == "allOf" else []
    own, needed = part.get("properties"), part.get("required")
    properties |= own if isinstance(own, dict) else {}
    return properties, required + (needed if isinstance(needed, list) else [])


def _resolve(part: Json, root: Mapping[str, object]) -> Json:
    """What a reference points at, with what stands beside it."""
    for _ in range(MAX_ALTERNATIVES):
        if "$ref" not in part:
            break
        target = _find_target(root, part["$ref"])
        beside = {key: one for key, one in part.items() if key != "$ref"}
        part = {**target, **beside} if isinstance(target, dict) else beside
    return {key: one for key, one in part.items() if key != "$ref"}


def _find_target(root: Mapping[str, object], reference: object) -> object:
    """What a reference points at; None for what is not there."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: object = root
    for part in filter(None, unquote(reference[1:]).split("/")):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            found = found.get(name) if isinstance(found, dict) else None
    return found


def _clean(value: object, root: Mapping[str, object], depth: int, *, named: bool = False) -> object:
    """`named`: the keys are names that the tool has chosen."""
    if depth > MAX_DEPTH:
        return {}
    if isinstance(value, list):
        return [_clean(one, root, depth + 1) for one in value]
    if not isinstance(value, dict):
        return value
    is_dangling = not named and "$ref" in value
    if is_dangling and isinstance(_find_target(root, value["$ref"]), dict):
        is_dangling = False
    return {
        key: _clean(part, root, depth + 1, named=not named and key in NAMED)
        for key, part in value.items()
        if part is not None and not (is_dangling and key == "$ref")
    }
