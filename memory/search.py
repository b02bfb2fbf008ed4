"""What was said that fits a question: the rows with the largest weighted sums of signals."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from heapq import nlargest
from math import ceil, log
from statistics import median
from typing import Any, NamedTuple

from memory.signals import WEIGHTS, WITH_MODEL, Question, Row, find_words, score, stretch
from memory.utterance import UTTERANCE, Utterance, read_fields, write_time
from memory.vectors import VectorQuery
from memory.words import is_latin, list_words, match_words, rate_term

FIRST, WHOLE = 200, 1000
# Of what the question's words are worth; with what was said beside it.
GATE, NEAR_GATE = 0.3, 0.5
ASSUMED = 300  # rows at least: of a few rows nothing tells how rare a word is
COMMON = 0.25
LEAST_BEGIN, MOST_CUT = 5, 2  # letters by which words of a begin are found, and that may differ
CANDIDATE = (
    "spans.id, spans.sitting, spans.place, name AS speaker, spans.at, spans.asks, spans.dated"
)
SOURCE = "spans CROSS JOIN speakers ON speakers.id = spans.speaker"
SHOWN = f"SELECT id, {UTTERANCE} FROM said WHERE id IN (SELECT value FROM json_each(?))"
OF_SESSION = "spans.sitting IN (SELECT id FROM sittings WHERE session = ?)"
OWN = "spans.speaker IN (SELECT id FROM speakers WHERE own = 1)"
WORD_COLUMNS = "{text pairs}"
MATCHING = """
SELECT {0}.rowid AS id, -bm25({0}, 1.0, 1.0, 0.0) AS worth FROM {0}{1} WHERE {0} MATCH ?
ORDER BY 2 DESC LIMIT ?
"""
MATCHING_MORE = " CROSS JOIN spans ON spans.id = {0}.rowid AND {1}"
OF_SITTINGS = """
SELECT rowid AS id, -bm25(sitting_words, 1.0, 1.0, 0.0) AS worth FROM sitting_words
WHERE sitting_words MATCH ? AND +rowid IN (SELECT value FROM json_each(?))
"""
IN_SITTINGS = f"""
SELECT {CANDIDATE} FROM {SOURCE} WHERE +spans.sitting IN (
    SELECT found.sitting FROM json_each(?) CROSS JOIN spans AS found ON found.id = value
    UNION SELECT rowid FROM sitting_words WHERE sitting_words MATCH ?
)
"""
BESIDE = f"""
SELECT {CANDIDATE} FROM json_each(?) AS hit
    CROSS JOIN spans AS found ON found.id = hit.value
    CROSS JOIN spans ON spans.sitting = found.sitting
    AND spans.place BETWEEN found.place - 1 AND found.place + 1
    CROSS JOIN speakers ON speakers.id = spans.speaker
"""
NEAR = """
SELECT found.id, spans.id AS near FROM json_each(?) AS hit
    CROSS JOIN spans AS found ON found.id = hit.value
    CROSS JOIN spans ON spans.sitting = found.sitting
    AND spans.place BETWEEN found.place - 1 AND found.place + 1
