"""Who wrote what in a conversation: the ground on which an argument of a call may stand (DESIGN 6, argument provenance)."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from daemon.core.events import Event, HistoryCompressed, ModelReplied, Steered, ToolFinished, UserSaid
from daemon.core.label import Effect, Label
from daemon.core.turn import Turn

CHANGING = (Effect.WRITE, Effect.EGRESS, Effect.DESTRUCTIVE)


class Origin(StrEnum):
    """Whose words a text is made of."""

    PERSON = "person"
    MEMORY = "memory"
    RESULT = "result"
    MODEL = "model"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Said:
    """One text of a conversation. `tool` is the one that was called, or whose result it is; `changes`: that call may have changed
    something.
    """

    text: str
    origin: Origin
    label: Label
    tool: str = ""
    changes: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """What the calls of a turn stand in: its session's label, what was said before it, whether anybody may be asked, and the
    conversation that it works for ("" for its own).
    """

    session_label: Label = Label.TRUSTED
    earlier: tuple[Said, ...] = ()
    askable: bool = True
    root: str = ""


def said_in(turn: Turn) -> tuple[Said, ...]:
    """Everything that was said in a turn, in order; what the model wrote as arguments of its calls, too."""
    return tuple(said for entry in turn.events for said in _said(entry.event))


def _said(event: Event) -> Iterator[Said]:
    match event:
        case UserSaid():
            yield from (Said(hit.text, Origin.MEMORY, hit.label) for hit in event.memories)
            yield Said(event.text, Origin.OTHER if event.composed else Origin.PERSON, event.label)
        case Steered():
            yield Said(event.text, Origin.PERSON, event.label)
        case ModelReplied():
            yield Said(event.text, Origin.MODEL, Label.UNTRUSTED)
            yield from (Said(call.arguments, Origin.MODEL, Label.UNTRUSTED, call.name) for call in event.calls)
        case ToolFinished():
            changes = event.effect in CHANGING
            yield Said(event.text, Origin.RESULT, event.label, event.tool, changes)
        case HistoryCompressed(summary=summary) if summary:
            yield Said(summary, Origin.OTHER, event.label)
        case _:
            return
