"""/undo of a command that changed thousands of files: all of it is taken back as one (F8)."""

import asyncio
import errno
import os
import resource
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import pytest

from daemon.core.rows import FileLabel
from daemon.core.trust import Label
from daemon.store.sqlite import SqliteStore
from daemon.tools.shell.run import ORIGIN, merge_left
from daemon.tools.workspace.bulk import OTHER, Archive
from daemon.tools.workspace.command_effects import CommandEffects, CommandOrigin
from daemon.tools.workspace.file_store import ChangeAuthor
from daemon.tools.workspace.labels import NO_FILE
from daemon.tools.workspace.undo import UndoResult, undo_turn
from tests.behaviour.test_files_labels import context
from tests.behaviour.test_layers_told import command
from tests.fakes.commands import Commands
from tests.fakes.files import Desk
from tests.fakes.house import living
from tests.fakes.openai import FakeOpenAI

DEADLINE = 60
MANY = 2100
ADDS = f"mkdir -p made/deep; for n in $(seq {MANY}); do echo $n > made/deep/$n.js; done"
ADDED = UndoResult("made/", done=True, words=f"{MANY} files removed that did not exist before")


def tree(root: Path) -> dict[str, tuple[int, str]]:
    """Every file, folder and link: its mode, and what is in it."""
    found = dict[str, tuple[int, str]]()
    for one in root.rglob("*"):
        mode = stat.S_IMODE(one.lstat().st_mode)
        path = str(one.relative_to(root))
        if one.is_symlink():
            found[path] = (0, f"-> {one.readlink()}")
        else:
            found[path] = (mode, "a folder" if one.is_dir() else one.read_text())
    return found


def fill(folder: Path, count: int = MANY) -> None:
    """With files of one's own, some of them programs, a link and an empty folder."""
    (folder / "empty").mkdir(parents=True)
    (folder / "link").symlink_to("1.py")
    for number in range(count):
        place = folder / f"{number}.py"
        place.write_text(f"a = {number}\n")
        place.chmod(0o755 if number % 2 else 0o644)


@dataclass
class Work:
    """A workspace in which commands run."""

    desk: Desk
    commands: Commands
    turn: str = ""

    @classmethod
    async def at(cls, home: Path) -> Self:
        desk = await Desk.at(home.resolve())
        return cls(desk, Commands(desk.root, effects=CommandEffects(desk.files)))

    async def run(self, line: str, *, untrusted: bool = False) -> str:
        """What is said of what it changed."""
        around = context(self.desk.bench(), untrusted=untrusted)
        ran, _, note = await self.commands.run(line, around)
        assert ran.exit_code == 0, ran.output
        self.turn = around.turn.id
        return note

    async def undo(self, turn: str = "", own: str = "undoing") -> list[UndoResult]:
        wanted = turn or self.turn
        author = ChangeAuthor("chat", own, "", Label.TRUSTED, undoes=wanted)
        return await undo_turn(self.desk.files, wanted, author)


WORK = {
    "additions": (ADDS, 0),
    "a folder that is deleted": ("rm -r src", MANY),
    "files that are written anew": ("sed -i s/a/b/ src/*.py; chmod 700 src", MANY),
    "a folder that is renamed": ("mv src lib", MANY),
    "a file in the place of a folder": ("rm -r src; echo 1 > src", MANY),
    "folders in the place of files": ("cd src; for n in *.py; do rm $n; mkdir $n; done", MANY),
    "a link in the place of a folder": ("mv src lib; ln -s lib src", MANY),
    "a file that is too large to be kept by itself": ("cat large large > x; mv x large", 0),
}


@pytest.mark.parametrize("work", WORK)
async def test_F8_undo_takes_back_what_a_command_did_to_thousands_of_files_and_can_be_undone(
    tmp_path: Path, work: str
) -> None:
    line, count = WORK[work]
    it = await Work.at(tmp_path)
    root = it.desk.root
    (root / "other").write_text("mine")
    (root / "large").write_text("text\n" * 4_100_000 * (work.startswith("a file that")))
    if count:
        fill(root / "src", count)
    before = tree(root)
    assert await it.run(line) == ""
    after = tree(root)
    assert before != after and len(it.desk.files.versions) == 1
    [told] = await it.undo()
    assert told.done and told.path.endswith("/")
    assert tree(root) == before
    [told] = await it.undo("undoing", "again")
    assert told.done
    assert tree(root) == after


async def test_F8_what_the_owner_changed_or_put_there_since_stays_and_is_told(
    tmp_path: Path,
) -> None:
    it = await Work.at(tmp_path)
    root = it.desk.root
    await it.run(ADDS)
    (root / "made/deep/7.js").write_text("the owner's")
    (root / "made/own.txt").write_text("the owner's, too")
    (root / "made/deep/8.js").unlink()
    results = await it.undo()
    left = UndoResult("made/deep/7.js", done=False, words="changed since, so it was left as it is")
    removed = f"{MANY - 1} files removed that did not exist before"
    assert results == [replace(ADDED, words=removed), left]
    assert {path for path, (_, text) in tree(root).items() if text != "a folder"} == {
        "made/deep/7.js",
        "made/own.txt",
    }


