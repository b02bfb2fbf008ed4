"""What memory costs a turn: of a daemon with none, and with 10,000 and 100,000 rows, one beside the other."""

import random
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from pathlib import Path

from memory.conversations import Conversations
from memory.database import Database
from tests.bench import recalls
from tests.bench.figures import Figure
from tests.bench.line import line
from tests.bench.machine import cpu_seconds
from tests.bench.turns import Timed
from tests.bench.world import World
from tests.fakes.daemon_process import TOKEN

SIZES, ROUNDS = (0, 10_000, 100_000), 12
BY_WORDS = '[memory]\nembedder = "none"\n'


async def measure_turns(world: World) -> list[Figure]:
    """CPU of a greeting and of a question, with so many rows in memory: ten each in turn. No model embeds them meanwhile."""
    homes = [world.new_place() for _ in SIZES]
    for home, size in zip(homes, SIZES, strict=True):
        await _fill(home, size)
    numbers, choose = count(), random.Random(1)
    async with AsyncExitStack() as stack:
        asked, greeted = list[Timed](), list[Timed]()
        talks = []
        for home in homes:
            daemon = await stack.enter_async_context(world.daemon(home, more=BY_WORDS))
            talks.append(await stack.enter_async_context(line(daemon.url, TOKEN)))
            cpu = partial(cpu_seconds, daemon.process.pid)
            asked.append(Timed(cpu))
            greeted.append(Timed(cpu))
        for turn in range(ROUNDS):
            for at, talk in enumerate(talks):
                session = f"talk{next(numbers)}"
                await greeted[at].ten(lambda talk=talk, session=session: talk.ask("hello", session))
                await asked[at].ten(
                    lambda talk=talk, session=session: talk.ask(recalls.make_question(choose), session)
                )
            if not turn:  # for warming up
                for one in (*asked, *greeted):
                    one.forget()
    figures = []
    for at, size in enumerate(SIZES):
        goal = 1.1 * greeted[0].cpu_ms if size == 10_000 else None
        figures.append(Figure(f"greeting, {size:,} rows: CPU", greeted[at].cpu_ms, "ms", goal))
        goal = asked[0].cpu_ms + 30 if size == 100_000 else None
        figures.append(Figure(f"question, {size:,} rows: CPU", asked[at].cpu_ms, "ms", goal))
    return figures


async def _fill(home: Path, size: int) -> None:
    home.mkdir(parents=True)
    database = await Database.open(home / "memory.db")
    memory = await Conversations.open(database)
    for batch in recalls.make_rows(size):
        await memory.add(batch)
    await memory.close_idle()
    await database.aclose()
