"""Facts: remember, recall, forget."""

import re
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from memory.conversations import remove_turns
from memory.database import Database
from memory.words import MAX_WORDS, WORD, list_telling, match_any

ACTIVE, PENDING, REJECTED = "active", "pending", "rejected"


@dataclass(frozen=True, slots=True)
class FactSource:
    """Where a fact is from: the turn and the session in which it was kept, and how text from
    outside had come into that turn ("" where none had).
    """

    turn: str = ""
    session: str = ""
    tainted_by: str = ""
    category: str = ""


UNKNOWN_SOURCE = FactSource()


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that was kept, as it was said. `label` tells what it may be trusted for, `owned`
    that the owner said it. A higher score fits the query better.

    `state`: what is pending waits for a person's yes and is used nowhere. `turn` is "" where it is
    not known: facts of before there were states.
    """

    id: str
    text: str
    at: datetime
    source: str
    label: str
    owned: bool = True
    turn: str = ""
    session: str = ""
    state: str = ACTIVE
    tainted_by: str = ""
    approved_by: str = ""
    pinned: int = 0
    score: float = 0.0


class MemoryFull(Exception):
    """Too much waits for a person's yes; the message says so."""


ID_PREFIX = re.compile(r"[0-9a-f]{8,32}")


def build_query(words: str) -> str:
    """Any of the words that carry meaning, quoted; empty when there is none at all."""
    return match_any(list_telling(words))


def normalize(text: str) -> str:
    """The same for two ways of writing one fact."""
    return " ".join(WORD.findall(text.casefold())) or text.strip()


T = TypeVar("T")

COLUMNS = (
    "facts.id, facts.text, facts.at, source, label, owned, turn, session, state, tainted_by,"
    " approved_by, pinned"
)
CURRENT = "state = 'active' AND label = 'trusted' AND valid_to IS NULL"
ADD = """
INSERT INTO facts (
    id, text, sameness, at, source, label, owned, turn, session, tainted_by, category, state
) VALUES (
    :id, :text, :sameness, :at, :source, :label, :owned, :turn, :session, :tainted_by, :category,
    :state
)
ON CONFLICT (sameness, state) WHERE valid_to IS NULL DO UPDATE SET
    at = max(at, excluded.at),
    owned = max(owned, excluded.owned)
RETURNING id
"""
DELETE_WEAKER = """
DELETE FROM facts WHERE state = 'active' AND sameness = :sameness AND valid_to IS NULL
    AND owned < :owned AND text <> :text
"""
DELETE_WAITING = "DELETE FROM facts WHERE state = 'pending' AND text = :text"
FIND_KNOWN = """
SELECT id FROM facts
WHERE valid_to IS NULL AND (
    (state = 'active' AND sameness = :same AND text = :text)
    OR (state = 'pending' AND sameness = :text)
    OR (state = 'rejected' AND sameness = :digest)
)
"""
ANY = "SELECT 1 FROM facts LIMIT 1"
COUNT_PENDING = "SELECT count(*) FROM facts WHERE state = 'pending'"
COUNT_OF_SESSION = """
SELECT count(*) FROM facts WHERE state IN ('pending', 'rejected') AND session = ? AND at > ?
"""
SEARCH = f"""
SELECT {COLUMNS}, -bm25(words) AS score
FROM words JOIN facts ON facts.rowid = words.rowid
WHERE words MATCH ? AND {CURRENT}
ORDER BY score DESC LIMIT ?
"""
NEWEST = f"SELECT {COLUMNS} FROM facts WHERE {CURRENT} ORDER BY at DESC, rowid DESC LIMIT ?"
PINNED = f"""
SELECT {COLUMNS} FROM facts INDEXED BY facts_pinned WHERE pinned = 1 AND {CURRENT}
ORDER BY at DESC LIMIT ?
"""
PIN = f"UPDATE facts SET pinned = ? WHERE id = ? AND {CURRENT} RETURNING id"
WAITING = f"SELECT {COLUMNS} FROM facts WHERE state = 'pending' ORDER BY rowid LIMIT ?"
BY_ID = f"SELECT {COLUMNS} FROM facts WHERE id BETWEEN ?1 AND ?1 || 'g' LIMIT 2"
MATCHING = f"""
SELECT {COLUMNS} FROM words JOIN facts ON facts.rowid = words.rowid WHERE words MATCH ? LIMIT ?
"""
SUPERSEDE = """
UPDATE facts SET valid_to = :at
WHERE state = 'active' AND sameness = :sameness AND valid_to IS NULL RETURNING id
"""
APPROVE = """
UPDATE facts SET state = 'active', label = 'trusted', owned = 1, sameness = :sameness,
    valid_from = :at, supersedes = :old, approved_by = :by, approved_at = :at
WHERE id = :id
"""
REJECT = """
UPDATE facts SET state = 'rejected', text = '', tainted_by = '', sameness = :sameness,
    approved_by = :by, approved_at = :at
WHERE id = :id
"""
FORGET = """
DELETE FROM facts WHERE id IN (
    WITH RECURSIVE gone (id) AS (
        VALUES (?) UNION SELECT supersedes FROM facts JOIN gone USING (id)
    )
    SELECT id FROM gone
) RETURNING turn
"""
TURNS = """
SELECT CASE turn WHEN '' THEN source ELSE turn END FROM facts WHERE state <> 'rejected'
"""
MERGE = "INSERT INTO words (words) VALUES ('optimize')"

