"""How a loop changes: what follows from an attempt or a review (C3, C5), written in one transaction
each, so that nothing of it happens in part (B5); what its conversation and watchers are told (C4).
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from daemon.agent.budgets import build_system_question
from daemon.agent.system_questions import LOOP_REVIEW_TOOL
from daemon.core import value
from daemon.core.rows import (
    REVIEW_QUESTION,
    ApprovalRow,
    InboxRow,
    LoopRow,
    LoopStage,
    SessionRow,
    TurnRow,
)
from daemon.core.trust import APPROVALS, Answer, Effect, Label, Sources, Stop, join_sources
from daemon.loops.config import attempt_input, summarize_output
from daemon.store.journal import Tx
from daemon.tools.criteria_checks import CriterionResult

REVIEW_VALID_FOR = timedelta(days=30)
REVIEW_REJECTED = "Manual approval was rejected by user"
REVIEW_EXPIRED = "nobody reviewed the attempt in time"
SHUTDOWN_REASON = "shutdown"


CUT = (
    Stop.MAX_ITERATIONS,
    Stop.OVER_BUDGET,
    Stop.DEADLINE,
    Stop.STALLED,
    Stop.REPEATING,
    Stop.LOW_CONFIDENCE,
)
"""Ends that are not the model's own: the reply is a notice of ours."""


@value
class AttemptResult:
    """What came of an attempt. `error` is set where it ended in a way that ends the loop."""

    output: str = ""
    label: Label = Label.TRUSTED
    error: str = ""
    private: Sources = ()


@value
class LoopChange:
    """A loop before and after; `message` is to be given to `session`, when it has not been."""

    before: LoopRow
    after: LoopRow
    session: SessionRow | None = None
    message: InboxRow | None = None


@value
class LoopEvent:
    """Its name and payload as clients know them."""

    name: str
    payload: dict[str, object]


@dataclass(slots=True)
class LoopEvents:
    """Publishing never waits, and a watcher misses nothing."""

    _watchers: list[asyncio.Queue[LoopEvent]] = field(default_factory=list)

    def publish(self, event: LoopEvent) -> None:
        """To all who watch."""
        for queue in self._watchers:
            queue.put_nowait(event)

    @contextmanager
    def watch(self) -> Iterator[AsyncIterator[LoopEvent]]:
        """The events of all loops from now on."""
        queue: asyncio.Queue[LoopEvent] = asyncio.Queue()
        self._watchers.append(queue)
        try:
            yield _iterate_queue(queue)
        finally:
            self._watchers = [other for other in self._watchers if other is not queue]


async def _iterate_queue(queue: asyncio.Queue[LoopEvent]) -> AsyncIterator[LoopEvent]:
    while True:
        yield await queue.get()


def attempt_result(turn: TurnRow | None, last_words: str = "") -> AttemptResult:
    """An attempt that hit a limit counts with the last words of its model, not with the notice of
    its stop; one that failed, was stopped or could not begin ends the loop.
    """
    if turn is None:
        return AttemptResult(error="the attempt was set aside before it began")
    error = ""
    match turn.stop_reason:
        case None:
            error = turn.detail or "the attempt was set aside"
        case Stop.FAILED:
            error = turn.reply or turn.detail or "the attempt failed"
        case Stop.CANCELLED:
            error = f"the attempt was {turn.detail or 'stopped'}"
        case Stop.OVER_BUDGET if not turn.input_tokens:
            error = turn.detail  # so would all that follow it
        case _:
            pass
    output = last_words if turn.stop_reason in CUT else turn.reply
    return AttemptResult(output, turn.label, error, turn.private)


def apply_attempt(loop: LoopRow, came: AttemptResult, *, met: bool, now: datetime) -> LoopRow:
    """The loop once this attempt is over."""
    private = join_sources((loop.private, came.private))
    loop = replace(loop, label=loop.label.join_with(came.label), private=private)
    if came.error:
        return _fail(loop, came.error, now)
    loop = replace(loop, learned=(*loop.learned, summarize_output(came.output)))
    if met:
        return _complete(loop, came.output, now)
    if loop.criterion == "manual":
        return replace(loop, stage=LoopStage.REVIEWING)
    if loop.attempt >= loop.max_iterations:
        return _complete(loop, loop.learned[-1], now)
    return replace(loop, attempt=loop.attempt + 1)


