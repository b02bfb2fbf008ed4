"""What somebody said, and nobody has looked through yet for what is to be kept (A18)."""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from memory.facts import CURRENT, FactSource, add, end_former, make_row, read_key
from memory.rows import find_turn
from memory.utterance import read_time

MAX_TEXT, MAX_STATEMENT, MAX_PIECES, MOST_OLD = 2000, 300, 6, 2000
SENTENCE_END = re.compile(r"\n+|(?<=[.!?…])\s+|(?<=[。！？])")
CATEGORY = re.compile(r"\w[\w -]{0,39}")
# Not of turns that something was remembered in: what they hold is kept already.
SAID = f"""
SELECT id, said.key, session, at, text FROM said
WHERE own = 1 AND role = ? AND label = 'trusted' AND asks = 0 AND id > ?
    AND length(text) <= {MAX_TEXT} AND NOT EXISTS (
        SELECT 1 FROM facts
        WHERE turn <> '' AND turn = substr(said.key, 1, instr(said.key, ':') - 1)
    )
ORDER BY id LIMIT ?
"""
FACTS = f"""
SELECT rowid, id, session, at, text FROM facts
WHERE {CURRENT} AND owned = 1 AND key = '' AND category = '' AND rowid > ?
ORDER BY rowid LIMIT ?
"""
NAME = """
UPDATE facts SET key = ?, category = ? WHERE id = ? AND state = 'active' AND key = ''
"""
# Numbers of rows that are gone are given to new ones.
ADVANCE = """
INSERT OR REPLACE INTO state
SELECT :name, CAST(min(:row, ({last})) AS TEXT)
"""
CURSORS = {"said": "read_said", "facts": "read_facts"}
LAST = {
    "said": "SELECT coalesce(max(id), 0) FROM spans",
    "facts": "SELECT coalesce(max(rowid), 0) FROM facts",
}


@dataclass(frozen=True, slots=True)
class Statement:
    """One or more sentences, as they were said, in the row `key` of the table `table`."""

    table: str
    key: str
    session: str
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class FactChoice:
    """What is to be kept, and what it tells of whom; both names may be ""."""

    statement: Statement
    category: str
    key: str


@dataclass(frozen=True, slots=True)
class StatementPage:
    """The next statements, of so many rows. `ends`: by table, the last row that is in it."""

    statements: Sequence[Statement]
    rows: int
    ends: dict[str, int]


def list_statements(file: sqlite3.Connection, role: str, limit: int) -> StatementPage:
    """The oldest rows that were not looked through: what is kept without a key, then what who has
    this role said.
    """
    ends = {table: read_cursor(file, table, name) for table, name in CURSORS.items()}
    found, facts = list[Statement](), file.execute(FACTS, (ends["facts"], limit)).fetchall()
    for number, key, session, at, text in facts:
        ends["facts"] = number
        found.append(Statement("facts", key, session, datetime.fromisoformat(at), text))
    said = file.execute(SAID, (role, ends["said"], limit)).fetchall()
    for number, key, session, at, text in said:
        ends["said"], when = number, read_time(at)
        found += [Statement("said", key, session, when, piece) for piece in _split(text)]
    return StatementPage(found, len(facts) + len(said), ends)


def keep_chosen(file: sqlite3.Connection, page: StatementPage, chosen: Iterable[FactChoice]) -> int:
    """Keep these of the page, and that it was looked through; gives how many are kept. What was
    forgotten meanwhile is not.
    """
    count = sum([_keep(file, one) for one in chosen])
    for table, name in CURSORS.items():
        row = {"name": name, "row": page.ends[table]}
        file.execute(ADVANCE.format(last=LAST[table]), row)
    return count


def read_cursor(file: sqlite3.Connection, table: str, name: str) -> int:
    """Up to which row it was read. At first only the newest are to be: what is said from now on
    does not wait behind years.
    """
    found = file.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
    if found:
        return int(found[0])
    return max(0, file.execute(LAST[table]).fetchone()[0] - MOST_OLD)


def _split(text: str) -> Iterator[str]:
    """A long one by its sentences."""
    if len(text) <= MAX_STATEMENT:
        yield text
        return
    pieces = [one.strip() for one in SENTENCE_END.split(text)]
    yield from [one for one in pieces if 0 < len(one) <= MAX_STATEMENT][:MAX_PIECES]


def _keep(file: sqlite3.Connection, choice: FactChoice) -> bool:
    one, category = choice.statement, choice.category.strip().casefold()
    is_one = CATEGORY.fullmatch(category) and category != "reflection"
    category = category if is_one else "other"  # with none it would be looked at once more
    key = read_key(choice.key, one.text)
    if one.table == "facts":
        changed = file.execute(NAME, (key, category, one.key)).rowcount
        end_former(file, key)
        return bool(changed)
    if not file.execute("SELECT 1 FROM spans WHERE key = ?", (one.key,)).fetchone():
        return False
    turn = find_turn(one.key)
    where, source = FactSource(turn, one.session, "", category, key), f"{one.session} {turn}"
    add(file, make_row(one.text, one.at, source, where, label="trusted", owned=True))
    return True
