"""Kill -9 at every moment of a turn with two tools, then a restart at which nobody types (F1; K1 to #16, #19; guarantees.md)."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest
import pytest_asyncio

from daemon.core.events import Outcome, ToolFinished
from tests.e2e.crash.life import Life
from tests.e2e.crash.person import Said
from tests.e2e.crash.promises import broken
from tests.e2e.crash.remains import Remains
from tests.e2e.crash.world import World, world

pytestmark = pytest.mark.asyncio(loop_scope="module")

BOTH, ONE_BY_ONE, ASKING = "look+note", "look note", "look+note send"
PLACES = {
    "before a commit",
    "within a commit",
    "after a commit",
    "before look",
    "after look",
    "before note",
    "after note",
    "before it is shown",
    "after it was shown",
}
ASKED = {"while a question is open", "after a question was answered", "before send", "after send"}
# An effect's start is on disk, its result is not: after that commit, before and after the effect, before and within the next.
WINDOW = 5


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def killed() -> AsyncIterator[World]:
    async with world() as it:
        yield it


def born(killed: World, folder: Path, steps: str, *, forgetful: bool = False) -> Life:
    """A daemon that is told to do these steps."""
    place, name = killed.place(folder)
    return Life(
        str(place),
        killed.model.base_url,
        {"terminal:a": [Said(name, f"[{name} {steps}]")]},
        forgetful=forgetful,
    )


async def moments(killed: World, folder: Path, steps: str) -> int:
    """How many there are in a life that nobody ends."""
    life = born(killed, folder, steps)
    assert (await killed.live(life)).status == 0
    return len((Path(life.folder) / "passed").read_text().splitlines())


def unknown(it: Remains) -> int:
    """How many outcomes nobody knows."""
    return sum(
        one.outcome is Outcome.UNKNOWN for turn in it.turns for one in it.of(turn, ToolFinished)
    )


def tell(capsys: pytest.CaptureFixture[str], what: str, kills: int, began: float) -> None:
    with capsys.disabled():
        print(f" [{what}: {kills} kills in {monotonic() - began:.1f} s]", end="")  # noqa: T201 - figures for the reader


@pytest.mark.parametrize(
    ("steps", "places", "effects"),
    [(BOTH, PLACES, 1), (ONE_BY_ONE, PLACES, 1), (ASKING, PLACES | ASKED, 2)],
)
async def test_a_turn_killed_at_any_moment_is_finished_at_the_next_start_and_every_promise_kept(
    killed: World,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    steps: str,
    places: set[str],
    effects: int,
) -> None:
    began, before = monotonic(), killed.kills
    killed.places.clear()
    n = await moments(killed, tmp_path, steps)
    deaths = [replace(born(killed, tmp_path, steps), die_at=at) for at in range(1, n + 1)]
    ends = await asyncio.gather(*(killed.lives([life]) for life in deaths))
    assert [fault for _, faults in ends for fault in faults] == []
    assert killed.kills - before == n == sum(killed.places.values())
    assert set(killed.places) == places
    assert sum(unknown(it) for it, _ in ends) == WINDOW * effects
    tell(capsys, steps, n, began)


@pytest.mark.parametrize("how", ["arrived", "midway"])
async def test_b5_4_a_daemon_killed_while_the_model_speaks_asks_again_and_answers(
    killed: World, tmp_path: Path, how: str
) -> None:
    calls = {steps: len(steps.split()) + 1 for steps in (BOTH, ONE_BY_ONE, ASKING)}
    deaths = [
        replace(born(killed, tmp_path, steps), die_asking=f"{how}:{n}")
        for steps, most in calls.items()
        for n in range(1, most + 1)
    ]
    before = killed.kills
    ends = await asyncio.gather(*(killed.lives([life]) for life in deaths))
    assert [fault for _, faults in ends for fault in faults] == []
    assert killed.kills - before == len(deaths) == 8
    assert [len(it.requests) for it, _ in ends] == [
        most + 1 for most in calls.values() for _ in range(most)
    ]
    assert sum(unknown(it) for it, _ in ends) == 0


async def test_a_start_that_is_killed_too_is_only_another_start(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second kill somewhere in the next life, seeded, for every first one."""
    began, before, chance = monotonic(), killed.kills, random.Random(5)
    n = await moments(killed, tmp_path, ASKING)
    first = [replace(born(killed, tmp_path, ASKING), die_at=at) for at in range(1, n + 1)]
    rows = [[life, replace(life, die_at=chance.randrange(1, 25))] for life in first]
    ends = await asyncio.gather(*(killed.lives(row) for row in rows))
    assert [fault for _, faults in ends for fault in faults] == []
    assert killed.kills - before >= 1.5 * n
    tell(capsys, "killed twice", killed.kills - before, began)


