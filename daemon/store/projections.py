"""What follows from an event in the other tables: one pure function, applied by each store in the event's own transaction."""

import json
from datetime import datetime

from daemon.core import value
from daemon.core.events import (
    Alarm,
    Answer,
    ApprovalAnswered,
    ApprovalAsked,
    BudgetRaised,
    ChildReturned,
    ChildSpawned,
    Consulted,
    HistoryCompressed,
    IterationRefunded,
    ModelAsked,
    ModelReplied,
    Outcome,
    RecordedEvent,
    Steered,
    Stop,
    Suspended,
    ToolFinished,
    TurnEnded,
    TurnResumed,
    UserSaid,
)
from daemon.core.messages import Usage
from daemon.core.rows import ChildRow
from daemon.core.trust import Label

MAX_TASK_CHARS = 500


@value
class TurnBegan:
    """The message's turn has begun."""

    input_id: str


@value
class InputSteered:
    """The message was folded into this turn."""

    input_id: str


@value
class TurnTainted:
    """The turn has read something untrusted."""


@value
class UsageAdded:
    """A model call was settled."""

    provider: str
    model: str
    usage: Usage
    iterations: int
    at: datetime


@value
class IterationUncounted:
    """The last iteration was housekeeping (E4)."""


@value
class DayLimitRaised:
    """A person let this day cost more (F2)."""

    tokens: int
    usd: float
    at: datetime


@value
class ChildCreated:
    """A child's session, message and row: with the event that says so, or not at all (A17)."""

    spawned: ChildSpawned
    at: datetime


@value
class ApprovalOpened:
    """A call waits for a person."""

    asked: ApprovalAsked
    at: datetime


@value
class ApprovalClosed:
    """The turn has consumed the answer, or nobody answered in time."""

    answered: ApprovalAnswered
    state: str


@value
class TurnStateSet:
    """The turn waits, or goes on."""

    state: str


@value
class TurnClosed:
    """The turn is over: its questions are void, its message is done, what meant to steer it becomes a turn of its own.

    `reason` is None for a turn that was set aside (K25); `detail` then says why.
    """

    reason: Stop | None
    detail: str
    reply: str
    at: datetime


@value
class DeliveryPosted:
    """Something to deliver to the session's chat."""

    kind: str
    body: str
    at: datetime


RowOp = (
    TurnBegan
    | InputSteered
    | TurnTainted
    | UsageAdded
    | IterationUncounted
    | DayLimitRaised
    | ChildCreated
    | ApprovalOpened
    | ApprovalClosed
    | TurnStateSet
    | TurnClosed
    | DeliveryPosted
)
MessageOp = TurnBegan | InputSteered
ApprovalOp = ApprovalOpened | ApprovalClosed
TurnOp = TurnTainted | UsageAdded | IterationUncounted | TurnStateSet


def project(recorded: RecordedEvent) -> tuple[RowOp, ...]:
    """The row operations of one event, in order. Most events have none: they are the row."""
    event, at = recorded.event, recorded.at
    match event:
        case UserSaid() | Steered() | ChildReturned() | HistoryCompressed() | ToolFinished():
            return _project_reading(event, at)
        case ModelAsked():
            return _taint(event.label)
        case ModelReplied() | Consulted() | IterationRefunded() | BudgetRaised():
            return _project_spending(event, at)
        case ApprovalAsked() | ApprovalAnswered():
            return _project_approval(event, at)
        case Suspended() | TurnResumed() | TurnEnded():
            return _project_stage(event, at)
        case ChildSpawned():
            return (ChildCreated(event, at),)
        case Alarm():
            return _post("notice", event.text, at)
        case _:
            return ()


def get_initial_state(channel: str, kind: str) -> str:
    """Web clients read the run itself, and a terminal asks at its prompt: nothing is left to deliver."""
    return "sent" if channel == "web" or (channel, kind) == ("terminal", "approval") else "new"


def render_report(child: ChildRow, closed: TurnClosed) -> str:
    """What the parent's session is told of a background agent: which task, how it ended, and what it had to say."""
    stop = closed.reason.value if closed.reason else "set aside"
    how = f"{stop}: {closed.detail}" if closed.detail else stop
    task = _truncate(child.task, MAX_TASK_CHARS)
    answer = _truncate(closed.reply, child.max_chars) or "It gave no answer."
    return f"The background sub-agent {child.agent} ({child.session}) has ended ({how}).\nIts task was: {task}\n\n{answer}"


def _project_reading(
    event: UserSaid | Steered | ChildReturned | HistoryCompressed | ToolFinished, at: datetime
) -> tuple[RowOp, ...]:
    match event:
        case UserSaid():
            return (TurnBegan(event.input_id), *_taint(event.initial_label))
        case Steered():
            return (InputSteered(event.input_id), *_taint(event.label))
        case ToolFinished():
            return (*_taint(event.label), *_post("notice", _describe_unknown_outcome(event), at))
        case ChildReturned() | HistoryCompressed():
            return _taint(event.label)


def _project_spending(
    event: ModelReplied | Consulted | IterationRefunded | BudgetRaised, at: datetime
) -> tuple[RowOp, ...]:
    match event:
        case ModelReplied():
            return (
                UsageAdded(event.provider, event.model, event.usage, int(event.is_iteration), at),
            )
        case Consulted():
            return (
                (UsageAdded(event.provider, event.model, event.usage, 0, at),)
                if event.provider
                else ()
            )
        case IterationRefunded():
            return (IterationUncounted(),)
        case BudgetRaised():
            return (
                (DayLimitRaised(event.day_tokens, event.day_usd, at),)
                if event.day_tokens or event.day_usd
                else ()
            )


def _project_approval(event: ApprovalAsked | ApprovalAnswered, at: datetime) -> tuple[RowOp, ...]:
    match event:
        case ApprovalAsked():
            return (
                ApprovalOpened(event, at),
                DeliveryPosted("approval", _render_question(event), at),
            )
        case ApprovalAnswered():
            return (
                ApprovalClosed(event, "expired" if event.answer is Answer.EXPIRED else "consumed"),
            )


def _project_stage(event: Suspended | TurnResumed | TurnEnded, at: datetime) -> tuple[RowOp, ...]:
    match event:
        case Suspended():
            return (TurnStateSet("suspended"),)
        case TurnResumed():
            return (TurnStateSet("running"), *_taint(event.label))
        case TurnEnded():
            told = "" if event.quiet else event.reply
            return (
                TurnClosed(event.reason, event.detail, event.reply, at),
                *_post("reply", told, at),
            )


def _taint(label: Label) -> tuple[RowOp, ...]:
    return (TurnTainted(),) if label is Label.UNTRUSTED else ()


def _post(kind: str, body: str, at: datetime) -> tuple[RowOp, ...]:
    return (DeliveryPosted(kind, body, at),) if body else ()


def _truncate(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    return f"{text[:chars]}\n[cut here: {len(text) - chars} more characters]"


def _describe_unknown_outcome(event: ToolFinished) -> str:
    """The owner is told too, whatever the model makes of it (DESIGN 5, promise 3)."""
    if event.outcome is not Outcome.UNKNOWN:
        return ""
    return f"I was cut off while {event.tool} ran: it may or may not have happened, and I did not run it again. Please look."


def _render_question(event: ApprovalAsked) -> str:
    question = {
        "call_id": event.call_id,
        "tool": event.tool,
        "arguments": event.arguments,
        "effect": event.effect.value,
        "expires": event.expires.isoformat(),
        "preview": event.preview,
    }
    return json.dumps(question, ensure_ascii=False)