async def test_F8_what_is_kept_of_thousands_of_files_lasts_over_a_restart_and_goes_with_its_turn(
    tmp_path: Path,
) -> None:
    it = await Work.at(tmp_path)
    fill(it.desk.root / "src")
    before = tree(it.desk.root)
    await it.run("rm -r src")
    it.desk = await it.desk.again()
    [kept] = it.desk.files.folder.iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    [told] = await it.undo()
    assert told == UndoResult("src/", done=True, words=f"{MANY + 1} files as before")
    assert tree(it.desk.root) == before
    await it.desk.files.remove_turns([it.turn, "undoing"])
    assert not any(it.desk.files.folder.iterdir())
    assert await it.undo() == []


async def test_F8_a_file_that_was_changed_by_a_tool_too_gets_back_what_it_held_first(
    tmp_path: Path,
) -> None:
    it = await Work.at(tmp_path)
    fill(it.desk.root / "src")
    before = tree(it.desk.root)
    around = context(it.desk.bench(), untrusted=False)
    await it.desk.write("src/1.py", "by a tool", around.turn.id)
    await it.run("sed -i s/$/x/ src/*.py")
    await it.desk.write("src/1.py", "once more", it.turn)
    await it.desk.write("note.txt", "new", it.turn)
    assert all(one.done for one in await it.undo())
    assert tree(it.desk.root) == before


async def test_F8_what_is_kept_of_the_undo_costs_no_other_file_of_that_turn_its_former_text(
    tmp_path: Path,
) -> None:
    it = await Work.at(tmp_path)
    root, files = it.desk.root, it.desk.files
    fill(root / "src")
    for number in range(5):
        (root / "src" / f"{number}.py").write_bytes(bytes([number]) * 20_000_000)
    (root / "notes.txt").write_text("mine")
    turn = context(it.desk.bench(), untrusted=False).turn.id
    await it.desk.write("notes.txt", "changed", turn)
    assert await it.run("for n in src/*.py; do echo b >> $n; done") == "" and it.turn == turn
    assert all(one.done for one in await it.undo())
    assert (root / "notes.txt").read_text() == "mine"
    assert (root / "src" / "4.py").read_bytes() == bytes([4]) * 20_000_000
    assert all(one.undone for one in files.versions.values() if one.turn == turn)


@pytest.mark.parametrize(
    ("number", "what"),
    [(errno.ENOENT, NO_FILE), (errno.ELOOP, NO_FILE), (errno.EMFILE, OTHER), (errno.EACCES, OTHER)],
)
def test_what_cannot_be_looked_at_is_not_taken_for_nothing(
    tmp_path: Path, number: int, what: str
) -> None:
    """Else an undo would delete it as something that was not there before."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_text("mine")
    (tmp_path / "link").symlink_to("a")
    with (tmp_path / "kept").open("xb") as file:
        archive = Archive(tmp_path, file, 1000)
        if number == errno.ENOENT:
            assert archive.add("b/x").what == what
        elif number == errno.ELOOP:
            assert archive.add("link/x").what == what
        elif number == errno.EMFILE:
            with no_more_files():
                assert archive.add("a/x").what == what
        elif os.geteuid():
            (tmp_path / "a").chmod(0)
            assert archive.add("a/x").what == what


@contextmanager
def no_more_files() -> Iterator[None]:
    """This process may open no other."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_F8_more_than_is_kept_is_said_and_the_command_is_not_held_up(tmp_path: Path) -> None:
    it = await Work.at(tmp_path)
    with (it.desk.root / "huge").open("wb") as file:
        file.truncate(151_000_000)
    said = await it.run("rm huge")
    assert said.endswith("by /undo: what stood there is more than 150 MB.")
    assert not any(it.desk.files.folder.iterdir())
    assert await it.undo() == [] and tree(it.desk.root) == {}


async def test_F8_what_cannot_be_kept_is_said_and_the_command_is_not_held_up(
    tmp_path: Path,
) -> None:
    it = await Work.at(tmp_path)
    it.desk.files.folder.rmdir()
    it.desk.files.folder.write_text("in the way")
    said = await it.run(ADDS)
    assert said.startswith("What it changed cannot be taken back by /undo: it cannot be kept in")
    assert len(tree(it.desk.root)) == MANY + 2


async def test_F8_additions_of_any_size_are_taken_back_and_that_this_is_for_good_is_said(
    tmp_path: Path,
) -> None:
    it = await Work.at(tmp_path)
    await it.run(f"{ADDS}; truncate -s 151000000 made/huge")
    [told] = await it.undo()
    assert told.done and told.words.endswith("too much to be kept, so this cannot be reverted")
    assert tree(it.desk.root) == {}


