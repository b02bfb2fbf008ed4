"""How much of what was said is found again, and how fast.

On the conversations of `memory_dev.json`, which are not part of the project (their licence).
"""

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daemon.recall.embedding import ThreadedEmbedder
from memory.conversations import Conversations
from memory.database import Database
from memory.embedder import KEPT, WIDTH, TextModel, TextVectors
from memory.search import Scope
from memory.utterance import Utterance
from tests.bench.figures import Figure

DATA = Path(__file__).parents[3] / "shared/data/memory_dev.json"
ANSWERABLE = (1, 2, 3, 4)
DEPTHS = (5, 10, 60)
GOALS = {
    (False, False): (0.70, 0.775, 0.905), (False, True): (None, None, None),
    (True, False): (0.765, 0.83, 0.94), (True, True): (0.75, 0.815, 0.91),
}  # fmt: skip
CHAT = (
    "Good morning! How are you doing today?", "Can you write me a haiku about autumn?", "What is 17 times 23?",
    "Translate 'good night' into French please", "Write a python function that reverses a list",
    "What's the capital of Australia?", "Explain how a heat pump works", "Thanks, that was great help",
    "Summarise this article for me", "What time is it in Tokyo?", "Tell me a joke about cats",
    "Convert 5 miles to kilometres", "How do I boil an egg?", "Who wrote War and Peace?",
    "Fix the spelling in this sentence: I has a apple", "Give me three ideas for dinner", "What does HTTP 404 mean?",
    "Set a reminder for tomorrow at nine", "Is it going to rain?", "List the files in this folder",
)  # fmt: skip
SIZES = (10_000, 100_000)
COMMON = 100  # so many words are as frequent as those that mean nothing, and are not asked for
Vectors = NDArray[np.float32]
SEARCH_GOALS_MS = {100_000: 25, 300_000: 80}
FULL_SIZES = (300_000, 1_000_000)


@dataclass(frozen=True, slots=True)
class Case:
    """A question, and the keys of the turns that answer it."""

    session: str
    question: str
    category: int
    evidence: frozenset[str]


def read_data() -> tuple[list[list[Utterance]], list[Case]]:
    """Conversations, and questions about them."""
    said, cases = [], []
    for one in json.loads(DATA.read_text())["conversations"]:
        turns: list[dict[str, Any]] = one["turns"]
        said.append([_read_turn(one["id"], turn, place) for place, turn in enumerate(turns)])
        known = {turn["id"] for turn in turns}
        for question in one["questions"]:
            named = {
                found
                for text in question["evidence"] or ()
                for found in re.findall(r"D\d+:\d+", str(text))
            }
            keys = frozenset(f"{one['id']}:{found}" for found in named & known)
            if keys:
                cases.append(Case(one["id"], question["question"], question["category"], keys))
    return said, cases


