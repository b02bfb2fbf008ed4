"""One SQLite connection and the thread it lives in, asked with one hop per operation."""

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

import aiosqlite

from daemon.store.tx import SqliteTx

A = TypeVar("A")
R = TypeVar("R")

ITERATION_CHUNK = 64  # aiosqlite asks for one; nothing here iterates through it


class SqliteThread:
    """A whole transaction runs as one function in the connection's thread; always close it, or the process does not end."""

    def __init__(self, connection: aiosqlite.Connection, db: sqlite3.Connection) -> None:
        self._connection = connection
        self._db = db
        self._tx = SqliteTx(db)

    @classmethod
    async def open(cls, connect: Callable[[], sqlite3.Connection]) -> "SqliteThread":
        """Start the thread and connect in it. Raises what `connect` raises."""
        connection = aiosqlite.Connection(connect, ITERATION_CHUNK)
        with ExitStack() as undo:
            undo.callback(connection._thread.join)  # a failed one would outlive the event loop, and complain
            await connection
            undo.pop_all()
        return cls(connection, connection._conn)

    async def run(self, operation: Callable[[sqlite3.Connection, SqliteTx, A], R], argument: A) -> R:
        """Run it in the thread.

        aiosqlite's public verbs hop there and back for each statement, which makes a transaction of four 1.5 to 4 times as
        dear; `_execute` is how they do it, and takes any function.
        """
        return await self._connection._execute(operation, self._db, self._tx, argument)

    async def aclose(self) -> None:
        """After what was asked before, close the connection and end the thread."""
        await self._connection.close()
