"""How well the tokens of a text fit those of a question (MaxSim), by signs that are kept."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from memory.embedder import WIDTH, Embedder, TextVectors, unpack

if TYPE_CHECKING:
    from numpy import bool_, int64, uint64
    from numpy.typing import NDArray

    from memory.embedder import Vectors

ROUGH, NEAREST, PAGE = 1000, 300, 8192
CACHED = 2048  # so many pairs, unpacked, stay in the processor's cache
ADD = """
INSERT OR REPLACE INTO vectors SELECT id, own, ?2, ?3 FROM said WHERE id = ?1
RETURNING id, own, pooled
"""
POOLED = "SELECT id, own, pooled FROM vectors INDEXED BY vectors_pooled"
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
        self._ids: NDArray[int64] | None = None
        self._own: NDArray[bool_] | None = None
        self._pooled: NDArray[uint64] | None = None
        self._fresh: list[tuple[int, int, bytes]] = []
        self._removals = ""

    def open(self, file: sqlite3.Connection) -> None:
        """What another model has made is of no use; what this one has made is read."""
        known = file.execute("SELECT value FROM state WHERE name = 'model'").fetchone()
        if known != (self.embedder.name,):
            file.execute("DELETE FROM vectors")
            file.execute("INSERT OR IGNORE INTO unembedded SELECT id FROM said")
            file.execute("INSERT OR REPLACE INTO state VALUES ('model', ?)", (self.embedder.name,))
        self._refresh(file)

    def add(
        self, file: sqlite3.Connection, vectors: Iterable[tuple[int, TextVectors | None]]
    ) -> None:
        """Of rows that are still there; None: the model can make none of it."""
        for row, made in vectors:
            if made:
                added = file.execute(ADD, (row, made.pooled, made.pairs)).fetchall()
                self._fresh += added if self._ids is not None else []
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

        self._refresh(file)
        assert self._ids is not None and self._own is not None and self._pooled is not None
        hidden = ~self._own if own else np.zeros(len(self._ids), bool)
        if among is not None:
            hidden |= ~np.isin(self._ids, np.array(among, np.int64))
        pooled = question[:, :WIDTH].mean(0)
        apart = np.zeros(len(self._ids), np.uint16)
        for column, sign in zip(self._pooled, np.packbits(pooled > 0).view(np.uint64), strict=True):
            apart += np.bitwise_count(column ^ sign)
        apart[hidden] = WIDTH + 1
        places = (
            np.argpartition(apart, ROUGH)[:ROUGH] if len(apart) > ROUGH else np.arange(len(apart))
        )
        places = places[apart[places] <= WIDTH]
        fit = unpack(self._pooled[:, places].T.tobytes(), WIDTH) @ pooled
        return self._ids[places[np.argsort(-fit)[:NEAREST]]].tolist()

    def _refresh(self, file: sqlite3.Connection) -> None:
        """All that is in the file, after a removal, too; or what came since."""
        query = "SELECT value FROM state WHERE name = 'removals'"
        (removals,) = file.execute(query).fetchone() or ("",)
        parts = [(self._ids, self._own, self._pooled)]
        if self._ids is None or removals != self._removals:
            self._removals, self._fresh = removals, []
            found = file.execute(POOLED)
            parts = [_to_arrays(page) for page in iter(lambda: found.fetchmany(PAGE), [])]
            parts = parts or [_to_arrays([])]
        elif self._fresh:
            parts += [_to_arrays(self._fresh)]
            self._fresh = []
        if len(parts) > 1 or self._ids is not parts[0][0]:
            self._ids, self._own, self._pooled = _join(parts)


def _to_arrays(rows: Sequence[tuple[int, int, bytes]]) -> tuple[Any, Any, Any]:
    """Ids, whose they are, and the signs: a column a row of the text."""
    import numpy as np  # lazy: the extra memory

    signs = np.frombuffer(b"".join(pooled for _, _, pooled in rows), np.uint64)
    ids = np.array([row for row, _, _ in rows], np.int64)
    own = np.array([own for _, own, _ in rows], bool)
    return ids, own, signs.reshape(-1, WIDTH // 64).T


def _join(parts: Sequence[tuple[Any, Any, Any]]) -> Iterator[Any]:
    import numpy as np  # lazy: the extra memory

    return (np.concatenate(one, axis=-1) for one in zip(*parts, strict=True))


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
    for at in range(0, len(packed), CACHED):
        bits = np.unpackbits(packed[at : at + CACHED], axis=1).astype(np.float32)
        np.matmul(bits, kept.T, out=fits[at : at + CACHED])
    best = np.maximum.reduceat(fits, starts, axis=0)
    return best * 2 - kept.sum(1)  # as if each 0 were -1


def _spread(rows: Sequence[Place], known: Sequence[Place], values: "Vectors") -> list[float]:
    found: dict[int, float] = dict(zip((row.id for row in known), values.tolist(), strict=True))
    worst = min(found.values())
    return [found.get(row.id, worst) for row in rows]
