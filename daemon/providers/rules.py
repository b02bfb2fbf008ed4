"""What the strictest servers take, once for all wire formats: ids, names, arguments, schemas,
texts.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from daemon.core.messages import Message, MessageRole
from daemon.core.redaction import drop_lone_surrogates

Json = dict[str, object]
MAX_NAME = 64
MISSING_START = "[the beginning of this conversation is missing]"
GO_ON = "[go on]"
EMPTY_TEXT = "[an empty message]"
INVALID_NAME_CHAR = re.compile(r"[^A-Za-z0-9_-]")
VALID_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
NAMELESS = "unknown"
ALTERNATIVES = ("allOf", "anyOf", "oneOf")
MAX_DEPTH = 50
EDGES = ("\ud800", "\udfff")  # of the half characters, which only come in pairs


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
    if name in names:
        return name
    found = names.intersection(INVALID_NAME_CHAR.split(name))
    return found.pop() if len(found) == 1 else name or NAMELESS


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
    return drop_lone_surrogates(found) if has_half_character(found) else written


def has_half_character(text: str) -> bool:
    """A surrogate stands in it, alone or in a pair that was cut."""
    low, high = EDGES
    return any(low <= char <= high for char in text)


def render_error(message: Message) -> str:
    """The text of a tool's result; a failure is marked as one (B7)."""
    if message.is_error:
        return json.dumps({"error": message.text}, ensure_ascii=False)
    return message.text


def fold_schema(schema: Mapping[str, object]) -> Json:
    """An object schema without alternatives at its root (what any of them takes is shown), without
    empty members, and without references to what is not there.
    """
    root = dict(schema)
    if isinstance(target := "$ref" in root and _find_target(root, root.pop("$ref")), dict):
        root = {**target, **root}
    folded = {key: part for key, part in root.items() if key not in ALTERNATIVES}
    properties: Json = {}
    needed: list[object] = []
    for key in (*ALTERNATIVES, ""):
        choices = root.get(key) if key else [root]
        for one in choices if isinstance(choices, list) else ():
            if not isinstance(one, dict):
                continue
            shown, required = one.get("properties"), one.get("required")
            properties |= shown if isinstance(shown, dict) else {}
            if key in ("allOf", "") and isinstance(required, list):  # of others only some need it
                needed += required
    folded |= {"type": "object", "properties": properties}
    folded["required"] = [one for one in dict.fromkeys(needed) if one in properties] or None
    cleaned = _clean(folded, root, 0)
    assert isinstance(cleaned, dict)
    return cleaned


def _find_target(root: Mapping[str, object], reference: object) -> object:
    """What a reference points at; None for what is not there."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: object = root
    for part in filter(None, reference[1:].split("/")):
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _clean(value: object, root: Mapping[str, object], depth: int) -> object:
    if depth > MAX_DEPTH:
        return {}
    if isinstance(value, list):
        return [_clean(one, root, depth + 1) for one in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value and not isinstance(_find_target(root, value["$ref"]), dict):
        value = {key: part for key, part in value.items() if key != "$ref"}
    return {key: _clean(part, root, depth + 1) for key, part in value.items() if part is not None}
