"""Memory: remember, recall, forget. One file, one connection, one thread that owns it."""

import asyncio
import re
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import TypeVar
from uuid import uuid4


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that was kept, as it was said. `label` tells what it may be trusted for, `owned`
    that the owner said it. A higher score fits the query better.
    """

    id: str
    text: str
    at: datetime
    source: str
    label: str
    owned: bool = True
    score: float = 0.0


WORD = re.compile(r"\w+")
STOPWORDS = frozenset(
    WORD.findall("""
    a about am an and any are as at be been but by can could did do does for from had has have
    he her his how i if in is it its me my of on or our she so some that the their them there
    they this to us was we were what when where which who whom whose why will with would you
    your please tell know remember recall
    """)
)
MAX_WORDS = 32


def build_query(words: str) -> str:
    """Any of the words that carry meaning, quoted; empty when there is none at all."""
    found = list(dict.fromkeys(word.casefold() for word in WORD.findall(words)))
    telling = [word for word in found if word not in STOPWORDS] or found
    return " OR ".join(f'"{word}"' for word in telling[:MAX_WORDS])


def normalize(text: str) -> str:
    """The same for two ways of writing one fact."""
    return " ".join(WORD.findall(text.casefold())) or text.strip()


T = TypeVar("T")

ADD = """
INSERT INTO facts (id, text, sameness, at, source, label, owned) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (sameness) DO UPDATE SET
    at = max(at, excluded.at),
    label = CASE WHEN 'trusted' IN (label, excluded.label) THEN 'trusted' ELSE 'untrusted' END,
    owned = max(owned, excluded.owned)
RETURNING id
"""
DELETE_WEAKER = (
    "DELETE FROM facts WHERE sameness = ?1 AND (label = 'untrusted' OR owned < ?3) AND text <> ?2"
)
ADD_OWNED = "ALTER TABLE facts ADD COLUMN owned INTEGER NOT NULL DEFAULT 1"
SEARCH = """
SELECT facts.id, facts.text, facts.at, source, label, owned, -bm25(words) AS score
FROM words JOIN facts ON facts.rowid = words.rowid
WHERE words MATCH ?
ORDER BY score DESC LIMIT ?
"""
NEWEST = "SELECT id, text, at, source, label, owned FROM facts ORDER BY at DESC, rowid DESC LIMIT ?"
FORGET = "DELETE FROM facts WHERE id = ?"
MERGE = "INSERT INTO words (words) VALUES ('optimize')"

CANDIDATES = 4
RECENCY = 0.2
HALF_LIFE_DAYS = 30.0


class Memory:
    """Facts of former conversations. Each call is one hop to the thread that owns the file."""

    def __init__(
        self, database: sqlite3.Connection, thread: ThreadPoolExecutor, *, empty: bool
    ) -> None:
        self._database = database
        self._thread = thread
        self._empty = empty

    @classmethod
    async def open(cls, path: Path) -> "Memory":
        """The memory in this file, made if need be. Close it with `aclose`. Raises sqlite3.Error
        for a file that is none.
        """
        thread = ThreadPoolExecutor(1, thread_name_prefix="memory")
        try:
            database, empty = await asyncio.get_running_loop().run_in_executor(thread, _open, path)
        except sqlite3.Error:
            thread.shutdown()
            raise
        return cls(database, thread, empty=empty)

    async def remember(
        self, text: str, *, at: datetime, source: str, label: str = "trusted", owned: bool = True
    ) -> str:
        """Keep it; the same fact again only becomes newer, and trusted once somebody who is trusted
        has said it. Gives its id.

        Two that are the same to us may still differ in a sign ("a.b@c", "a-b@c"): the words of one
        who is trusted then count, and before those the owner's (`owned`).
        """
        self._empty = False
        row = (
            uuid4().hex,
            text,
            normalize(text),
            at.astimezone(UTC).isoformat(timespec="microseconds"),
            source,
            label,
            int(owned),
        )
        return await self._do(lambda database: _add(database, row))

    async def recall(self, query: str, limit: int) -> list[Fact]:
        """What shares words with the query: rare words count more, and newer facts a little more
        than older ones.
        """
        words = "" if self._empty else build_query(query)
        if not words or limit < 1:
            return []
        return _rank_by_recency(await self._list(SEARCH, words, limit * CANDIDATES))[:limit]

    async def facts(self, limit: int) -> list[Fact]:
        """What was kept, the newest first."""
        return await self._list(NEWEST, limit)

    async def forget(self, fact_id: str) -> bool:
        """Remove it for good; False when there is none of that id."""
        return await self._do(lambda database: _delete(database, fact_id))

    async def aclose(self) -> None:
        """Finish what is queued, then close the file."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._database.close)
        self._thread.shutdown()

    async def _list(self, query: str, *arguments: object) -> list[Fact]:
        rows = await self._do(lambda database: database.execute(query, arguments).fetchall())
        return [
            Fact(id, text, datetime.fromisoformat(at), source, label, bool(owned), *score)
            for id, text, at, source, label, owned, *score in rows
        ]

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, _in_transaction, self._database, work
        )


def _open(path: Path) -> tuple[sqlite3.Connection, bool]:
    """The file, and whether nothing is in it: a memory that is empty is asked before every turn,
    too.
    """
    path.touch(mode=0o600)  # what is remembered is for its owner alone
    database = sqlite3.connect(path)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA secure_delete = ON")
        _migrate(database)
        empty = database.execute("SELECT 1 FROM facts LIMIT 1").fetchone() is None
    except sqlite3.Error:
        database.close()
        raise
    return database, empty


def _migrate(database: sqlite3.Connection) -> None:
    """To the newest schema; before there were several people, everything was the owner's."""
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:
        database.executescript(
            "BEGIN;" + files("memory").joinpath("schema.sql").read_text() + "COMMIT;"
        )
    elif version == 1:
        database.executescript(f"BEGIN; {ADD_OWNED}; PRAGMA user_version = 2; COMMIT;")


def _in_transaction(database: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    with database:
        return work(database)


def _add(database: sqlite3.Connection, row: tuple[str | int, ...]) -> str:
    _, text, same, _, _, label, owned = row
    if label == "trusted":
        database.execute(DELETE_WEAKER, (same, text, owned))
    return str(database.execute(ADD, row).fetchall()[0][0])


def _delete(database: sqlite3.Connection, fact_id: str) -> bool:
    """The index too lets go of the words: until it is merged it only marks them as deleted."""
    removed = database.execute(FORGET, (fact_id,)).rowcount > 0
    if removed:
        database.execute(MERGE)
    return removed


def _rank_by_recency(hits: list[Fact]) -> list[Fact]:
    newest = max((hit.at for hit in hits), default=None)
    scored: list[Fact] = []
    for hit in hits:
        days = (newest - hit.at).total_seconds() / 86_400 if newest else 0.0
        freshness = 0.5 ** (days / HALF_LIFE_DAYS)
        scored.append(replace(hit, score=round(hit.score * (1 + RECENCY * freshness), 9)))
    return sorted(scored, key=lambda hit: (-hit.score, -hit.at.timestamp()))
