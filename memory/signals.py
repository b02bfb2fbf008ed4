"""How well a row fits a question: signals, each scaled to 1 at most, and their weights."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from memory.utterance import read_time
from memory.words import MAX_WORDS, MONTHS, list_pairs, list_telling, list_words, write_terms

WEIGHTS = {
    "words": 0.6, "beside": 0.3, "sitting": 0.4, "speaker": 0.3, "date": 0.5, "asks": 0.1,
    "when": 0.2,
}  # fmt: skip
WITH_MODEL = {
    "words": 0.3, "alone": 1.2, "window": 1.6, "sitting": 0.5, "speaker": 0.6, "date": 1.5,
    "asks": 0.3, "when": 0.4,
}  # fmt: skip
YEAR = re.compile(r"20\d\d")


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
        "date": scale(match_dates(question, rows)),
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


def match_dates(question: Question, rows: Sequence[Row]) -> list[float]:
    """How much of the month and year that are asked for is that of each row."""
    if not (question.months or question.years):
        return [0.0] * len(rows)
    days = [read_time(row.at) for row in rows]
    return [float(one.month in question.months) + float(one.year in question.years) for one in days]
