"""The journal in one SQLite file: one connection that writes in groups, one that reads
(guarantees.md).

What was quick of late runs in the event loop's thread, commits and reads each by themselves: a hop
to another thread costs more than they do. A slow disk, a lock of another program or a long read
must not hold up the others: those run in threads, each piece as a whole: a hop for each statement
would cost 1.5 to 4 times as much.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, Generic, TypeVar

import aiosqlite

from daemon.core.clock import Commit, run_to_completion
from daemon.core.errors import Conflict, StoreUnavailable
from daemon.store.erasing import WordEraser, erase_words
from daemon.store.journal import Tx
from daemon.store.migrate import (
    BUSY_MS,
    SPOILT,
    UNREADABLE,
    describe_damage,
    find_damage,
    has_code,
    open_reader,
    open_writer,
)

MOVED = (
    "{path}: a file of the journal was replaced or removed while the daemon runs. Nothing more is"
    " taken in or done. {advice}, and start it again."
)
PUT_BACK = "Stop the daemon, put it back, or take the last backup with `aidaemon backup restore`"
USE_KEPT = (
    "All that was accepted before is in {kept}. Stop the daemon, rename that file to {name}, remove"
    " {name}-wal and {name}-shm"
)
A = TypeVar("A")
T = TypeVar("T")
F = TypeVar("F", bound="asyncio.Future[Any]")

LOCKED = (sqlite3.SQLITE_BUSY,)  # by another program, which perhaps repairs the log
BATCH = 512
QUICK_S = 0.005  # commits and reads that take less run in the event loop's thread
FORGET = 0.9  # of the slowest commit, with each one after it
SLOW_DISK = 20  # so many times longer a commit takes where reads must be slow, too
READ_PAUSE_S = 5.0  # after a slow read none runs in the event loop's thread
LONG_READ_S = 0.004
CHECK_EVERY = 5_000  # steps of SQLite's machine between two looks at the time
RECHECK_S, RECHECK_SHARE = 60.0, 20.0  # between two looks at a damaged file; in times of a look
CANNOT_WRITE = (
    "{path}: the journal cannot be written: {cause}. Nothing of this was acknowledged and no tool"
    " was started; what was written before is safe. Make space on the disk or repair it: the daemon"
    " then continues by itself."
)
WORK_ERRORS = (sqlite3.ProgrammingError, sqlite3.DataError, sqlite3.NotSupportedError)

log = logging.getLogger(__name__)


class FileMoved(sqlite3.DatabaseError):
    """What stands at the journal's path is not what is open: what is written is found by nobody."""


