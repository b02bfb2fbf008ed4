"""What a fact is, and its rows: states, keys and history."""

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple
from uuid import uuid4

from memory.words import WORD, list_pairs, list_telling, match_words, write_forms, write_terms

ACTIVE, PENDING, REJECTED = "active", "pending", "rejected"


@dataclass(frozen=True, slots=True)
class FactSource:
    """Where a fact is from: the turn and the session in which it was kept, and how text from
    outside had come into that turn ("" where none had). `key` names what it tells of whom, such as
    "user.city", and what is known of that until now ends (A18).
    """

    turn: str = ""
    session: str = ""
    tainted_by: str = ""
    category: str = ""
    key: str = ""


UNKNOWN_SOURCE = FactSource()
FactRow = dict[str, str | int]


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that was kept, as it was said. `label` tells what it may be trusted for, `owned`
    that the owner said it. A higher score fits the query better.

    `state`: what is pending waits for a person's yes and is used nowhere. `turn` is "" where it is
    not known: facts of before there were states. `until`: a newer one of its `key` holds since;
    `former`: those before it, the newest first.
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
    category: str = ""
    key: str = ""
    score: float = 0.0
    until: datetime | None = None
    former: tuple["Fact", ...] = ()

    @property
    def is_owners(self) -> bool:
        """All that is told of it is the owner's word, what held before, too."""
        return all(one.owned for one in (self, *self.former))


class Ended(NamedTuple):
    """Words that held once, and since when they no longer do."""

    text: str
    until: datetime


class MemoryFull(Exception):
    """Too much waits for a person's yes; the message says so."""


ID_PREFIX = re.compile(r"[0-9a-f]{8,32}")
KEY = re.compile(r"(?P<whose>[\w-]{1,40})(?:\.[\w-]{1,40}){1,3}")
USER = "user"
# Of signs those that stand at the edge of a word: "C++", "C#", "5 %", "x < y", "-5".
SIGN = "+<>=±~%$€£¥°#"
WORD_OR_SIGN = re.compile(
    rf"\w+|[{SIGN}]+(?![\w{SIGN}])|(?<![\w{SIGN}])[{SIGN}]+|(?<!\w)[-−](?=\d)"
)


def build_query(words: str) -> str:
    """Any of the words that carry meaning, quoted; empty when there is none at all."""
    return match_words(write_terms(words, [*list_telling(words), *list_pairs(words)]))


def read_key(key: str, text: str) -> str:
    """ "user.city"; "" for what is no key, and for one that names somebody whom the text does not
    name: two that may be different people never become one.
    """
    found = KEY.fullmatch(key.strip().casefold())
    if not found:
        return ""
    whose = {*re.split(r"[_-]", found["whose"])} - {USER}
    named = whose <= {*re.findall(r"\w+", text.casefold())}
    return found[0] if named else ""


def normalize(text: str) -> str:
    """The same for two ways of writing one fact: signs that are no punctuation count."""
    return " ".join(WORD_OR_SIGN.findall(text.casefold())) or text.strip()


