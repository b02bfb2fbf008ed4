"""Small tasks beside the work, which nobody waits for: each has an owner, and of one that breaks
off the log tells.
"""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(slots=True)
class BackgroundTasks:
    """The owner of some tasks."""

    _tasks: set[asyncio.Task[object]] = field(default_factory=set)

    def start(self, work: Coroutine[None, None, T], name: str) -> asyncio.Task[T]:
        """Begin; the task, for those who want to look at it."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("%s broke off", task.get_name(), exc_info=error)

    async def aclose(self, patience_s: float = 0.0) -> None:
        """What is not done in so many seconds is left."""
        tasks = list(self._tasks)
        if tasks and patience_s:
            await asyncio.wait(tasks, timeout=patience_s)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
