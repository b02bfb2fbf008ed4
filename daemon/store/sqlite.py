"""Who is told that something new waits to be delivered: after the commit, from memory, without a look at the disk.

The journal in one SQLite file: one writer with group commit, one reader, a thread hop per batch (DESIGN 5).
"""

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from daemon.core.errors import StoreUnavailable
from daemon.core.journal import ReadTx, Tx
from daemon.store.group_commit import ConnectionThread, WorkItem, commit_all, read_snapshot
from daemon.store.migrate import open_reader, open_writer


class OutboxSignal:
    """Each is told in a step of its own of the event loop: what it raises is no concern of the journal's."""

    def __init__(self) -> None:
        self._told: dict[object, Callable[[], None]] = {}

    def add(self, told: Callable[[], None]) -> Callable[[], None]:
        """From now on; gives what ends it."""
        key = object()
        self._told[key] = told

        def end() -> None:
            self._told.pop(key, None)

        return end

    def notify(self) -> None:
        """Soon, all who are still there then."""
        for key in self._told:
            asyncio.get_running_loop().call_soon(self._notify_one, key)

    def _notify_one(self, key: object) -> None:
        told = self._told.get(key)
        if told:
            told()


T = TypeVar("T")

BATCH = 512

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Queued:
    """A work on its way to the disk; `done` is set after the commit."""

    attempt: WorkItem[object]
    done: asyncio.Future[None]


class SqliteStore:
    """`Store` over HOME/journal.db. Make it with `open`, end it with `aclose`, always: its threads keep a process alive."""

    def __init__(self, path: Path, writer: ConnectionThread, reader: ConnectionThread) -> None:
        self._path = path
        self._writer = writer
        self._reader = reader
        self._queue: deque[_Queued] = deque()
        self._in_flight: list[_Queued] = []
        self._wake = asyncio.Event()
        self._closing = False
        self._healthy = True
        self._watchers = OutboxSignal()
        self._task = asyncio.create_task(self._write_batches(), name="journal writer")

    @classmethod
    async def open(cls, path: Path) -> "SqliteStore":
        """Open, or make, the file, and bring its schema up. Raises JournalUnusable, with what to do about it."""
        async with AsyncExitStack() as undo:
            writer = await ConnectionThread.open(partial(open_writer, path))
            undo.push_async_callback(writer.aclose)
            reader = await ConnectionThread.open(partial(open_reader, path))
            undo.pop_all()
        return cls(path, writer, reader)

    @property
    def healthy(self) -> bool:
        """The last commit worked."""
        return self._healthy

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run as one atomic unit; on disk when this returns. It is done even if the caller is cancelled meanwhile."""
        if self._closing:
            raise StoreUnavailable(f"{self._path}: the journal is closed; nothing was written.")
        attempt = WorkItem(work)
        queued = _Queued(attempt, asyncio.get_running_loop().create_future())
        self._queue.append(queued)
        self._wake.set()
        await queued.done
        return attempt.result()

    async def read(self, look: Callable[[ReadTx], T]) -> T:
        """Run over what is committed, in one snapshot."""
        attempt = WorkItem(look)
        try:
            await self._reader.run(read_snapshot, attempt)
        except (sqlite3.Error, ValueError) as exc:
            raise StoreUnavailable(
                f"{self._path}: the journal cannot be read: {exc}. Nothing was changed."
            ) from exc
        return attempt.result()

    def watch_outbox(self, told: Callable[[], None]) -> Callable[[], None]:
        """Call `told` soon after each commit that holds something new to deliver: once for a whole batch."""
        return self._watchers.add(told)

    async def aclose(self) -> None:
        """Finish what is queued, then close."""
        self._closing = True
        self._wake.set()
        try:
            await asyncio.wait([self._task])
        finally:
            self._task.cancel()
            await asyncio.gather(self._reader.aclose(), self._writer.aclose())

    async def _write_batches(self) -> None:
        try:
            while self._queue or not self._closing:
                await self._wake.wait()
                self._wake.clear()
                while self._queue:
                    self._in_flight = [
                        self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))
                    ]
                    await self._commit(self._in_flight)
        finally:
            if not self._closing:  # nobody asked it to end
                self._healthy = False
                log.error(
                    "%s: the journal's writer broke off: nothing can be written until the next start",
                    self._path,
                )
            self._closing = True
            self._refuse([*self._in_flight, *self._queue], ConnectionError("it was closed"))

    async def _commit(self, batch: list[_Queued]) -> None:
        try:
            wrote = await self._writer.run(commit_all, [queued.attempt for queued in batch])
        except sqlite3.Error as exc:
            self._fell_ill(exc)
            self._refuse(batch, exc)
            return
        if wrote and not self._healthy:
            self._healthy = True
            log.warning("%s: the journal can be written again", self._path)
        for queued in batch:
            if not queued.done.done():
                queued.done.set_result(None)
        if any(queued.attempt.posted for queued in batch):
            self._watchers.notify()

    def _fell_ill(self, cause: sqlite3.Error) -> None:
        if self._healthy:
            log.error("%s: the journal cannot be written: %s", self._path, cause)
        self._healthy = False

    def _refuse(self, batch: list[_Queued], cause: Exception) -> None:
        for queued in batch:
            if not queued.done.done():
                queued.done.set_exception(self._unavailable(cause))

    def _unavailable(self, cause: Exception) -> StoreUnavailable:
        refusal = StoreUnavailable(
            f"{self._path}: the journal cannot be written: {cause}. Nothing of this was acknowledged and no tool was started;"
            " what was written before is safe. Make room on the disk or mend it: the daemon then goes on by itself."
        )
        refusal.__cause__ = cause
        return refusal
