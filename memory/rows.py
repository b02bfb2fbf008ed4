"""Rows of what was said: added in batches whose words are indexed together, and removed.

FTS5 writes out what it holds whenever a statement with triggers runs. Indexed row by row, each row
would become a part of the index of its own, which every search then has to look into. Many rows are
one statement: after each one a busy thread of the process holds this one up.
"""

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import TypeVar

from memory.search import OTHER_WORDS, OWN_WORDS, SITTING_WORDS, mark_session
from memory.utterance import MICROSECOND, Utterance, write_time
from memory.words import MONTHS, write_forms

T = TypeVar("T")
GAP = timedelta(hours=4)
MOST_ROWS, MAX_TEXT = 60, 20_000
TRUSTED = "trusted"
RELATIVE = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|ago|since|recently|this morning|week(?:end)?"
    rf"|month|year|(?:mon|tues|wednes|thurs|fri|satur|sun)day|20\d\d|{'|'.join(MONTHS)})\b",
    re.IGNORECASE,
)
KNOWN = """
SELECT key, spans.id, sitting, label FROM spans CROSS JOIN speakers ON speakers.id = speaker
WHERE key IN ({})
"""
GONE = "SELECT turn FROM json_each(?) CROSS JOIN forgotten ON turn = value"
OPEN = """
SELECT id, ended, size, marks FROM sittings INDEXED BY sittings_open
WHERE session = ? AND closed = 0
"""
BEGIN = "INSERT INTO sittings (session, ended, size, marks) VALUES (?, ?, 0, ?)"
CONTINUE = "UPDATE sittings SET ended = ?, size = ? WHERE id = ?"
ADD_SPEAKER = "INSERT OR IGNORE INTO speakers (name, role, label, own) VALUES (?, ?, ?, ?)"
SPEAKER = "SELECT id FROM speakers WHERE (name, role, label, own) = (?, ?, ?, ?)"
ADD = """
INSERT INTO spans (id, key, sitting, place, speaker, own, private, at, asks, dated, text, pairs)
"""
MERGE = "INSERT INTO {0} ({0}, rank) VALUES ('merge', 16)"  # pages at most, so that it is quick
INDEX = "INSERT INTO {0} (rowid, text, pairs, marks)"
AT_ONCE = 16  # rows of a statement
LAST = """
SELECT max(
    coalesce((SELECT max(id) FROM spans), 0),
    coalesce((SELECT CAST(value AS INTEGER) FROM state WHERE name = 'last_row'), 0)
)
"""
WORDS_OF_SITTING = """
SELECT group_concat(text, ' '), group_concat(pairs, ' '), group_concat(DISTINCT marks) FROM
    (SELECT text, pairs, marks FROM said WHERE sitting = ? ORDER BY place)
"""
OF_TURN = "SELECT id, sitting FROM spans WHERE key >= ?1 || ':' AND key < ?1 || ';'"
SILENT = "DELETE FROM speakers WHERE id NOT IN (SELECT speaker FROM spans)"
COUNT_REMOVAL = """
INSERT INTO state VALUES ('removals', '1')
ON CONFLICT DO UPDATE SET value = CAST(value AS INTEGER) + 1
"""
# The number of a row that is gone is given to no other: who is at work on it would mistake it.
KEEP_NUMBERS = f"INSERT OR REPLACE INTO state SELECT 'last_row', CAST(({LAST}) AS TEXT)"


@dataclass(slots=True)
class Sitting:
    """One that is not over. `marks`: what stands for its session."""

    id: int
    ended: int
    size: int
    marks: str


