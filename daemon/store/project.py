"""What follows from an event in the other tables: one pure function, applied by each store in the event's own transaction."""

import json
from dataclasses import dataclass
from datetime import datetime

from daemon.core.events import (
    Answer,
    ApprovalAnswered,
    ApprovalAsked,
    ModelReplied,
    Outcome,
    Recorded,
    Steered,
    Stop,
    Suspended,
    ToolFinished,
    TurnEnded,
    TurnResumed,
    UserSaid,
)
from daemon.core.label import Label
from daemon.core.messages import Usage


@dataclass(frozen=True, slots=True)
class InputTaken:
    """The message's turn has begun."""

    input_id: str


@dataclass(frozen=True, slots=True)
class InputSteered:
    """The message was folded into this turn."""

    input_id: str


@dataclass(frozen=True, slots=True)
class Tainted:
    """The turn has read something untrusted."""


@dataclass(frozen=True, slots=True)
class UsageAdded:
    """A model call was settled."""

    provider: str
    model: str
    usage: Usage
    iterations: int
    at: datetime


@dataclass(frozen=True, slots=True)
class ApprovalOpened:
    """A call waits for a person."""

    asked: ApprovalAsked
    at: datetime


@dataclass(frozen=True, slots=True)
class ApprovalClosed:
    """The turn has consumed the answer, or nobody answered in time."""

    answered: ApprovalAnswered
    state: str


@dataclass(frozen=True, slots=True)
class TurnNow:
    """The turn waits, or goes on."""

    state: str


@dataclass(frozen=True, slots=True)
class TurnClosed:
    """The turn is over: its questions are void, its message is done, what meant to steer it becomes a turn of its own."""

    reason: Stop
    detail: str
    reply: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Posted:
    """Something to deliver to the session's chat."""

    kind: str
    body: str
    at: datetime


RowOp = InputTaken | InputSteered | Tainted | UsageAdded | ApprovalOpened | ApprovalClosed | TurnNow | TurnClosed | Posted


def what_follows(recorded: Recorded) -> tuple[RowOp, ...]:
    """The row operations of one event, in order. Most events have none: they are the row."""
    event, at = recorded.event, recorded.at
    match event:
        case UserSaid():
            return (InputTaken(event.input_id), *_tainted(event.taint))
        case Steered():
            return (InputSteered(event.input_id), *_tainted(event.label))
        case ModelReplied():
            return (UsageAdded(event.provider, event.model, event.usage, int(event.counts), at),)
        case ToolFinished():
            return (*_tainted(event.label), *_posted("notice", _unknown(event), at))
        case ApprovalAsked():
            return (ApprovalOpened(event, at), Posted("approval", _question(event), at))
        case ApprovalAnswered():
            return (ApprovalClosed(event, "expired" if event.answer is Answer.EXPIRED else "consumed"),)
        case Suspended():
            return (TurnNow("suspended"),)
        case TurnResumed():
            return (TurnNow("running"),)
        case TurnEnded():
            return (TurnClosed(event.reason, event.detail, event.reply, at), *_posted("reply", event.reply, at))
        case _:
            return ()


def birth_state(channel: str, kind: str) -> str:
    """Web clients read the run itself, and a terminal asks at its prompt: nothing is left to deliver."""
    return "sent" if channel == "web" or (channel, kind) == ("terminal", "approval") else "new"


def _tainted(label: Label) -> tuple[RowOp, ...]:
    return (Tainted(),) if label is Label.UNTRUSTED else ()


def _posted(kind: str, body: str, at: datetime) -> tuple[RowOp, ...]:
    return (Posted(kind, body, at),) if body else ()


def _unknown(event: ToolFinished) -> str:
    """The owner is told too, whatever the model makes of it (DESIGN 5, promise 3)."""
    if event.outcome is not Outcome.UNKNOWN:
        return ""
    return f"I was cut off while {event.tool} ran: it may or may not have happened, and I did not run it again. Please look."


def _question(event: ApprovalAsked) -> str:
    question = {
        "call_id": event.call_id,
        "tool": event.tool,
        "arguments": event.arguments,
        "effect": event.effect.value,
        "expires": event.expires.isoformat(),
    }
    return json.dumps(question, ensure_ascii=False)