@dataclass(slots=True, eq=False)
class Work(Generic[T]):
    """One piece of work, and what it returned or raised, carried from its thread to its caller."""

    work: Callable[[Tx], T]
    done: asyncio.Future[T] | None = None
    results: list[T] = field(default_factory=list)
    error: BaseException | None = None
    posted: bool = False

    def run(self, tx: Tx) -> None:
        """`posted` tells afterwards whether there is something new to deliver. Whatever the work
        raises is its caller's business; an error of the disk, the file or another process passes:
        then the transaction as a whole has failed.
        """
        self.error, tx.posted = None, False
        try:
            self.results[:] = [self.work(tx)]
            self.posted = tx.posted
        except sqlite3.IntegrityError as error:
            self.error = Conflict()
            self.error.__cause__ = error
        except BaseException as error:
            code = getattr(error, "sqlite_errorcode", None)  # ERROR: a statement that is wrong
            is_own = isinstance(error, WORK_ERRORS) or code == sqlite3.SQLITE_ERROR
            if is_own or not isinstance(error, sqlite3.DatabaseError):
                self.error = error
                return
            raise

    def settle(self) -> None:
        """Tell the caller, unless it was cancelled."""
        done, error = self.done, self.error
        if done is None or done.done():
            return
        if isinstance(error, StopIteration):  # no future takes it
            error = RuntimeError("StopIteration")
        if error:
            done.set_exception(error)
        else:
            done.set_result(self.results[0])


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
        self._queue: list[Work[Any]] = []
        self._slowest = self._no_read_here_until = 0.0
        self._committing = self._closing = False
        self._idle = asyncio.Event()
        self._long_reads = 0
        self._read_until = 0.0
        self._cannot_write = self._damage = ""
        self._advice = PUT_BACK
        self._files = path, path.with_name(f"{path.name}-wal")
        self._inodes: list[tuple[int, int]] | None = None
        self._is_moved()
        self._recheck_at = 0.0
        self._rechecking: asyncio.Task[None] | None = None
        self._watchers: set[Callable[[], None]] = set()

    @classmethod
    async def open(cls, path: Path, quick_s: float = QUICK_S) -> "SqliteStore":
        """Open, or make, the file, and bring its schema up. Raises JournalUnusable, with what to do
        about it.
        """
        writer = await _connect(partial(open_writer, path))
        return cls(path, writer, await _connect(partial(open_reader, path)), quick_s)

    @property
    def problem(self) -> str:
        """What is wrong with the file; "" while the last commit worked and no damage was found."""
        if self._is_moved():
            return "a file of the journal was replaced or removed"
        damaged = f"the journal is damaged ({self._damage})" if self._damage else ""
        return damaged or self._cannot_write

    def _is_moved(self) -> bool:
        """The file, or its log, is another one now. Before both were seen nothing was written."""
        try:
            found = [(one.st_dev, one.st_ino) for one in map(Path.stat, self._files)]
        except OSError:
            return self._inodes is not None
        self._inodes = self._inodes or found
        return found != self._inodes

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run as one atomic unit; on disk when this returns. It is done even if the caller is
        cancelled meanwhile.
        """
        return await self._enqueue(work, self._loop.create_future())

    def submit(self, work: Callable[[Tx], T]) -> Commit[T]:
        """Its end is that it is on disk, or that it is not."""
        return self._enqueue(work, Commit(loop=self._loop))

    def _enqueue(self, work: Callable[[Tx], T], done: F) -> F:
        if self._closing:
            raise StoreUnavailable(f"{self._path}: the journal is closed; nothing was written.")
        if self._damage:
            self._recheck_soon()
            raise StoreUnavailable(self._describe_damage())
        self._queue.append(Work(work, done))
        if not self._committing:  # others of this step of the loop go along
            self._committing = True
            self._loop.call_soon(self._commit)
        return done

    async def read(self, look: Callable[[Tx], T]) -> T:
        """Run over what is committed, in one snapshot."""
        if self._closing:
            raise StoreUnavailable(f"{self._path}: the journal is closed.")
        item = Work(look)
        try:
            if self._is_read_slow() or not self._read_here(item):
                self._long_reads += 1
                try:
                    run = self._read_thread._execute
                    # the connection is free only at its end
                    await run_to_completion(run(_run_patiently, self._reader, self._read, item))
                finally:
                    self._long_reads -= 1
        except sqlite3.Error as exc:
            why = f"{self._path}: the journal cannot be read: {exc}. Nothing was changed."
            if has_code(exc, UNREADABLE):
                self._note_damage(exc)
                why = self._describe_damage()
            raise StoreUnavailable(why) from exc
        if item.error:
            raise item.error
        return item.results[0]

    def _note_damage(self, error: sqlite3.Error) -> None:
        """From now on nothing is written: what stands in a damaged file cannot be relied on."""
        if not self._damage:
            self._damage, self._recheck_at = str(error), monotonic() + RECHECK_S
            if isinstance(error, FileMoved):
                self._rechecking = self._loop.create_task(self._keep(), name="journal copy")
                return
            log.error("%s", self._describe_damage())

    def _describe_damage(self) -> str:
        if self._is_moved():
            return MOVED.format(path=self._path, advice=self._advice)
        return describe_damage(self._path, self._damage, running=True)

    async def _keep(self) -> None:
        """What is open is whole: it is copied to a name that nobody has used."""
        self._long_reads += 1
        try:
            run = self._read_thread._execute
            kept = await run_to_completion(run(_copy_aside, self._reader, self._path))
            self._advice = USE_KEPT.format(kept=kept, name=self._path.name)
        except (OSError, sqlite3.Error) as error:
            log.error("%s: what was accepted could not be copied: %s", self._path, error)
        finally:
            self._long_reads -= 1
        log.error("%s", self._describe_damage())

    def _recheck_soon(self) -> None:
        """A disk may come back: the whole file is looked through, now and then."""
        if monotonic() >= self._recheck_at:
            self._recheck_at = float("inf")
            self._rechecking = self._loop.create_task(self._recheck(), name="journal recheck")

    async def _recheck(self) -> None:
        began = monotonic()
        found = self._is_moved() or await asyncio.to_thread(find_damage, self._path)
        self._recheck_at = monotonic() + max(RECHECK_S, RECHECK_SHARE * (monotonic() - began))
        if not found:
            log.warning("%s: the journal can be read again", self._path)
            self._damage = ""

    def watch_outbox(self, told: Callable[[], None]) -> Callable[[], None]:
        """Call `told` soon after each commit that holds something new to deliver: once for a whole
        batch.
        """
        self._watchers.add(told)
        return partial(self._watchers.discard, told)

    async def vacuum(self) -> None:
        """Give free pages back to the disk. What is written meanwhile waits in the queue."""
        await self._do_alone(self._vacuum)

    async def erase(self, words: WordEraser | None = None, *, only_try: bool = False) -> bool:
        """Put something else in place of these words; then nothing of what was removed is left in
        the file, or in the log of changes beside it. It is read and written anew, which takes some
        seconds for a gigabyte. Gives whether one of them stood there. Raises NameTaken; with
        `only_try` nothing is changed.
        """
        return await self._do_alone(lambda: self._erase(words, only_try=only_try))

    async def _do_alone(self, work: Callable[[], T]) -> T:
        while self._committing:
            await self.write(_do_nothing)
        self._committing = True
        try:
            return await run_to_completion(self._write_thread._execute(work))
        finally:
            self._finish([], wrote=False)

    def _vacuum(self) -> None:
        if self._writer.execute("PRAGMA auto_vacuum").fetchone() == (0,):  # once, the whole file
            self._writer.executescript("PRAGMA auto_vacuum = INCREMENTAL; VACUUM;")
        self._writer.execute("PRAGMA incremental_vacuum").fetchall()

    def _erase(self, words: WordEraser | None, *, only_try: bool) -> bool:
        found = False
        if words:
            self._writer.execute("BEGIN IMMEDIATE")
            end = "ROLLBACK"
            try:
                found = erase_words(self._writer, words) > 0
                end = "ROLLBACK" if only_try else "COMMIT"
            finally:
                self._writer.execute(end)
        if not only_try:
            _run_patiently(self._writer, _rewrite, self._writer)
        return found

    async def aclose(self) -> None:
        """Finish what is queued, then close."""
        self._closing = True
        if self._committing:
            self._idle.clear()
            await self._idle.wait()
        if self._rechecking:
            await asyncio.wait([self._rechecking])
        await self._read_thread.close()
        await self._write_thread.close()

    def _commit(self) -> None:
        batch, self._queue = self._queue[:BATCH], self._queue[BATCH:]
        is_locked = False
        if self._slowest < self._quick_s:
            try:
                self._finish(batch, wrote=self._commit_all(batch))
                return
            except sqlite3.Error as exc:
                if not (is_locked := has_code(exc, LOCKED)):
                    self._finish(batch, wrote=False, cause=exc)
                    return
        work = self._write_thread._execute(self._commit_in_thread, batch, is_locked)
        self._slow_commit = self._loop.create_task(work)
        self._slow_commit.add_done_callback(partial(self._end_in_thread, batch))

    def _commit_all(self, batch: Sequence[Work[Any]]) -> bool:
        """Group commit: one transaction around all of them, one flush to disk; work that raises is
        undone alone. True when something went to disk.

        Raises sqlite3.DatabaseError when the transaction as a whole has failed: then nothing of it
        stands.
        """
        db, began, before = self._writer, monotonic(), self._writer.total_changes
        try:
            db.execute("BEGIN IMMEDIATE")
            for item in batch:
                if len(batch) > 1:
                    db.execute("SAVEPOINT work")
                item.run(self._write_tx)
                if item.error and len(batch) > 1:
                    db.execute("ROLLBACK TO work")
                if len(batch) > 1:
                    db.execute("RELEASE work")
            if done := any(item.error is None for item in batch):
                if self._is_moved():  # before it: what is refused is not written either
                    raise FileMoved(FileMoved.__doc__)
                db.execute("COMMIT")
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")
            self._slowest = max(self._slowest * FORGET, monotonic() - began)
        return done and db.total_changes > before

    def _commit_in_thread(self, batch: Sequence[Work[Any]], is_locked: bool) -> bool:
        if not is_locked:
            try:
                return self._commit_all(batch)
            except sqlite3.Error as exc:
                if not has_code(exc, LOCKED):
                    raise
        return _run_patiently(self._writer, self._commit_all, batch)

    def _end_in_thread(self, batch: Sequence[Work[Any]], future: asyncio.Future[bool]) -> None:
        cause = future.exception()
        self._finish(batch, wrote=cause is None and future.result(), cause=cause)

    def _finish(
        self, batch: Sequence[Work[Any]], *, wrote: bool, cause: BaseException | None = None
    ) -> None:
        """Tell those who wait for this batch; `cause` is why it could not be written."""
        if isinstance(cause, FileMoved) or (
            isinstance(cause, sqlite3.Error) and has_code(cause, SPOILT)
        ):
            self._note_damage(cause)
        elif cause and not self._cannot_write:
            log.error("%s: the journal cannot be written: %s", self._path, cause)
        elif wrote and self._cannot_write:
            log.warning("%s: the journal can be written again", self._path)
        if cause or wrote:
            self._cannot_write = f"the journal cannot be written: {cause}" if cause else ""
        for item in batch:
            if cause:
                item.posted = False
                why = CANNOT_WRITE.format(path=self._path, cause=cause)
                item.error = StoreUnavailable(self._describe_damage() if self._damage else why)
                item.error.__cause__ = cause
            item.settle()
        if any(item.posted for item in batch):
            for told in self._watchers:
                self._loop.call_soon(told)
        if self._queue:
            self._loop.call_soon(self._commit)
        else:
            self._committing = False
            self._idle.set()

    def _is_read_slow(self) -> bool:
        """It is likely to be; the one in the thread, if there is one, has the connection."""
        is_disk_slow = self._slowest >= SLOW_DISK * self._quick_s
        return bool(self._long_reads) or is_disk_slow or monotonic() < self._no_read_here_until

    def _read_here(self, item: Work[T]) -> bool:
        """False when it takes too long: then it has to be run again, in a thread."""
        began = monotonic()
        self._read_until = began + LONG_READ_S
        try:
            self._read(item, self._is_too_long)
        except sqlite3.OperationalError as exc:
            if not has_code(exc, (sqlite3.SQLITE_INTERRUPT, *LOCKED)):
                raise
            return False
        finally:
            ended = monotonic()
            if ended - began >= LONG_READ_S + self._quick_s:  # it was not interrupted in time
                self._no_read_here_until = ended + READ_PAUSE_S
        return True

    def _is_too_long(self) -> bool:
        return monotonic() > self._read_until

    def _read(self, item: Work[T], is_too_long: Callable[[], bool] | None = None) -> None:
        """Only the work itself may be interrupted: SQLite counts a statement's steps over all its
        runs, so a ROLLBACK under the handler would be cut off once in some 800 reads.
        """
        self._reader.execute("BEGIN")
        try:
            self._reader.set_progress_handler(is_too_long, CHECK_EVERY)
            item.run(self._read_tx)
        finally:
            self._reader.set_progress_handler(None, 0)
            self._reader.execute("ROLLBACK")


async def _connect(connect: Callable[[], sqlite3.Connection]) -> aiosqlite.Connection:
    """Open a connection and the thread for its slow work. Raises what `connect` raises."""
    connection = aiosqlite.Connection(connect, BATCH)
    with ExitStack() as undo:
        undo.callback(connection._thread.join)  # a failed one would outlive the event loop
        await connection
        undo.pop_all()
    return connection


def _rewrite(db: sqlite3.Connection) -> None:
    """Raises sqlite3.OperationalError when a reader holds on to the log of changes."""
    db.execute("VACUUM")
    if db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        raise sqlite3.OperationalError("the log of changes is in use")


def _copy_aside(db: sqlite3.Connection, path: Path) -> Path:
    """The owner alone may read it, as HOME. Raises OSError, sqlite3.Error."""
    for number in count(1):
        kept = path.with_name(f"{path.stem}-kept-{number}{path.suffix}")
        with suppress(FileExistsError):
            kept.touch(mode=0o600, exist_ok=False)
            break
    with closing(sqlite3.connect(kept)) as copy:
        db.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE").fetchone()
    return kept


def _do_nothing(_: Tx) -> None:
    pass


def _run_patiently(db: sqlite3.Connection, work: Callable[[A], T], argument: A) -> T:
    """In a thread: another program's lock on the file is waited for. Each PRAGMA is compiled anew:
    a commit is run like this only where there is such a lock.
    """
    db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    try:
        return work(argument)
    finally:
        db.execute("PRAGMA busy_timeout = 0")
