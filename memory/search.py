"""What was said that fits a question: a weighted sum of signals, each scaled to 1 at most."""

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from math import log
from statistics import median
from typing import Any, NamedTuple

from memory.vectors import VectorQuery
from memory.words import (
    MAX_WORDS,
    MONTHS,
    is_latin,
    list_pairs,
    list_telling,
    list_words,
    match_words,
    rate_term,
    write_terms,
)

WEIGHTS = {
    "words": 0.6, "beside": 0.3, "sitting": 0.4, "speaker": 0.3, "date": 0.5, "asks": 0.1,
    "when": 0.2,
}  # fmt: skip
WITH_MODEL = {
    "words": 0.3, "alone": 1.2, "window": 1.6, "sitting": 0.5, "speaker": 0.6, "date": 1.5,
    "asks": 0.3, "when": 0.4,
}  # fmt: skip
FIRST, WHOLE = 200, 1000
# Of what the question's words are worth; with what was said beside it.
GATE, NEAR_GATE = 0.3, 0.5
ASSUMED = 300  # rows at least: of a few rows nothing tells how rare a word is
COMMON = 0.25
LEAST_BEGIN, MOST_CUT = 5, 2  # letters by which words of a begin are found, and that may differ
YEAR = re.compile(r"20\d\d")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
LAST = (datetime(9999, 1, 1, tzinfo=UTC) - EPOCH) // MICROSECOND
CANDIDATE = "spans.id, spans.sitting, spans.place, name, spans.at, spans.asks, spans.dated"
SOURCE = "spans CROSS JOIN speakers ON speakers.id = spans.speaker"
UTTERANCE = "key, session, speaker, role, label, own, at, text, private"
SHOWN = f"SELECT id, {UTTERANCE} FROM said WHERE id IN (SELECT value FROM json_each(?))"
OF_SESSION = "spans.sitting IN (SELECT id FROM sittings WHERE session = ?)"
OWN = "spans.speaker IN (SELECT id FROM speakers WHERE own = 1)"
WORD_COLUMNS = "{text pairs}"
MATCHING = """
SELECT {0}.rowid, -bm25({0}, 1.0, 1.0, 0.0) FROM {0}{1} WHERE {0} MATCH ? ORDER BY 2 DESC LIMIT ?
"""
MATCHING_MORE = " CROSS JOIN spans ON spans.id = {0}.rowid AND {1}"
OF_SITTINGS = """
SELECT rowid, -bm25(sitting_words, 1.0, 1.0, 0.0) FROM sitting_words
WHERE sitting_words MATCH ? AND +rowid IN (SELECT value FROM json_each(?))
"""
BESIDE = f"""
SELECT {CANDIDATE} FROM json_each(?) AS hit
    CROSS JOIN spans AS found ON found.id = hit.value
    CROSS JOIN spans ON spans.sitting = found.sitting
    AND spans.place BETWEEN found.place - 1 AND found.place + 1
    CROSS JOIN speakers ON speakers.id = spans.speaker
"""
NEAR = """
SELECT found.id, spans.id FROM json_each(?) AS hit
    CROSS JOIN spans AS found ON found.id = hit.value
    CROSS JOIN spans ON spans.sitting = found.sitting
    AND spans.place BETWEEN found.place - 1 AND found.place + 1
"""
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
class Utterance:
    """One span that somebody said. `key` is its own: "TURN:NUMBER". `own`: the owner's own words,
    or a reply to them; `label`: "trusted" or "untrusted". `role`: who it is to the owner.
    `private`: it may hold what was read of the owner's.
    """

    key: str
    session: str
    speaker: str
    role: str
    label: str
    own: bool
    at: datetime
    text: str
    private: bool = True


@dataclass(frozen=True, slots=True)
class Found(Utterance):
    """One that was searched for. `why`: each signal's part of the score. `fits`: it, or what was
    said beside it, has enough of the question's words: the best of all may have next to nothing.
    """

    score: float = 0.0
    why: Mapping[str, float] = field(default_factory=dict)
    fits: bool = False


class Row(NamedTuple):
    """A candidate. `place`: its number in its sitting; `at`: microseconds; `dated`: it tells when
    by words such as "yesterday".
    """

    id: int
    sitting: int
    place: int
    speaker: str
    at: int
    asks: int
    dated: int