def _read_turn(session: str, turn: dict[str, Any], place: int) -> Utterance:
    at = datetime.strptime(turn["at"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    text = f"{turn['text'] or ''} {turn['image'] or ''}"
    at += timedelta(seconds=place % 100)
    key, speaker = f"{session}:{turn['id']}", turn["speaker"] or ""
    return Utterance(key, session, speaker, "person", "trusted", own=True, at=at, text=text)


async def measure_recall(place: Path, model: TextModel | None) -> list[Figure]:
    """The share of evidence among the first hits, each conversation an audience of its own and all
    in one; and how often something is shown where nothing fits.
    """
    said, cases = read_data()
    place.mkdir(exist_ok=True)
    database = await Database.open(place / "memory.db")
    memory = await Conversations.open(database)
    for one in said:
        await memory.add(one)
    await memory.close_idle()
    figures, answerable = [], [one for one in cases if one.category in ANSWERABLE]
    if model:
        rate = await _embed(memory, model)
        figures.append(Figure("embedding", round(rate), "rows/s"))
    by = "by meaning" if model else "by words"
    for name, shared in ((f"{by}, own audience", False), (f"{by}, one audience", True)):
        shares = [await find_shares(memory, one, shared=shared) for one in answerable]
        columns = zip(*shares, strict=True)
        for depth, column, goal in zip(DEPTHS, columns, GOALS[bool(model), shared], strict=True):
            mean = round(sum(column) / len(column), 3)
            figures.append(Figure(f"recall, {name} @{depth}", mean, "", goal, at_least=True))
    unanswerable = [one.question for one in cases if one.category not in ANSWERABLE]
    for name, questions in (("unanswerable", unanswerable), ("chit-chat", CHAT)):
        hits = [await memory.search(one, Scope(), 5) for one in questions]
        count = sum(found.fits for one in hits for found in one) / len(hits)
        figures.append(Figure(f"{by}, rows shown for a question that is {name}", round(count, 2), ""))
    await database.aclose()
    return figures


async def _embed(memory: Conversations, model: TextModel) -> float:
    embedder = await ThreadedEmbedder.load(lambda: model)
    await memory.use_embedder(embedder)
    began = perf_counter()
    while embedder and (rows := await memory.list_unembedded(500)):
        await memory.add_vectors(await embedder.embed_texts(rows))
    return await memory.count() / (perf_counter() - began)


async def find_shares(memory: Conversations, case: Case, *, shared: bool) -> list[float]:
    scope = Scope(session="" if shared else case.session)
    keys = [one.key for one in await memory.search(case.question, scope, max(DEPTHS))]
    return [len(case.evidence.intersection(keys[:depth])) / len(case.evidence) for depth in DEPTHS]


class MadeUpEmbedder:
    """Its vectors mean nothing, and are as large as real ones; what the model takes for a question is not in the figures."""

    name = "made up"

    def __init__(self) -> None:
        self._choose = np.random.default_rng(1)

    def embed_query(self, text: str) -> Vectors:
        found = self._choose.normal(size=(len(text.split()) + 4, WIDTH)).astype(np.float32)
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    def embed_text(self, speaker: str, text: str) -> TextVectors:
        pairs = (len(text.split()) * 13 // 10 + 5) // 2
        return TextVectors(self._choose.bytes(pairs * KEPT // 8), self._choose.bytes(WIDTH // 8))


async def measure_scale(place: Path, size: int, *, by_meaning: bool) -> list[Figure]:
    """Time and space with so many rows."""
    place.mkdir(exist_ok=True)
    database = await Database.open(place / "memory.db")
    memory = await Conversations.open(database)
    began = perf_counter()
    for batch in make_rows(size):
        await memory.add(batch)
    rate = size / (perf_counter() - began)
    await memory.close_idle()
    if by_meaning:
        await _embed(memory, MadeUpEmbedder())
    choose, times = random.Random(1), []
    for _ in range(100):
        question = make_question(choose)
        began = perf_counter()
        await memory.search(question, Scope(), 10)
        times.append((perf_counter() - began) * 1000)
    await database.aclose()
    space = sum(one.stat().st_size for one in place.glob("memory.db*")) / 1e6
    goal = SEARCH_GOALS_MS.get(size) if by_meaning else None
    name = f"{size:,} rows{', made up vectors' * by_meaning}"
    return [
        Figure(f"{name}: indexing{', without them' * by_meaning}", round(rate), "rows/s"),
        Figure(f"{name}: a search, median", round(sorted(times)[50], 1), "ms"),
        Figure(f"{name}: a search, p95", round(sorted(times)[94], 1), "ms", goal),
        Figure(f"{name}: on disk", round(space), "MB"),
    ]


def make_question(choose: random.Random) -> str:
    """Five words that are not the most frequent."""
    words = [one for one in make_words(choose, 40) if int(one[1:]) > COMMON]
    return f"what about {' and '.join(words[:5])}?"


def make_words(choose: random.Random, count: int) -> list[str]:
    """With natural frequencies: the nth word is as frequent as 1/n."""
    return [f"w{int(20_000 ** choose.random())}" for _ in range(count)]


def make_rows(size: int) -> Iterator[Sequence[Utterance]]:
    """A thousand at a time, in sittings of twenty."""
    choose, at, session = random.Random(7), datetime(2024, 1, 1, tzinfo=UTC), ""
    for begin in range(0, size, 1000):
        batch = []
        for number in range(begin, min(begin + 1000, size)):
            if number % 20 == 0:  # a sitting
                session, at = f"s{choose.randrange(7)}", at + timedelta(hours=5)
            at += timedelta(seconds=choose.choice((20, 60, 200)))
            text = " ".join(make_words(choose, choose.randint(5, 40)))
            batch.append(
                Utterance(
                    f"t{number}:1",
                    session,
                    f"p{number % 5}",
                    "person",
                    "trusted",
                    own=True,
                    at=at,
                    text=text,
                )
            )
        yield batch
