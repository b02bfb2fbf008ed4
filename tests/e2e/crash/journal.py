"""Journals that kill their process, that lose what they were given, or that fail for a while: wrapped around the real one."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from daemon.core.errors import StoreUnavailable
from daemon.core.events import Recorded, ToolStarted
from daemon.store.protocol import ReadTx, Store, Tx
from daemon.store.sqlite import SqliteStore
from tests.e2e.crash.moments import Moment, Outside

T = TypeVar("T")


class WatchedTx:
    """A transaction that remembers on behalf of which worker events were written."""

    def __init__(self, tx: Tx, *, forgetful: bool) -> None:
        self._tx = tx
        self._forgetful = forgetful
        self.appended: list[tuple[str, int]] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._tx, name)

    def append(self, session: str, epoch: int, turn_id: str, recorded: Sequence[Recorded]) -> None:
        """Write events; a forgetful journal loses the starts of tools."""
        kept = [one for one in recorded if not (self._forgetful and isinstance(one.event, ToolStarted))]
        self._tx.append(session, epoch, turn_id, kept)
        self.appended.append((session, epoch))


@dataclass(slots=True)
class MortalStore:
    """Every write has three moments: before it, in the middle of its transaction, and after it is on disk."""

    inner: Store
    moment: Moment
    outside: Outside
    forgetful: bool = False

    @property
    def healthy(self) -> bool:
        return self.inner.healthy

    async def write(self, work: Callable[[Tx], T]) -> T:
        watched: list[WatchedTx] = []

        def dying(tx: Tx) -> T:
            watched[:] = [WatchedTx(tx, forgetful=self.forgetful)]
            result = work(cast(Tx, watched[0]))  # it hands on everything that a Tx can do
            self.moment("within a commit")
            return result

        self.moment("before a commit")
        result = await self.inner.write(dying)
        for session, epoch in watched[0].appended:
            self.outside.writes.note(pid=str(os.getpid()), session=session, epoch=str(epoch))
        self.moment("after a commit")
        return result

    async def read(self, look: Callable[[ReadTx], T]) -> T:
        return await self.inner.read(look)

    async def aclose(self) -> None:
        await self.inner.aclose()


@dataclass(slots=True)
class FaultyStore:
    """Asks `fault` about each write first; what that raises is what became of the write."""

    inner: Store
    fault: Callable[[], None]
    healthy: bool = True
    refused: int = field(default=0)

    @classmethod
    def over(cls, fault: Callable[[], None]) -> "Opening":
        return Opening(fault)

    async def write(self, work: Callable[[Tx], T]) -> T:
        try:
            self.fault()
        except StoreUnavailable:
            self.healthy = False
            raise
        result = await self.inner.write(work)
        self.healthy = True
        return result

    async def read(self, look: Callable[[ReadTx], T]) -> T:
        return await self.inner.read(look)

    async def aclose(self) -> None:
        await self.inner.aclose()


@dataclass(frozen=True, slots=True)
class Opening:
    """How `Parts` opens a faulty journal."""

    fault: Callable[[], None]

    async def __call__(self, path: Path) -> Store:
        return FaultyStore(await SqliteStore.open(path), self.fault)
