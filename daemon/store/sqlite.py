"""The journal in one SQLite file: one connection that writes in groups, one that reads
(guarantees.md).

While commits are quick, both run in the event loop's thread: a hop to another thread costs more
than they do. A slow disk, a lock of another program or a long read must not hold up the others:
those run in threads.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import aiosqlite

from daemon.core.clock import run_to_completion
from daemon.core.errors import StoreUnavailable
from daemon.store.group_commit import WorkItem, commit_all
from daemon.store.journal import Tx
from daemon.store.migrate import BUSY_MS, open_reader, open_writer

A = TypeVar("A")
T = TypeVar("T")
Batch = list[tuple[WorkItem[Any], asyncio.Future[None]]]

BATCH = 512
QUICK_S = 0.005  # commits that take less run in the event loop's thread
FORGET = 0.9  # of the slowest commit, with each one after it
LONG_READ_S = 0.004
CHECK_EVERY = 5_000  # steps of SQLite's machine between two looks at the time

log = logging.getLogger(__name__)


class SqliteStore:
    """`Store` over HOME/journal.db. Make it with `open`, end it with `aclose`."""

    def __init__(
        self, path: Path, writer: aiosqlite.Connection, reader: aiosqlite.Connection, quick_s: float
    ) -> None:
        self._path = path
        self._quick_s = quick_s
        self._write_thread, self._read_thread = writer, reader
        self._writer, self._write_tx = writer._conn, Tx(writer._conn)
        self._reader, self._read_tx = reader._conn, Tx(reader._conn)
        self._loop = asyncio.get_running_loop()
        self._slow_commit: asyncio.Task[bool] | None = None
        self._queue: Batch = []
        self._slowest = 0.0
        self._committing = self._closing = False
        self._idle = asyncio.Event()
        self._long_reads = 0
        self._read_until = 0.0
        self._healthy = True
        self._watchers: list[Callable[[], None]] = []

    @classmethod
    async def open(cls, path: Path, quick_s: float = QUICK_S) -> "SqliteStore":
        """Open, or make, the file, and bring its schema up. Raises JournalUnusable, with what to do
        about it.
        """
        writer = await _connect(partial(open_writer, path))
        return cls(path, writer, await _connect(partial(open_reader, path)), quick_s)

    @property
    def healthy(self) -> bool:
        """The last commit worked."""
        return self._healthy

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run as one atomic unit; on disk when this returns. It is done even if the caller is
        cancelled meanwhile.
        """
        if self._closing:
            raise StoreUnavailable(f"{self._path}: the journal is closed; nothing was written.")
        item, done = WorkItem(work), self._loop.create_future()
        self._queue.append((item, done))
        if not self._committing:  # others of this step of the loop go along
            self._committing = True
            self._loop.call_soon(self._commit)
        await done
        return item.result()

    async def read(self, look: Callable[[Tx], T]) -> T:
        """Run over what is committed, in one snapshot."""
        if self._closing:
            raise StoreUnavailable(f"{self._path}: the journal is closed.")
        item = WorkItem(look)
        try:
            if self._long_reads or not self._is_quick() or not self._read_here(item):
                await self._read_in_thread(item)
        except sqlite3.Error as exc:
            why = f"{self._path}: the journal cannot be read: {exc}. Nothing was changed."
            raise StoreUnavailable(why) from exc
        return item.result()

    def watch_outbox(self, told: Callable[[], None]) -> Callable[[], None]:
        """Call `told` soon after each commit that holds something new to deliver: once for a whole
        batch.
        """
        self._watchers.append(told)
        return partial(self._unwatch, told)

    async def vacuum(self) -> None:
        """Give free pages back to the disk. What is written meanwhile waits in the queue."""
        while self._committing:
            await self.write(_do_nothing)
        self._committing = True
        try:
            await run_to_completion(_run(self._write_thread, self._vacuum))
        finally:
            self._go_on()

    def _vacuum(self) -> None:
        if self._writer.execute("PRAGMA auto_vacuum").fetchone() == (0,):  # once, the whole file
            self._writer.executescript("PRAGMA auto_vacuum = INCREMENTAL; VACUUM;")
        self._writer.execute("PRAGMA incremental_vacuum").fetchall()

    async def aclose(self) -> None:
        """Finish what is queued, then close."""
        self._closing = True
        if self._committing:
            self._idle.clear()
            await self._idle.wait()
        await self._read_thread.close()
        await self._write_thread.close()

    def _unwatch(self, told: Callable[[], None]) -> None:
        if told in self._watchers:
            self._watchers.remove(told)

    def _notify(self, told: Callable[[], None]) -> None:
        if told in self._watchers:
            told()

    def _is_quick(self) -> bool:
        return self._slowest < self._quick_s

    def _commit(self) -> None:
        batch, self._queue = self._queue[:BATCH], self._queue[BATCH:]
        if self._is_quick():
            try:
                self._finish(batch, self._commit_batch(batch))
            except sqlite3.Error as exc:
                if getattr(exc, "sqlite_errorcode", 0) != sqlite3.SQLITE_BUSY:
                    self._fail(batch, exc)
                    return
            else:
                return
        work = _run(self._write_thread, _run_patiently, self._writer, self._commit_batch, batch)
        self._slow_commit = self._loop.create_task(work)
        self._slow_commit.add_done_callback(partial(self._end_in_thread, batch))

    def _commit_batch(self, batch: Batch) -> bool:
        began = monotonic()
        try:
            return commit_all(self._writer, self._write_tx, [item for item, _ in batch])
        finally:
            self._slowest = max(self._slowest * FORGET, monotonic() - began)

    def _end_in_thread(self, batch: Batch, future: asyncio.Future[bool]) -> None:
        error = future.exception()
        if error:
            self._fail(batch, error)
        else:
            self._finish(batch, future.result())

    def _finish(self, batch: Batch, wrote: bool) -> None:
        if wrote and not self._healthy:
            self._healthy = True
            log.warning("%s: the journal can be written again", self._path)
        for _, done in batch:
            if not done.done():
                done.set_result(None)
        if any(item.posted for item, _ in batch):
            for told in self._watchers:
                self._loop.call_soon(self._notify, told)
        self._go_on()

    def _fail(self, batch: Batch, cause: BaseException) -> None:
        if self._healthy:
            log.error("%s: the journal cannot be written: %s", self._path, cause)
        self._healthy = False
        for _, done in batch:
            if not done.done():
                refusal = StoreUnavailable(
                    f"{self._path}: the journal cannot be written: {cause}. Nothing of this was"
                    " acknowledged and no tool was started; what was written before is safe. Make"
                    " space on the disk or repair it: the daemon then continues by itself."
                )
                refusal.__cause__ = cause
                done.set_exception(refusal)
        self._go_on()

    def _go_on(self) -> None:
        if self._queue:
            self._loop.call_soon(self._commit)
        else:
            self._committing = False
            self._idle.set()

    def _read_here(self, item: WorkItem[T]) -> bool:
        """False when it takes too long: then it has to be run again, in a thread."""
        self._read_until = monotonic() + LONG_READ_S
        self._reader.set_progress_handler(self._is_too_long, CHECK_EVERY)
        try:
            self._read(item)
        except sqlite3.OperationalError as exc:
            code = getattr(exc, "sqlite_errorcode", 0)
            if code not in (sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_BUSY):
                raise
            return False
        return True

    def _is_too_long(self) -> bool:
        return monotonic() > self._read_until

    async def _read_in_thread(self, item: WorkItem[T]) -> None:
        self._long_reads += 1
        self._reader.set_progress_handler(None, 0)
        try:
            work = _run(self._read_thread, _run_patiently, self._reader, self._read, item)
            await run_to_completion(work)  # the connection is free only then
        finally:
            self._long_reads -= 1

    def _read(self, item: WorkItem[T]) -> None:
        self._reader.execute("BEGIN")
        try:
            item.run(self._read_tx)
        finally:
            self._reader.execute("ROLLBACK")


async def _connect(connect: Callable[[], sqlite3.Connection]) -> aiosqlite.Connection:
    """Open a connection and the thread for its slow work. Raises what `connect` raises."""
    connection = aiosqlite.Connection(connect, BATCH)
    with ExitStack() as undo:
        undo.callback(connection._thread.join)  # a failed one would outlive the event loop
        await connection
        undo.pop_all()
    return connection


def _run(
    thread: aiosqlite.Connection, work: Callable[..., T], *args: Any
) -> Coroutine[Any, Any, T]:
    """Run it as a whole in the thread: a hop for each statement would cost 1.5 to 4 times as
    much.
    """
    return thread._execute(work, *args)


def _do_nothing(_: Tx) -> None:
    pass


def _run_patiently(db: sqlite3.Connection, work: Callable[[A], T], argument: A) -> T:
    """In a thread: another program's lock on the file is waited for."""
    db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    try:
        return work(argument)
    finally:
        db.execute("PRAGMA busy_timeout = 0")
