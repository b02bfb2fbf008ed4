"""The same plan again and again, killed at another moment each time."""

import asyncio
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from time import monotonic
from uuid import uuid4

import pytest

from tests.e2e.crash.life import Life
from tests.e2e.crash.moments import Outside
from tests.e2e.crash.person import Plan
from tests.e2e.crash.promises import broken
from tests.e2e.crash.remains import Remains
from tests.e2e.crash.world import World
from tests.full_form import FULL

TWICE = 0.4
ROLLED_BACK = "within a commit"
"""A kill here leaves behind what a kill before the commit does: the full form (`python -m tests.crash --full`) has these too."""
SAMPLE = 4
REPEATED = ("after a commit", "before a commit")
"""Nothing is written between these two: a kill at the second leaves behind what one at the first does."""
SOON = 30
Born = Callable[[], Life]


def told(killed: World, folder: Path, plan: Plan, **more: object) -> Born:
    """Daemons that are told this, each in a place of its own; `{0}` is a name that nobody else has."""

    def born() -> Life:
        place, name = killed.place(folder)
        named = {
            session: [
                replace(said, client=f"{name}{said.client}", text=said.text.format(name))
                for said in messages
            ]
            for session, messages in plan.items()
        }
        return replace(Life(str(place), killed.model.base_url, named), **more)  # type: ignore[arg-type] # fields of a Life

    return born


async def moments(killed: World, born: Born) -> list[str]:
    """Those of a life that nobody ends."""
    life = born()
    assert (await killed.live(life)).status == 0
    return (Path(life.folder) / "passed").read_text().splitlines()


async def every_moment(killed: World, born: Born, but: str = ROLLED_BACK) -> list[Remains]:
    """Killed at each of them, and then left alone; nothing may be broken. `but`: only at some of this name, unless in full; "": at all."""
    passed, before = await moments(killed, born), killed.kills
    chosen = [
        at
        for at, (last, name) in enumerate(pairwise(["", *passed]), 1)
        if FULL or not but or ((name != but or at % SAMPLE == 0) and (last, name) != REPEATED)
    ]
    ends = await ended(killed, [[replace(born(), die_at=at)] for at in chosen])
    # where two things happen at once, a life may be a moment shorter
    assert killed.kills - before >= min(0.95 * len(chosen), len(chosen) - 2)
    return ends


async def some_moments(killed: World, born: Born, rows: int, seed: int) -> list[Remains]:
    """Killed at so many of them, seeded; and often again, soon after the next start."""
    n, chance = len(await moments(killed, born)), random.Random(seed)
    lives: list[list[Life]] = []
    for at in sorted(chance.sample(range(1, n + 1), min(rows, n))):
        first = replace(born(), die_at=at, hasty=chance.random() < 0.5)
        again = (
            [replace(first, die_at=chance.randrange(1, SOON))] if chance.random() < TWICE else []
        )
        lives.append([first, *again])
    return await ended(killed, lives)


async def ended(killed: World, rows: Sequence[Sequence[Life]]) -> list[Remains]:
    """All rows of lives to their end."""
    ends = await asyncio.gather(*(killed.lives(row) for row in rows))
    assert not (faults := [fault for _, faults in ends for fault in faults]), "\n".join(faults)
    return [it for it, _ in ends]


def in_a_copy(it: Remains, spoil: Callable[[Path], object]) -> Remains:
    """As if something had been done to the world outside."""
    folder = it.outside.folder.with_name(f"{it.outside.folder.name}-{uuid4().hex[:8]}")
    shutil.copytree(it.outside.folder, folder)
    spoil(folder)
    return replace(it, outside=Outside(folder))


def unseen(
    wrongs: Mapping[str, tuple[Callable[[Remains], Remains], str]], it: Remains
) -> list[str]:
    """The wrongs that nobody notices."""
    return [
        what
        for what, (spoil, words) in wrongs.items()
        if not any(words in fault for fault in broken(spoil(it)))
    ]


def tell(capsys: pytest.CaptureFixture[str], what: str, kills: int, began: float) -> None:
    """Figures for the reader."""
    with capsys.disabled():
        print(f" [{what}: {kills} kills in {monotonic() - began:.1f} s]", end="")  # noqa: T201