@dataclass(frozen=True, slots=True)
class Question:
    """What a query asks for: words (as terms of FTS5), people who are named, months and years, a
    date.
    """

    words: tuple[str, ...]
    named: frozenset[str]
    months: frozenset[int]
    years: frozenset[int]
    asks_when: bool

    @classmethod
    def read(cls, query: str, speakers: Sequence[str]) -> "Question":
        """`speakers`: all who have said something."""
        said = list_words(query)
        names = {word for one in speakers for word in list_words(one)}
        telling = dict.fromkeys([*list_telling(query, names), *list_pairs(query)])
        return cls(
            tuple(write_terms(query, [*telling][:MAX_WORDS])),
            frozenset(one for one in said if one in names),
            frozenset(MONTHS.index(one) + 1 for one in said if one in MONTHS and one != "may"),
            frozenset(int(one) for one in said if YEAR.fullmatch(one)),
            said[:1] == ["when"] or "how long" in query.casefold(),
        )


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
    sittings = dict(file.execute(OF_SITTINGS, (_make_query(question, scope), places)).fetchall())
    own, beside = find_words(rows, words)
    signals = score(question, rows, own, beside, sittings)
    weights, alone = WEIGHTS, [0.0] * len(rows)
    if asked:
        weights, (alone, window) = WITH_MODEL, asked.measure(rows)
        signals |= {"alone": stretch(alone), "window": stretch(window)}
    weighted = {name: [weight * one for one in signals[name]] for name, weight in weights.items()}
    sums = [sum(parts) for parts in zip(*weighted.values(), strict=True)]
    telling = (own, beside, signals["sitting"], signals["date"])
    related = [
        place
        for place in range(len(rows))
        if asked
        or any(one[place] for one in telling)
        or (question.named and signals["speaker"][place])
    ]
    best = sorted(related, key=lambda place: -sums[place])[:limit]
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
    of it. Few are all looked at; of many, those with words, those beside them, and near ones.
    """
    chosen = Filter.read(file, scope)
    if _is_small(file, chosen):
        return _list_all(file, chosen), _match(file, question, scope, chosen, WHOLE)
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
    for row, one in file.execute(NEAR, (best,)):
        beside[row].append(one)
    near = json.dumps(sorted({one for ids in beside.values() for one in ids}))
    worth, sums, nears = 0.0, dict.fromkeys(beside, 0.0), dict.fromkeys(beside, 0.0)
    for word in question.words:
        said, among = _count_matches(file, [word], scope, near)
        rows = max(said, 1)
        value = log(1 + (count - rows + 0.5) / (rows + 0.5)) * rate_term(word, said=said > 0)
        worth += value
        for row, ids in beside.items():
            is_near = not among.isdisjoint(ids)
            nears[row] += value * is_near
            sums[row] += value * ((row in among) + is_near) / 2
    least, most = GATE * worth, NEAR_GATE * worth
    return {row for row, found in sums.items() if found >= least or nears[row] >= most}


def find_words(rows: Sequence[Row], words: Mapping[int, float]) -> tuple[list[float], list[float]]:
    """The BM25 of each row, and the better one of the two beside it."""
    own = [words.get(row.id, 0.0) for row in rows]
    places = {
        (row.sitting, row.place): value for row, value in zip(rows, own, strict=True) if value
    }
    beside = [
        max(
            places.get((one.sitting, one.place - 1), 0), places.get((one.sitting, one.place + 1), 0)
        )
        for one in rows
    ]
    return own, beside


def score(
    question: Question,
    rows: Sequence[Row],
    own: Sequence[float],
    beside: Sequence[float],
    sittings: Mapping[int, float],
) -> dict[str, list[float]]:
    """Each signal of each row. `own`, `beside`: see find_words; `sittings`: BM25 by id."""
    said_by = {one: match_speaker(question, one) for one in {row.speaker for row in rows}}
    return {
        "words": scale(own),
        "beside": scale(beside),
        "sitting": scale([sittings.get(row.sitting, 0.0) for row in rows]),
        "speaker": [said_by[row.speaker] for row in rows],
        "date": scale([match_date(question, row.at) for row in rows]),
        "asks": [-float(row.asks) for row in rows],
        "when": [float(question.asks_when and row.dated) for row in rows],
    }


def scale(values: Sequence[float]) -> list[float]:
    """The largest becomes 1."""
    most = max(values, default=0.0)
    return [one / most for one in values] if most > 0 else list(values)


def stretch(values: Sequence[float]) -> list[float]:
    """The least becomes 0, the largest 1."""
    least, most = min(values, default=0.0), max(values, default=0.0)
    return [(one - least) / (most - least) if most > least else 0.0 for one in values]


def match_speaker(question: Question, speaker: str) -> float:
    """1 for who is named, 0 for another; one half where nobody is named."""
    if not question.named:
        return 0.5
    return float(not question.named.isdisjoint(list_words(speaker)))


def match_date(question: Question, at: int) -> float:
    """How much of the month and year that are asked for is that of `at`."""
    if not (question.months or question.years):
        return 0.0
    day = read_time(at)
    return float(day.month in question.months) + float(day.year in question.years)


def _match(
    file: sqlite3.Connection, question: Question, scope: Scope, chosen: Filter, limit: int
) -> dict[int, float]:
    words, found = _make_query(question, scope), dict[int, float]()
    values = chosen.values[: chosen.more.count("?")]
    for table in scope.tables:
        more = MATCHING_MORE.format(table, chosen.more) if chosen.more else ""
        query = MATCHING.format(table, more)
        found |= dict(file.execute(query, (*values, words, limit)).fetchall())
    return found


def _make_query(question: Question, scope: Scope) -> str:
    query = match_words(question.words, WORD_COLUMNS)
    return f"{query} AND marks : {mark_session(scope.session)}" if scope.session else query


def _count_all(file: sqlite3.Connection) -> int:
    return max(ASSUMED, file.execute("SELECT coalesce(max(id), 0) FROM spans").fetchone()[0])


def _tells_nothing(file: sqlite3.Connection, question: Question, scope: Scope) -> bool:
    """A quarter of all that was said has each of its words that anybody said, and all of them; it
    names neither who nor when.
    """
    if question.named or question.months or question.years:
        return False
    most, said = COMMON * _count_all(file), list[str]()
    for word in question.words:
        count, _ = _count_matches(file, [word], scope)
        if 0 < count < most:
            return False
        said += [word] * bool(count)
    return bool(said) and _count_matches(file, said, scope)[0] >= most


def _count_matches(
    file: sqlite3.Connection, words: Sequence[str], scope: Scope, near: str = "[]"
) -> tuple[int, set[int]]:
    """How many rows have all of these words, and which of the ids in `near` (JSON)."""
    query, total, among = match_words(words, WORD_COLUMNS, "AND"), 0, set[int]()
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
    rows = file.execute(query, (json.dumps([*found]), *chosen.values))
    return [*map(Row._make, dict.fromkeys(rows))]


def _list_rows(file: sqlite3.Connection, ids: Iterable[int]) -> list[Row]:
    query = f"SELECT {CANDIDATE} FROM {SOURCE} WHERE spans.id IN (SELECT value FROM json_each(?))"
    return [*map(Row._make, file.execute(query, (json.dumps([*ids]),)))]


def _list_all(file: sqlite3.Connection, chosen: Filter) -> list[Row]:
    query = f"SELECT {CANDIDATE} FROM {SOURCE} WHERE {chosen.where}"
    return [*map(Row._make, file.execute(query, chosen.values))]


def write_time(at: datetime) -> int:
    """As rows have it."""
    return (at - EPOCH) // MICROSECOND


def read_time(us: int) -> datetime:
    """Of a row; one that no calendar has is the nearest that it has."""
    return EPOCH + timedelta(microseconds=min(max(us, 0), LAST))


def read_fields(
    row: Sequence[Any],
) -> tuple[str, str, str, str, str, bool, datetime, str, bool]:
    """Those of an Utterance, of a row of UTTERANCE."""
    key, session, speaker, role, label, own, at, text, private = row
    when = read_time(at)
    return key, session, speaker, role, label, bool(own), when, text, bool(private)
