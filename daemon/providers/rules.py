"""What the strictest servers take, once for all wire formats: ids, names, arguments, schemas,
texts.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard
from urllib.parse import unquote

from daemon.core.messages import Message, MessageRole, Native, drop_lone_surrogates

Json = dict[str, object]
MAX_NAME = 64
MISSING_START = "[the beginning of this conversation is missing]"
GO_ON = "[go on]"
EMPTY_TEXT = "[an empty message]"
INVALID_NAME_CHAR = re.compile(r"[^A-Za-z0-9_-]")
VALID_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
NAMELESS = "unknown"
MARKED_NAME = re.compile(r"(?:functions?\.|tools\.)?([\w-]+)(?::\d+)?(?:<\|.*)?", re.DOTALL)
ALTERNATIVES = ("allOf", "anyOf", "oneOf")
NOT_AT_ROOT = (*ALTERNATIVES, "enum", "not", "const", "if", "then", "else")
NAMED = ("properties", "patternProperties", "$defs", "definitions")
MAX_ALTERNATIVES = 8
MAX_DEPTH = 50


def split_instructions(
    messages: Sequence[Message],
) -> tuple[Sequence[Message], Sequence[Message]]:
    """The system messages at the beginning, and the rest."""
    system = MessageRole.SYSTEM
    first = next((n for n, m in enumerate(messages) if m.role is not system), len(messages))
    return messages[:first], messages[first:]


def assign_ids(
    messages: Iterable[Message], valid: re.Pattern[str] = VALID_ID
) -> Iterator[tuple[Message, tuple[str, ...]]]:
    """Each message with the ids of its calls, or of the call that it answers: valid, none twice,
    and the same at every request. Results answer the calls before them by place; one without a
    call is left out.
    """
    used, asked = set[str](), list[str]()
    for message in messages:
        if message.role is MessageRole.TOOL:
            if asked:
                yield message, (asked.pop(0),)
            continue
        if not message.calls:
            yield message, ()
            continue
        asked = [_make_unique(call.provider_id, used, valid) for call in message.calls]
        yield message, tuple(asked)


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
    `functions.NAME:0` or `NAME<|channel|>commentary`.
    """
    names = set(offered)
    plain = MARKED_NAME.fullmatch(name)
    return plain[1] if name not in names and plain and plain[1] in names else name or NAMELESS


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


def clean_arguments(written: str) -> str:
    """Half characters, which stand in JSON as escapes, are replaced; else as the model wrote
    them.
    """
    if "\\ud" not in written.lower():
        return written
    try:
        found = json.dumps(json.loads(written), ensure_ascii=False)
    except (ValueError, RecursionError):
        return written
    cleaned = drop_lone_surrogates(found)
    return written if cleaned == found else cleaned


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