async def test_b5_25_a_message_that_kills_before_its_turn_begins_is_set_aside_too(
    killed: World, tmp_path: Path
) -> None:
    """Each life gets as far as its fourth moment: after it was accepted, and then after one more attempt was noted."""
    life = replace(born(killed, tmp_path, BOTH), die_at=4)
    it, faults = await killed.lives([life] * 4)
    assert faults == []
    assert [(row["state"], it.kills, len(it.turns)) for row in it.inbox] == [("quarantined", 4, 0)]


async def test_the_promises_are_seen_to_break_when_the_starts_of_tools_are_not_written(
    killed: World, tmp_path: Path
) -> None:
    """The same kills over a journal that loses ToolStarted: the effect happens twice, and the check says so."""
    n = await moments(killed, tmp_path, BOTH)
    deaths = [
        replace(born(killed, tmp_path, BOTH, forgetful=True), die_at=at) for at in range(1, n + 1)
    ]
    ends = await asyncio.gather(*(killed.lives([life]) for life in deaths))
    twice = [any("happened 2 times" in fault for fault in faults) for _, faults in ends]
    assert sum(twice) == 3, "after the effect, and before and within the commit of its result"


WRONGS: dict[str, tuple[Callable[[Remains], Remains], str]] = {
    "a message is gone": (lambda it: replace(it, inbox=[]), "the inbox has"),
    "a message never comes to an end": (
        lambda it: replace(it, inbox=[row | {"state": "taken"} for row in it.inbox]),
        "state taken",
    ),
    "a message is answered twice": (
        lambda it: replace(
            it,
            turns=it.turns | {"t2": next(iter(it.turns.values()))},
            events=it.events | {"t2": it.events[turn_of(it)]},
        ),
        "began ['",
    ),
    "a reply is not delivered": (lambda it: replace(it, outbox=it.outbox[:-1]), "delivered None"),
    "a reply is delivered that nobody saw": (
        lambda it: replace(it, outbox=[*it.outbox, it.outbox[-1] | {"part": "9"}]),
        "due was",
    ),
    "a question is lost": (lambda it: replace(it, approvals=[]), "question"),
    "a question stays open": (
        lambda it: replace(it, approvals=[row | {"state": "pending"} for row in it.approvals]),
        "is still pending",
    ),
    "the model is asked behind the journal's back": (
        lambda it: replace(it, requests=[*it.requests] * 2),
        "written down",
    ),
    "an event is missing": (
        lambda it: replace(
            it, events={turn: them[:5] + them[6:] for turn, them in it.events.items()}
        ),
        "events [",
    ),
}


def turn_of(it: Remains) -> str:
    return next(iter(it.turns))


async def test_the_check_sees_every_kind_of_wrong(killed: World, tmp_path: Path) -> None:
    it, faults = await killed.lives([born(killed, tmp_path, ASKING)])
    assert faults == []
    unseen = [
        what
        for what, (spoil, words) in WRONGS.items()
        if not any(words in fault for fault in broken(spoil(it)))
    ]
    assert unseen == []