CANDIDATES = 4
MAX_PENDING, MAX_PENDING_A_DAY, MAX_PENDING_CHARS = 200, 50, 1000
RECENCY = 0.2
HALF_LIFE_DAYS = 30.0


class Memory:
    """Facts of former conversations. Each call is one hop to the thread that owns the file.

    What came from text from outside is only kept aside: no search finds it before a person's yes
    (`approve`). `waiting` counts it; `on_waiting` is awaited when it was nothing until now.
    `set_aside`: the new name of a damaged file in whose place this one is. `is_empty`: nothing was
    kept yet.
    """

    on_waiting: Callable[[], Awaitable[None]] | None = None

    def __init__(self, database: Database, waiting: int, *, empty: bool) -> None:
        self.database = database
        self.is_empty = empty
        self.waiting = waiting
        self.set_aside = database.set_aside

    @classmethod
    async def open(cls, path: Path) -> "Memory":
        """The memory in this file, made if need be; a damaged one is set aside, and an empty one
        made in its place. Close it with `aclose`. Raises sqlite3.Error, OSError.
        """
        database = await Database.open(path)
        empty = await database.run(lambda file: file.execute(ANY).fetchone() is None)
        waiting = await database.run(lambda file: file.execute(COUNT_PENDING).fetchone()[0])
        return cls(database, waiting, empty=empty)

    async def remember(
        self,
        text: str,
        *,
        at: datetime,
        source: str,
        label: str = "trusted",
        owned: bool = True,
        where: FactSource = UNKNOWN_SOURCE,
    ) -> str:
        """Keep it; the same fact again only becomes newer. Gives its id. What is not trusted waits
        for a person, and changes nothing that is known. Raises MemoryFull where too much waits.

        Two that are the same to us may still differ in a sign ("a.b@c", "a-b@c"): the owner's words
        (`owned`) then count before those of others.
        """
        self.is_empty = False
        row: dict[str, str | int] = {
            "id": uuid4().hex,
            "text": text,
            "sameness": normalize(text) if label == "trusted" else text,
            "at": _stamp(at),
            "source": source,
            "label": label,
            "owned": int(owned),
            "state": ACTIVE if label == "trusted" else PENDING,
            **asdict(where),
        }
        before = self.waiting
        kept = await self._change(_add if label == "trusted" else _set_aside, row)
        if self.waiting and not before and self.on_waiting:
            await self.on_waiting()
        return kept

    async def approve(self, fact_id: str, by: str, at: datetime) -> bool:
        """A person says yes: it is trusted from now on, in place of what was known in the same
        words. False when it does not wait.
        """
        return await self._change(_approve, fact_id, by, _stamp(at))

    async def reject(self, fact_id: str, by: str, at: datetime) -> bool:
        """A person says no: its text is gone, and the same text is not kept aside again."""
        return await self._change(_reject, fact_id, by, _stamp(at))

    async def pending(self, limit: int = MAX_PENDING) -> list[Fact]:
        """What waits for a person's yes, the oldest first."""
        return await self._list(WAITING, limit)

    async def find(self, prefix: str) -> list[Fact]:
        """The one fact whose id begins so; two where that is not enough."""
        if not ID_PREFIX.fullmatch(prefix):
            return []
        return [fact for fact in await self._list(BY_ID, prefix) if fact.state != REJECTED]

    async def matching(self, words: str, limit: int) -> list[Fact]:
        """What has all these words, that which waits included."""
        wanted = normalize(words).split()
        if not wanted or not WORD.search(words):
            return []
        query = " AND ".join(f'"{word}"' for word in wanted[:MAX_WORDS])
        waiting = [
            fact for fact in await self.pending() if {*wanted} <= {*normalize(fact.text).split()}
        ]
        return [*await self._list(MATCHING, query, limit), *waiting][:limit]

    async def recall(self, query: str, limit: int) -> list[Fact]:
        """What shares words with the query: rare words count more, and newer facts a little more
        than older ones.
        """
        words = "" if self.is_empty else build_query(query)
        if not words or limit < 1:
            return []
        return _rank_by_recency(await self._list(SEARCH, words, limit * CANDIDATES))[:limit]

    async def facts(self, limit: int) -> list[Fact]:
        """What was kept, the newest first."""
        return await self._list(NEWEST, limit)

    async def list_pinned(self, limit: int) -> list[Fact]:
        """What is shown to every turn of the owner's, the newest first."""
        return [] if self.is_empty or limit < 1 else await self._list(PINNED, limit)

    async def pin(self, fact_id: str, *, pinned: bool = True) -> bool:
        """Show it to every turn of the owner's, or no longer; False for what is not known."""
        row = (pinned, fact_id)
        return await self.database.run(lambda file: file.execute(PIN, row).fetchone() is not None)

    async def turns(self) -> set[str]:
        """The turns that facts are from."""
        rows = await self.database.run(lambda database: database.execute(TURNS).fetchall())
        return {turn.rpartition(" ")[2] for (turn,) in rows}

    async def forget(self, fact_id: str) -> bool:
        """Remove it for good, with what it took the place of; False when there is none of that
        id.
        """
        removed = await self._change(_delete, fact_id)
        if removed:
            await self.database.checkpoint()
        return removed

    async def aclose(self) -> None:
        """Finish what is queued, then close the file."""
        await self.database.aclose()

    async def _list(self, query: str, *arguments: object) -> list[Fact]:
        rows = await self.database.run(
            lambda database: database.execute(query, arguments).fetchall()
        )
        return [
            Fact(id, text, datetime.fromisoformat(at), source, label, bool(owned), *rest)
            for id, text, at, source, label, owned, *rest in rows
        ]

    async def _change(self, work: Callable[..., T], *arguments: object) -> T:
        def change(database: sqlite3.Connection) -> tuple[T, int]:
            done = work(database, *arguments)
            return done, database.execute(COUNT_PENDING).fetchone()[0]

        done, self.waiting = await self.database.run(change)
        return done


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _add(database: sqlite3.Connection, row: dict[str, str | int]) -> str:
    database.execute(DELETE_WEAKER, row)
    database.execute(DELETE_WAITING, row)
    return str(database.execute(ADD, row).fetchall()[0][0])


