"""Ends the loops that live pages started, when nobody of that name looks any more (C10)."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from daemon.core.errors import StoreUnavailable
from daemon.loops.config import LoopsConfig
from daemon.loops.engine import LoopEngine

log = logging.getLogger(__name__)
PAGE_CLOSED = "its page was closed"


@dataclass(slots=True)
class LoopTeardown:
    """Counts the live connections of each person. Once the last is gone for the grace time, the
    loops that this person's pages started are stopped; whoever comes back earlier keeps them.
    """

    loops: LoopEngine
    config: LoopsConfig
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _open: Counter[str] = field(default_factory=Counter)
    _waiting: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def start(self) -> None:
        """After a restart nobody is connected yet: the grace time of each begins now."""
        for loop in await self.loops.list_live():
            self._wait(loop.sender)

    @contextmanager
    def connected(self, person: str) -> Iterator[None]:
        """This person has one live connection more, as long as the block lasts."""
        self._open[person] += 1
        if task := self._waiting.pop(person, None):
            task.cancel()
        try:
            yield
        finally:
            self._open[person] -= 1
            if not self._open[person]:
                del self._open[person]
                self._wait(person)

    def _wait(self, person: str) -> None:
        known = person in self._waiting or self._open[person]
        if self.config.teardown_on_disconnect and not known:
            task = asyncio.create_task(self._end(person), name=f"loops of {person}")
            self._waiting[person] = task

    async def _end(self, person: str) -> None:
        """Whoever comes back cancels this, wherever it is."""
        while True:
            await self.sleep(self.config.teardown_grace_ms / 1000)
            try:
                for loop in await self.loops.list_live():
                    if loop.sender == person:
                        log.info("loop %s ends: %s", loop.id, PAGE_CLOSED)
                        await self.loops.stop(loop.id, PAGE_CLOSED)
            except StoreUnavailable as error:
                log.error("loops of %s go on, their page is closed: %s", person, error)
                continue
            self._waiting.pop(person, None)
            return

    async def aclose(self) -> None:
        """Nothing waits any more."""
        tasks, self.config = (
            [*self._waiting.values()],
            self.config.model_copy(update={"teardown_on_disconnect": False}),
        )
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
