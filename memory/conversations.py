"""What was said in conversations, kept so that it can be found: one row a span, in sittings."""

import asyncio
import logging
import re
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from memory.database import Database
from memory.embedder import Embedder, EmbedderError, MadeVectors
from memory.search import (
    MICROSECOND,
    OTHER_WORDS,
    OWN_WORDS,
    SITTING_WORDS,
    UTTERANCE,
    Found,
    Scope,
    Utterance,
    mark_session,
    read_fields,
    search,
    write_time,
)
from memory.vectors import VectorIndex, VectorQuery
from memory.words import MONTHS, write_forms

if TYPE_CHECKING:
    from memory.embedder import Vectors

log = logging.getLogger(__name__)
GAP = timedelta(hours=4)
MOST_ROWS = 60
MAX_TEXT, MAX_QUERY = 20_000, 2_000
RELATIVE = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|ago|since|recently|this morning|week(?:end)?"
    rf"|month|year|(?:mon|tues|wednes|thurs|fri|satur|sun)day|20\d\d|{'|'.join(MONTHS)})\b",
    re.IGNORECASE,
)
OPEN = """
SELECT id, ended, size FROM sittings INDEXED BY sittings_open WHERE session = ? AND closed = 0
"""
IDLE = "SELECT id FROM sittings INDEXED BY sittings_open WHERE closed = 0 AND ended < ?"
ADD_SPEAKER = "INSERT OR IGNORE INTO speakers (name, role, label, own) VALUES (?, ?, ?, ?)"
ADD = """
INSERT INTO spans (
    id, key, sitting, place, speaker, own, private, at, asks, dated, text, pairs
)
SELECT 1 + max(
        coalesce((SELECT max(id) FROM spans), 0),
        coalesce((SELECT CAST(value AS INTEGER) FROM state WHERE name = 'last_row'), 0)
    ), ?, ?, ?, id, own, ?, ?, ?, ?, ?, ?
FROM speakers WHERE (name, role, label, own) = (?, ?, ?, ?)
"""
UNFORMED = "SELECT sitting FROM unformed LIMIT 5"
ROWS_OF_SITTING = "SELECT id, own, text, pairs, marks FROM said WHERE sitting = ?"
WORDS_OF_SITTING = """
SELECT group_concat(text, ' '), group_concat(pairs, ' '), group_concat(DISTINCT marks) FROM
    (SELECT text, pairs, marks FROM said WHERE sitting = ? ORDER BY place)
"""
UNEMBEDDED = """
SELECT id, speaker, text FROM unembedded JOIN said USING (id) ORDER BY id LIMIT ?
"""
AFTER = f"SELECT id, {UTTERANCE} FROM said WHERE id > ? ORDER BY id LIMIT ?"
SILENT = "DELETE FROM speakers WHERE id NOT IN (SELECT speaker FROM spans)"
COUNT_REMOVAL = """
INSERT INTO state VALUES ('removals', '1')
ON CONFLICT DO UPDATE SET value = CAST(value AS INTEGER) + 1
"""
# The number of a row that is gone is given to no other: who is at work on it would mistake it.
KEEP_NUMBERS = """
INSERT OR REPLACE INTO state SELECT 'last_row', CAST(max(
    coalesce((SELECT max(id) FROM spans), 0),
    coalesce((SELECT CAST(value AS INTEGER) FROM state WHERE name = 'last_row'), 0)
) AS TEXT)
"""
KNOWN = "SELECT id, sitting, label FROM said WHERE key = ?"
GONE = "SELECT 1 FROM forgotten WHERE turn = ?"
TRUSTED = "trusted"
OF_TURN = "SELECT id, sitting FROM spans WHERE key >= ?1 || ':' AND key < ?1 || ';'"


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

    async def add(self, said: Sequence[Utterance], cursor: str = "") -> int:
        """Keep these, and how far its source was read, in one transaction; gives how many are
        new.
        """

        def work(file: sqlite3.Connection) -> int:
            if cursor:
                file.execute("INSERT OR REPLACE INTO state VALUES ('cursor', ?)", (cursor,))
            return sum([_add(file, one) for one in said])

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
                _close(file, sitting)

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


def find_turn(key: str) -> str:
    """The turn in which it was said; "" for what was imported."""
    return "" if key.startswith("import:") else key.partition(":")[0]


def list_of_turns(file: sqlite3.Connection, turns: Iterable[str]) -> list[tuple[int, int]]:
    """All that was said in these: numbers of rows and of their sittings."""
    return [row for one in turns for row in file.execute(OF_TURN, (one,))]


