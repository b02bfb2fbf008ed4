"""What watchers of loops see as it happens (C4): values, and one hub for all who look."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Iterated:
    """An attempt has ended; this is all it said."""

    loop: str
    agent: str
    iteration: int
    max_iterations: int
    output: str


@dataclass(frozen=True, slots=True)
class Learned:
    """A line of the progress log."""

    loop: str
    agent: str
    iteration: int
    learning: str


@dataclass(frozen=True, slots=True)
class ReviewRequired:
    """A person is to say whether the attempt will do."""

    loop: str
    agent: str
    iteration: int
    output: str


@dataclass(frozen=True, slots=True)
class Completed:
    """The criterion was met, or the last attempt was made."""

    loop: str
    agent: str
    total_iterations: int
    final_output: str


@dataclass(frozen=True, slots=True)
class Failed:
    """It ended without."""

    loop: str
    agent: str
    iteration: int
    error: str


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """What the agent is now."""

    loop: str
    agent: str
    status: Literal["running", "idle", "error"]


LoopEvent = Iterated | Learned | ReviewRequired | Completed | Failed | AgentStatus


def told(event: LoopEvent) -> tuple[str, dict[str, object]]:
    """The event's name and payload as clients know them."""
    about: dict[str, object] = {"agentId": event.agent, "loopId": event.loop}
    match event:
        case Iterated():
            payload = {"iteration": event.iteration, "maxIterations": event.max_iterations, "output": event.output}
            return "iteration", about | payload
        case Learned():
            return "progress", about | {"iteration": event.iteration, "learning": event.learning}
        case ReviewRequired():
            return "manual_approval_required", about | {"iteration": event.iteration, "output": event.output}
        case Completed():
            return "completed", about | {"totalIterations": event.total_iterations, "finalOutput": event.final_output}
        case Failed():
            return "failed", about | {"iteration": event.iteration, "error": event.error}
        case AgentStatus():
            return "agent:status", about | {"status": event.status}


@dataclass(slots=True)
class Hub:
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
            yield _drain(queue)
        finally:
            self._watchers = [other for other in self._watchers if other is not queue]


async def _drain(queue: asyncio.Queue[LoopEvent]) -> AsyncIterator[LoopEvent]:
    while True:
        yield await queue.get()
