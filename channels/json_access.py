"""Values in JSON that came from a platform. `get_...` is strict, for events: what is there must be
of its type, so that nothing is lost in silence; `find_...` is lenient, for answers to our own
calls.
"""

import json
from typing import Any, TypeVar, cast

T = TypeVar("T")
Json = dict[str, Any]


class UnreadablePayload(ValueError):
    """The platform sent something of an unknown shape."""


def parse_json(text: str | bytes) -> object:
    """The value; None for what is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _get(data: Json, key: str, kind: type[T], default: T | None) -> T:
    value = data.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        found = type(value).__name__
        raise UnreadablePayload(f"{key} is {found}, expected {kind.__name__}")
    return value


def get_text(data: Json, key: str, default: str | None = None) -> str:
    """The string at `key`, or the default where there is none. Raises UnreadablePayload."""
    return _get(data, key, str, default)


def get_number(data: Json, key: str, default: int | None = None) -> int:
    """The number at `key`, or the default where there is none. Raises UnreadablePayload."""
    return _get(data, key, int, default)


def get_object(data: Json, key: str) -> Json:
    """The object at `key`; an empty one where there is none. Raises UnreadablePayload."""
    return cast(Json, _get(data, key, dict, {}))


def get_objects(data: Json, key: str) -> list[Json]:
    """The objects at `key`; none where there is no list. Raises UnreadablePayload."""
    rows = _get(data, key, list, [])
    if not all(isinstance(row, dict) for row in rows):
        raise UnreadablePayload(f"{key} holds something else than objects")
    return rows


def _find(data: object, path: tuple[str, ...]) -> object:
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def find_text(data: object, *path: str) -> str:
    """The string at the path of keys; "" where there is none."""
    value = _find(data, path)
    return value if isinstance(value, str) else ""


def find_object(data: object, *path: str) -> Json:
    """The object at the path of keys; an empty one where there is none."""
    value = _find(data, path)
    return value if isinstance(value, dict) else {}


def find_objects(data: object, *path: str) -> list[Json]:
    """The objects in the list at the path of keys."""
    value = _find(data, path)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
