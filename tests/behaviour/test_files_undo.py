"""What files held before is kept, and /undo brings it back (F8)."""

import asyncio
import os
import signal
import sys
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from daemon.core.errors import StoreUnavailable
from daemon.core.rows import FileVersion
from daemon.core.trust import Label
from daemon.store.sqlite import SqliteStore
from daemon.tools.base import ToolError
from daemon.tools.workspace.file_store import (
    MAX_AGE,
    MAX_HISTORY_BYTES,
    ChangeAuthor,
    count_expired,
)
from daemon.tools.workspace.undo import find_latest_turn, undo_turn
from tests.fakes.files import Desk, open_store
from tests.fakes.store import FailingStore
from tests.fakes.tools import NOON

OWNER = ChangeAuthor("chat", "undo-1", "", Label.TRUSTED, undoes="t1")
DEADLINE = 20


async def undone(desk: Desk, turn: str = "t1", own: str = "") -> dict[str, tuple[bool, str]]:
    author = ChangeAuthor("chat", own or f"undo-{turn}", "", Label.TRUSTED, undoes=turn)
    return {one.path: (one.done, one.words) for one in await undo_turn(desk.files, turn, author)}


def unread(found: os.stat_result) -> tuple[int, ...]:
    """All that only a change of the file changes: that it was looked at is none."""
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def kept(desk: Desk) -> list[str]:
    return sorted(one.name for one in desk.files.folder.iterdir())


# -- what is kept --------------------------------------------------------------


async def test_F8_a_write_keeps_what_was_there_by_its_hash_for_the_owner_alone(
    tmp_path: Path,
) -> None:
    desk = await Desk.at(tmp_path)
    await desk.write("a.txt", "old")
    await desk.write("a.txt", "new", "t2")
    first, second = desk.files.versions.values()
    assert (first.old, second.old, second.new) == (
        "",
        sha256(b"old").hexdigest(),
        sha256(b"new").hexdigest(),
    )
    assert (second.session, second.turn, second.path, second.at) == ("chat", "t2", "a.txt", NOON)
    assert kept(desk) == [second.old]
    folder = desk.files.folder
    assert (folder.stat().st_mode & 0o777, (folder / second.old).stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )


async def test_F8_the_tools_keep_versions_under_their_turn_and_call(tmp_path: Path) -> None:
    desk = await Desk.at(tmp_path)
    rig = desk.bench()
    await rig.one("write_file", '{"path": "a.txt", "text": "one two"}')
    await rig.one("edit_file", '{"path": "a.txt", "old": "two", "new": "three"}')
    assert [(one.turn, one.call_id, one.session) for one in desk.files.versions.values()] == [
        ("t1", "2.0", "terminal:test"), ("t1", rig.turn.calls[0].call_id, "terminal:test")
    ]  # fmt: skip
    assert await undone(desk) == {"a.txt": (True, "removed; it did not exist before")}


async def test_a_write_of_the_same_again_changes_nothing_and_keeps_nothing(tmp_path: Path) -> None:
    desk = await Desk.at(tmp_path)
    await desk.write("a.txt", "same")
    before = unread((desk.root / "a.txt").stat())
    await desk.write("a.txt", "same", "t2")
    assert len(desk.files.versions) == 1
    assert unread((desk.root / "a.txt").stat()) == before


async def test_nothing_is_written_where_the_version_so_far_cannot_be_kept(tmp_path: Path) -> None:
    desk = await Desk.at(tmp_path)
    (desk.root / "a.txt").write_text("old")
    desk.files.folder.rmdir()
    desk.files.folder.write_text("in the way")
    with pytest.raises(ToolError, match="nothing was changed"):
        await desk.write("a.txt", "new")
    assert (desk.root / "a.txt").read_text() == "old"


async def test_nothing_is_written_while_the_journal_cannot_be(tmp_path: Path) -> None:
    store = FailingStore(await open_store(tmp_path / "journal.db"))
    desk = await Desk.at(tmp_path, store)
    (desk.root / "a.txt").write_text("old")
    store.broken = True
    with pytest.raises(StoreUnavailable):
        await desk.write("a.txt", "new")
    assert (desk.root / "a.txt").read_text() == "old"
    assert list(desk.root.iterdir()) == [desk.root / "a.txt"]


async def test_a_file_that_somebody_else_changes_meanwhile_is_left_alone(tmp_path: Path) -> None:
    desk = await Desk.at(tmp_path)
    (desk.root / "a.txt").write_text("old")

    def slow(old: bytes | None) -> bytes:
        (desk.root / "a.txt").write_text("somebody's")
        return b"new"

    with pytest.raises(ToolError, match="somebody else changed it"):
        await desk.files.write("a.txt", slow, ChangeAuthor("chat", "t1", "c", Label.TRUSTED))
    assert (desk.root / "a.txt").read_text() == "somebody's"
    assert desk.files.versions == {}


