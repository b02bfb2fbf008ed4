"""What is told when a loop has changed: to its conversation, and to who watches (C4)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from daemon.agent.system_questions import LOOP_REVIEW_TOOL
from daemon.core import value
from daemon.core.events import ApprovalAsked
from daemon.core.rows import REVIEW_QUESTION, LoopRow, LoopStage
from daemon.core.trust import Effect
from daemon.loops.transitions import AttemptResult
from daemon.tools.calls import args_hash, canonical_json
from daemon.tools.policy.approvals import hash_token

REVIEW_VALID_FOR = timedelta(days=30)


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


def review_question(loop: LoopRow, output: str, token: str, now: datetime) -> ApprovalAsked:
    """Whether the attempt will do, as a question. `token`: what its buttons carry."""
    arguments = {"loopId": loop.id, "iteration": loop.attempt, "output": output}
    return ApprovalAsked(
        REVIEW_QUESTION,
        LOOP_REVIEW_TOOL,
        canonical_json(arguments),
        args_hash(LOOP_REVIEW_TOOL, arguments),
        Effect.READ,
        hash_token(token),
        now + REVIEW_VALID_FOR,
    )


def render_notices(before: LoopRow, after: LoopRow, warning: str = "") -> Iterator[str]:
    """Lines for the conversation that started it."""
    if len(after.learned) > len(before.learned):
        yield f"Attempt {before.attempt} of {after.max_iterations}: {after.learned[-1]}"
    if warning:
        yield f"The criterion {after.criterion} could not be checked as meant: {warning}."
    if after.stage is before.stage:
        return
    if after.stage is LoopStage.COMPLETED:
        attempts = "1 attempt" if after.attempt == 1 else f"{after.attempt} attempts"
        yield f"Completed after {attempts}:\n{after.final_output}"
    elif after.stage is LoopStage.FAILED:
        yield f"Failed at attempt {after.attempt}: {after.error}"
    elif after.stage is LoopStage.REVIEWING:
        yield (
            f"Attempt {after.attempt} needs your review: /approve completes the loop, /deny"
            " ends it."
        )


def loop_events(
    before: LoopRow, after: LoopRow, came: AttemptResult | None = None
) -> Iterator[LoopEvent]:
    """The same for who watches."""
    output = came.output if came else ""
    if came and not came.error:
        most = after.max_iterations
        yield loop_event(
            after, "iteration", iteration=before.attempt, maxIterations=most, output=output
        )
        yield loop_event(after, "progress", iteration=before.attempt, learning=after.learned[-1])
    if after.stage is before.stage:
        return
    if after.stage is LoopStage.COMPLETED:
        final = after.final_output
        yield loop_event(after, "completed", totalIterations=after.attempt, finalOutput=final)
        yield loop_event(after, "agent:status", status="idle")
    elif after.stage is LoopStage.FAILED:
        yield loop_event(after, "failed", iteration=after.attempt, error=after.error)
        yield loop_event(after, "agent:status", status="error")
    elif after.stage is LoopStage.REVIEWING:
        yield loop_event(after, "manual_approval_required", iteration=after.attempt, output=output)


def loop_event(loop: LoopRow, name: str, **payload: object) -> LoopEvent:
    """An event of this loop."""
    return LoopEvent(name, {"agentId": loop.agent, "loopId": loop.id, **payload})
