"""What every table uses: instants as numbers, rows as values, statements as methods."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from enum import EnumMeta
from functools import partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Generic, ParamSpec, TypeVar, cast, get_args

from daemon.core.quoted import Spans
from daemon.core.rows import AnyPath
from daemon.core.turn_spec import Limits

P = ParamSpec("P")
R = TypeVar("R")

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


def _dump_limits(limits: Limits) -> str:
    return json.dumps(asdict(limits))


def _load_limits(text: str) -> Limits:
    return Limits(**json.loads(text))


DUMP: dict[type, Callable[[Any], object]] = {
    datetime: to_db,
    Limits: _dump_limits,
    tuple: json.dumps,
}
LOAD: dict[object, Callable[[Any], object]] = {
    datetime: from_db,
    bool: bool,
    AnyPath: json.loads,
    Limits: _load_limits,
    tuple[str, ...]: lambda text: () if text == "[]" else tuple(json.loads(text)),
    Spans: lambda text: tuple(map(tuple, json.loads(text))),
}


class RowMapper(Generic[R]):
    """Rows of a table as values of a dataclass: a column for each field, of the same name."""

    def __init__(self, kind: type[R], table: str) -> None:
        columns = fields(cast(Any, kind))
        names = [one.name for one in columns]
        found = [(index, _find_loader(one.type)) for index, one in enumerate(columns)]
        self._kind = kind
        self._loaders = [(index, load) for index, load in found if load]
        self.values = attrgetter(*names)
        self.select = f"SELECT {', '.join(names)} FROM {table} "
        self.insert = (
            f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) "
        )

    def load(self, columns: Sequence[object]) -> R:
        """The value of a row as `select` gives it."""
        values = list(columns)
        for index, load in self._loaders:
            if values[index] is not None:
                values[index] = load(values[index])
        return self._kind(*values)


def _find_loader(kind: Any) -> Callable[[Any], object] | None:
    if isinstance(kind, UnionType):
        kind = next(one for one in get_args(kind) if one is not NoneType)
    return LOAD.get(kind) or (kind if isinstance(kind, EnumMeta) else None)


class Table:
    """SQL over one connection. Each module adds the methods of its tables; `store/journal.py`
    joins them.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.posted = False  # something to deliver was written; its reader sets it back

    def _do(self, statement: str, *arguments: object) -> sqlite3.Cursor:
        values = [DUMP[type(one)](one) if type(one) in DUMP else one for one in arguments]
        return self._db.execute(statement, values)

    def _one(self, rows: RowMapper[R], where: str, *arguments: object) -> R | None:
        found = self._do(rows.select + where, *arguments).fetchone()
        return rows.load(found) if found else None

    def _all(self, rows: RowMapper[R], where: str, *arguments: object) -> list[R]:
        return [rows.load(found) for found in self._do(rows.select + where, *arguments)]

    def _insert(self, rows: RowMapper[R], conflict: str, row: R) -> bool:
        """Whether a row was written; `conflict` says what to do where there is one."""
        return self._do(rows.insert + conflict, *rows.values(row)).rowcount > 0

    def _run(self, statement: str, *arguments: object) -> bool:
        """Whether the statement changed a row."""
        return self._do(statement, *arguments).rowcount > 0

    def _value(self, query: str, *arguments: object) -> Any:
        """The only column of the first row."""
        found = self._do(query, *arguments).fetchall()  # to its end: it may write, too
        return found[0][0] if found else None


class Method(Generic[P, R]):
    """A method of a table that is one statement; its arguments are the statement's, in order."""

    def __init__(self, verb: Callable[..., R], *first: object) -> None:
        self._verb, self._first = verb, first

    def __get__(self, table: Table, owner: type) -> Callable[P, R]:
        return partial(self._verb, table, *self._first)


class Get(Method[P, R | None], Generic[P, R]):
    """The one row where this holds."""

    def __init__(self, rows: RowMapper[R], where: str) -> None:
        super().__init__(Table._one, rows, where)


class List(Method[P, list[R]], Generic[P, R]):
    """All rows where this holds."""

    def __init__(self, rows: RowMapper[R], where: str) -> None:
        super().__init__(Table._all, rows, where)


class Insert(Method[[R], bool], Generic[R]):
    """Writes a row; `conflict` says what to do where there is one."""

    def __init__(self, rows: RowMapper[R], conflict: str = "") -> None:
        super().__init__(Table._insert, rows, conflict)


class Run(Method[P, bool], Generic[P]):
    """Whether the statement changed a row."""

    def __init__(self, statement: str) -> None:
        super().__init__(Table._run, statement)


class Value(Method[P, R], Generic[P, R]):
    """The only column of the first row."""

    def __init__(self, query: str) -> None:
        super().__init__(Table._value, query)
