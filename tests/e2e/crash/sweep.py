"""The same plan again and again, killed at another moment each time."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from tests.e2e.crash.life import Life
from tests.e2e.crash.remains import Remains
from tests.e2e.crash.world import World

TWICE = 0.4
SOON = 30
Born = Callable[[], Life]


async def moments(killed: World, born: Born) -> int:
    """How many there are in a life that nobody ends."""
    life = born()
    assert (await killed.live(life)).status == 0
    return len((Path(life.folder) / "passed").read_text().splitlines())


async def every_moment(killed: World, born: Born) -> list[Remains]:
    """Killed at each of them, and then left alone; nothing may be broken."""
    n, before = await moments(killed, born), killed.kills
    ends = await ended(killed, [[replace(born(), die_at=at)] for at in range(1, n + 1)])
    assert killed.kills - before >= 0.95 * n  # where two things happen at once, a life may be a moment shorter
    return ends


async def some_moments(killed: World, born: Born, rows: int, seed: int) -> list[Remains]:
    """Killed at so many of them, seeded; and often again, soon after the next start."""
    n, chance = await moments(killed, born), random.Random(seed)
    lives: list[list[Life]] = []
    for at in sorted(chance.sample(range(1, n + 1), min(rows, n))):
        first = replace(born(), die_at=at, hasty=chance.random() < 0.5)
        again = [replace(first, die_at=chance.randrange(1, SOON))] if chance.random() < TWICE else []
        lives.append([first, *again])
    return await ended(killed, lives)


async def ended(killed: World, rows: Sequence[Sequence[Life]]) -> list[Remains]:
    """All rows of lives to their end."""
    ends = await asyncio.gather(*(killed.lives(row) for row in rows))
    assert not (faults := [fault for _, faults in ends for fault in faults]), "\n".join(faults)
    return [it for it, _ in ends]


def tell(capsys: pytest.CaptureFixture[str], what: str, kills: int, began: float) -> None:
    """Figures for the reader."""
    with capsys.disabled():
        print(f" [{what}: {kills} kills in {monotonic() - began:.1f} s]", end="")  # noqa: T201
