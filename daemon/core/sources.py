"""Who wrote what in a conversation: the ground on which an argument of a call may stand (DESIGN 6, argument provenance)."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from daemon.core.events import Event, HistoryCompressed, ModelReplied, Steered, ToolFinished, UserSaid
from daemon.core.label import Effect, Label
from daemon.core.roles import OWNER_NAME
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
    something. `owned`: the owner said it, or it came up in what they asked for; words and errands of other people are not theirs.
    """

    text: str
    origin: Origin
    label: Label
    tool: str = ""
    changes: bool = False
    owned: bool = True


@dataclass(frozen=True, slots=True)
class Setting:
    """What the calls of a turn stand in: its session's label, what was said before it, whether anybody may be asked, and the
    conversation that it works for ("" for its own).
    """

    session_label: Label = Label.TRUSTED
    earlier: tuple[Said, ...] = ()
    askable: bool = True
    root: str = ""


def is_owners(turn: Turn) -> bool:
    """The owner stands behind it: nobody else has said what to do in it. For a sub-agent that is who began it all."""
    return all(entry.event.role == OWNER_NAME for entry in turn.events if isinstance(entry.event, (UserSaid, Steered)))


def said_in(turn: Turn) -> tuple[Said, ...]:
    """Everything that was said in a turn, in order; what the model wrote as arguments of its calls, too.

    What tools say in a turn of somebody else's counts as theirs: they may have had it written where it was found.
    """
    owned = is_owners(turn)
    return tuple(said for entry in turn.events for said in _said(entry.event, owned))


def words_of(text: str, role: str, label: Label) -> Said:
    """What a person said themselves."""
    owned = role == OWNER_NAME
    return Said(text, Origin.PERSON if owned else Origin.OTHER, label, owned=owned)


def _said(event: Event, owned: bool) -> Iterator[Said]:
    match event:
        case UserSaid():
            yield from (Said(hit.text, Origin.MEMORY, hit.label, owned=hit.owned) for hit in event.memories)
            yield Said(event.text, Origin.OTHER, event.label) if event.composed else words_of(event.text, event.role, event.label)
            if event.files:
                yield Said(event.files, Origin.OTHER, event.label, owned=False)
        case Steered():
            yield words_of(event.text, event.role, event.label)
        case ModelReplied():
            yield Said(event.text, Origin.MODEL, Label.UNTRUSTED)
            yield from (Said(call.arguments, Origin.MODEL, Label.UNTRUSTED, call.name) for call in event.calls)
        case ToolFinished():
            changes = event.effect in CHANGING
            yield Said(event.text, Origin.RESULT, event.label, event.tool, changes, owned and event.owned)
        case HistoryCompressed(summary=summary) if summary:
            yield Said(summary, Origin.OTHER, event.label)
        case _:
            return
