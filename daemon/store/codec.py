"""How an event is stored: kind, schema version, and JSON without the fields that hold their
defaults.

A kind is the name of its class. So neither the names of the classes nor the names and defaults of
their fields ever change.
"""

from functools import cache
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from daemon.core.errors import AidaemonError
from daemon.core.events import Event

SCHEMA = 1
KINDS: dict[str, type] = {kind.__name__: kind for kind in get_args(Event)}


class UnreadableEvent(AidaemonError):
    """An event of the journal is of a kind or a version that this program does not know."""


@cache
def _get_adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(KINDS[kind])


def encode(event: Event) -> tuple[str, int, str]:
    """(kind, schema version, payload as JSON text)."""
    kind = type(event).__name__
    dump = _get_adapter(kind).serializer.to_json
    return kind, SCHEMA, dump(event, exclude_defaults=True).decode()


def to_json(event: Event) -> dict[str, object]:
    """Every field of it, as JSON."""
    return _get_adapter(type(event).__name__).dump_python(event, mode="json")


def decode(kind: str, version: int, payload: str) -> Event:
    """Raises UnreadableEvent for what a newer program wrote, and for what is damaged."""
    if kind not in KINDS or version > SCHEMA:
        raise UnreadableEvent(
            f"event {kind} of schema {version}: this program reads up to schema {SCHEMA}"
        )
    try:
        return _get_adapter(kind).validate_json(payload)
    except ValidationError as error:
        raise UnreadableEvent(f"event {kind} is damaged: {error.errors()[0]['msg']}") from error
