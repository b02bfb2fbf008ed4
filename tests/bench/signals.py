"""What the first stage of a search keeps, and what each signal of the sum is worth, on the conversations of recalls.py."""

import json
import random
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memory.conversations import Conversations
from memory.database import Database
from memory.embedder import Embedder
from memory.search import WHOLE, Scope, choose_rows, read_question
from memory.signals import WEIGHTS, WITH_MODEL
from memory.vectors import VectorIndex, VectorQuery
from tests.bench.figures import Figure
from tests.bench.recalls import ANSWERABLE, DEPTHS, Case, read_data

DEPTH, SAMPLE = 10, 150
LIMITS = (DEPTH, max(DEPTHS))
KEYS = "SELECT key FROM said WHERE id IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True, slots=True)
class Kept:
    """What a search for so many hits weighs: the share of the evidence, in so many rows."""

    limit: int
    share: float
    rows: int


async def measure(place: Path, embedder: Embedder | None) -> list[Figure]:
    """`place`: that of measure_recall, which has kept the conversations there, and their vectors."""
    database = await Database.open(place / "memory.db")
    memory = await Conversations.open(database)
    await memory.use_embedder(embedder)
    answerable = [one for one in read_data()[1] if one.category in ANSWERABLE]
    sample = choose_sample(answerable)
    by = "by meaning" if embedder else "by words"
    own = await find_kept(database, sample, embedder, shared=False)
    one = await find_kept(database, sample, embedder, shared=True)
    figures = [*tell_kept(f"{by}, own audience", own), *tell_kept(f"{by}, one audience", one)]
    figures += await measure_weights(memory, answerable, with_model=bool(embedder))
    await database.aclose()
    return figures


def choose_sample(cases: Sequence[Case]) -> list[Case]:
    """Always the same ones, as many of each conversation."""
    sessions = sorted({one.session for one in cases})
    choose, count = random.Random(1), SAMPLE // len(sessions)
    among = [[one for one in cases if one.session == session] for session in sessions]
    return [one for of_session in among for one in choose.sample(of_session, count)]


async def find_kept(
    database: Database, cases: Sequence[Case], embedder: Embedder | None = None, *, shared: bool
) -> list[Kept]:
    """For each question and each of LIMITS."""
    index = VectorIndex(embedder) if embedder else None
    if index:
        await database.run(index.open)
    kept = []
    for case in cases:
        scope = Scope(session="" if shared else case.session)
        vectors = await embedder.embed_query(case.question) if embedder else None

        def work(
            file: sqlite3.Connection, case: Case = case, scope: Scope = scope, vectors=vectors
        ) -> list[Kept]:
            asked = VectorQuery(index, file, vectors) if index and vectors is not None else None
            return [_find_kept(file, case, scope, limit, asked) for limit in LIMITS]

        kept += await database.run(work)
    return kept


def _find_kept(
    file: sqlite3.Connection, case: Case, scope: Scope, limit: int, asked: VectorQuery | None
) -> Kept:
    question = read_question(file, case.question, scope)
    rows, _ = choose_rows(file, question, scope, limit, asked)
    found = file.execute(KEYS, (json.dumps([one.id for one in rows]),))
    keys = {key for (key,) in found}
    return Kept(limit, len(case.evidence & keys) / len(case.evidence), len(keys))


def tell_kept(name: str, kept: Sequence[Kept]) -> list[Figure]:
    """The mean for each of LIMITS."""
    figures = []
    for limit in LIMITS:
        of_limit = [one for one in kept if one.limit == limit]
        share = sum(one.share for one in of_limit) / len(of_limit)
        rows = round(sum(one.rows for one in of_limit) / len(of_limit))
        told = f"first stage of a search for {limit}, {name}: evidence in {rows} rows"
        figures.append(Figure(told, round(share, 3), ""))
    return figures


async def measure_weights(
    memory: Conversations, cases: Sequence[Case], *, with_model: bool
) -> list[Figure]:
    """Recall with each weight set to 0 in turn: all related rows are asked for, and ordered anew
    without that part of their scores.
    """
    weights = WITH_MODEL if with_model else WEIGHTS
    shares = dict.fromkeys(("", *weights), 0.0)
    for case in cases:
        found = await memory.search(case.question, Scope(session=case.session), WHOLE)
        for name in shares:
            best = sorted(found, key=lambda hit, name=name: hit.why.get(name, 0.0) - hit.score)
            keys = {one.key for one in best[:DEPTH]}
            shares[name] += len(case.evidence & keys) / len(case.evidence)
    by = f"recall, {'by meaning' if with_model else 'by words'}, own audience @{DEPTH}"
    return [
        Figure(f"{by}, {f'without {name}' if name else 'all'}", round(share / len(cases), 3), "")
        for name, share in shares.items()
    ]
