"""What is found again among 100,000 rows that answer nothing: of each conversation of recalls.py in turn, when its people say what
was said in the others, put together anew.
"""

import random
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from memory.conversations import Conversations
from memory.database import Database
from memory.utterance import Utterance
from tests.bench.figures import Figure
from tests.bench.recalls import ANSWERABLE, DEPTHS, find_shares, read_data
from tests.bench.signals import Kept, choose_sample, find_kept, tell_kept

SIZE, A_SITTING, A_PAGE = 100_000, 20, 50
END = re.compile(r"(?<=[.!?])\s+")


async def measure(place: Path) -> list[Figure]:
    """By words, over a fixed sample: as many questions of each conversation."""
    place.mkdir(exist_ok=True)
    said, cases = read_data()
    sample = choose_sample([one for one in cases if one.category in ANSWERABLE])
    own, shares, kept = list[list[float]](), list[list[float]](), list[Kept]()
    for number, one in enumerate(said):
        asked = [case for case in sample if case.session == one[0].session]
        database = await Database.open(place / f"memory{number}.db")
        memory = await Conversations.open(database)
        await _fill(memory, one, [other for other in said if other is not one])
        own += [await find_shares(memory, case, shared=False) for case in asked]
        shares += [await find_shares(memory, case, shared=True) for case in asked]
        kept += await find_kept(database, asked, shared=True)
        await database.aclose()
    name = f"by words, among {SIZE:,} others"
    return [
        *_tell("by words, own audience, the same questions", own),
        *_tell(name, shares),
        *tell_kept(name, kept),
    ]


def _tell(name: str, shares: Sequence[Sequence[float]]) -> list[Figure]:
    return [
        Figure(f"recall, {name} @{depth}", round(sum(column) / len(column), 3), "")
        for depth, column in zip(DEPTHS, zip(*shares, strict=True), strict=True)
    ]


async def _fill(
    memory: Conversations, said: Sequence[Utterance], others: Sequence[Sequence[Utterance]]
) -> None:
    """In the middle of all the others, so that it is neither first nor last."""
    sittings = [*make_sittings(said, list_sentences(said, others))]
    pages = [sittings[begin : begin + A_PAGE] for begin in range(0, len(sittings), A_PAGE)]
    for number, page in enumerate(pages):
        if number == len(pages) // 2:
            await memory.add(said)
        await memory.add([row for sitting in page for row in sitting])
    await memory.close_idle()


def list_sentences(said: Sequence[Utterance], others: Sequence[Sequence[Utterance]]) -> list[str]:
    """Those of the others; none that was said in this one, too."""
    known = {part for one in said for part in END.split(one.text)}
    parts = [part for other in others for one in other for part in END.split(one.text)]
    return [part for part in parts if part.strip() and part not in known]


def make_sittings(said: Sequence[Utterance], sentences: Sequence[str]) -> Iterator[list[Utterance]]:
    """By the people of `said`, in the months in which they said it, each row as long as one of
    theirs.
    """
    choose = random.Random(said[0].session)
    speakers = sorted({one.speaker for one in said})
    lengths = [len(END.split(one.text)) for one in said]
    span = (said[-1].at - said[0].at).total_seconds()
    for begin in range(0, SIZE, A_SITTING):
        at = said[0].at + timedelta(seconds=choose.uniform(0, span))
        yield [
            Utterance(
                f"other{begin + place}:1",
                f"others{begin % 7}",
                speakers[place % len(speakers)],
                "person",
                "trusted",
                own=True,
                at=at + timedelta(minutes=place),
                text=" ".join(choose.sample(sentences, choose.choice(lengths))),
            )
            for place in range(A_SITTING)
        ]
