"""Where text from outside came into a turn: what `show` marks, and `/status` gives as the reason (F3)."""

from collections.abc import Sequence
from dataclasses import dataclass

from daemon.core.events import (
    ChildReturned,
    Event,
    HistoryCompressed,
    ModelAsked,
    Recorded,
    Steered,
    ToolFinished,
    TurnResumed,
    UserSaid,
)
from daemon.core.label import Label

SHOWN = 60


@dataclass(frozen=True, slots=True)
class Tainted:
    """The first event by which a turn became untrusted. `inherited`: earlier turns of its session had made it so."""

    seq: int
    by: str
    inherited: bool = False


def tainted_at(recorded: Sequence[Recorded]) -> Tainted | None:
    """Where; None for a turn that has seen nothing from outside."""
    for entry in recorded:
        by = _reason(entry.event)
        if by:
            return Tainted(entry.seq, by)
        if isinstance(entry.event, UserSaid) and entry.event.before is Label.UNTRUSTED:
            return Tainted(entry.seq, "earlier turns of this chat had read text from outside", inherited=True)
    return None


def _reason(event: Event) -> str:
    match event:
        case UserSaid():
            return _beginning(event)
        case Steered(label=Label.UNTRUSTED):
            return "a message from outside"
        case TurnResumed(label=Label.UNTRUSTED):
            return "what this chat has read while the turn waited"
        case ToolFinished(label=Label.UNTRUSTED):
            return f"the result of {event.tool}"
        case ChildReturned(label=Label.UNTRUSTED):
            return f"the answer of another agent ({event.key})"
        case ModelAsked(label=Label.UNTRUSTED):
            return "what a server says of its tools"
        case HistoryCompressed(label=Label.UNTRUSTED):
            return "a summary of text from outside"
        case _:
            return ""


def _beginning(said: UserSaid) -> str:
    if said.label is Label.UNTRUSTED:
        return "the message itself came from outside"
    tainted = next((hit for hit in said.memories if hit.label is Label.UNTRUSTED), None)
    if tainted is None:
        return ""
    text = " ".join(tainted.text.split())
    return f"a memory from outside: {text if len(text) <= SHOWN else text[: SHOWN - 1] + '…'}"