def _add(file: sqlite3.Connection, one: Utterance) -> bool:
    text, at = one.text.strip()[:MAX_TEXT], write_time(one.at)
    known = file.execute(KNOWN, (one.key,)).fetchone()
    if known and known[2] != one.label == TRUSTED:
        remove_rows(file, [known[:2]])  # the owner vouches for it now
    elif known or not text or file.execute(GONE, (find_turn(one.key),)).fetchone():
        return False
    sitting, place = _find_sitting(file, one.session, at)
    asks, dated = text.endswith(("?", "？", "؟")), bool(RELATIVE.search(text))
    speaker, pairs = (one.speaker, one.role, one.label, one.own), write_forms(text)
    file.execute(ADD_SPEAKER, speaker)
    row = (one.key, sitting, place, one.private, at, asks, dated, text, pairs)
    file.execute(ADD, (*row, *speaker))
    return True


def _find_sitting(file: sqlite3.Connection, session: str, at: int) -> tuple[int, int]:
    """And the place of the next row in it."""
    for sitting, ended, size in file.execute(OPEN, (session,)).fetchall():
        if abs(at - ended) <= GAP // MICROSECOND and size < MOST_ROWS:
            changed = "UPDATE sittings SET ended = max(ended, ?), size = size + 1 WHERE id = ?"
            file.execute(changed, (at, sitting))
            return sitting, size
        _close(file, sitting)
    fresh = "INSERT INTO sittings (session, ended, size, marks) VALUES (?, ?, 1, ?)"
    return int(file.execute(fresh, (session, at, mark_session(session))).lastrowid or 0), 0


def _renew_forms(file: sqlite3.Connection) -> bool:
    sittings = file.execute(UNFORMED).fetchall()
    for (sitting,) in sittings:
        rows = [(*row, write_forms(row[2])) for row in file.execute(ROWS_OF_SITTING, (sitting,))]
        changed = [row for row in rows if row[3] != row[-1]]
        is_closed = bool(changed) and _is_closed(file, sitting)
        if is_closed:
            _open_again(file, sitting)
        for row, own, text, pairs, marks, forms in changed:
            table = OWN_WORDS if own else OTHER_WORDS
            gone = f"INSERT INTO {table} ({table}, rowid, text, pairs, marks)"
            file.execute(f"{gone} VALUES ('delete', ?, ?, ?, ?)", (row, text, pairs, marks))
            file.execute("UPDATE spans SET pairs = ? WHERE id = ?", (forms, row))
            added = f"INSERT INTO {table} (rowid, text, pairs, marks) VALUES (?, ?, ?, ?)"
            file.execute(added, (row, text, forms, marks))
        if is_closed:
            _close(file, sitting)
    file.executemany("DELETE FROM unformed WHERE sitting = ?", sittings)
    return bool(sittings)


def _open_again(file: sqlite3.Connection, sitting: int) -> None:
    """Its words are taken out as they were put in."""
    words = file.execute(WORDS_OF_SITTING, (sitting,)).fetchone()
    gone = "INSERT INTO sitting_words (sitting_words, rowid, text, pairs, marks)"
    file.execute(f"{gone} VALUES ('delete', ?, ?, ?, ?)", (sitting, *words))


def _close(file: sqlite3.Connection, sitting: int) -> None:
    file.execute("UPDATE sittings SET closed = 1 WHERE id = ?", (sitting,))
    words = file.execute(WORDS_OF_SITTING, (sitting,)).fetchone()
    if words[0] is not None:
        added = "INSERT INTO sitting_words (rowid, text, pairs, marks) VALUES (?, ?, ?, ?)"
        file.execute(added, (sitting, *words))


def remove_rows(file: sqlite3.Connection, rows: Sequence[tuple[int, int]]) -> int:
    """These, by their numbers and those of their sittings; gives how many. The words of the
    sittings are made anew; what is empty goes.
    """
    sittings = {sitting for _, sitting in rows}
    closed = {one for one in sittings if _is_closed(file, one)}
    for one in closed:
        _open_again(file, one)
    file.execute(KEEP_NUMBERS)
    file.executemany("DELETE FROM spans WHERE id = ?", [(row,) for row, _ in rows])
    for one in sittings:
        left = file.execute("SELECT 1 FROM spans WHERE sitting = ? LIMIT 1", (one,)).fetchone()
        if not left:
            file.execute("DELETE FROM sittings WHERE id = ?", (one,))
        elif one in closed:
            _close(file, one)
    file.execute(SILENT)
    if rows:  # until they are merged the indexes only mark words as deleted
        file.execute(COUNT_REMOVAL)
        for table in (OWN_WORDS, OTHER_WORDS, SITTING_WORDS):
            file.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
    return len(rows)


def _is_closed(file: sqlite3.Connection, sitting: int) -> bool:
    return bool(file.execute("SELECT closed FROM sittings WHERE id = ?", (sitting,)).fetchone()[0])
