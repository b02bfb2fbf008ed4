"""How well the tokens of a text fit those of a question (MaxSim), by signs that are kept."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from memory.embedder import WIDTH, Embedder, TextVectors, unpack

if TYPE_CHECKING:
    from numpy import bool_, int64, uint64
    from numpy.typing import NDArray

    from memory.embedder import Vectors

ROUGH, NEAREST, PAGE = 1000, 300, 8192
CACHED = 2048  # so many pairs, unpacked, stay in the processor's cache
ADD = "INSERT OR REPLACE INTO vectors SELECT id, ?2 FROM spans WHERE id = ?1"
ADD_POOLED = """
INSERT OR REPLACE INTO pooled SELECT id, own, ?2 FROM spans WHERE id = ?1 RETURNING id, own, signs
"""
POOLED = "SELECT id, own, signs FROM pooled"
PAIRS = "SELECT id, pairs FROM vectors WHERE id IN (SELECT value FROM json_each(?))"


class Place(Protocol):
    """Of a row: the number of its sitting, and its own in that."""

    @property
    def id(self) -> int: ...

    @property
    def sitting(self) -> int: ...

    @property
    def place(self) -> int: ...


class VectorIndex:
    """Pooled vectors of all rows, in memory; those of tokens are read where they are needed. Only
    the thread of the file calls it.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self._pooled: _Pooled | None = None
        self._fresh: list[tuple[int, int, bytes]] = []
        self._removals = ""

    def open(self, file: sqlite3.Connection) -> None:
        """What another model has made is of no use; what this one has made is read."""
        known = file.execute("SELECT value FROM state WHERE name = 'model'").fetchone()
        if known != (self.embedder.name,):
            file.execute("DELETE FROM pooled")
            file.execute("DELETE FROM vectors")
            file.execute("INSERT OR IGNORE INTO unembedded SELECT id FROM spans")
            file.execute("INSERT OR REPLACE INTO state VALUES ('model', ?)", (self.embedder.name,))
        self._refresh(file)

    def add(
        self, file: sqlite3.Connection, vectors: Iterable[tuple[int, TextVectors | None]]
    ) -> None:
        """Of rows that are still there; None: the model can make none of it."""
        for row, made in vectors:
            if made:
                file.execute(ADD, (row, made.pairs))
                added = file.execute(ADD_POOLED, (row, made.pooled)).fetchall()
                self._fresh += added if self._pooled else []
            file.execute("DELETE FROM unembedded WHERE id = ?", (row,))

    def find_nearest(
        self,
        file: sqlite3.Connection,
        question: "Vectors",
        among: Sequence[int] | None,
        *,
        own: bool,
    ) -> list[int]:
        """See VectorQuery."""
        import numpy as np  # lazy: the extra memory

        pooled = self._refresh(file)
        hidden = ~pooled.own if own else np.zeros(len(pooled.ids), bool)
        if among is not None:
            hidden |= ~np.isin(pooled.ids, np.array(among, np.int64))
        mean = question[:, :WIDTH].mean(0)
        apart = np.zeros(len(pooled.ids), np.uint16)
        for column, sign in zip(pooled.signs, np.packbits(mean > 0).view(np.uint64), strict=True):
            apart += np.bitwise_count(column ^ sign)
        apart[hidden] = WIDTH + 1
        most = np.searchsorted(np.bincount(apart).cumsum(), ROUGH)
        places = np.flatnonzero(apart <= min(most, WIDTH))
        places = places[np.argsort(apart[places], kind="stable")[:ROUGH]]  # many may be the same
        fit = unpack(pooled.signs[:, places].T.tobytes(), WIDTH) @ mean
        return pooled.ids[places[np.argsort(-fit)[:NEAREST]]].tolist()

    def _refresh(self, file: sqlite3.Connection) -> "_Pooled":
        """All that is in the file, after a removal, too; or what came since."""
        query = "SELECT value FROM state WHERE name = 'removals'"
        (removals,) = file.execute(query).fetchone() or ("",)
        if self._pooled is None or removals != self._removals:
            self._removals, self._fresh = removals, []
            (count,) = file.execute("SELECT count(*) FROM pooled").fetchone()
            found = file.execute(POOLED)
            self._pooled = _Pooled.read(count, iter(lambda: found.fetchmany(PAGE), []))
        elif self._fresh:
            self._pooled = _Pooled.read(len(self._fresh), [self._fresh], self._pooled)
            self._fresh = []
        return self._pooled


