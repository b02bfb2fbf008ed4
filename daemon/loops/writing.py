"""What a loop writes down, each in one transaction: nothing of it happens in part, however the daemon dies (B5)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from daemon.core.loops import REVIEW, LoopRow, LoopStage
from daemon.core.outcomes import Answer
from daemon.core.rows import InboxRow, SessionRow
from daemon.loops.criteria import Verdict
from daemon.loops.orders import attempt_of, lane_of
from daemon.loops.settling import Tried, after_attempt, after_review, failed
from daemon.loops.telling import notices, review_of
from daemon.store.kin import deliver
from daemon.store.project import Posted, birth_state
from daemon.store.protocol import ReadTx, Tx


@dataclass(frozen=True, slots=True)
class Moved:
    """A loop before and after; `message` is to be given to `lane`, when it has not been."""

    before: LoopRow
    after: LoopRow
    lane: SessionRow | None = None
    message: InboxRow | None = None


def begin(tx: Tx, loop: LoopRow, root: SessionRow, warnings: Iterable[str], now: datetime) -> Moved:
    """The loop, its session, its first attempt. Raises Conflict when the agent is at another one."""
    if tx.session(root.id) is None:
        tx.put_session(root)
    lane = lane_of(loop, root, now)
    tx.put_session(lane)
    tx.put_loop(loop)
    _post(tx, loop, warnings, now)
    return Moved(loop, loop, lane, tx.accept(attempt_of(loop, now)))


def settle(tx: Tx, seen: LoopRow, came: Tried, verdict: Verdict, token: str, now: datetime) -> Moved | None:
    """An attempt is over: what was learned, and the next attempt or the end. None when it was settled, or ended, meanwhile.
    `token` is for the question, if there is one.
    """
    loop = tx.loop(seen.id)
    if loop is None or loop.over or loop.attempt != seen.attempt or loop.stage is LoopStage.REVIEWING:
        return None
    after = after_attempt(loop, came, met=verdict.met, now=now)
    moved = _put(tx, loop, after, now, verdict.warning)
    if after.stage is LoopStage.REVIEWING:
        tx.ask(loop.turn(loop.attempt), review_of(loop, came.output, token, now), now)
    if after.stage is LoopStage.RUNNING:
        return replace(moved, message=tx.accept(attempt_of(after, now)))
    return moved


def pause(tx: Tx, loop_id: str) -> Moved | None:
    """Not another attempt."""
    loop = tx.loop(loop_id)
    if loop is None or loop.stage is not LoopStage.RUNNING:
        return None
    after = replace(loop, stage=LoopStage.PAUSED)
    tx.put_loop(after)
    return Moved(loop, after)


def resume(tx: Tx, loop_id: str, now: datetime) -> Moved | None:
    """Go on: with the attempt that runs still, or with the next."""
    loop = tx.loop(loop_id)
    if loop is None or loop.stage is not LoopStage.PAUSED:
        return None
    after = replace(loop, stage=LoopStage.RUNNING)
    tx.put_loop(after)
    return Moved(loop, after, tx.session(loop.lane), tx.accept(attempt_of(after, now)))


def answer(tx: Tx, loop_id: str, approved: bool, by: str, reason: str, now: datetime) -> Moved | None:
    """A person says whether the attempt will do, once."""
    loop = tx.loop(loop_id)
    if loop is None or loop.stage is not LoopStage.REVIEWING:
        return None
    said = Answer.ONCE if approved else Answer.DENY
    tx.answer_approval(loop.turn(loop.attempt), REVIEW, said, by, reason, now)
    return look_at_review(tx, loop_id, now)


def look_at_review(tx: Tx, loop_id: str, now: datetime) -> Moved | None:
    """What a person said at whatever door; None while nobody has."""
    loop = tx.loop(loop_id)
    if loop is None or loop.stage is not LoopStage.REVIEWING:
        return None
    turn = loop.turn(loop.attempt)
    asked, tried = tx.approval(turn, REVIEW), tx.turn(turn)
    after = after_review(loop, asked, tried.reply if tried else "", now)
    if after is loop:
        return None
    tx.settle_approval(turn, REVIEW, "consumed" if asked and asked.state == "answered" else "expired")
    return _put(tx, loop, after, now)


def end(tx: Tx, loop_id: str, why: str, now: datetime) -> Moved | None:
    """Stopped: the attempt with it, so that a restart does not undo it (E7), and the question, if one is open."""
    loop = tx.loop(loop_id)
    if loop is None or loop.over:
        return None
    turn = loop.turn(loop.attempt)
    begun, message = tx.turn(turn), tx.input_of(turn)
    if message and not (begun and begun.ended_at) and message.state in ("new", "taken"):
        tx.note_cancel(turn, why)
    if loop.stage is LoopStage.REVIEWING:
        tx.settle_approval(turn, REVIEW, "void")
    return replace(_put(tx, loop, failed(loop, why, now), now), message=message)


def _put(tx: Tx, before: LoopRow, after: LoopRow, now: datetime, warning: str = "") -> Moved:
    tx.put_loop(after)
    lines = [*notices(before, after, warning)]
    if after.stage is LoopStage.REVIEWING and not _asked_at_prompt(tx, after):
        lines.pop()  # the question itself is delivered, with its choices
    _post(tx, before, lines, now)
    return Moved(before, after, tx.session(after.lane))


def _asked_at_prompt(tx: ReadTx, loop: LoopRow) -> bool:
    root = tx.session(loop.root)
    return root is None or birth_state(root.channel, "approval") == "sent"


def _post(tx: Tx, loop: LoopRow, lines: Iterable[str], now: datetime) -> None:
    for line in lines:
        deliver(tx, loop.lane, loop.turn(loop.attempt), Posted("notice", line, now))
