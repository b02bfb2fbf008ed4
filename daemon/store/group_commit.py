"""One SQLite connection and the thread it lives in, asked with one hop per operation.

Group commit, as it happens in the writer's thread: many works, one transaction, one flush to disk.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Generic, TypeVar

import aiosqlite

from daemon.core.journal import Conflict
from daemon.store.transaction import SqliteTx

A = TypeVar("A")
R = TypeVar("R")

ITERATION_CHUNK = 64  # aiosqlite asks for one; nothing here iterates through it


class ConnectionThread:
    """A whole transaction runs as one function in the connection's thread; always close it, or the process does not end."""

    def __init__(self, connection: aiosqlite.Connection, db: sqlite3.Connection) -> None:
        self._connection = connection
        self._db = db
        self._tx = SqliteTx(db)

    @classmethod
    async def open(cls, connect: Callable[[], sqlite3.Connection]) -> "ConnectionThread":
        """Start the thread and connect in it. Raises what `connect` raises."""
        connection = aiosqlite.Connection(connect, ITERATION_CHUNK)
        with ExitStack() as undo:
            undo.callback(
                connection._thread.join
            )  # a failed one would outlive the event loop, and complain
            await connection
            undo.pop_all()
        return cls(connection, connection._conn)

    async def run(
        self, operation: Callable[[sqlite3.Connection, SqliteTx, A], R], argument: A
    ) -> R:
        """Run it in the thread.

        aiosqlite's public verbs hop there and back for each statement, which makes a transaction of four 1.5 to 4 times as
        dear; `_execute` is how they do it, and takes any function.
        """
        return await self._connection._execute(operation, self._db, self._tx, argument)

    async def aclose(self) -> None:
        """After what was asked before, close the connection and end the thread."""
        await self._connection.close()


T_co = TypeVar("T_co", covariant=True)

WORK_ERRORS = (
    sqlite3.IntegrityError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
    sqlite3.NotSupportedError,
)


def is_disk_error(error: BaseException | None) -> bool:
    """The disk, the file or another process is to blame, not the work: then the transaction as a whole has failed."""
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, WORK_ERRORS)


class WorkItem(Generic[T_co]):
    """One work, and what it gave or raised, carried over from the thread to its caller.

    A context manager, because whatever a work raises is its caller's business and nobody else's; trouble of the disk passes.
    """

    def __init__(self, work: Callable[[SqliteTx], T_co]) -> None:
        self._work = work
        self._gave: list[T_co] = []
        self.error: BaseException | None = None
        self.posted = False

    def run(self, tx: SqliteTx) -> None:
        """Do it; what it raises is kept. `posted` then tells whether there is something new to deliver."""
        self.error = None
        tx.posted = False
        with self:
            self._gave[:] = [self._work(tx)]
        self.posted = tx.posted and self.error is None

    def result(self) -> T_co:
        """What the work gave. Raises what it raised."""
        if isinstance(self.error, sqlite3.IntegrityError):
            raise Conflict() from self.error
        if self.error:
            raise self.error
        return self._gave[0]

    def __enter__(self) -> None:
        """Whatever happens now is kept."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if is_disk_error(error):
            return False
        self.error = error
        return True


def commit_all(db: sqlite3.Connection, tx: SqliteTx, attempts: Sequence[WorkItem[object]]) -> bool:
    """One transaction around all of them; a work that raises is undone alone. True when something went to disk.

    Raises sqlite3.DatabaseError when the transaction as a whole has failed: then nothing of it stands.
    """
    before = db.total_changes
    try:
        db.execute("BEGIN IMMEDIATE")
        kept = _run_one(db, tx, attempts[0]) if len(attempts) == 1 else _run_each(db, tx, attempts)
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
    return kept and db.total_changes > before


def read_snapshot(db: sqlite3.Connection, tx: SqliteTx, attempt: WorkItem[object]) -> None:
    """Run over one snapshot."""
    db.execute("BEGIN")
    try:
        attempt.run(tx)
    finally:
        db.execute("ROLLBACK")


def _run_one(db: sqlite3.Connection, tx: SqliteTx, attempt: WorkItem[object]) -> bool:
    attempt.run(tx)
    if attempt.error is None:
        db.execute("COMMIT")
    return attempt.error is None


def _run_each(db: sqlite3.Connection, tx: SqliteTx, attempts: Sequence[WorkItem[object]]) -> bool:
    for attempt in attempts:
        db.execute("SAVEPOINT work")
        attempt.run(tx)
        if attempt.error:
            db.execute("ROLLBACK TO work")
        db.execute("RELEASE work")
    db.execute("COMMIT")
    return any(attempt.error is None for attempt in attempts)