SCORED = (
    "facts.id, facts.text, facts.at, source, label, owned, turn, session, state, tainted_by,"
    " approved_by, pinned, category, key, {} AS score, valid_to"
)
COLUMNS = SCORED.format("0.0")
KNOWN = "state = 'active' AND label = 'trusted'"
CURRENT = f"{KNOWN} AND valid_to IS NULL"
ADD = """
INSERT INTO facts (
    id, text, forms, sameness, at, source, label, owned, turn, session, tainted_by, category, key,
    state
) VALUES (
    :id, :text, :forms, :sameness, :at, :source, :label, :owned, :turn, :session, :tainted_by,
    :category, :key, :state
)
ON CONFLICT (sameness, state) WHERE valid_to IS NULL DO UPDATE SET
    at = max(at, excluded.at),
    owned = max(owned, excluded.owned),
    category = coalesce(nullif(excluded.category, ''), category),
    key = coalesce(nullif(key, ''), excluded.key)
RETURNING id, key
"""
# Facts of before signs counted, in the same words.
RENEW = """
UPDATE facts SET sameness = :sameness WHERE sameness = :plain AND state = :state
    AND valid_to IS NULL AND text = :text
"""
OF_KEY = f"""
SELECT id, at FROM facts INDEXED BY facts_key WHERE key = ? AND key <> '' AND {KNOWN}
ORDER BY at DESC, rowid DESC
"""
END = """
UPDATE facts SET valid_to = min(coalesce(valid_to, :at), :at) WHERE id = :id
"""
FOLLOW = """
UPDATE facts SET supersedes = coalesce(nullif(supersedes, ''), :old),
    pinned = max(pinned, (SELECT pinned FROM facts AS old WHERE old.id = :old))
WHERE id = :id
"""
UNPIN = "UPDATE facts SET pinned = 0 WHERE id = ?"
HISTORY = f"""
SELECT {COLUMNS} FROM facts INDEXED BY facts_key WHERE key = ? AND key <> '' AND {KNOWN}
ORDER BY valid_to IS NULL DESC, at DESC, rowid DESC LIMIT ?
"""
DELETE_WEAKER = """
DELETE FROM facts WHERE state = 'active' AND sameness = :sameness AND valid_to IS NULL
    AND owned < :owned AND text <> :text
"""
KEPT = ("key", "category")
WEAKER = """
SELECT key, category, pinned FROM facts WHERE state = 'active' AND sameness = :sameness
    AND valid_to IS NULL AND owned < :owned AND text <> :text
"""
FORMER = """
SELECT id FROM facts INDEXED BY facts_at WHERE at = :at AND state = 'active' AND text = :text
    AND valid_to IS NOT NULL
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
LEAST_STATEMENT = 12  # characters; a shorter one, "Lyon", says nothing where it stands in a text
# What held once, and stands in one of these texts.
ENDED_IN = f"""
WITH given (said) AS (SELECT value FROM json_each(?))
SELECT said, text, min(valid_to) FROM given
JOIN facts ON said = text OR (length(text) >= {LEAST_STATEMENT} AND instr(said, text))
WHERE {KNOWN} AND valid_to IS NOT NULL AND key <> '' AND NOT EXISTS (
    SELECT 1 FROM facts AS now WHERE now.sameness = facts.sameness AND now.valid_to IS NULL
        AND now.state = 'active'
) GROUP BY said
"""
LATEST = "~"  # after all instants
ANY = "SELECT 1 FROM facts LIMIT 1"
COUNT_PENDING = "SELECT count(*) FROM facts WHERE state = 'pending'"
COUNT_OF_SESSION = """
SELECT count(*) FROM facts WHERE state IN ('pending', 'rejected') AND session = ? AND at > ?
"""
SEARCH = f"""
SELECT {SCORED.format("-bm25(words)")}
FROM words JOIN facts ON facts.rowid = words.rowid
WHERE words MATCH ? AND {KNOWN} AND (valid_to IS NULL OR key <> '')
    AND facts.at >= ? AND facts.at < ?
ORDER BY score DESC LIMIT ?
"""
KEYS = f"SELECT key FROM facts WHERE key <> '' AND {CURRENT} ORDER BY at DESC LIMIT ?"
NEWEST = f"SELECT {COLUMNS} FROM facts WHERE {CURRENT} ORDER BY at DESC, rowid DESC LIMIT ?"
WITH_HISTORY = f"""
SELECT * FROM (
    SELECT {COLUMNS} FROM facts WHERE {KNOWN} AND (valid_to IS NULL OR key <> '')
    ORDER BY at DESC, rowid DESC LIMIT ?
) ORDER BY at, id
"""
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
WHERE id = :id RETURNING key
"""
REJECT = """
UPDATE facts SET state = 'rejected', text = '', forms = '', tainted_by = '', sameness = :sameness,
    approved_by = :by, approved_at = :at
WHERE id = :id
"""
TURNS = """
SELECT CASE turn WHEN '' THEN source ELSE turn END FROM facts WHERE state <> 'rejected'
"""

CANDIDATES, MOST_FORMER = 4, 50
MAX_PENDING, MAX_PENDING_A_DAY, MAX_PENDING_CHARS = 200, 50, 1000
RECENCY = 0.2
HALF_LIFE_DAYS = 30.0


def stamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def make_row(
    text: str, at: datetime, source: str, where: FactSource, *, label: str, owned: bool
) -> FactRow:
    """Of a new fact."""
    is_trusted, key = label == "trusted", read_key(where.key, text)
    is_users = key.partition(".")[0] == USER
    return {
        "id": uuid4().hex,
        "text": text,
        "forms": write_forms(text),
        "sameness": normalize(text) if is_trusted else text,
        "at": stamp(at),
        "source": source,
        "label": label,
        "owned": int(owned),
        "state": ACTIVE if is_trusted else PENDING,
        **asdict(where),
        # Of the owner only what the owner said has a key: what others say ends nothing of theirs.
        "key": "" if is_users and not (owned and is_trusted) else key,
    }


def add(database: sqlite3.Connection, row: FactRow) -> str:
    if former := database.execute(FORMER, row).fetchone():
        return str(former[0])  # imported once more: it held until a newer one came
    weaker = database.execute(WEAKER, row).fetchone()
    if weaker:
        row |= {name: row[name] or had for name, had in zip(KEPT, weaker, strict=False)}
        database.execute(DELETE_WEAKER, row)
    database.execute(DELETE_WAITING, row)
    plain = " ".join(WORD.findall(str(row["text"]).casefold()))
    if plain != row["sameness"]:
        database.execute(RENEW, {**row, "plain": plain})
    [(fact_id, key)] = database.execute(ADD, row).fetchall()
    if weaker and weaker[-1]:
        database.execute(PIN, (True, fact_id))
    end_former(database, key)
    return str(fact_id)


def end_former(file: sqlite3.Connection, key: str) -> None:
    """Only the newest of a key holds; each older one held until the next."""
    rows = file.execute(OF_KEY, (key,)).fetchall()
    for (newer, since), (older, _) in pairwise(rows):
        file.execute(END, {"id": older, "at": since})
        file.execute(FOLLOW, {"id": newer, "old": older})
        file.execute(UNPIN, (older,))


def read(file: sqlite3.Connection, query: str, arguments: Sequence[object]) -> list[Fact]:
    """Those that the query gives."""
    return [
        Fact(
            id,
            text,
            datetime.fromisoformat(at),
            source,
            label,
            bool(owned),
            *rest,
            until=datetime.fromisoformat(until) if until else None,
        )
        for id, text, at, source, label, owned, *rest, until in file.execute(query, arguments)
    ]


def recall(
    file: sqlite3.Connection, words: str, limit: int, pinned: int, time: tuple[str, str]
) -> list[Fact]:
    """Of each key once: what holds, with what held before. `time`: from one instant to another."""
    given = (words, *time, limit * CANDIDATES)
    hits = _rank_by_recency(read(file, SEARCH, given)) if words else []
    pins, facts = read(file, PINNED, (pinned,)), dict[str, Fact]()
    for hit in (*pins, *hits):
        if len(facts) >= limit + len(pins):
            break
        if hit.key:
            current, *former = read(file, HISTORY, (hit.key, MOST_FORMER))
            if current.until:
                continue  # nothing holds of this key any more
            hit = replace(current, former=tuple(former), score=hit.score)
        facts.setdefault(hit.id, hit)
    return [*facts.values()]


def set_aside(database: sqlite3.Connection, row: FactRow) -> str:
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
    day = stamp(datetime.fromisoformat(str(row["at"])) - timedelta(days=1))
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


def approve(database: sqlite3.Connection, fact_id: str, by: str, at: str) -> bool:
    text = _find_pending(database, fact_id)
    if text is None:
        return False
    row = {"id": fact_id, "sameness": normalize(text), "by": by, "at": at}
    replaced = database.execute(SUPERSEDE, row).fetchall()
    [(key,)] = database.execute(
        APPROVE, {**row, "old": replaced[0][0] if replaced else ""}
    ).fetchall()
    end_former(database, key)
    return True


def reject(database: sqlite3.Connection, fact_id: str, by: str, at: str) -> bool:
    text = _find_pending(database, fact_id)
    if text is None:
        return False
    database.execute(REJECT, {"id": fact_id, "sameness": _digest(text), "by": by, "at": at})
    return True


def _rank_by_recency(hits: list[Fact]) -> list[Fact]:
    newest = max((hit.at for hit in hits), default=None)
    scored: list[Fact] = []
    for hit in hits:
        days = (newest - hit.at).total_seconds() / 86_400 if newest else 0.0
        freshness = 0.5 ** (days / HALF_LIFE_DAYS)
        scored.append(replace(hit, score=round(hit.score * (1 + RECENCY * freshness), 9)))
    return sorted(scored, key=lambda hit: (-hit.score, -hit.at.timestamp()))
