"""Values in JSON that came from a platform. `get_...` is strict, for events: what is there must be
of its type, so that nothing is lost in silence; `find_...` is lenient, for answers to our own
calls.
"""

import json
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")
Json = dict[str, Any]
MALFORMED = (KeyError, TypeError, ValueError, AttributeError, RecursionError)
"""What reading raises where a part is of an unknown shape."""


class UnreadablePayload(ValueError):
    """The platform sent something of an unknown shape."""


def parse_json(payload: str | bytes) -> Any:
    """The value; None for what is not JSON."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


def _get(kind: type[T], data: Json, key: str, default: T | None = None) -> T:
    """The value at `key`, or the default where there is none. Raises UnreadablePayload."""
    value = data.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        found = type(value).__name__
        raise UnreadablePayload(f"{key} is {found}, expected {kind.__name__}")
    return value


get_text, get_number = partial(_get, str), partial(_get, int)
get_object = partial(_get, dict, default={})
"""An empty one where there is none."""


def get_objects(data: Json, key: str) -> list[Json]:
    """The objects at `key`; none where there is no list. Raises UnreadablePayload."""
    rows = _get(list, data, key, [])
    if not all(isinstance(row, dict) for row in rows):
        raise UnreadablePayload(f"{key} holds something else than objects")
    return rows


def _find(kind: type[T], data: object, *path: str) -> T:
    """The value at the path of keys; an empty one where there is none."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, kind) and not isinstance(data, bool) else kind()


find_text, find_number = partial(_find, str), partial(_find, int)
find_object = partial(_find, dict)


def find_objects(data: object, *path: str) -> list[Json]:
    """The objects in the list at the path of keys."""
    return [row for row in _find(list, data, *path) if isinstance(row, dict)]
