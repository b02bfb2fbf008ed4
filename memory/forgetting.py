"""What is to be gone: from these tables at once, and from wherever else its words stand soon."""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from memory.rows import find_turn, list_of_turns, remove_rows
from memory.search import WORD_COLUMNS
from memory.utterance import UTTERANCE, Utterance, read_fields
from memory.words import list_pairs, list_words, match_words, write_terms

FORGET = """
DELETE FROM facts WHERE id IN (
    WITH RECURSIVE gone (id) AS (
        VALUES (?1) UNION SELECT supersedes FROM facts JOIN gone USING (id)
    )
    SELECT id FROM gone UNION
    SELECT old.id FROM facts JOIN facts AS old USING (key)
    WHERE facts.id = ?1 AND key <> '' AND facts.valid_to IS NULL AND old.valid_to IS NOT NULL
) RETURNING CASE category WHEN 'reflection' THEN '' ELSE turn END, text
"""
# New facts get the numbers of the last ones that are gone: who reads on begins with them.
STEP_BACK = """
UPDATE state SET value = CAST(min(
    CAST(value AS INTEGER), coalesce((SELECT max(rowid) FROM facts), 0)
) AS TEXT) WHERE name = 'read_facts'
"""
MERGE = "INSERT INTO words (words) VALUES ('optimize')"
LEAST_PHRASE = 8  # characters; a shorter one may stand anywhere
RECALLED_CHARS = 36  # of what was shown to other turns so many are there at least
PHRASE, NAME, RECALLED = 0, 1, 2
TEXTS = "SELECT text FROM spans WHERE id IN (SELECT value FROM json_each(?))"
HOLDING = "SELECT id, sitting FROM spans WHERE instr(lower(text), lower(?))"
WITH_WORDS = f"""
SELECT id, {UTTERANCE} FROM said WHERE id IN (
    SELECT rowid FROM own_words WHERE own_words MATCH ?1
    UNION ALL SELECT rowid FROM other_words WHERE other_words MATCH ?1
) ORDER BY id DESC LIMIT ?2
"""
OF_FACTS = """
SELECT CASE turn WHEN '' THEN source ELSE turn END, id, text, text, key, session, source, tainted_by
FROM facts
"""
OF_ROWS = "SELECT id, sitting, text, speaker, session FROM said"


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Turns whose words are to be gone; phrases, names of people, and how texts begin that other
    turns may have been shown, each with the turn that has to end before it can go ("" for none).
    """

    turns: Sequence[str]
    phrases: dict[str, str]
    names: dict[str, str]
    recalled: dict[str, str]

    @property
    def words(self) -> list[str]:
        """Phrases and names."""
        return [*self.phrases, *self.names]


def read_forgotten(file: sqlite3.Connection) -> Forgotten:
    """What is still to be done."""
    turns = file.execute("SELECT turn FROM forgotten INDEXED BY forgotten_open WHERE done = 0")
    words: list[dict[str, str]] = [{}, {}, {}]
    for kind, word, turn in file.execute("SELECT name, word, turn FROM forgotten_words"):
        words[kind][word] = turn
    return Forgotten([turn for (turn,) in turns], *words)


def set_forgotten(
    file: sqlite3.Connection,
    turns: Iterable[str],
    words: Iterable[str],
    finds: Callable[[str], bool] | None,
) -> None:
    """This is done. `finds`: one of the words; rows with it were read from the journal before that
    removed it, and kept since.
    """
    if finds:
        remove_rows(file, _list_rows(file, finds))
    done = "UPDATE forgotten SET done = 1 WHERE turn = ?"
    file.executemany(done, [(one,) for one in turns])
    file.executemany("DELETE FROM forgotten_words WHERE word = ?", [(one,) for one in words])


def delete(file: sqlite3.Connection, fact_id: str, ends: str) -> bool:
    """The fact, its history, and what was said in the turns that they are from. `ends`: what has to
    end before the words can go.
    """
    rows = file.execute(FORGET, (fact_id,)).fetchall()
    _clean_up(file, rows, ends)
    return bool(rows)


def forget_person(
    file: sqlite3.Connection,
    names: Collection[str],
    senders: Collection[str],
    turns: Collection[str],
    names_them: Callable[[str], bool],
    ends: str,
) -> int:
    """All that they said, what was said in these turns, what names them; gives how many rows. A
    fact of others that names them goes alone: its turn is not theirs.
    """
    turns = frozenset(turns)
    gone = _list_facts(file, turns, names_them)
    file.executemany("DELETE FROM facts WHERE id = ?", [(one,) for _, one, _ in gone])
    _clean_up(file, [(turn, text) if turn in turns else ("", "") for turn, _, text in gone], ends)
    rows = _list_rows(file, names_them, senders)
    count = len(gone) + _remove(file, rows, ends) + _forget_turns(file, turns, ends)
    _add_words(file, names, ends, NAME)
    return count


def list_naming(
    file: sqlite3.Connection, turns: Collection[str], names_them: Callable[[str], bool]
) -> list[str]:
    """The facts that `forget_person` removes."""
    return [text for _, _, text in _list_facts(file, frozenset(turns), names_them)]


def count_others(
    file: sqlite3.Connection,
    senders: Collection[str],
    finds: Mapping[str, Callable[[str], bool]],
) -> dict[str, int]:
    """In how much of what others than these said each finds something."""
    texts = [text for _, _, text, speaker, _ in file.execute(OF_ROWS) if speaker not in senders]
    return {name: sum(map(find, texts)) for name, find in finds.items()}


def list_said(file: sqlite3.Connection, words: str, limit: int) -> list[tuple[int, Utterance]]:
    """What was said with all these words, by its row, the newest first."""
    terms = write_terms(words, [*list_pairs(words), *list_words(words)])
    query = match_words(terms, WORD_COLUMNS, "AND")
    found = file.execute(WITH_WORDS, (query, limit)).fetchall() if query else []
    return [(row, Utterance(*read_fields(one))) for row, *one in found]


def forget_said(file: sqlite3.Connection, row: int, ends: str) -> bool:
    """This row, with all of its turn; False when there is none. `ends`: see `delete`."""
    found = file.execute("SELECT id, sitting, key FROM spans WHERE id = ?", (row,)).fetchone()
    if not found:
        return False
    if turn := find_turn(found[2]):
        _forget_turns(file, [turn], ends)
    else:
        _remove(file, [found[:2]], ends)
    return True


def _list_rows(
    file: sqlite3.Connection, finds: Callable[[str], bool], senders: Collection[str] = ()
) -> list[tuple[int, int]]:
    """What these said, or what has a word that is looked for."""
    return [
        (row, sitting)
        for row, sitting, text, speaker, session in file.execute(OF_ROWS)
        if speaker in senders or any(map(finds, (text, speaker, session)))
    ]


def _list_facts(
    file: sqlite3.Connection, turns: Collection[str], names_them: Callable[[str], bool]
) -> list[tuple[str, str, str]]:
    """Turn, id and text of what is from these turns, or names them."""
    rows = ((turn.rpartition(" ")[2], *rest) for turn, *rest in file.execute(OF_FACTS))
    return [
        (turn, fact_id, text)
        for turn, fact_id, text, *names in rows
        if turn in turns or any(map(names_them, names))
    ]


def _clean_up(file: sqlite3.Connection, rows: Sequence[tuple[str, str]], ends: str) -> None:
    """After facts, by turn and text, were removed. The index too lets go of the words: until it is
    merged it only marks them as deleted.
    """
    if rows:
        file.execute(STEP_BACK)
        file.execute(MERGE)
        _forget_turns(file, ({turn for turn, _ in rows} | {ends}) - {""}, ends)
        phrases = [text for _, text in rows if len(text) >= LEAST_PHRASE]
        said = {row for one in phrases for row in file.execute(HOLDING, (one,))}
        _remove(file, [*said], ends)
        _add_words(file, phrases, ends, PHRASE)


def _forget_turns(file: sqlite3.Connection, turns: Iterable[str], ends: str) -> int:
    gone = [*turns]
    file.executemany("INSERT OR IGNORE INTO forgotten (turn) VALUES (?)", [(one,) for one in gone])
    return _remove(file, list_of_turns(file, gone), ends)


def _remove(file: sqlite3.Connection, rows: Sequence[tuple[int, int]], ends: str) -> int:
    """What of them other turns were shown is to be gone, too."""
    texts = file.execute(TEXTS, (json.dumps([row for row, _ in rows]),))
    shown = {" ".join(text.split())[:RECALLED_CHARS] for (text,) in texts} - {""}
    _add_words(file, shown, ends, RECALLED)
    return remove_rows(file, rows)


def _add_words(file: sqlite3.Connection, words: Iterable[str], ends: str, kind: int) -> None:
    query = """INSERT INTO forgotten_words (word, name, turn) VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET name = min(name, excluded.name), turn = excluded.turn"""
    file.executemany(query, [(word, kind, ends) for word in words])
