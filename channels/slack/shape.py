"""What came as JSON, taken apart with care: a value is of its type, or the whole cannot be read."""

from collections.abc import Mapping

Json = Mapping[str, object]


class Unreadable(ValueError):
    """Slack sent something whose shape nobody knows."""


def text(data: Json, key: str) -> str:
    """The string at `key`. Raises Unreadable."""
    value = data.get(key)
    if not isinstance(value, str) or not value:
        raise Unreadable(f"{key} is {type(value).__name__}, expected a text")
    return value


def maybe(data: Json, key: str) -> str:
    """The string at `key`; "" where there is none."""
    value = data.get(key)
    return value if isinstance(value, str) else ""


def table(data: Json, key: str) -> Json:
    """The object at `key`; an empty one where there is none."""
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def rows(data: Json, key: str) -> list[Json]:
    """The objects in the list at `key`."""
    value = data.get(key)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def texts(data: Json, key: str) -> list[str]:
    """The strings in the list at `key`."""
    value = data.get(key)
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def whole(data: Json, key: str) -> int:
    """The number at `key`; 0 where there is none."""
    value = data.get(key)
    return value if isinstance(value, int) else 0
