"""What watchers of loops see as it happens (C4): values, and one hub for all who look.

What is told when a loop has moved: to its conversation, and to who watches (C4).
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from daemon.core import value
from daemon.core.events import ApprovalAsked
from daemon.core.rows import REVIEW_QUESTION, LoopRow, LoopStage
from daemon.core.trust import Effect
from daemon.loops.transitions import AttemptResult
from daemon.tools.arguments import args_hash, canonical_json
from daemon.tools.policy.approvals import hash_token


@value
class AttemptEnded:
    """An attempt has ended; this is all it said."""

    loop: str
    agent: str
    iteration: int
    max_iterations: int
    output: str


@value
class ProgressLogged:
    """A line of the progress log."""

    loop: str
    agent: str
    iteration: int
    learning: str


@value
class LoopReviewRequired:
    """A person is to say whether the attempt will do."""

    loop: str
    agent: str
    iteration: int
    output: str


@value
class LoopCompleted:
    """The criterion was met, or the last attempt was made."""

    loop: str
    agent: str
    total_iterations: int
    final_output: str


@value
class LoopFailed:
    """It ended without."""

    loop: str
    agent: str
    iteration: int
    error: str


@value
class LoopAgentStatus:
    """What the agent is now."""

    loop: str
    agent: str
    status: Literal["running", "idle", "error"]


LoopEvent = (
    AttemptEnded
    | ProgressLogged
    | LoopReviewRequired
    | LoopCompleted
    | LoopFailed
    | LoopAgentStatus
)


def to_payload(event: LoopEvent) -> tuple[str, dict[str, object]]:
    """The event's name and payload as clients know them."""
    about: dict[str, object] = {"agentId": event.agent, "loopId": event.loop}
    match event:
        case AttemptEnded():
            payload = {
                "iteration": event.iteration,
                "maxIterations": event.max_iterations,
                "output": event.output,
            }
            return "iteration", about | payload
        case ProgressLogged():
            return "progress", about | {"iteration": event.iteration, "learning": event.learning}
        case LoopReviewRequired():
            return "manual_approval_required", about | {
                "iteration": event.iteration,
                "output": event.output,
            }
        case LoopCompleted():
            return "completed", about | {
                "totalIterations": event.total_iterations,
                "finalOutput": event.final_output,
            }
        case LoopFailed():
            return "failed", about | {"iteration": event.iteration, "error": event.error}
        case LoopAgentStatus():
            return "agent:status", about | {"status": event.status}


@dataclass(slots=True)
class LoopEvents:
    """Publishing never waits, and nobody misses anything who watches."""

    _watchers: list[asyncio.Queue[LoopEvent]] = field(default_factory=list)

    def publish(self, event: LoopEvent) -> None:
        """Show it to all who watch."""
        for queue in self._watchers:
            queue.put_nowait(event)

    @contextmanager
    def watch(self) -> Iterator[AsyncIterator[LoopEvent]]:
        """Everything that happens to any loop from now on."""
        queue: asyncio.Queue[LoopEvent] = asyncio.Queue()
        self._watchers.append(queue)
        try:
            yield _iterate_queue(queue)
        finally:
            self._watchers = [other for other in self._watchers if other is not queue]


async def _iterate_queue(queue: asyncio.Queue[LoopEvent]) -> AsyncIterator[LoopEvent]:
    while True:
        yield await queue.get()


REVIEW_TOOL = "loop_review"
REVIEW_VALID_FOR = timedelta(days=30)


def review_question(loop: LoopRow, output: str, token: str, now: datetime) -> ApprovalAsked:
    """The question whether the attempt will do, in the form in which all questions are put. `token`: what its buttons carry."""
    arguments = {"loopId": loop.id, "iteration": loop.attempt, "output": output}
    bound = args_hash(REVIEW_TOOL, arguments)
    return ApprovalAsked(
        REVIEW_QUESTION,
        REVIEW_TOOL,
        canonical_json(arguments),
        bound,
        Effect.READ,
        hash_token(token),
        now + REVIEW_VALID_FOR,
    )


def render_notices(before: LoopRow, after: LoopRow, warning: str = "") -> Iterator[str]:
    """Lines for the conversation that started it."""
    if len(after.learned) > len(before.learned):
        yield f"Attempt {before.attempt} of {after.max_iterations}: {after.learned[-1]}"
    if warning:
        yield f"The criterion {after.criterion} could not be looked at as meant: {warning}."
    if after.stage is before.stage:
        return
    match after.stage:
        case LoopStage.COMPLETED:
            yield f"Completed after {_count_attempts(after.attempt)}:\n{after.final_output}"
        case LoopStage.FAILED:
            yield f"Failed at attempt {after.attempt}: {after.error}"
        case LoopStage.REVIEWING:
            yield f"Attempt {after.attempt} needs your review: /approve completes the loop, /deny ends it."
        case LoopStage.RUNNING | LoopStage.PAUSED:
            return


def loop_events(
    before: LoopRow, after: LoopRow, came: AttemptResult | None = None
) -> Iterator[LoopEvent]:
    """The same for who watches."""
    name = (after.id, after.agent)
    if came and not came.error:
        yield AttemptEnded(*name, before.attempt, after.max_iterations, came.output)
        yield ProgressLogged(*name, before.attempt, after.learned[-1])
    if after.stage is before.stage:
        return
    match after.stage:
        case LoopStage.COMPLETED:
            yield LoopCompleted(*name, after.attempt, after.final_output)
            yield LoopAgentStatus(*name, "idle")
        case LoopStage.FAILED:
            yield LoopFailed(*name, after.attempt, after.error)
            yield LoopAgentStatus(*name, "error")
        case LoopStage.REVIEWING:
            yield LoopReviewRequired(*name, after.attempt, came.output if came else "")
        case LoopStage.RUNNING | LoopStage.PAUSED:
            return


def _count_attempts(attempts: int) -> str:
    return "1 attempt" if attempts == 1 else f"{attempts} attempts"