"""
COUNT_UP_TO = "SELECT count(*) FROM (SELECT 1 FROM {0} WHERE {0} MATCH ? LIMIT ?)"
COUNT_MATCHES = """
SELECT count(*), json_group_array(rowid) FILTER (WHERE +rowid IN (SELECT value FROM json_each(?)))
FROM {0} WHERE {0} MATCH ?
"""
OWN_WORDS, OTHER_WORDS, SITTING_WORDS = "own_words", "other_words", "sitting_words"


def mark_session(session: str) -> str:
    """A word that stands for it."""
    return f"in{blake2b(session.encode(errors='surrogatepass'), digest_size=8).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Scope:
    """Which rows may be seen. `session`: of this one only; "" for all. `own`: none but the owner's
    own words and replies to them. `speaker`: a name, or words of it; said at `since` or later, and
    before `until`.
    """

    own: bool = True
    session: str = ""
    speaker: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def tables(self) -> tuple[str, ...]:
        """The indexes of words of these rows."""
        return (OWN_WORDS,) if self.own else (OWN_WORDS, OTHER_WORDS)

    def is_by(self, speaker: str) -> bool:
        """It is who is asked for."""
        words, wanted = list_words(self.speaker), self.speaker.strip()
        return {*list_words(speaker)}.issuperset(words) if words else wanted in speaker


class Filter(NamedTuple):
    """A Scope as conditions of SQL on rows of SOURCE, and their values; `more` are those that an
    index of words cannot tell, with the first values.
    """

    where: str
    values: tuple[str | int, ...]
    more: str

    @classmethod
    def read(cls, file: sqlite3.Connection, scope: Scope) -> "Filter":
        more: dict[str, str | int] = {}
        if scope.since:
            more["spans.at >= ?"] = write_time(scope.since)
        if scope.until:
            more["spans.at < ?"] = write_time(scope.until)
        if scope.speaker:
            known = [one for one, name in list_speakers(file, scope) if scope.is_by(name)]
            more["spans.speaker IN (SELECT value FROM json_each(?))"] = json.dumps(known)
        of_session = {OF_SESSION: scope.session} if scope.session else {}
        own = f"+{OWN}" if of_session else OWN  # the index of sittings finds less
        terms = [*more, *of_session, *([own] if scope.own else [])]
        values = (*more.values(), *of_session.values())
        return cls(" AND ".join(terms) or "1", values, " AND ".join(more))


@dataclass(frozen=True, slots=True)
class Found(Utterance):
    """One that was searched for. `why`: each signal's part of the score. `fits`: it, or what was
    said beside it, has enough of the question's words: the best of all may have next to nothing.
    """

    score: float = 0.0
    why: Mapping[str, float] = field(default_factory=dict)
    fits: bool = False


def search(
    file: sqlite3.Connection,
    query: str,
    scope: Scope,
    limit: int,
    asked: VectorQuery | None = None,
    *,
    automatic: bool = False,
) -> list[Found]:
    """The best first. What has no word of the question nor one beside it is no answer, but where
    its vectors are near; to the local model, made for English, all of another script is near.
    `automatic`: none at all where much of what was said has each word, as what a schedule says each
    hour does, and much of it all of them: any row fits as well.
    """
    question = read_question(file, query, scope)
    if not (question.words and limit > 0):
        return []
    if automatic and not asked and _tells_nothing(file, question, scope):
        return []
    rows, words = choose_rows(file, question, scope, limit, asked)
    if not rows:
        return []
    places = json.dumps([*{row.sitting for row in rows}])
    matching = (_make_query(question, scope), places)
    sittings = {one: worth for one, worth in _fetch(file, "id, worth", OF_SITTINGS, matching)}
    own, beside = find_words(rows, words)
    signals = score(question, rows, own, beside, sittings)
    weights, alone = WEIGHTS, [0.0] * len(rows)
    if asked:
        weights, (alone, window) = WITH_MODEL, asked.measure(rows)
        signals |= {"alone": stretch(alone), "window": stretch(window)}
    weighted = {
        name: [weight * one for one in signals[name]]
        for name, weight in weights.items()
        if any(signals[name])
    }
    nothing = [0.0] * len(rows)  # a sum of no signal is one, too
    sums = [sum(parts) for parts in zip(nothing, *weighted.values(), strict=True)]
    telling = [own, beside, signals["sitting"], signals["date"]]
    telling += [signals["speaker"]] * bool(question.named)
    some = range(len(rows))
    if not asked:
        some = [place for place, parts in enumerate(zip(*telling, strict=True)) if any(parts)]
    best = nlargest(limit, some, key=lambda place: sums[place])
    ids = json.dumps([rows[one].id for one in best])
    fitting = find_fitting(file, question, scope, ids)
    if asked and (asked.index.embedder.kind != "local" or is_latin(query)):
        least = median(alone or [0.0]) + asked.index.embedder.nearer
        fitting |= {rows[one].id for one in best if alone[one] >= least}
    shown = {row: read_fields(fields) for row, *fields in file.execute(SHOWN, (ids,))}
    return [
        Found(
            *shown[rows[one].id],
            round(sums[one], 4),
            {name: round(parts[one], 4) for name, parts in weighted.items() if parts[one]},
            rows[one].id in fitting,
        )
        for one in best
        if rows[one].id in shown
    ]


def read_question(file: sqlite3.Connection, query: str, scope: Scope) -> Question:
    """Its names are of those whose words may be found: a stranger's name takes no word out of the
    owner's question.
    """
    question = Question.read(query, [name for _, name in list_speakers(file, scope)])
    return replace(question, words=tuple(_widen(file, one, scope) for one in question.words))


def _widen(file: sqlite3.Connection, term: str, scope: Scope) -> str:
    """A term that nobody said finds words that begin so, but for its last letters: other forms of
    it, and what it is a part of.
    """
    word = term.rpartition('"')[0].rpartition('"')[2]
    if len(word) < LEAST_BEGIN or _is_said(file, term, scope):
        return term
    begins = (word[: len(word) - cut] for cut in range(MOST_CUT + 1))
    wider = (f'{term} OR "{one}"*' for one in begins if len(one) >= LEAST_BEGIN)
    return next((one for one in wider if _is_said(file, one, scope)), term)


def _is_said(file: sqlite3.Connection, term: str, scope: Scope) -> bool:
    query = match_words([term], WORD_COLUMNS)
    said = "SELECT 1 FROM {0} WHERE {0} MATCH ? LIMIT 1"
    return any(file.execute(said.format(one), (query,)).fetchone() for one in scope.tables)


def list_speakers(file: sqlite3.Connection, scope: Scope) -> list[tuple[int, str]]:
    """The numbers and names of all who have said something that may be found."""
    return file.execute("SELECT id, name FROM speakers WHERE own >= ?", (scope.own,)).fetchall()


def choose_rows(
    file: sqlite3.Connection,
    question: Question,
    scope: Scope,
    limit: int,
    asked: VectorQuery | None,
) -> tuple[list[Row], dict[int, float]]:
    """The first stage: rows that may be the answer, and BM25 by the ids of those that have a word
    of it. Of few, all that have anything to do with the question; of many, those with words, those
    beside them, and near ones.
    """
    chosen = Filter.read(file, scope)
    is_all_small = _count_all(file) <= WHOLE
    if is_all_small or _is_small(file, chosen):
        words = _match(file, question, scope, chosen, WHOLE)
        asks_more = question.named or question.months or question.years
        if asked or asks_more or not is_all_small:
            return _list_all(file, chosen), words
        values = (json.dumps([*words]), _make_query(question, scope), *chosen.values)
        return _read_rows(file, f"{IN_SITTINGS} AND {chosen.where}", values), words
    words = _match(file, question, scope, chosen, max(FIRST, 10 * limit))
    rows = _list_candidates(file, chosen, words)
    if asked:
        among = None
        if chosen.values:
            ids = f"SELECT spans.id FROM spans WHERE {chosen.where}"
            among = [row for (row,) in file.execute(ids, chosen.values)]
        near = asked.find_nearest(among, own=scope.own)
        rows += _list_rows(file, {*near} - {row.id for row in rows})
    return rows, words


def find_fitting(file: sqlite3.Connection, question: Question, scope: Scope, best: str) -> set[int]:
    """Those of the ids in `best` (JSON) that have enough of what the question's words are worth;
    what was said beside them counts half, and half of it all is enough together with that. A rare
    word is worth more; one that nobody has ever said, such as "now" or "which" often is, as much as
    one said once.
    """
    count = _count_all(file)
    beside = defaultdict[int, list[int]](list)
    for row, one in _fetch(file, "id, near", NEAR, (best,)):
        beside[row].append(one)
    near = json.dumps(sorted({one for ids in beside.values() for one in ids}))
    worth, sums, nears = 0.0, dict.fromkeys(beside, 0.0), dict.fromkeys(beside, 0.0)
    for word in question.words:
        said, among = _count_matches(file, word, scope, near)
        rows = max(said, 1)
        value = log(1 + (count - rows + 0.5) / (rows + 0.5)) * rate_term(word, said=said > 0)
        worth += value
        for row, ids in beside.items():
            is_near = not among.isdisjoint(ids)
            nears[row] += value * is_near
            sums[row] += value * ((row in among) + is_near) / 2
    least, most = GATE * worth, NEAR_GATE * worth
    return {row for row, found in sums.items() if found >= least or nears[row] >= most}


def _match(
    file: sqlite3.Connection, question: Question, scope: Scope, chosen: Filter, limit: int
) -> dict[int, float]:
    words, found = _make_query(question, scope), dict[int, float]()
    values = chosen.values[: chosen.more.count("?")]
    for table in scope.tables:
        more = MATCHING_MORE.format(table, chosen.more) if chosen.more else ""
        query = MATCHING.format(table, more)
        matching = _fetch(file, "id, worth", query, (*values, words, limit))
        found |= {row: worth for row, worth in matching}
    return found


def _make_query(question: Question, scope: Scope) -> str:
    query = match_words(question.words, WORD_COLUMNS)
    return f"{query} AND marks : {mark_session(scope.session)}" if scope.session else query


def _count_all(file: sqlite3.Connection) -> int:
    return max(ASSUMED, file.execute("SELECT coalesce(max(id), 0) FROM spans").fetchone()[0])


def _tells_nothing(file: sqlite3.Connection, question: Question, scope: Scope) -> bool:
    """A quarter of all that was said has each of its words, and all of them; it names neither who
    nor when.
    """
    if question.named or question.months or question.years:
        return False
    most, words = ceil(COMMON * _count_all(file)), question.words
    asked = [[word] for word in words] + [words] * (len(words) > 1)
    return all(_count_up_to(file, one, scope, most) >= most for one in asked)


def _count_up_to(file: sqlite3.Connection, words: Sequence[str], scope: Scope, most: int) -> int:
    """How many rows have all of these words; no more than `most` of an index are counted."""
    query = match_words(words, WORD_COLUMNS, "AND")
    counts = (file.execute(COUNT_UP_TO.format(one), (query, most)) for one in scope.tables)
    return sum(one.fetchone()[0] for one in counts)


def _count_matches(
    file: sqlite3.Connection, word: str, scope: Scope, near: str
) -> tuple[int, set[int]]:
    """How many rows have this word, and which of the ids in `near` (JSON)."""
    query, total, among = match_words([word], WORD_COLUMNS), 0, set[int]()
    for table in scope.tables:
        [(count, ids)] = file.execute(COUNT_MATCHES.format(table), (near, query))
        total += count
        among.update(json.loads(ids))
    return total, among


def _is_small(file: sqlite3.Connection, chosen: Filter) -> bool:
    """All that may be seen is so few that each row is looked at."""
    counted = f"SELECT count(*) FROM (SELECT 1 FROM spans WHERE {chosen.where} LIMIT ?)"
    return file.execute(counted, (*chosen.values, WHOLE + 1)).fetchone()[0] <= WHOLE


def _list_candidates(file: sqlite3.Connection, chosen: Filter, found: Iterable[int]) -> list[Row]:
    """What was found, with what was said beside it."""
    query = f"{BESIDE} WHERE {chosen.where}"
    return [*dict.fromkeys(_read_rows(file, query, (json.dumps([*found]), *chosen.values)))]


def _list_rows(file: sqlite3.Connection, ids: Iterable[int]) -> list[Row]:
    query = f"SELECT {CANDIDATE} FROM {SOURCE} WHERE spans.id IN (SELECT value FROM json_each(?))"
    return _read_rows(file, query, (json.dumps([*ids]),))


def _list_all(file: sqlite3.Connection, chosen: Filter) -> list[Row]:
    query = f"SELECT {CANDIDATE} FROM {SOURCE} WHERE {chosen.where}"
    return _read_rows(file, query, chosen.values)


def _read_rows(file: sqlite3.Connection, query: str, values: Sequence[str | int]) -> list[Row]:
    return [*map(Row._make, _fetch(file, ", ".join(Row._fields), query, values))]


def _fetch(
    file: sqlite3.Connection, columns: str, query: str, values: Sequence[str | int]
) -> list[list[Any]]:
    """All rows in one step: at each step a busy thread of the process holds this one up by some
    milliseconds.
    """
    found = f"WITH found AS MATERIALIZED ({query})"  # bm25 is told while its row is at hand alone
    whole = f"{found} SELECT json_group_array(json_array({columns})) FROM found"
    rows: list[list[Any]] = json.loads(file.execute(whole, values).fetchone()[0])
    return rows
