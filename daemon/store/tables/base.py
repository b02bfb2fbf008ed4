"""What every table uses: instants as numbers, rows as values, and one connection."""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from enum import EnumMeta
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, cast, get_args

from daemon.core.rows import AnyPath
from daemon.core.turn_spec import Limits

R = TypeVar("R")
Converter = Callable[[Any], Any]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def to_db(instant: datetime) -> int:
    """Whole microseconds since 1970, which compare as numbers. Raises TypeError for an instant
    without a time zone.
    """
    return (instant - EPOCH) // MICROSECOND


def from_db(number: int) -> datetime:
    """The aware UTC instant."""
    return EPOCH + timedelta(microseconds=number)


def _limits_to_json(limits: Limits) -> str:
    return json.dumps(asdict(limits))


def _limits_from_json(text: str) -> Limits:
    return Limits(**json.loads(text))


def _tuple_from_json(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


CONVERTERS: dict[object, tuple[Converter, Converter]] = {
    datetime: (to_db, from_db),
    bool: (int, bool),
    AnyPath: (json.dumps, json.loads),
    Limits: (_limits_to_json, _limits_from_json),
    tuple[str, ...]: (json.dumps, _tuple_from_json),
}


def _find_converters(kind: Any) -> tuple[Converter, Converter] | None:
    if kind in CONVERTERS:
        return CONVERTERS[kind]
    if isinstance(kind, UnionType):
        return _find_converters(next(one for one in get_args(kind) if one is not NoneType))
    return (attrgetter("value"), kind) if isinstance(kind, EnumMeta) else None


class RowMapper(Generic[R]):
    """Rows of a table as values of a dataclass: a column for each field, of the same name."""

    def __init__(self, kind: type[R], table: str) -> None:
        columns = fields(cast(Any, kind))
        names = [one.name for one in columns]
        found = [(index, _find_converters(one.type)) for index, one in enumerate(columns)]
        self._kind = kind
        self._get = attrgetter(*names)
        self._converters = [(index, *both) for index, both in found if both]
        self.select = f"SELECT {', '.join(names)} FROM {table} "
        self.insert = (
            f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) "
        )

    def from_columns(self, columns: tuple[object, ...]) -> R:
        """The value of a row as `select` gives it."""
        values = list(columns)
        for index, _, load in self._converters:
            if values[index] is not None:
                values[index] = load(values[index])
        return self._kind(*values)

    def to_columns(self, row: R) -> list[object]:
        """The columns of a value, for `insert`."""
        values = list(self._get(row))
        for index, dump, _ in self._converters:
            if values[index] is not None:
                values[index] = dump(values[index])
        return values


class Table:
    """SQL over one connection. Each module adds the methods of its tables; `store/journal.py`
    joins them.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.posted = False  # something to deliver was written; its reader sets it back

    def _one(self, rows: RowMapper[R], where: str, *arguments: object) -> R | None:
        found = self._db.execute(rows.select + where, arguments).fetchone()
        return rows.from_columns(found) if found else None

    def _all(self, rows: RowMapper[R], where: str, *arguments: object) -> list[R]:
        return [
            rows.from_columns(found) for found in self._db.execute(rows.select + where, arguments)
        ]

    def _insert(self, rows: RowMapper[R], row: R, conflict: str = "") -> bool:
        """Whether a row was written; `conflict` says what to do where there is one."""
        return self._db.execute(rows.insert + conflict, rows.to_columns(row)).rowcount == 1

    def _run(self, statement: str, *arguments: object) -> bool:
        """Whether the statement changed a row."""
        return self._db.execute(statement, arguments).rowcount > 0

    def _text(self, query: str, *arguments: object) -> str | None:
        """The only column of the first row."""
        found = self._db.execute(query, arguments).fetchone()
        return None if found is None else found[0]