async def test_writers_of_one_file_come_one_after_the_other(tmp_path: Path) -> None:
    desk = await Desk.at(tmp_path)
    author = ChangeAuthor("chat", "t1", "c", Label.TRUSTED)
    (desk.root / "n.txt").write_text("")
    await asyncio.gather(
        *(
            desk.files.write("n.txt", lambda old: (old or b"") + b"x", author, whole=False)
            for _ in range(30)
        )
    )
    assert (desk.root / "n.txt").read_text() == "x" * 30
    assert len(desk.files.versions) == 30


async def test_a_stop_in_the_middle_of_a_write_lets_it_come_to_its_end(tmp_path: Path) -> None:
    desk = await Desk.at(tmp_path)
    task = asyncio.create_task(desk.write("a.txt", "new"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (desk.root / "a.txt").read_text() == "new"
    assert len(desk.files.versions) == 1


# -- taking it back --------------------------------------------------------------


async def test_F8_undo_restores_changed_files_and_removes_new_ones(tmp_path: Path) -> None:
    desk = await Desk.at(tmp_path)
    (desk.root / "old.txt").write_text("before")
    (desk.root / "old.txt").chmod(0o750)
    await desk.write("old.txt", "between")
    await desk.write("old.txt", "after")
    await desk.write("sub/new.txt", "made")
    assert await undone(desk) == {
        "old.txt": (True, "as it was before"),
        "sub/new.txt": (True, "removed; it did not exist before"),
    }
    assert (desk.root / "old.txt").read_text() == "before"
    assert (desk.root / "old.txt").stat().st_mode & 0o777 == 0o750
    assert not (desk.root / "sub/new.txt").exists()


async def test_F8_a_file_that_was_changed_since_is_left_alone_and_told_the_others_are_restored(
    tmp_path: Path,
) -> None:
    desk = await Desk.at(tmp_path)
    await desk.write("a.txt", "mine")
    await desk.write("b.txt", "mine")
    (desk.root / "a.txt").write_text("the owner's own")
    assert await undone(desk) == {
        "a.txt": (False, "changed since, so it was left as it is"),
        "b.txt": (True, "removed; it did not exist before"),
    }
    assert (desk.root / "a.txt").read_text() == "the owner's own"


async def test_F8_a_turn_that_was_killed_at_its_second_change_of_a_file_can_be_taken_back(
    tmp_path: Path,
) -> None:
    """What the journal tells of the second one never happened: the file holds what the first one put there."""
    desk = await Desk.at(tmp_path)
    (desk.root / "a.txt").write_text("old")
    await desk.write("a.txt", "one")
    await desk.write("a.txt", "two")
    (desk.root / "a.txt").write_text("one")
    again = await desk.again()
    assert await undone(again) == {"a.txt": (True, "as it was before")}
    assert (desk.root / "a.txt").read_text() == "old"


async def test_F8_an_undo_can_be_undone_and_undone_again(tmp_path: Path) -> None:
    desk = await Desk.at(tmp_path)
    await desk.write("a.txt", "one", "t0")
    await desk.write("a.txt", "two", "t1")
    await desk.write("b.txt", "new", "t1")
    await undone(desk, "t1", "u1")
    assert (desk.root / "a.txt").read_text() == "one"
    await undone(desk, "u1", "u2")
    assert ((desk.root / "a.txt").read_text(), (desk.root / "b.txt").read_text()) == ("two", "new")
    assert find_latest_turn([*desk.files.versions.values()]) == "t1"
    await undone(desk, "t1", "u3")
    assert ((desk.root / "a.txt").read_text(), (desk.root / "b.txt").exists()) == ("one", False)
    assert find_latest_turn([*desk.files.versions.values()]) == "t0"


async def test_F8_versions_outlive_a_restart_and_what_nobody_tells_of_does_not(
    tmp_path: Path,
) -> None:
    desk = await Desk.at(tmp_path)
    (desk.root / "a.txt").write_text("before")
    await desk.write("a.txt", "after")
    (desk.files.folder / ("f" * 64)).write_text("orphan")
    (desk.files.folder / ".12.tmp").write_text("left by a crash")
    again = await desk.again()
    assert kept(again) == [sha256(b"before").hexdigest()]
    assert await undone(again) == {"a.txt": (True, "as it was before")}


async def test_a_damaged_or_missing_version_is_told_and_changes_nothing(tmp_path: Path) -> None:
    desk = await Desk.at(tmp_path)
    (desk.root / "a.txt").write_text("before")
    await desk.write("a.txt", "after")
    place = desk.files.folder / next(iter(desk.files.versions.values())).old
    place.write_text("damaged")
    assert await undone(desk) == {"a.txt": (False, "what was kept of it is damaged")}
    place.unlink()
    assert await undone(desk) == {"a.txt": (False, "what it held is not kept any more")}
    assert (desk.root / "a.txt").read_text() == "after"


async def test_a_version_cut_off_by_a_crash_is_made_whole_when_it_is_saved_again(
    tmp_path: Path,
) -> None:
    desk = await Desk.at(tmp_path)
    (desk.root / "a.txt").write_text("before")
    (desk.files.folder / sha256(b"before").hexdigest()).write_text("bef")
    await desk.write("a.txt", "after")
    assert await undone(desk) == {"a.txt": (True, "as it was before")}


async def test_F3_an_undo_gives_text_from_outside_its_label_back(tmp_path: Path) -> None:
    desk = await Desk.at(tmp_path)
    await desk.write("a.txt", "from outside", "t0", Label.UNTRUSTED)
    await desk.write("a.txt", "the owner's", "t1")
    assert await desk.files.labels.label_of("a.txt") is Label.TRUSTED
    assert (await undone(desk))["a.txt"] == (True, "as it was before (text from outside)")
    assert await desk.files.labels.label_of("a.txt") is Label.UNTRUSTED


async def test_a_stranger_s_link_in_place_of_the_file_is_not_written_through(
    tmp_path: Path,
) -> None:
    desk = await Desk.at(tmp_path)
    (tmp_path / "secret.txt").write_text("secret")
    await desk.write("a.txt", "mine")
    (desk.root / "a.txt").unlink()
    (desk.root / "a.txt").symlink_to(tmp_path / "secret.txt")
    [(done, words)] = (await undone(desk)).values()
    assert not done
    assert "symbolic link" in words
    assert (tmp_path / "secret.txt").read_text() == "secret"


# -- bounds ----------------------------------------------------------------------


def version(number: int, size: int, days: int = 0, old: str = "") -> FileVersion:
    at = NOON - timedelta(days=days)
    return FileVersion(
        f"{number:012}",
        "s",
        "t",
        "c",
        "p",
        at,
        old or f"h{number}",
        "n",
        0o644,
        size,
        Label.TRUSTED,
    )


def test_F8_the_oldest_go_when_there_is_too_much_or_they_are_too_old() -> None:
    assert count_expired([], NOON) == 0
    assert count_expired([version(n, 10) for n in range(5)], NOON, max_bytes=50) == 0
    assert count_expired([version(n, 10) for n in range(5)], NOON, max_bytes=49) == 1
    assert count_expired([version(n, 10, old="same") for n in range(5)], NOON, max_bytes=10) == 0
    assert count_expired([version(n, 0) for n in range(5)], NOON, max_records=3) == 2
    assert count_expired([version(1, 1, MAX_AGE.days + 1), version(2, 1, 1)], NOON) == 1
    assert MAX_HISTORY_BYTES < 200_000_000


async def test_F8_old_versions_leave_disk_and_journal(tmp_path: Path) -> None:
    desk = await Desk.at(tmp_path)
    desk.files.max_bytes = 2_000_000
    for number in range(40):
        await desk.write("big.bin", f"{number}" + "x" * 500_000, f"t{number}")
    assert sum(file.stat().st_size for file in desk.files.folder.iterdir()) < 2_000_000 + 8_500_000
    told = await desk.store.read(lambda tx: tx.list_file_versions())
    assert {row.name for row in told} == {one.name for one in desk.files.versions.values()}
    assert {one.old for one in desk.files.versions.values()} >= set(kept(desk))
    assert await undone(desk, "t39") == {"big.bin": (True, "as it was before")}


# -- kill -9 ----------------------------------------------------------------------


async def test_a_record_that_comes_back_last_does_not_give_its_number_again(tmp_path: Path) -> None:
    desk = await Desk.at(tmp_path)
    await desk.write("a.txt", "one")
    oldest = next(iter(desk.files.versions.values()))
    await desk.write("b.txt", "two", "t2")
    del desk.files.versions[oldest.name]  # pruned while it was undone
    await desk.files.set_undone([oldest], undone=True)
    await desk.write("c.txt", "three", "t3")
    assert sorted(one.path for one in desk.files.versions.values()) == ["a.txt", "b.txt", "c.txt"]


@pytest.mark.parametrize("skip", range(0, 42, 3))
async def test_F8_a_kill_between_any_two_steps_leaves_old_or_new_and_a_record_to_go_by(
    tmp_path: Path, skip: int
) -> None:
    """A child writes and is killed at one of the events that the interpreter tells of; then the daemon starts again."""
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "a.txt").write_text("old")
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.behaviour.files_child",
        str(tmp_path),
        str(skip),
        "outside",
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(DEADLINE):
        printed, _ = await child.communicate()
    assert child.returncode in (-signal.SIGKILL, 0), printed
    assert list(root.iterdir()) == [root / "a.txt"]
    store = await SqliteStore.open(tmp_path / "journal.db")
    try:
        desk = await Desk.at(tmp_path, store)
        now = (root / "a.txt").read_text()
        told = [row.turn for row in await store.read(lambda tx: tx.list_file_versions())]
        assert (now, told) in [("old", []), ("old", ["t1"]), ("new", ["t1"])]
        if child.returncode == 0:
            assert now == "new"
        if now == "new":
            assert await desk.files.labels.label_of("a.txt") is Label.UNTRUSTED
        if told:
            assert (await undone(desk))["a.txt"] == (True, "as it was before")
        assert (root / "a.txt").read_text() == "old"
        assert not [name for name in kept(desk) if name.startswith(".")]
    finally:
        await store.aclose()
