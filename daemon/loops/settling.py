"""What follows from how an attempt ended, or from what a person said: pure, from row to row (C3, C5)."""

from dataclasses import dataclass, replace
from datetime import datetime

from daemon.core.label import Label
from daemon.core.loops import LoopRow, LoopStage
from daemon.core.outcomes import YES, Stop
from daemon.core.rows import ApprovalRow, TurnRow
from daemon.loops.progress import learning

REJECTED = "Manual approval was rejected by user"
UNREVIEWED = "nobody reviewed the attempt in time"
SHUTDOWN = "shutdown"


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of an attempt. `error` is set where it ended in a way that ends the loop."""

    output: str = ""
    label: Label = Label.TRUSTED
    error: str = ""


def tried(turn: TurnRow | None) -> Tried:
    """An attempt that hit a limit counts with what it said; one that failed, was stopped or could not begin ends the loop."""
    if turn is None:
        return Tried(error="the attempt was set aside before it began")
    match turn.stop_reason:
        case None:
            return Tried(turn.reply, turn.label, turn.detail or "the attempt was set aside")
        case Stop.FAILED:
            return Tried(turn.reply, turn.label, turn.reply or turn.detail or "the attempt failed")
        case Stop.CANCELLED:
            return Tried(turn.reply, turn.label, f"the attempt was {turn.detail or 'stopped'}")
        case Stop.OVER_BUDGET if not turn.input_tokens:
            return Tried(turn.reply, turn.label, turn.detail)  # so would all that follow it
        case _:
            return Tried(turn.reply, turn.label)


def after_attempt(loop: LoopRow, came: Tried, *, met: bool, now: datetime) -> LoopRow:
    """The loop once this attempt is over."""
    loop = replace(loop, label=loop.label.joined(came.label))
    if came.error:
        return failed(loop, came.error, now)
    loop = replace(loop, learned=(*loop.learned, learning(came.output)))
    if met:
        return _completed(loop, came.output, now)
    if loop.criterion == "manual":
        return replace(loop, stage=LoopStage.REVIEWING)
    if loop.attempt >= loop.max_iterations:
        return _completed(loop, loop.learned[-1], now)
    return replace(loop, attempt=loop.attempt + 1)


def after_review(loop: LoopRow, asked: ApprovalRow | None, output: str, now: datetime) -> LoopRow:
    """The loop once a person has said what they think of the attempt, or did not for too long; else as it was."""
    if asked is None:
        return failed(loop, UNREVIEWED, now)
    if asked.state == "answered":
        return _completed(loop, output, now) if asked.answer in YES else failed(loop, REJECTED, now)
    return failed(loop, UNREVIEWED, now) if asked.state != "pending" or asked.expires <= now else loop


def failed(loop: LoopRow, error: str, now: datetime) -> LoopRow:
    """It is over, without success."""
    return replace(loop, stage=LoopStage.FAILED, error=error, ended_at=now)


def _completed(loop: LoopRow, final_output: str, now: datetime) -> LoopRow:
    return replace(loop, stage=LoopStage.COMPLETED, final_output=final_output, ended_at=now)