def _set_aside(database: sqlite3.Connection, row: dict[str, str | int]) -> str:
    """The same text twice is one; one that is known, or was rejected, stays as it is."""
    text, session = str(row["text"]), str(row["session"])
    wanted = {"text": text, "same": normalize(text), "digest": _digest(text)}
    known = database.execute(FIND_KNOWN, wanted).fetchone()
    if known:
        return str(known[0])
    if len(text) > MAX_PENDING_CHARS:
        raise MemoryFull(
            f"it has {len(text)} characters; what waits for the owner's yes has"
            f" {MAX_PENDING_CHARS} at most"
        )
    if database.execute(COUNT_PENDING).fetchone()[0] >= MAX_PENDING:
        raise MemoryFull(f"{MAX_PENDING} memories wait for the owner's yes already")
    day = _stamp(datetime.fromisoformat(str(row["at"])) - timedelta(days=1))
    if database.execute(COUNT_OF_SESSION, (session, day)).fetchone()[0] >= MAX_PENDING_A_DAY:
        raise MemoryFull(
            f"this conversation has asked for {MAX_PENDING_A_DAY} within a day already"
        )
    return str(database.execute(ADD, row).fetchall()[0][0])


def _digest(text: str) -> str:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _find_pending(database: sqlite3.Connection, fact_id: str) -> str | None:
    found = database.execute(
        "SELECT text FROM facts WHERE id = ? AND state = 'pending'", (fact_id,)
    ).fetchone()
    return found and str(found[0])


def _approve(database: sqlite3.Connection, fact_id: str, by: str, at: str) -> bool:
    text = _find_pending(database, fact_id)
    if text is None:
        return False
    row = {"id": fact_id, "sameness": normalize(text), "by": by, "at": at}
    replaced = database.execute(SUPERSEDE, row).fetchall()
    database.execute(APPROVE, {**row, "old": replaced[0][0] if replaced else ""})
    return True


def _reject(database: sqlite3.Connection, fact_id: str, by: str, at: str) -> bool:
    text = _find_pending(database, fact_id)
    if text is None:
        return False
    database.execute(REJECT, {"id": fact_id, "sameness": _digest(text), "by": by, "at": at})
    return True


def _delete(database: sqlite3.Connection, fact_id: str) -> bool:
    """The index too lets go of the words: until it is merged it only marks them as deleted. What
    was said in the turn that it is from is not found any more.
    """
    turns = {turn for (turn,) in database.execute(FORGET, (fact_id,)).fetchall()}
    if turns:
        database.execute(MERGE)
        remove_turns(database, turns - {""})
    return bool(turns)


def _rank_by_recency(hits: list[Fact]) -> list[Fact]:
    newest = max((hit.at for hit in hits), default=None)
    scored: list[Fact] = []
    for hit in hits:
        days = (newest - hit.at).total_seconds() / 86_400 if newest else 0.0
        freshness = 0.5 ** (days / HALF_LIFE_DAYS)
        scored.append(replace(hit, score=round(hit.score * (1 + RECENCY * freshness), 9)))
    return sorted(scored, key=lambda hit: (-hit.score, -hit.at.timestamp()))
