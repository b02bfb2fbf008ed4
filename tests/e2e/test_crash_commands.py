"""Kill -9 around commands: whatever the moment, what a command changed comes over whole, once, and no layer is left behind (F8; B5)."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from time import monotonic

import pytest
import pytest_asyncio

from daemon.core.events import Outcome
from tests.e2e.crash.person import Said
from tests.e2e.crash.sweep import (
    ROLLED_BACK,
    ended,
    every_moment,
    in_a_copy,
    moments,
    some_moments,
    tell,
    told,
    unseen,
)
from tests.e2e.crash.world import World, world
from tests.e2e.test_crash_tools import CHAT, Spoil, outcomes
from tests.full_form import FULL

ROWS = 40
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def killed() -> AsyncIterator[World]:
    async with world() as it:
        yield it


async def test_f8_whenever_it_is_killed_what_a_command_changed_comes_over_whole(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began, before = monotonic(), killed.kills
    born = told(killed, tmp_path, {CHAT: [Said("a", "[{0}a run.x run.x]")]}, finely=True)
    ends = await every_moment(killed, born, ROLLED_BACK)
    assert outcomes(ends) >= {Outcome.OK, Outcome.UNKNOWN}
    tell(capsys, "a command", killed.kills - before, began)


async def test_f8_whenever_it_is_killed_a_repository_is_whole_and_has_what_was_told_as_committed(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began, before = monotonic(), killed.kills
    born = told(killed, tmp_path, {CHAT: [Said("a", "[{0}a commit commit]")]}, finely=True)
    rows = len(await moments(killed, born)) if FULL else ROWS
    ends = await some_moments(killed, born, rows, seed=28)
    assert outcomes(ends) >= {Outcome.OK, Outcome.UNKNOWN}
    tell(capsys, "two commits", killed.kills - before, began)


def spoiled(change: Callable[[Path], object]) -> Spoil:
    return lambda it: in_a_copy(it, lambda folder: change(folder / "home"))


WRONG: dict[str, tuple[Spoil, str]] = {
    "a layer is left": (
        spoiled(lambda home: (home / "layers" / "one").mkdir(parents=True)),
        "was left",
    ),
    "a repository has no head": (
        spoiled(lambda home: (home / "workspace/.git/HEAD").unlink()),
        "is damaged",
    ),
    "an object is lost": (
        spoiled(lambda home: next((home / "workspace/.git/objects").glob("??/*")).unlink()),
        "is damaged",
    ),
    "half of a command is lost": (
        spoiled(lambda home: (home / "workspace/x.txt").unlink()),
        "half of the command",
    ),
    "a commit is lost": (
        spoiled(lambda home: (home / "workspace/.git/refs/heads/main").unlink()),
        "is lost",
    ),
}


async def test_the_check_sees_every_kind_of_wrong_done_to_repositories_f8(
    killed: World, tmp_path: Path
) -> None:
    (it,) = await ended(
        killed, [[told(killed, tmp_path, {CHAT: [Said("a", "[{0}a commit run.x]")]})()]]
    )
    assert unseen(WRONG, it) == []
