"""What was said in conversations, kept so that it can be found: one row a span, in sittings."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from memory.database import Database
from memory.embedder import Embedder, EmbedderError, MadeVectors
from memory.forgetting import Forgotten, read_forgotten
from memory.rows import (
    GAP,
    INDEX,
    Batch,
    close_sitting,
    insert,
    is_closed,
    list_of_turns,
    open_sitting,
    remove_rows,
)
from memory.search import OTHER_WORDS, OWN_WORDS, Found, Scope, search
from memory.utterance import UTTERANCE, Utterance, read_fields, write_time
from memory.vectors import VectorIndex, VectorQuery
from memory.words import write_forms

if TYPE_CHECKING:
    from memory.embedder import Vectors

log = logging.getLogger(__name__)
MAX_QUERY = 2_000
IDLE = "SELECT id FROM sittings INDEXED BY sittings_open WHERE closed = 0 AND ended < ?"
UNFORMED = "SELECT sitting FROM unformed LIMIT 5"
ROWS_OF_SITTING = "SELECT id, own, text, pairs, marks FROM said WHERE sitting = ?"
UNEMBEDDED = """
SELECT id, speaker, text FROM unembedded JOIN said USING (id) ORDER BY id LIMIT ?
"""
AFTER = f"SELECT id, {UTTERANCE} FROM said WHERE id > ? ORDER BY id LIMIT ?"


class Conversations:
    """Rows are added in the order in which they were said; the same key twice is one. `added` is
    set when there are new ones.
    """

    def __init__(self, database: Database, *, empty: bool) -> None:
        self._database, self.is_empty = database, empty
        self._vectors: VectorIndex | None = None
        self.added = asyncio.Event()

    @classmethod
    async def open(cls, database: Database) -> "Conversations":
        """Of this file."""
        query = "SELECT 1 FROM spans LIMIT 1"
        empty = await database.run(lambda file: file.execute(query).fetchone() is None)
        return cls(database, empty=empty)

    async def add(
        self,
        said: Sequence[Utterance],
        cursor: str = "",
        make_finder: Callable[[Forgotten], Callable[[str], bool]] | None = None,
    ) -> int:
        """Keep these, and how far its source was read, in one transaction; gives how many are new.
        `make_finder`: gives what finds words that are to be gone; a text with one is not kept.
        """

        def work(file: sqlite3.Connection) -> int:
            if cursor:
                file.execute("INSERT OR REPLACE INTO state VALUES ('cursor', ?)", (cursor,))
            gone = read_forgotten(file)
            is_gone = make_finder(gone) if make_finder and gone.words else None
            fresh = [
                one
                for one in said
                if not (is_gone and any(map(is_gone, (one.text, one.speaker, one.session))))
            ]
            batch = Batch(file, fresh)
            count = sum([batch.add(one) for one in fresh])
            batch.write()
            return count

        self.is_empty = self.is_empty and not said
        count = await self._database.run(work)
        if count:
            self.added.set()
        return count

    async def read_cursor(self) -> str:
        """How far the source was read; "" for not at all."""
        return await self._database.get_state("cursor")

    async def count(self) -> int:
        """How many rows there are."""
        query = "SELECT count(*) FROM spans"
        return await self._database.run(lambda file: file.execute(query).fetchone()[0])

    async def renew_forms(self) -> bool:
        """The forms of words in some sittings of before there were such; False: all have them."""
        return await self._database.run(_renew_forms)

    async def close_idle(self, now: datetime | None = None) -> None:
        """The words of a sitting count once it is over; without `now`, all are."""
        before = 1 << 62 if now is None else write_time(now - GAP)

        def work(file: sqlite3.Connection) -> None:
            for (sitting,) in file.execute(IDLE, (before,)).fetchall():
                close_sitting(file, sitting)

        await self._database.run(work)

    async def search(
        self, query: str, scope: Scope, limit: int, *, automatic: bool = False
    ) -> list[Found]:
        """The best first, by a weighted sum of signals. Of a long query its beginning counts.
        `automatic`: nobody asked for it; see search.search.
        """
        vectors, query = self._vectors, query[:MAX_QUERY]
        question = await self._embed(query, vectors.embedder) if vectors and limit > 0 else None

        def work(file: sqlite3.Connection) -> list[Found]:
            known = vectors and question is not None
            asked = VectorQuery(vectors, file, question) if known else None
            return search(file, query, scope, limit, asked, automatic=automatic)

        return await self._database.run(work)

    async def _embed(self, query: str, embedder: Embedder) -> "Vectors | None":
        try:
            return await embedder.embed_query(query)
        except EmbedderError as error:
            log.warning("a question is answered by its words alone: %s", error)
            return None

    async def use_embedder(self, embedder: Embedder | None) -> None:
        """From now on what fits a question is told by its vectors, too; None: by words alone."""
        vectors = VectorIndex(embedder) if embedder else None
        if vectors:
            await self._database.run(vectors.open)
        self._vectors = vectors

    @property
    def embedder(self) -> str:
        """The name of the model in use; "" for none."""
        return self._vectors.embedder.name if self._vectors else ""

    @property
    def embedder_kind(self) -> str:
        """Where it runs: "local", "openai" or "none"."""
        return self._vectors.embedder.kind if self._vectors else "none"

    async def list_unembedded(self, limit: int) -> list[tuple[int, str, str]]:
        """Rows that wait for vectors, the oldest first: their ids, speakers and texts."""
        return await self._database.run(lambda file: file.execute(UNEMBEDDED, (limit,)).fetchall())

    async def count_unembedded(self) -> int:
        """How many rows wait for vectors."""
        query = "SELECT count(*) FROM unembedded"
        return await self._database.run(lambda file: file.execute(query).fetchone()[0])

    async def add_vectors(self, made: MadeVectors) -> None:
        """Of rows that are still there; None: the model can make none of it."""
        if vectors := self._vectors:
            await self._database.run(lambda file: vectors.add(file, made))

    async def list_after(self, row: int, limit: int) -> tuple[list[Utterance], int]:
        """The next ones in the order in which they were kept, and the number of the last."""
        found = await self._database.run(lambda file: file.execute(AFTER, (row, limit)).fetchall())
        said = [Utterance(*read_fields(one)) for _, *one in found]
        return said, found[-1][0] if found else row

    async def forget_turns(self, turns: Iterable[str]) -> int:
        """All that was said in these; gives how many rows."""
        count = await self._database.run(lambda file: remove_rows(file, list_of_turns(file, turns)))
        await self._database.checkpoint()
        return count


def _renew_forms(file: sqlite3.Connection) -> bool:
    sittings = file.execute(UNFORMED).fetchall()
    for (sitting,) in sittings:
        rows = [(*row, write_forms(row[2])) for row in file.execute(ROWS_OF_SITTING, (sitting,))]
        changed = [row for row in rows if row[3] != row[-1]]
        is_over = bool(changed) and is_closed(file, sitting)
        if is_over:
            open_sitting(file, sitting)
        for row, own, text, pairs, marks, forms in changed:
            table = OWN_WORDS if own else OTHER_WORDS
            gone = f"INSERT INTO {table} ({table}, rowid, text, pairs, marks)"
            file.execute(f"{gone} VALUES ('delete', ?, ?, ?, ?)", (row, text, pairs, marks))
            file.execute("UPDATE spans SET pairs = ? WHERE id = ?", (forms, row))
            insert(file, INDEX.format(table), [(row, text, forms, marks)])
        if is_over:
            close_sitting(file, sitting)
    file.executemany("DELETE FROM unformed WHERE sitting = ?", sittings)
    return bool(sittings)