async def test_F3_what_comes_back_is_whose_it_was(tmp_path: Path) -> None:
    it = await Work.at(tmp_path)
    fill(it.desk.root / "src")
    (it.desk.root / "src/evil.txt").write_text("a stranger's, of 1234")
    labels = it.desk.files.labels
    await labels.save([FileLabel("src/evil.txt", Label.UNTRUSTED, "t0")])
    await it.run("sed -i s/a/b/ src/*.py src/*.txt", untrusted=True)
    assert await labels.label_of("src/7.py") is Label.UNTRUSTED
    assert all(one.done for one in await it.undo())
    assert await labels.label_of("src/7.py") is Label.TRUSTED
    await it.undo("undoing", "again")
    assert await labels.label_of("src/7.py") is Label.UNTRUSTED
    await it.run("rm -r src")
    await labels.label_of("src/evil.txt")  # it is gone, and with it its label
    it.turn = [*it.desk.files.versions.values()][-1].turn
    await it.undo(own="last")
    assert await labels.label_of("src/evil.txt") is Label.UNTRUSTED


async def test_F8_thousands_of_files_are_told_as_one(tmp_path: Path, model: FakeOpenAI) -> None:
    async with living(tmp_path, model) as it:
        assert "cannot be taken back" not in await command(it, model, ADDS)
        listed = await it.command("/undo list")
        assert listed.endswith(f": made/ ({MANY} files)")
        rows = await it.house.store.read(lambda tx: tx.list_turns("web:test", -1))
        posted = [
            row.body
            for turn in rows
            for row in await it.house.store.read(lambda tx, turn=turn: tx.list_turn_outbox(turn.id))
        ]
        line = f"Changed: `made/` ({MANY} files). /undo takes that back."
        assert any(body.endswith(line) for body in posted)
        assert f"- made/: {ADDED.words}" in await it.command("/undo")
        assert not any(it.house.files.workspace.root.iterdir())


# -- kill -9 ----------------------------------------------------------------------


async def kill_at(home: Path, skip: int, deed: str) -> None:
    """A child does it and is killed at this event of the interpreter, if it gets there."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.behaviour.files_child",
        str(home),
        str(skip),
        deed,
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(DEADLINE):
        printed, _ = await child.communicate()
    assert child.returncode in (-signal.SIGKILL, 0), printed


FEW = 520  # more than are kept one by one
MOMENTS = (0, 300, 3000, 6000, 8000, 10_000, 12_000, 13_000, 15_000, 1 << 40)  # of 13,000; 16,200


@pytest.mark.parametrize("skip", MOMENTS)
async def test_F8_an_undo_of_many_files_that_a_kill_cut_is_completed_by_the_next(
    tmp_path: Path, skip: int
) -> None:
    it = await Work.at(tmp_path)
    root = it.desk.root
    fill(root / "src", FEW)
    before = tree(root)
    await it.run("mkdir new; cd src; for n in *.py; do mv $n ../new; done; rm -r empty; echo 1 > empty")
    after = tree(root)
    assert it.turn == "t1"
    await kill_at(root.parent, skip, "undo many")
    store = await SqliteStore.open(tmp_path / "journal.db")
    try:
        it.desk = await Desk.at(root.parent, store)
        results = await it.undo(own="undo-t1")
        assert [one.done for one in results] == [True], results
        assert tree(root) == before
        await it.undo("undo-t1", "again")
        assert tree(root) == after
    finally:
        await store.aclose()


@pytest.mark.parametrize("skip", MOMENTS)
async def test_F8_a_merge_of_many_files_that_a_kill_cut_is_undone_as_a_whole(
    tmp_path: Path, skip: int
) -> None:
    it = await Work.at(tmp_path)
    root = it.desk.root
    fill(root / "src", FEW)
    before = tree(root)
    async with it.commands.layers.open("killed") as layer:
        origin = CommandOrigin("t1", "chat", "call", trusted=True, clean=True)
        layer.note.write_bytes(ORIGIN.dump_json(origin))
        os.mknod(layer.upper / "src", stat.S_IFCHR, 0)
        (layer.upper / "new").mkdir()
        for number in range(FEW):
            (layer.upper / f"new/{number}.js").write_text("new")
    await kill_at(root.parent, skip, "merge many")
    store = await SqliteStore.open(tmp_path / "journal.db")
    try:
        it.desk = await Desk.at(root.parent, store)
        assert await merge_left(it.commands.sandbox, CommandEffects(it.desk.files)) == []
        assert {path.partition("/")[0] for path in tree(root)} == {"new"}
        results = await it.undo("t1")
        assert all(one.done for one in results), results
        assert tree(root) == before
    finally:
        await store.aclose()