def apply_review(loop: LoopRow, asked: ApprovalRow | None, output: str, now: datetime) -> LoopRow:
    """The loop once a person has said what they think of the attempt, or did not for too long;
    else as it was.
    """
    if asked and asked.state == "answered":
        if asked.answer in APPROVALS:
            return _complete(loop, output, now)
        return _fail(loop, REVIEW_REJECTED, now)
    open_still = asked and asked.state == "pending" and asked.expires > now
    return loop if open_still else _fail(loop, REVIEW_EXPIRED, now)


def _fail(loop: LoopRow, error: str, now: datetime) -> LoopRow:
    return replace(loop, stage=LoopStage.FAILED, error=error, ended_at=now)


def _complete(loop: LoopRow, final_output: str, now: datetime) -> LoopRow:
    return replace(loop, stage=LoopStage.COMPLETED, final_output=final_output, ended_at=now)


def render_notices(before: LoopRow, after: LoopRow, warning: str = "") -> Iterator[str]:
    """Lines for the conversation that started it."""
    number = after.attempt
    if len(after.learned) > len(before.learned):
        yield f"Attempt {before.attempt} of {after.max_iterations}: {after.learned[-1]}"
    if warning:
        yield f"The criterion {after.criterion} could not be checked as meant: {warning}."
    attempts = "1 attempt" if number == 1 else f"{number} attempts"
    lines = {
        LoopStage.COMPLETED: f"Completed after {attempts}:\n{after.final_output}",
        LoopStage.FAILED: f"Failed at attempt {number}: {after.error}",
        LoopStage.REVIEWING: f"Attempt {number} needs your review: /approve completes the loop,"
        " /deny ends it.",
    }
    if after.stage is not before.stage and after.stage in lines:
        yield lines[after.stage]


def loop_events(
    before: LoopRow, after: LoopRow, came: AttemptResult | None = None
) -> Iterator[LoopEvent]:
    """The same for who watches."""
    number, output = after.attempt, came.output if came else ""
    if came and not came.error:
        tried, most = before.attempt, after.max_iterations
        yield loop_event(after, "iteration", iteration=tried, maxIterations=most, output=output)
        yield loop_event(after, "progress", iteration=tried, learning=after.learned[-1])
    if after.stage is before.stage:
        return
    if after.stage is LoopStage.COMPLETED:
        final = after.final_output
        yield loop_event(after, "completed", totalIterations=number, finalOutput=final)
        yield loop_event(after, "agent:status", status="idle")
    elif after.stage is LoopStage.FAILED:
        yield loop_event(after, "failed", iteration=number, error=after.error)
        yield loop_event(after, "agent:status", status="error")
    elif after.stage is LoopStage.REVIEWING:
        yield loop_event(after, "manual_approval_required", iteration=number, output=output)


def loop_event(loop: LoopRow, name: str, **payload: object) -> LoopEvent:
    """An event of this loop."""
    return LoopEvent(name, {"agentId": loop.agent, "loopId": loop.id, **payload})


def begin_loop(
    tx: Tx, loop: LoopRow, root: SessionRow, warnings: Iterable[str], now: datetime
) -> LoopChange:
    """The loop, its session, its first attempt. Raises Conflict when the agent runs another."""
    if tx.get_session(root.id) is None:
        tx.put_session(root)
    session = SessionRow(  # with the people of the conversation that started it (C12)
        loop.session,
        root.channel,
        root.chat,
        root.label,
        now,
        agent=loop.agent,
        model=root.model,
        effort=root.effort,
        root=loop.root,
    )
    tx.put_session(session)
    tx.put_loop(loop)
    _post_notices(tx, loop, warnings, now)
    return LoopChange(loop, loop, session, tx.accept_input(attempt_input(loop, now)))


