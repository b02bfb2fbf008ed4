"""Group commit: many pieces of work, one transaction, one flush to disk."""

import sqlite3
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Generic, TypeVar

from daemon.core.errors import Conflict
from daemon.store.journal import Tx

R = TypeVar("R")

WORK_ERRORS = (
    sqlite3.IntegrityError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
    sqlite3.NotSupportedError,
)


class WorkItem(Generic[R]):
    """One piece of work, and what it returned or raised, carried from its thread to its caller.

    A context manager, because whatever the work raises is its caller's business and nobody else's;
    an error of the disk, the file or another process passes: then the transaction as a whole has
    failed.
    """

    def __init__(self, work: Callable[[Tx], R]) -> None:
        self._work = work
        self._results: list[R] = []
        self.error: BaseException | None = None
        self.posted = False

    def run(self, tx: Tx) -> None:
        """`posted` tells afterwards whether there is something new to deliver."""
        self.error = None
        tx.posted = False
        with self:
            self._results[:] = [self._work(tx)]
        self.posted = tx.posted and self.error is None

    def result(self) -> R:
        """What the work returned. Raises what it raised."""
        if isinstance(self.error, sqlite3.IntegrityError):
            raise Conflict() from self.error
        if self.error:
            raise self.error
        return self._results[0]

    def __enter__(self) -> None:
        """Whatever is raised now is kept."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, WORK_ERRORS):
            return False
        self.error = error
        return True


def commit_all(db: sqlite3.Connection, tx: Tx, items: Sequence[WorkItem[object]]) -> bool:
    """One transaction around all of them; work that raises is undone alone. True when something
    went to disk.

    Raises sqlite3.DatabaseError when the transaction as a whole has failed: then nothing of it
    stands.
    """
    before = db.total_changes
    try:
        db.execute("BEGIN IMMEDIATE")
        if len(items) == 1:
            items[0].run(tx)
        else:
            for item in items:
                db.execute("SAVEPOINT work")
                item.run(tx)
                if item.error:
                    db.execute("ROLLBACK TO work")
                db.execute("RELEASE work")
        done = any(item.error is None for item in items)
        if done:
            db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
    return done and db.total_changes > before