class Batch:
    """In one transaction: rows by `add`, of these only, then `write`, without which none is
    there.
    """

    def __init__(self, file: sqlite3.Connection, said: Sequence[Utterance]) -> None:
        turns = json.dumps([*{find_turn(one.key) for one in said}])
        self._file = file
        self._last = int(file.execute(LAST).fetchone()[0])
        self._known = dict[str, tuple[int, int, str]]()
        for some in _split([one.key for one in said]):
            found = file.execute(KNOWN.format(_list_places(some)), some).fetchall()
            self._known |= {key: (row, sitting, label) for key, row, sitting, label in found}
        self._gone = {turn for (turn,) in file.execute(GONE, (turns,))}
        self._speakers: dict[tuple[str, str, str, bool], int] = {}
        self._sittings: dict[str, Sitting] = {}
        self._rows: list[tuple[object, ...]] = []
        self._words = defaultdict[str, list[tuple[int, str, str, str]]](list)

    def add(self, one: Utterance) -> bool:
        """False: its key is known, or its turn was forgotten."""
        text, at = one.text.strip()[:MAX_TEXT], write_time(one.at)
        known = self._known.get(one.key)
        if known and known[2] != one.label == TRUSTED:
            self.write()
            remove_rows(self._file, [(known[0], known[1])])  # the owner vouches for it now
            self._speakers.clear()
            self._sittings.clear()
        elif known or not text or find_turn(one.key) in self._gone:
            return False
        sitting, speaker = self._find_sitting(one.session, at), self._find_speaker(one)
        asks, dated = text.endswith(("?", "？", "؟")), bool(RELATIVE.search(text))
        pairs = write_forms(text)
        self._last += 1
        self._known[one.key] = (self._last, sitting.id, one.label)
        row = (self._last, one.key, sitting.id, sitting.size, speaker, one.own, one.private, at)
        self._rows.append((*row, asks, dated, text, pairs))
        words = self._words[OWN_WORDS if one.own else OTHER_WORDS]
        words.append((self._last, text, pairs, sitting.marks))
        sitting.ended, sitting.size = max(sitting.ended, at), sitting.size + 1
        return True

    def write(self) -> None:
        """What was added is there, and is found, from now on."""
        insert(self._file, ADD, self._rows)
        self._rows.clear()
        for table, rows in self._words.items():
            insert(self._file, INDEX.format(table), rows)
            self._file.execute(MERGE.format(table))
        self._words.clear()
        sizes = [(one.ended, one.size, one.id) for one in self._sittings.values()]
        self._file.executemany(CONTINUE, sizes)

    def _find_speaker(self, one: Utterance) -> int:
        who = (one.speaker, one.role, one.label, one.own)
        if who not in self._speakers:
            self._file.execute(ADD_SPEAKER, who)
            self._speakers[who] = self._file.execute(SPEAKER, who).fetchone()[0]
        return self._speakers[who]

    def _find_sitting(self, session: str, at: int) -> Sitting:
        known = self._sittings.get(session)
        found = (
            [known] if known else [Sitting(*row) for row in self._file.execute(OPEN, (session,))]
        )
        for one in found:
            if abs(at - one.ended) <= GAP // MICROSECOND and one.size < MOST_ROWS:
                self._sittings[session] = one
                return one
            self.write()
            close_sitting(self._file, one.id)
        marks = mark_session(session)
        begun = self._file.execute(BEGIN, (session, at, marks)).lastrowid
        self._sittings[session] = Sitting(int(begun or 0), at, 0, marks)
        return self._sittings[session]


def insert(file: sqlite3.Connection, into: str, rows: Sequence[Sequence[object]]) -> None:
    """All of these rows, where `into` says: ADD, or INDEX of a table."""
    for some in _split(rows):
        values = ", ".join([f"({_list_places(some[0])})"] * len(some))
        file.execute(f"{into} VALUES {values}", [*chain.from_iterable(some)])


def _split(many: Sequence[T]) -> Iterator[Sequence[T]]:
    yield from (many[first : first + AT_ONCE] for first in range(0, len(many), AT_ONCE))


def _list_places(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def find_turn(key: str) -> str:
    """The turn in which it was said; "" for what was imported."""
    return "" if key.startswith("import:") else key.partition(":")[0]


def list_of_turns(file: sqlite3.Connection, turns: Iterable[str]) -> list[tuple[int, int]]:
    """All that was said in these: numbers of rows and of their sittings."""
    return [row for one in turns for row in file.execute(OF_TURN, (one,))]


def open_sitting(file: sqlite3.Connection, sitting: int) -> None:
    """Its words are taken out as they were put in."""
    words = file.execute(WORDS_OF_SITTING, (sitting,)).fetchone()
    gone = "INSERT INTO sitting_words (sitting_words, rowid, text, pairs, marks)"
    file.execute(f"{gone} VALUES ('delete', ?, ?, ?, ?)", (sitting, *words))


def close_sitting(file: sqlite3.Connection, sitting: int) -> None:
    """It is over: what was said in it is found as a whole, too."""
    file.execute("UPDATE sittings SET closed = 1 WHERE id = ?", (sitting,))
    words = file.execute(WORDS_OF_SITTING, (sitting,)).fetchone()
    if words[0] is not None:
        insert(file, INDEX.format(SITTING_WORDS), [(sitting, *words)])


def remove_rows(file: sqlite3.Connection, rows: Sequence[tuple[int, int]]) -> int:
    """These, by their numbers and those of their sittings; gives how many. The words of the
    sittings are made anew; what is empty goes.
    """
    sittings = {sitting for _, sitting in rows}
    closed = {one for one in sittings if is_closed(file, one)}
    for one in closed:
        open_sitting(file, one)
    file.execute(KEEP_NUMBERS)
    file.executemany("DELETE FROM spans WHERE id = ?", [(row,) for row, _ in rows])
    for one in sittings:
        left = file.execute("SELECT 1 FROM spans WHERE sitting = ? LIMIT 1", (one,)).fetchone()
        if not left:
            file.execute("DELETE FROM sittings WHERE id = ?", (one,))
        elif one in closed:
            close_sitting(file, one)
    file.execute(SILENT)
    if rows:  # until they are merged the indexes only mark words as deleted
        file.execute(COUNT_REMOVAL)
        for table in (OWN_WORDS, OTHER_WORDS, SITTING_WORDS):
            file.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
    return len(rows)


def is_closed(file: sqlite3.Connection, sitting: int) -> bool:
    """It is over."""
    return bool(file.execute("SELECT closed FROM sittings WHERE id = ?", (sitting,)).fetchone()[0])