def settle_attempt(
    tx: Tx, seen: LoopRow, came: AttemptResult, verdict: CriterionResult, now: datetime
) -> LoopChange | None:
    """An attempt is over: what was learned, and the next attempt or the end. None when it was
    settled, or ended, meanwhile.
    """
    loop = _find(tx, seen.id, LoopStage.RUNNING, LoopStage.PAUSED)
    if loop is None or loop.attempt != seen.attempt:
        return None
    after = apply_attempt(loop, came, met=verdict.met, now=now)
    change = _save(tx, loop, after, now, verdict.warning)
    if after.stage is LoopStage.REVIEWING:
        about = {"loopId": loop.id, "iteration": loop.attempt, "output": came.output}
        expires = now + REVIEW_VALID_FOR
        question = build_system_question(
            REVIEW_QUESTION, LOOP_REVIEW_TOOL, about, expires, Effect.READ
        )
        tx.open_question(loop.turn_id(loop.attempt), question, now)
    if after.stage is LoopStage.RUNNING:
        return replace(change, message=tx.accept_input(attempt_input(after, now)))
    return change


def pause_loop(tx: Tx, loop_id: str) -> LoopChange | None:
    """Not another attempt."""
    if loop := _find(tx, loop_id, LoopStage.RUNNING):
        tx.put_loop(after := replace(loop, stage=LoopStage.PAUSED))
        return LoopChange(loop, after)
    return None


def resume_loop(tx: Tx, loop_id: str, now: datetime) -> LoopChange | None:
    """Go on: with the attempt that runs still, or with the next."""
    if loop := _find(tx, loop_id, LoopStage.PAUSED):
        tx.put_loop(after := replace(loop, stage=LoopStage.RUNNING))
        message = tx.accept_input(attempt_input(after, now))
        return LoopChange(loop, after, tx.get_session(loop.session), message)
    return None


def answer_review(
    tx: Tx, loop_id: str, approved: bool, by: str, reason: str, now: datetime
) -> LoopChange | None:
    """A person says whether the attempt will do, once."""
    if loop := _find(tx, loop_id, LoopStage.REVIEWING):
        said = Answer.ONCE if approved else Answer.DENY
        tx.answer_approval(loop.turn_id(loop.attempt), REVIEW_QUESTION, said, by, reason, now)
    return settle_review(tx, loop_id, now)


def settle_review(tx: Tx, loop_id: str, now: datetime) -> LoopChange | None:
    """What a person said at whatever channel; None while nobody has."""
    loop = _find(tx, loop_id, LoopStage.REVIEWING)
    if loop is None:
        return None
    turn = loop.turn_id(loop.attempt)
    asked, tried = tx.get_approval(turn, REVIEW_QUESTION), tx.get_turn(turn)
    after = apply_review(loop, asked, tried.reply if tried else "", now)
    if after is loop:
        return None
    state = "consumed" if asked and asked.state == "answered" else "expired"
    tx.set_approval_state(turn, REVIEW_QUESTION, state)
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
    return replace(_save(tx, loop, _fail(loop, why, now), now), message=message)


def _find(tx: Tx, loop_id: str, *stages: LoopStage) -> LoopRow | None:
    loop = tx.get_loop(loop_id)
    return loop if loop and loop.stage in stages else None


def _save(tx: Tx, before: LoopRow, after: LoopRow, now: datetime, warning: str = "") -> LoopChange:
    tx.put_loop(after)
    lines, root = [*render_notices(before, after, warning)], tx.get_session(after.root)
    at_terminal = root is None or root.channel in ("web", "terminal")
    if after.stage is LoopStage.REVIEWING and not at_terminal:
        lines.pop()  # the question itself is delivered, with its choices
    _post_notices(tx, before, lines, now)
    return LoopChange(before, after, tx.get_session(after.session))


def _post_notices(tx: Tx, loop: LoopRow, lines: Iterable[str], now: datetime) -> None:
    for line in lines:
        tx.post_to_session(loop.session, loop.turn_id(loop.attempt), "notice", line, now)
