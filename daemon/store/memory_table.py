"""A table of the in-memory journal: a dict in order of arrival, whose changes can be undone."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from daemon.core.journal import Conflict

K = TypeVar("K")
V = TypeVar("V")

Undo = list[Callable[[], None]]


class MemoryTable(Generic[K, V]):
    """Rows by key. Each change leaves the way back in `undo`, which the store runs backwards when a work raises."""

    def __init__(self, undo: Undo) -> None:
        self._undo = undo
        self._rows: dict[K, V] = {}

    def __iter__(self) -> Iterator[V]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, key: K) -> V:
        return self._rows[key]

    def names(self) -> Iterator[K]:
        """The keys, in order of arrival."""
        return iter(self._rows)

    def get(self, key: K) -> V | None:
        """The row, where there is one."""
        return self._rows.get(key)

    def insert(self, key: K, row: V) -> None:
        """A new row. Raises Conflict when there is one of this key."""
        if key in self._rows:
            raise Conflict()
        self.put(key, row)

    def put(self, key: K, row: V) -> None:
        """Insert at the end, or replace in place."""
        if key in self._rows:
            old = self._rows[key]
            self._undo.append(lambda: self._rows.__setitem__(key, old))
        else:
            self._undo.append(lambda: self._rows.__delitem__(key))
        self._rows[key] = row

    def drop(self, key: K) -> bool:
        """Take it out; False when it is not there."""
        if key not in self._rows:
            return False
        before = dict(self._rows)
        self._undo.append(lambda: self._restore(before))
        del self._rows[key]
        return True

    def _restore(self, before: dict[K, V]) -> None:
        self._rows = before
