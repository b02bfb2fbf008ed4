"""How an event is written down and read back: kind, schema version, JSON."""

from functools import cache
from typing import get_args

from pydantic import TypeAdapter, ValidationError

from daemon.core.errors import AidaemonError
from daemon.core.events import Event

SCHEMA = 1


class UnreadableEvent(AidaemonError):
    """An event of the journal is of a kind or a version that this program does not know."""


KINDS: dict[str, type] = {kind.__name__: kind for kind in get_args(Event)}


@cache
def _adapter(kind: str) -> TypeAdapter[Event]:
    return TypeAdapter(KINDS[kind])


def encode(event: Event) -> tuple[str, int, str]:
    """(kind, schema version, payload as JSON text)."""
    kind = type(event).__name__
    return kind, SCHEMA, _adapter(kind).dump_json(event).decode()


def decode(kind: str, version: int, payload: str) -> Event:
    """The event back. Raises UnreadableEvent for what a newer program wrote, and for what is damaged."""
    if kind not in KINDS or version > SCHEMA:
        raise UnreadableEvent(
            f"event {kind} of schema {version}: this program reads up to schema {SCHEMA}"
        )
    try:
        return _adapter(kind).validate_json(payload)
    except ValidationError as error:
        raise UnreadableEvent(f"event {kind} is damaged: {error.errors()[0]['msg']}") from error
