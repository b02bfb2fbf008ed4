"""Files are strangers' until known: what nobody vouches for is not the owner's word (class D)."""

from pathlib import Path

import pytest

from daemon.core.trust import Label
from daemon.tools.workspace.command_effects import CommandEffects
from tests.behaviour.test_files_labels import a_moment, context
from tests.fakes.files import Desk
from tests.fakes.house import living
from tests.fakes.openai import FakeOpenAI

TRUSTED, UNTRUSTED = Label.TRUSTED, Label.UNTRUSTED


@pytest.fixture
async def desk(tmp_path: Path) -> Desk:
    """A new HOME: nobody has trusted anything."""
    return await Desk.at(tmp_path, trusted=False)


async def label(desk: Desk, path: str) -> Label:
    return (await desk.files.read(path, bytes))[1]


async def test_what_a_trusted_turn_wrote_is_known_by_its_content_and_nothing_else_is(
    desk: Desk,
) -> None:
    await desk.write("mine.txt", "mine")
    (desk.root / "dropped.txt").write_text("evil")
    assert (await label(desk, "mine.txt"), await label(desk, "dropped.txt")) == (TRUSTED, UNTRUSTED)
    (desk.root / "mine.txt").write_text("evil")
    assert await label(desk, "mine.txt") is UNTRUSTED


async def test_a_trusted_command_leaves_known_files_only_where_nothing_unknown_lies(
    desk: Desk,
) -> None:
    effects, around = (
        CommandEffects(desk.files, desk.clock.monotonic),
        context(desk.bench(), False),
    )
    began = await effects.start(around)
    (desk.root / "made.txt").write_text("made")
    assert await effects.finish(began, around) is TRUSTED
    assert await label(desk, "made.txt") is TRUSTED
    (desk.root / "dropped.txt").write_text("evil")
    began = await effects.start(around)
    (desk.root / "later.txt").write_text("evil")
    assert await effects.finish(began, around) is UNTRUSTED
    assert await label(desk, "later.txt") is UNTRUSTED


async def test_in_a_trusted_folder_an_edit_stays_the_owners_unless_a_server_is_at_work(
    tmp_path: Path,
) -> None:
    desk = await Desk.at(tmp_path)
    (desk.root / "a.txt").write_text("mine")
    assert await label(desk, "a.txt") is TRUSTED
    await a_moment(desk.root)
    async with CommandEffects(desk.files, desk.clock.monotonic).watch_server():
        assert await label(desk, "a.txt") is TRUSTED
        (desk.root / "a.txt").write_text("evil")
        assert await label(desk, "a.txt") is UNTRUSTED
        await desk.write("b.txt", "mine")
        assert await label(desk, "b.txt") is TRUSTED
    assert (await label(desk, "a.txt"), await label(desk, "b.txt")) == (UNTRUSTED, TRUSTED)


@pytest.mark.parametrize(("outside", "left"), [(True, UNTRUSTED), (False, TRUSTED)])
async def test_what_a_command_leaves_that_is_killed_with_the_daemon_is_judged_by_how_it_began(
    tmp_path: Path, outside: bool, left: Label
) -> None:
    desk = await Desk.at(tmp_path)
    await CommandEffects(desk.files, desk.clock.monotonic).start(context(desk.bench(), outside))
    (desk.root / "half.txt").write_text("half")
    again = await desk.again()
    await CommandEffects(again.files, again.clock.monotonic).recover()
    assert await label(again, "half.txt") is left


async def test_trust_is_for_a_folder_but_not_for_a_repository_of_its_own_in_it(
    tmp_path: Path,
) -> None:
    async with FakeOpenAI() as model, living(tmp_path, model, trusted=False) as it:
        root = it.house.files.workspace.root
        for path in ("notes.txt", "repo/.git/HEAD", "repo/README.md"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text("text")
        assert "3 files in the workspace are not known" in await it.command("/status")
        assert "repo" in await it.command("/trust .")
        found = [
            (await it.house.files.read(path, bytes))[1] for path in ("notes.txt", "repo/README.md")
        ]
        assert found == [TRUSTED, UNTRUSTED]
        await it.command("/untrust notes.txt")
        assert (await it.house.files.read("notes.txt", bytes))[1] is UNTRUSTED
