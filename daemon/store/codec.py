"""How an event is stored: kind, schema version, and JSON without the fields that hold their
defaults.

So neither the kinds below nor the names and defaults of the events' fields ever change; classes may
be renamed.
"""

from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from daemon.core import events
from daemon.core.errors import AidaemonError
from daemon.core.events import Event

SCHEMA = 1
KINDS: dict[str, type] = {
    "UserSaid": events.UserSaid,
    "Classified": events.Classified,
    "Steered": events.Steered,
    "TurnResumed": events.TurnResumed,
    "ModelAsked": events.ModelAsked,
    "ModelRetried": events.ModelRetried,
    "ModelFailed": events.ModelFailed,
    "ModelReplied": events.ModelReplied,
    "Consulting": events.Consulting,
    "Consulted": events.Consulted,
    "CallJudged": events.CallJudged,
    "ApprovalAsked": events.ApprovalAsked,
    "ApprovalAnswered": events.ApprovalAnswered,
    "Suspended": events.Suspended,
    "ToolStarted": events.ToolStarted,
    "ToolRetried": events.ToolRetried,
    "ToolFinished": events.ToolFinished,
    "BudgetExtended": events.BudgetExtended,
    "BudgetRaised": events.BudgetRaised,
    "IterationRefunded": events.IterationRefunded,
    "Coached": events.Coached,
    "TodosSet": events.TodosSet,
    "HistoryCompressed": events.HistoryCompressed,
    "Verified": events.Verified,
    "ChildSpawned": events.ChildSpawned,
    "ChildReturned": events.ChildReturned,
    "Alarm": events.Alarm,
    "TurnEnded": events.TurnEnded,
}
STORED_AS = {kind: name for name, kind in KINDS.items()}


class UnreadableEvent(AidaemonError):
    """An event of the journal is of a kind or a version that this program does not know."""


@cache
def _get_adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(KINDS[kind])


def encode(event: Event) -> tuple[str, int, str]:
    """(kind, schema version, payload as JSON text)."""
    kind = STORED_AS[type(event)]
    return kind, SCHEMA, _get_adapter(kind).dump_json(event, exclude_defaults=True).decode()


def to_json(event: Event) -> dict[str, object]:
    """Every field of it, as JSON."""
    return _get_adapter(STORED_AS[type(event)]).dump_python(event, mode="json")


def decode(kind: str, version: int, payload: str) -> Event:
    """Raises UnreadableEvent for what a newer program wrote, and for what is damaged."""
    if kind not in KINDS or version > SCHEMA:
        raise UnreadableEvent(
            f"event {kind} of schema {version}: this program reads up to schema {SCHEMA}"
        )
    try:
        return _get_adapter(kind).validate_json(payload)
    except ValidationError as error:
        why = error.errors()[0]["msg"]
        raise UnreadableEvent(f"event {kind} is damaged: {why}") from error
