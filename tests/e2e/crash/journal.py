"""Journals that kill their process, that lose what they were given, or that fail for a while: wrapped around the real one."""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from daemon.core.clock import Commit
from daemon.core.errors import StoreUnavailable
from daemon.core.events import RecordedEvent, ToolStarted
from daemon.core.rows import TurnRow
from daemon.store.journal import Store, Tx
from tests.e2e.crash.moments import Moment, Outside
from tests.fakes.commits import commit_of

T = TypeVar("T")
Keeps = Callable[[Sequence[RecordedEvent]], Sequence[RecordedEvent]]


def everything(recorded: Sequence[RecordedEvent]) -> Sequence[RecordedEvent]:
    """A journal as it should be."""
    return recorded


def all_but_starts(recorded: Sequence[RecordedEvent]) -> Sequence[RecordedEvent]:
    """A journal that loses the starts of tools, to see that somebody notices."""
    return [one for one in recorded if not isinstance(one.event, ToolStarted)]


class WatchedTx:
    """A transaction that remembers on behalf of which worker events were written; `keeps` chooses what is."""

    def __init__(self, tx: Tx, keeps: Keeps) -> None:
        self._tx = tx
        self._keeps = keeps
        self.appended: list[tuple[str, int]] = []
        self.attempted: list[tuple[str, int]] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._tx, name)

    def begin_turn(
        self,
        row: TurnRow,
        epoch: int,
        recorded: Sequence[RecordedEvent] = (),
        progress: int = 0,
    ) -> None:
        """A new turn with its first events; a worker takes it up."""
        self._tx.begin_turn(row, epoch, self._keeps(recorded), progress)
        self.appended.append((row.session, epoch))
        self.attempted.append((row.id, progress))

    def append_events(
        self, session: str, epoch: int, turn_id: str, recorded: Sequence[RecordedEvent]
    ) -> None:
        """Write events."""
        self._tx.append_events(session, epoch, turn_id, self._keeps(recorded))
        self.appended.append((session, epoch))

    def add_attempt(self, turn_id: str, progress: int, blame: float = 1.0) -> float:
        """A worker takes a turn up."""
        self.attempted.append((turn_id, progress))
        return self._tx.add_attempt(turn_id, progress, blame)


@dataclass(slots=True)
class MortalStore:
    """Every write has three moments: before it, in the middle of its transaction, and after it is on disk."""

    inner: Store
    moment: Moment
    outside: Outside
    keeps: Keeps = everything

    @property
    def problem(self) -> str:
        return self.inner.problem

    async def write(self, work: Callable[[Tx], T]) -> T:
        watched: list[WatchedTx] = []

        def dying(tx: Tx) -> T:
            watched[:] = [WatchedTx(tx, self.keeps)]
            result = work(cast(Tx, watched[0]))  # it hands on everything that a Tx can do
            for turn, progress in watched[0].attempted:
                self.outside.attempts.note(pid=str(os.getpid()), turn=turn, progress=str(progress))
            self.moment("within a commit")
            return result

        self.moment("before a commit")
        result = await self.inner.write(dying)
        for session, epoch in watched[0].appended:
            self.outside.writes.note(pid=str(os.getpid()), session=session, epoch=str(epoch))
        self.moment("after a commit")
        return result

    def submit(self, work: Callable[[Tx], T]) -> Commit[T]:
        return commit_of(self.write(work))

    async def read(self, look: Callable[[Tx], T]) -> T:
        return await self.inner.read(look)

    def watch_outbox(self, told: Callable[[], None]) -> Callable[[], None]:
        return self.inner.watch_outbox(told)

    async def aclose(self) -> None:
        await self.inner.aclose()


@dataclass(slots=True)
class FaultyStore:
    """Asks `fault` about each write, and `keeps` about what it appends: what they raise is what becomes of it.

    Nobody reads while `open` is not set.
    """

    inner: Store
    fault: Callable[[], None] = lambda: None
    keeps: Keeps = everything
    open: asyncio.Event = field(default_factory=asyncio.Event)
    problem: str = ""

    def __post_init__(self) -> None:
        self.open.set()

    async def write(self, work: Callable[[Tx], T]) -> T:
        try:
            self.fault()
        except StoreUnavailable:
            self.problem = "the journal cannot be written"
            raise
        result = await self.inner.write(lambda tx: work(cast(Tx, WatchedTx(tx, self.keeps))))
        self.problem = ""
        return result

    def submit(self, work: Callable[[Tx], T]) -> Commit[T]:
        return commit_of(self.write(work))

    async def read(self, look: Callable[[Tx], T]) -> T:
        await self.open.wait()
        return await self.inner.read(look)

    def watch_outbox(self, told: Callable[[], None]) -> Callable[[], None]:
        return self.inner.watch_outbox(told)

    async def aclose(self) -> None:
        await self.inner.aclose()
