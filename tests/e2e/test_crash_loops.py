"""Kill -9 at every moment of a loop: between attempts, within them, around reviews, pauses and stops (C1-C6, F1; B5)."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest
import pytest_asyncio

from daemon.core.rows import LoopRow, LoopStage
from tests.e2e.crash.life import Life
from tests.e2e.crash.person import Task
from tests.e2e.crash.promises import broken
from tests.e2e.crash.promises_loops import STOPPED
from tests.e2e.crash.remains import Remains
from tests.e2e.crash.sweep import Born, ended, every_moment, some_moments, tell
from tests.e2e.crash.world import World, world

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT = "terminal:a"
ALLOWED = {"loop": {"enabled": True}}
DONE, FAILED = LoopStage.COMPLETED, LoopStage.FAILED


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def killed() -> AsyncIterator[World]:
    async with world() as it:
        yield it


def looping(killed: World, folder: Path, task: Task, **more: object) -> Born:
    """Daemons that are given this task, each in a place of its own."""

    def born() -> Life:
        place, name = killed.place(folder)
        own = replace(task, text=task.text.format(name))
        life = Life(str(place), killed.model.base_url, {CHAT: []}, agent=ALLOWED, task=own)
        return replace(life, **more)  # type: ignore[arg-type] # fields of a Life

    return born


def stages(ends: list[Remains]) -> set[tuple[LoopStage, int, str]]:
    """How they ended: each daemon has one loop."""
    assert all(len(it.loops) == 1 for it in ends)
    return {(it.loops[0].stage, it.loops[0].attempt, it.loops[0].error) for it in ends}


async def test_c6_a_loop_killed_at_any_moment_goes_on_at_its_attempt_and_does_none_twice(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """C1, C2, C3, C5, B5: each attempt has an effect; the second one says what the criterion wants."""
    began, before = monotonic(), killed.kills
    killed.places.clear()
    ends = await every_moment(
        killed, looping(killed, tmp_path, Task(CHAT, "[{0} note]", "regex", "at2", 4))
    )
    assert stages(ends) == {(DONE, 2, "")}
    assert {
        "before note",
        "after note",
        "before a commit",
        "within a commit",
        "after a commit",
    } <= set(killed.places)
    tell(capsys, "a loop", killed.kills - before, began)


async def test_c3_a_review_is_asked_once_and_answered_once_whenever_the_daemon_is_killed(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began, before = monotonic(), killed.kills
    killed.places.clear()
    ends = await every_moment(killed, looping(killed, tmp_path, Task(CHAT, "[{0}]", "manual")))
    assert stages(ends) == {(DONE, 1, "")}
    assert {"while a question is open", "after a question was answered"} <= set(killed.places)
    tell(capsys, "a review", killed.kills - before, began)


TASKS: dict[str, tuple[Task, int, tuple[LoopStage, int, str]]] = {
    "a review that says no": (
        Task(CHAT, "[{0} send]", "manual"),
        1,
        (FAILED, 1, "Manual approval was rejected by user"),
    ),
    "a pause after each attempt": (Task(CHAT, "[{0} look]", most=3, pauses=True), 0, (DONE, 3, "")),
    "agents in each attempt": (Task(CHAT, "[{0} spawn.a] {{a note}}", most=2), 0, (DONE, 2, "")),
    "a stop": (Task(CHAT, "[{0} note+spawn.a] {{a wait}}"), 0, (FAILED, 1, STOPPED)),
}


@pytest.mark.parametrize("what", TASKS)
async def test_c6_whatever_happens_to_a_loop_a_kill_changes_nothing(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    """C3, A17: reviews, pauses, stops, agents that work for an attempt; killed again at the restart, too."""
    began, before = monotonic(), killed.kills
    task, doubts, end = TASKS[what]
    ends = await some_moments(
        killed, looping(killed, tmp_path, task, doubts=doubts), 9, seed=len(what)
    )
    assert stages(ends) == {end}
    tell(capsys, what, killed.kills - before, began)


@pytest.mark.parametrize("how", ["arrived", "midway"])
async def test_c6_b5_4_a_kill_while_the_model_speaks_repeats_no_attempt(
    killed: World, tmp_path: Path, how: str
) -> None:
    born = looping(killed, tmp_path, Task(CHAT, "[{0} look]", most=2))
    ends = await ended(killed, [[replace(born(), die_asking=f"{how}:{n}")] for n in range(1, 5)])
    assert stages(ends) == {(DONE, 2, "")}
    assert {len(it.requests) for it in ends} == {5}


def loop(change: Callable[[LoopRow], LoopRow]) -> Callable[[Remains], Remains]:
    return lambda it: replace(it, loops=[change(one) for one in it.loops])


def last_attempt_again(it: Remains) -> Remains:
    name, row = list(it.turns.items())[-1]
    twin = f"{name}x"
    return replace(
        it,
        turns=it.turns | {twin: replace(row, id=twin)},
        events=it.events | {twin: it.events[name]},
    )


WRONGS: dict[str, tuple[Callable[[Remains], Remains], str]] = {
    "an attempt is made twice": (last_attempt_again, "is at attempt 2: turns ["),
    "an attempt has two messages": (
        lambda it: replace(it, inbox=[*it.inbox, it.inbox[-1]]),
        "messages [",
    ),
    "a loop never ends": (loop(lambda row: replace(row, stage=LoopStage.RUNNING)), "is running"),
    "a line of the log is lost": (
        loop(lambda row: replace(row, learned=row.learned[1:])),
        "its attempts said",
    ),
    "the log is out of order": (
        loop(lambda row: replace(row, learned=row.learned[::-1])),
        "was told",
    ),
    "it ends with what nobody said": (
        loop(lambda row: replace(row, final_output="x")),
        "ended with 'x'",
    ),
    "it goes on after its end": (loop(lambda row: replace(row, value="k")), "met [True, True]"),
    "it gives up early": (loop(lambda row: replace(row, value="nothing")), "after 2 of 4 attempts"),
    "it fails": (
        loop(lambda row: replace(row, stage=FAILED, error="shutdown")),
        "failed: shutdown",
    ),
    "a notice comes twice": (
        lambda it: replace(it, outbox=[it.outbox[0], *it.outbox]),
        "told were",
    ),
    "its end is not told": (lambda it: replace(it, outbox=it.outbox[:-1]), "told were"),
    "a review was forgotten": (
        loop(lambda row: replace(row, criterion="manual")),
        "its reviews are []",
    ),
    "it speaks to the chat": (
        lambda it: replace(it, outbox=[*it.outbox, it.outbox[-1] | {"kind": "reply"}]),
        " sent {",
    ),
}


async def test_the_check_sees_every_kind_of_wrong_done_to_loops_c1_c6(
    killed: World, tmp_path: Path
) -> None:
    (it,) = await ended(
        killed, [[looping(killed, tmp_path, Task(CHAT, "[{0} note]", "regex", "at2", 4))()]]
    )
    unseen = [
        what
        for what, (spoil, words) in WRONGS.items()
        if not any(words in fault for fault in broken(spoil(it)))
    ]
    assert unseen == []
