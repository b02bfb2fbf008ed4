"""What follows from how an attempt ended, or from what a person said: pure, from row to row (C3,
C5).
"""

from dataclasses import replace
from datetime import datetime

from daemon.core import value
from daemon.core.rows import ApprovalRow, LoopRow, LoopStage, TurnRow
from daemon.core.trust import APPROVALS, Label, Stop
from daemon.loops.config import summarize_output

REVIEW_REJECTED = "Manual approval was rejected by user"
REVIEW_EXPIRED = "nobody reviewed the attempt in time"
SHUTDOWN_REASON = "shutdown"


@value
class AttemptResult:
    """What came of an attempt. `error` is set where it ended in a way that ends the loop."""

    output: str = ""
    label: Label = Label.TRUSTED
    error: str = ""


def attempt_result(turn: TurnRow | None) -> AttemptResult:
    """An attempt that hit a limit counts with what it said; one that failed, was stopped or could
    not begin ends the loop.
    """
    if turn is None:
        return AttemptResult(error="the attempt was set aside before it began")
    match turn.stop_reason:
        case None:
            return AttemptResult(turn.reply, turn.label, turn.detail or "the attempt was set aside")
        case Stop.FAILED:
            return AttemptResult(
                turn.reply, turn.label, turn.reply or turn.detail or "the attempt failed"
            )
        case Stop.CANCELLED:
            return AttemptResult(
                turn.reply, turn.label, f"the attempt was {turn.detail or 'stopped'}"
            )
        case Stop.OVER_BUDGET if not turn.input_tokens:
            return AttemptResult(turn.reply, turn.label, turn.detail)  # so would all that follow it
        case _:
            return AttemptResult(turn.reply, turn.label)


def apply_attempt(loop: LoopRow, came: AttemptResult, *, met: bool, now: datetime) -> LoopRow:
    """The loop once this attempt is over."""
    loop = replace(loop, label=loop.label.join_with(came.label))
    if came.error:
        return fail_loop(loop, came.error, now)
    loop = replace(loop, learned=(*loop.learned, summarize_output(came.output)))
    if met:
        return _complete_loop(loop, came.output, now)
    if loop.criterion == "manual":
        return replace(loop, stage=LoopStage.REVIEWING)
    if loop.attempt >= loop.max_iterations:
        return _complete_loop(loop, loop.learned[-1], now)
    return replace(loop, attempt=loop.attempt + 1)


def apply_review(loop: LoopRow, asked: ApprovalRow | None, output: str, now: datetime) -> LoopRow:
    """The loop once a person has said what they think of the attempt, or did not for too long;
    else as it was.
    """
    if asked is None:
        return fail_loop(loop, REVIEW_EXPIRED, now)
    if asked.state == "answered":
        return (
            _complete_loop(loop, output, now)
            if asked.answer in APPROVALS
            else fail_loop(loop, REVIEW_REJECTED, now)
        )
    return (
        fail_loop(loop, REVIEW_EXPIRED, now)
        if asked.state != "pending" or asked.expires <= now
        else loop
    )


def fail_loop(loop: LoopRow, error: str, now: datetime) -> LoopRow:
    """It is over, without success."""
    return replace(loop, stage=LoopStage.FAILED, error=error, ended_at=now)


def _complete_loop(loop: LoopRow, final_output: str, now: datetime) -> LoopRow:
    return replace(loop, stage=LoopStage.COMPLETED, final_output=final_output, ended_at=now)
