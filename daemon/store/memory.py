"""A journal that forgets everything at the end: for tests, and for writers of add-ons. It passes the same suite as SQLite's."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from daemon.core.errors import StoreUnavailable
from daemon.core.journal import ReadTx, Tx
from daemon.store.memory_table import Undo
from daemon.store.memory_tx import MemoryTx
from daemon.store.sqlite import OutboxSignal

T = TypeVar("T")


class MemoryStore:
    """`Store` over dicts. Set `broken` to see how its users take a disk that fails."""

    def __init__(self) -> None:
        self._undo: Undo = []
        self._tx = MemoryTx(self._undo)
        self._watchers = OutboxSignal()
        self._closed = False
        self._healthy = True
        self.broken = False

    @property
    def healthy(self) -> bool:
        """The last commit worked."""
        return self._healthy

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run as one atomic unit. Raises what `work` raised, or StoreUnavailable."""
        self._healthy = not self.broken
        if self.broken or self._closed:
            raise StoreUnavailable()
        self._tx.posted = False
        try:
            result = work(self._tx)
            self._undo.clear()
        finally:
            while self._undo:
                self._undo.pop()()
        if self._tx.posted:
            self._watchers.notify()
        await asyncio.sleep(0)  # others get their turn, as they do while a disk works
        return result

    async def read(self, look: Callable[[ReadTx], T]) -> T:
        """Run over what is committed."""
        if self._closed:
            raise StoreUnavailable()
        return look(self._tx)

    def watch_outbox(self, told: Callable[[], None]) -> Callable[[], None]:
        """Call `told` soon after each work that left something new to deliver."""
        return self._watchers.add(told)

    async def aclose(self) -> None:
        """Nothing can be asked of it any more."""
        self._closed = True
