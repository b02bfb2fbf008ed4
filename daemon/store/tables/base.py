"""Instants as the journal keeps them: whole microseconds since 1970, so that they compare and index as numbers.

What all tables' modules stand on: a connection, used in its own thread only.
"""

import sqlite3
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def to_db(instant: datetime) -> int:
    """The number to store. Raises TypeError for an instant without a time zone."""
    return (instant - EPOCH) // MICROSECOND


def from_db(number: int) -> datetime:
    """The aware UTC instant."""
    return EPOCH + timedelta(microseconds=number)


def maybe_to_db(instant: datetime | None) -> int | None:
    """The same, where there may be none."""
    return None if instant is None else to_db(instant)


def maybe_from_db(number: int | None) -> datetime | None:
    """The same, where there may be none."""
    return None if number is None else from_db(number)


class Table:
    """SQL over one connection. Each table's module adds its verbs; `store/tx.py` joins them."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.posted = False  # something to deliver was written down; its reader sets it back
