"""Several conversations at once, killed again and again at seeded moments until all is done (guarantees.md; B5)."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest
import pytest_asyncio

from tests.e2e.crash.life import Life
from tests.e2e.crash.person import Plan, Said
from tests.e2e.crash.world import World, world

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEEDS = 16
SESSIONS, MESSAGES, KILLS = 3, 4, 9
STEPS = ("", "look", "note", "look+note", "note note", "send", "note+send", "look send note")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def killed() -> AsyncIterator[World]:
    async with world() as it:
        yield it


def talk(name: str, chance: random.Random) -> Plan:
    """Who says what, when: some wait for the answer, some do not, some are sent twice by the network."""
    return {
        f"terminal:{session}": [
            Said(
                f"{name}{session}{n}",
                f"[{name}{session}{n} {chance.choice(STEPS)}]".replace(" ]", "]"),
                at_once=chance.random() < 0.5,
                instead=chance.random() < 0.25,
                twice=chance.random() < 0.3,
            )
            for n in range(MESSAGES)
        ]
        for session in "abcdef"[:SESSIONS]
    }


def deaths(life: Life, chance: random.Random) -> Iterator[Life]:
    """At a moment of its own, while the model is asked, or wherever it is after a while."""
    for _ in range(KILLS):
        match chance.random():
            case draw if draw < 0.7:
                yield replace(life, die_at=chance.randrange(1, 80))
            case draw if draw < 0.85:
                yield replace(
                    life,
                    die_asking=f"{chance.choice(('arrived', 'midway'))}:{chance.randrange(1, 8)}",
                )
            case _:
                yield replace(life, die_after=chance.uniform(0.02, 0.5))


async def test_whatever_moments_are_chosen_every_promise_is_kept(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began = monotonic()
    rows: list[list[Life]] = []
    for seed in range(SEEDS):
        chance, (place, name) = random.Random(seed), killed.place(tmp_path)
        life = Life(
            str(place), killed.model.base_url, talk(name, chance), hasty=chance.random() < 0.7
        )
        rows.append(list(deaths(life, chance)))
    ends = await asyncio.gather(*(killed.lives(row) for row in rows))
    assert not (faults := [fault for _, faults in ends for fault in faults]), "\n".join(faults)
    assert killed.kills >= SEEDS * KILLS // 2
    states = [row["state"].partition(":")[0] for it, _ in ends for row in it.inbox]
    assert {"done", "steered", "answered"} <= set(states)
    with capsys.disabled():
        told = {state: states.count(state) for state in sorted(set(states))}
        print(  # noqa: T201
            f" [random: {killed.kills} kills in {monotonic() - began:.1f} s, messages {told}]",
            end="",
        )
