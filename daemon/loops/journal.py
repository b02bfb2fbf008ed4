"""What a loop writes down, each in one transaction: nothing of it happens in part, however the
daemon dies (B5).
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from daemon.core import value
from daemon.core.rows import (
    REVIEW_QUESTION,
    InboxRow,
    LoopRow,
    LoopStage,
    SessionRow,
    needs_no_delivery,
)
from daemon.core.trust import Answer
from daemon.loops.config import attempt_input, attempt_session
from daemon.loops.events import render_notices, review_question
from daemon.loops.transitions import AttemptResult, apply_attempt, apply_review, fail_loop
from daemon.store.journal import Tx
from daemon.tools.criteria_checks import CriterionResult


@value
class LoopChange:
    """A loop before and after; `message` is to be given to `lane`, when it has not been."""

    before: LoopRow
    after: LoopRow
    session: SessionRow | None = None
    message: InboxRow | None = None


def begin_loop(
    tx: Tx, loop: LoopRow, root: SessionRow, warnings: Iterable[str], now: datetime
) -> LoopChange:
    """The loop, its session, its first attempt. Raises Conflict when the agent runs another."""
    if tx.get_session(root.id) is None:
        tx.put_session(root)
    lane = attempt_session(loop, root, now)
    tx.put_session(lane)
    tx.put_loop(loop)
    _post_notices(tx, loop, warnings, now)
    return LoopChange(loop, loop, lane, tx.accept_input(attempt_input(loop, now)))


def settle_attempt(
    tx: Tx, seen: LoopRow, came: AttemptResult, verdict: CriterionResult, token: str, now: datetime
) -> LoopChange | None:
    """An attempt is over: what was learned, and the next attempt or the end. None when it was
    settled, or ended, meanwhile. `token` is for the question, if there is one.
    """
    loop = tx.get_loop(seen.id)
    if (
        loop is None
        or loop.is_over
        or loop.attempt != seen.attempt
        or loop.stage is LoopStage.REVIEWING
    ):
        return None
    after = apply_attempt(loop, came, met=verdict.met, now=now)
    moved = _save(tx, loop, after, now, verdict.warning)
    if after.stage is LoopStage.REVIEWING:
        tx.open_question(
            loop.turn_id(loop.attempt), review_question(loop, came.output, token, now), now
        )
    if after.stage is LoopStage.RUNNING:
        return replace(moved, message=tx.accept_input(attempt_input(after, now)))
    return moved


def pause_loop(tx: Tx, loop_id: str) -> LoopChange | None:
    """Not another attempt."""
    loop = tx.get_loop(loop_id)
    if loop is None or loop.stage is not LoopStage.RUNNING:
        return None
    after = replace(loop, stage=LoopStage.PAUSED)
    tx.put_loop(after)
    return LoopChange(loop, after)


def resume_loop(tx: Tx, loop_id: str, now: datetime) -> LoopChange | None:
    """Go on: with the attempt that runs still, or with the next."""
    loop = tx.get_loop(loop_id)
    if loop is None or loop.stage is not LoopStage.PAUSED:
        return None
    after = replace(loop, stage=LoopStage.RUNNING)
    tx.put_loop(after)
    return LoopChange(
        loop, after, tx.get_session(loop.session), tx.accept_input(attempt_input(after, now))
    )


def answer_review(
    tx: Tx, loop_id: str, approved: bool, by: str, reason: str, now: datetime
) -> LoopChange | None:
    """A person says whether the attempt will do, once."""
    loop = tx.get_loop(loop_id)
    if loop is None or loop.stage is not LoopStage.REVIEWING:
        return None
    said = Answer.ONCE if approved else Answer.DENY
    tx.answer_approval(loop.turn_id(loop.attempt), REVIEW_QUESTION, said, by, reason, now)
    return settle_review(tx, loop_id, now)


def settle_review(tx: Tx, loop_id: str, now: datetime) -> LoopChange | None:
    """What a person said at whatever channel; None while nobody has."""
    loop = tx.get_loop(loop_id)
    if loop is None or loop.stage is not LoopStage.REVIEWING:
        return None
    turn = loop.turn_id(loop.attempt)
    asked, tried = tx.get_approval(turn, REVIEW_QUESTION), tx.get_turn(turn)
    after = apply_review(loop, asked, tried.reply if tried else "", now)
    if after is loop:
        return None
    tx.set_approval_state(
        turn, REVIEW_QUESTION, "consumed" if asked and asked.state == "answered" else "expired"
    )
    return _save(tx, loop, after, now)


def end_loop(tx: Tx, loop_id: str, why: str, now: datetime) -> LoopChange | None:
    """Stopped: the attempt with it, so that a restart does not undo it (E7), and the question, if
    one is open.
    """
    loop = tx.get_loop(loop_id)
    if loop is None or loop.is_over:
        return None
    turn = loop.turn_id(loop.attempt)
    begun, message = tx.get_turn(turn), tx.get_turn_input(turn)
    if message and not (begun and begun.ended_at) and message.state in ("new", "taken"):
        tx.request_cancel(turn, why)
    if loop.stage is LoopStage.REVIEWING:
        tx.set_approval_state(turn, REVIEW_QUESTION, "void")
    return replace(_save(tx, loop, fail_loop(loop, why, now), now), message=message)


def _save(tx: Tx, before: LoopRow, after: LoopRow, now: datetime, warning: str = "") -> LoopChange:
    tx.put_loop(after)
    lines = [*render_notices(before, after, warning)]
    if after.stage is LoopStage.REVIEWING and not _is_asked_at_terminal(tx, after):
        lines.pop()  # the question itself is delivered, with its choices
    _post_notices(tx, before, lines, now)
    return LoopChange(before, after, tx.get_session(after.session))


def _is_asked_at_terminal(tx: Tx, loop: LoopRow) -> bool:
    root = tx.get_session(loop.root)
    return root is None or needs_no_delivery(root.channel, "approval")


def _post_notices(tx: Tx, loop: LoopRow, lines: Iterable[str], now: datetime) -> None:
    for line in lines:
        tx.post_to_session(loop.session, loop.turn_id(loop.attempt), "notice", line, now)