@dataclass(frozen=True, slots=True)
class _Pooled:
    """Ids, whose they are, and the signs: a column a row of the text."""

    ids: "NDArray[int64]"
    own: "NDArray[bool_]"
    signs: "NDArray[uint64]"

    @classmethod
    def read(
        cls,
        count: int,
        pages: Iterable[Sequence[tuple[int, int, bytes]]],
        known: "_Pooled | None" = None,
    ) -> "_Pooled":
        """So many rows, after those that are known: they are in memory once, however many."""
        import numpy as np  # lazy: the extra memory

        at = len(known.ids) if known else 0
        ids, own = np.empty(at + count, np.int64), np.empty(at + count, bool)
        signs = np.empty((WIDTH // 64, at + count), np.uint64)
        if known:
            ids[:at], own[:at], signs[:, :at] = known.ids, known.own, known.signs
        for page in pages:
            place, at = slice(at, at + len(page)), at + len(page)
            ids[place] = [row for row, _, _ in page]
            own[place] = [whose for _, whose, _ in page]
            bits = np.frombuffer(b"".join(one for _, _, one in page), np.uint64)
            signs[:, place] = bits.reshape(len(page), -1).T
        return cls(ids, own, signs)


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """One question, put to what is kept in this file."""

    index: VectorIndex
    file: sqlite3.Connection
    question: "Vectors"

    def find_nearest(self, among: Sequence[int] | None, *, own: bool) -> list[int]:
        """Rows whose pooled vector is nearest: by its signs, and the best of these by the
        question's own numbers. `among`: of these only, by their ids; None: of all. `own`: see
        Scope.
        """
        return self.index.find_nearest(self.file, self.question, among, own=own)

    def measure(self, rows: Sequence[Place]) -> tuple[list[float], list[float]]:
        """For each row, the mean over the question's tokens of the best of the row's, from -1 to 1;
        alone, and with the rows before and after it as one. A row without vectors is as good as
        the worst.
        """
        import numpy as np  # lazy: the extra memory

        pairs = dict(self.file.execute(PAIRS, (json.dumps([row.id for row in rows]),)))
        known = [row for row in rows if row.id in pairs]
        if not known:
            return [0.0] * len(rows), [0.0] * len(rows)
        kept = self.question[:, : self.index.embedder.kept]
        best = _find_best(kept, [pairs[row.id] for row in known])
        places = {(row.sitting, row.place): at for at, row in enumerate(known)}
        window = best.copy()
        for step in (-1, 1):
            beside = np.array([places.get((row.sitting, row.place + step), -1) for row in known])
            found = beside >= 0
            window[found] = np.maximum(window[found], best[beside[found]])
        return _spread(rows, known, best.mean(1)), _spread(rows, known, window.mean(1))


def _find_best(kept: "Vectors", texts: Sequence[bytes]) -> "Vectors":
    """For each text and each token of the question, the best of the text's."""
    import numpy as np  # lazy: the extra memory

    width = kept.shape[1]
    kept = kept / (np.linalg.norm(kept, axis=1, keepdims=True) * width**0.5)
    sizes = [len(one) * 8 // width for one in texts]
    starts = np.cumsum([0, *sizes[:-1]])
    packed = np.frombuffer(b"".join(texts), np.uint8).reshape(-1, width // 8)
    fits = np.empty((len(packed), len(kept)), np.float32)
    bits = np.empty((CACHED, width), np.float32)
    for at in range(0, len(packed), CACHED):
        page = packed[at : at + CACHED]
        bits[: len(page)] = np.unpackbits(page, axis=1)
        np.matmul(bits[: len(page)], kept.T, out=fits[at : at + CACHED])
    best = np.maximum.reduceat(fits, starts, axis=0)
    return best * 2 - kept.sum(1)  # as if each 0 were -1


def _spread(rows: Sequence[Place], known: Sequence[Place], values: "Vectors") -> list[float]:
    found: dict[int, float] = dict(zip((row.id for row in known), values.tolist(), strict=True))
    worst = min(found.values())
    return [found.get(row.id, worst) for row in rows]
