"""What a hostile command or server may try with its layer, and what does not come of it."""

import asyncio
import hashlib
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from daemon.core.trust import Label
from daemon.tools.layers.changes import ChangeReader
from daemon.tools.layers.git_index import is_fine_index
from daemon.tools.layers.merge import Merge
from daemon.tools.shell.run import ORIGIN, merge_left
from daemon.tools.workspace.command_effects import CommandEffects, CommandOrigin
from daemon.tools.workspace.file_store import ChangeAuthor
from daemon.tools.workspace.undo import undo_turn
from tests.behaviour.test_files_labels import context
from tests.behaviour.test_layers import NO_OVERLAY
from tests.fakes.commands import Commands
from tests.fakes.files import Desk
from tests.fakes.tools import Bench

SECRET = "the secret\n"


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    root = tmp_path.resolve() / "workspace"
    root.mkdir()
    return Commands(root)


@pytest.fixture
async def desk(tmp_path: Path) -> Desk:
    return await Desk.at(tmp_path.resolve())


DEEP = """import os
for _ in range(1200):
    os.mkdir("d")
    os.chdir("d")
open("f", "w").close()
"""


def make_deep(root: Path) -> None:
    subprocess.run([sys.executable, "-c", DEEP], cwd=root, check=True)


def outside(commands: Commands) -> Path:
    """A folder of the owner's beside the workspace."""
    place = commands.root.parent / "outside"
    (place / "folder").mkdir(parents=True)
    (place / "file").write_text(SECRET)
    (place / "folder" / "file").write_text(SECRET)
    return place


async def run(commands: Commands, line: str) -> str:
    ran, _, note = await commands.run(line, context(Bench([]), untrusted=False))
    assert ran.exit_code == 0, ran.output
    return note


def with_effects(desk: Desk) -> Commands:
    return Commands(desk.root, effects=CommandEffects(desk.files))


async def test_a_folder_in_the_place_of_a_link_leads_nothing_to_undo_from_outside(
    desk: Desk,
) -> None:
    commands = with_effects(desk)
    (desk.root / "d").symlink_to(outside(commands))
    around = context(desk.bench(), untrusted=False)
    await commands.run("rm d; mkdir d; echo evil > d/file", around)
    author = ChangeAuthor("s", "undoing", "", Label.TRUSTED, undoes=around.turn.id)
    await undo_turn(desk.files, around.turn.id, author)
    texts = [one.read_text() for one in desk.root.rglob("*") if one.is_file()]
    kept = [one.read_text() for one in desk.files.folder.rglob("*") if one.is_file()]
    assert SECRET not in texts and SECRET not in kept


async def test_a_file_that_holds_what_one_behind_a_link_holds_comes_over(
    commands: Commands,
) -> None:
    (commands.root / "d").symlink_to(outside(commands))
    await run(commands, f"rm d; mkdir d; printf '{SECRET}' > d/file")
    assert (commands.root / "d/file").read_text() == SECRET


async def test_nothing_is_removed_behind_a_link_that_waits(commands: Commands) -> None:
    place = outside(commands)
    (commands.root / "l").mkdir()
    held = commands.quarantine / "held"
    held.mkdir(parents=True)
    (held / "l").symlink_to(place)
    async with commands.layers.open("one") as layer:
        await asyncio.sleep(0.02)
        (commands.root / "l" / "mine").touch()
        (layer.upper / "l").mkdir()
        for name in ("file", "folder"):
            (layer.upper / "l" / name).write_text("new")
        Merge.read(layer, commands.quarantine / "kept").apply()
    assert (place / "file").read_text() == SECRET
    assert (place / "folder" / "file").read_text() == SECRET


async def test_a_deep_tree_ends_no_merge(commands: Commands) -> None:
    note = await run(commands, f"echo 1 > plain; python3 -c '{DEEP}'")
    assert (commands.root / "plain").read_text() == "1\n"
    assert "too long a path" in note
    assert not any(commands.layers.folder.iterdir())


async def test_a_deep_tree_of_the_owners_can_be_deleted_by_a_command(commands: Commands) -> None:
    make_deep(commands.root)
    await run(commands, "rm -r d")
    assert [*commands.root.iterdir()] == []


@pytest.mark.parametrize("text", [b"", b"{", b"\xff"])
async def test_a_note_that_a_kill_or_a_full_disk_cut_stops_no_start(
    desk: Desk, text: bytes
) -> None:
    commands = with_effects(desk)
    async with commands.layers.open("killed") as layer:
        (layer.upper / "a").write_text("new")
        layer.note.write_bytes(text)
    assert commands.effects
    await merge_left(commands.sandbox, commands.effects)
    assert (desk.root / "a").read_text() == "new"
    assert await desk.files.labels.label_of("a") is Label.UNTRUSTED
    assert not any(commands.layers.folder.iterdir())


async def test_a_name_that_is_no_text_is_labelled_and_later_commands_run(desk: Desk) -> None:
    commands = with_effects(desk)
    around = context(desk.bench(), untrusted=True)
    ran, _, note = await commands.run(
        "echo 1 > $'\\xff'; mkdir $'d\\xfe'; echo 1 > $'d\\xfe/x'", around
    )
    assert "UTF-8" in note
    ran, label, _ = await commands.run("cat $'\\xff'", context(desk.bench(), untrusted=False))
    assert ran.output == "1\n" and label is Label.UNTRUSTED


def build_index(path: bytes, blob: str) -> bytes:
    """An index with one program at this path, as git itself would not write it."""
    head = b"DIRC" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big")
    numbers = [0] * 6 + [0o100755, 0, 0, 0]
    entry = b"".join(one.to_bytes(4, "big") for one in numbers) + bytes.fromhex(blob)
    entry += len(path).to_bytes(2, "big") + path
    entry += b"\0" * (8 - len(entry) % 8)
    return head + entry + hashlib.sha1(head + entry).digest()


def git(root: Path, *words: str, data: bytes = b"") -> str:
    line = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    ran = subprocess.run(line, cwd=root, input=data, capture_output=True, check=False)
    return ran.stdout.decode().strip()


@pytest.mark.parametrize("name", [b".git/hooks/post-checkout", b"s/.GIT/hooks/post-checkout"])
async def test_an_index_that_would_write_into_a_repository_waits(
    commands: Commands, name: bytes
) -> None:
    root = commands.root
    git(root, "init", "-q")
    (root / "a").write_text("a")
    git(root, "add", "a")
    git(root, "commit", "-qm", "a")
    evil = f"#!/bin/sh\ntouch {root.parent}/ran\n".encode()
    blob = git(root, "hash-object", "-w", "--stdin", data=evil)
    (root / "index").write_bytes(build_index(name, blob))
    await run(commands, "mv index .git/index")
    git(root, "checkout", ".")
    git(root, "checkout", ".")
    assert not (root.parent / "ran").exists()
    assert not (root / name.decode()).exists()


async def test_an_ordinary_index_comes_over(commands: Commands) -> None:
    root = commands.root
    git(root, "init", "-q")
    for version in ("2", "3", "4"):
        more = "git add -N n3;" if version == "3" else ""
        line = (
            f"mkdir -p d; echo 1 > n{version}; echo 2 > d/n{version};"
            f"{more} git add -A; git update-index --index-version {version}"
        )
        note = await run(commands, line)
        assert ".git/index" not in note
        assert f"d/n{version}" in git(root, "ls-files")


LINKS = {
    "an environment's packages": (
        "cp -r .venv/lib/python3/site-packages p; rm -r .venv/lib/python3/site-packages;"
        "ln -s ../../../p .venv/lib/python3/site-packages; echo 'import os' > p/x.pth",
        ".venv/lib/python3/site-packages",
    ),
    "a rebase": (
        "mkdir r; echo 'exec evil' > r/git-rebase-todo; ln -s ../r .git/rebase-merge",
        ".git/rebase-merge",
    ),
    "settings in a folder": ("mkdir c; echo 1 > c/lefthook; ln -s c .config", ".config"),
    "another tool's repository": ("mkdir h; echo 1 > h/hgrc; ln -s h .hg", ".hg"),
}  # fmt: skip


@pytest.mark.parametrize("case", LINKS)
async def test_a_link_gives_no_folder_another_meaning(commands: Commands, case: str) -> None:
    line, place = LINKS[case]
    root = commands.root
    git(root, "init", "-q")
    (root / ".venv/lib/python3/site-packages").mkdir(parents=True)
    (root / ".venv/bin").mkdir()
    (root / ".venv/lib/python3/site-packages/a.py").touch()
    await run(commands, line)
    assert not (root / place).is_symlink()


@pytest.mark.parametrize("name", ["sitecustomize.py", "usercustomize/__init__.py"])
async def test_what_python_runs_at_its_start_waits_wherever_a_path_may_lead(
    commands: Commands, name: str
) -> None:
    await run(commands, f"mkdir -p $(dirname src/{name}); echo 1 > src/{name}")
    assert not (commands.root / "src" / name).exists()


@pytest.mark.parametrize("sign", ["\\x0c", "\\x1c", "\\xc2\\x85", "\\xe2\\x80\\xa8", "\\r"])
async def test_a_line_of_a_path_file_is_one_as_python_splits_them(
    commands: Commands, sign: str
) -> None:
    place = commands.root / ".venv/lib/python3/site-packages"
    place.mkdir(parents=True)
    here = place.relative_to(commands.root)
    await run(commands, f"printf 'src{sign}import os\\n' > {here}/x.pth; echo src > {here}/y.pth")
    assert [one.name for one in place.iterdir()] == ["y.pth"]


def peak_kb() -> int:
    """The most memory that this process had at once since it was last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


async def test_a_huge_text_of_a_rule_is_not_read_whole_and_waits(commands: Commands) -> None:
    place = commands.root / ".venv/lib/python3/site-packages"
    place.mkdir(parents=True)
    here = place.relative_to(commands.root)
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_kb()
    await run(
        commands, f"truncate -s 300M {here}/x.pth; git init -q r; truncate -s 300M r/.git/config"
    )
    assert not (place / "x.pth").exists() and not (commands.root / "r/.git/config").exists()
    assert peak_kb() - before < 200_000


async def test_many_files_of_one_rule_are_judged_in_time(commands: Commands) -> None:
    async with asyncio.timeout(40):
        line = "mkdir r; cd r; mkdir objects refs; for n in $(seq 12000); do echo > $n; done"
        await run(commands, line)


async def test_many_odd_things_are_told_in_few_lines(commands: Commands) -> None:
    note = await run(commands, "for n in $(seq 500); do mkfifo p$n; done 2>&1")
    assert len(note) < 5000 and "more" in note


async def test_what_a_stranger_left_for_a_moment_makes_a_command_unclean(desk: Desk) -> None:
    commands = with_effects(desk)
    (desk.root / "gate").touch()
    line = "until grep -q go gate; do sleep 0.02; done; tr a-z A-Z < evil | tee copy; until grep -q end gate; do sleep 0.02; done"
    running = asyncio.create_task(commands.run(line, context(desk.bench(), untrusted=False)))
    await asyncio.sleep(0.3)
    await commands.run("echo evil words > evil", context(desk.bench(), untrusted=True))
    (desk.root / "gate").write_text("go")
    await asyncio.sleep(0.3)
    await commands.run("rm evil", context(desk.bench(), untrusted=True))
    (desk.root / "gate").write_text("end")
    ran, label, _ = await running
    assert "EVIL WORDS" in ran.output
    assert label is Label.UNTRUSTED
    assert await desk.files.labels.label_of("copy") is Label.UNTRUSTED


async def test_what_waits_is_not_lost_when_a_merge_is_done_again(desk: Desk) -> None:
    commands = with_effects(desk)
    assert commands.effects
    (desk.root / "d").mkdir()
    (desk.root / "d" / "old").touch()
    async with commands.layers.open("killed") as layer:
        layer.note.write_bytes(ORIGIN.dump_json(CommandOrigin("t", "s", "c", trusted=False, clean=False)))
        (layer.upper / "d").mkdir()
        os.setxattr(layer.upper / "d", "user.overlay.opaque", b"y")
        (layer.upper / "d" / ".envrc").write_text("new")
        (layer.upper / "d" / "z").write_text("new")
    Merge.read(layer, commands.quarantine / "kept").apply()  # and the kill
    await merge_left(commands.sandbox, commands.effects)
    assert (commands.quarantine / "held/d/.envrc").read_text() == "new"
    assert (desk.root / "d/z").read_text() == "new"


async def test_what_the_owner_writes_while_the_changes_are_read_stays(commands: Commands) -> None:
    for name in ("a", "b"):
        (commands.root / name).write_text("old")
    async with commands.layers.open("one") as layer:
        (layer.upper / "a").write_text("theirs")
        os.mknod(layer.upper / "b", stat.S_IFCHR, 0)
        merge = Merge.read(layer, commands.quarantine / "kept")
        assert len(merge.steps) == 2
        await asyncio.sleep(0.02)
        for name in ("a", "b"):
            (commands.root / name).write_text("the owner's")
        said = merge.apply()
    assert "meanwhile" in said
    assert [(commands.root / one).read_text() for one in ("a", "b")] == ["the owner's"] * 2


async def test_a_folder_that_the_owner_exchanged_is_not_emptied(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "workspace"
    commands = Commands(root, obstacle=NO_OVERLAY)
    for name in ("d/one", "other/two"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(name)
    await asyncio.sleep(0.02)
    async with commands.layers.open("one") as layer:
        (root / "d").rename(root / "former")
        (root / "other").rename(root / "d")
        Merge.read(layer, commands.quarantine / "kept").apply()
    assert (root / "d/two").read_text() == "other/two"


async def test_what_waits_has_no_second_name_in_the_workspace(commands: Commands) -> None:
    await run(commands, "echo 1 > plain; ln plain .envrc")
    held = commands.quarantine / "held/.envrc"
    (commands.root / "plain").write_text("2\n")
    assert held.read_text() == "1\n"


class Racer:
    """A server that exchanges two of its files as fast as it can."""

    def __init__(self, swap: Callable[[], None]) -> None:
        self.swap, self.done = swap, threading.Event()
        self.thread = threading.Thread(target=self.go)

    def go(self) -> None:
        while not self.done.is_set():
            with suppress(OSError):
                self.swap()

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()


async def test_a_server_brings_no_link_for_the_file_that_was_judged(commands: Commands) -> None:
    async with commands.layers.open("one") as layer:
        (layer.upper / "x").write_text("fine")
        merge = Merge.read(layer, commands.quarantine / "kept", {})
        (layer.upper / "x").unlink()
        (layer.upper / "x").symlink_to("/etc/passwd")
        merge.apply()
    assert not (commands.root / "x").is_symlink()


async def test_a_server_brings_no_other_text_than_was_judged(commands: Commands) -> None:
    place = "lib/site-packages"
    (commands.root / place).mkdir(parents=True)
    async with commands.layers.open("one") as layer:
        (layer.upper / place).mkdir(parents=True)
        (layer.upper / place / "x.pth").write_text("src")
        (layer.upper / "l").symlink_to("inside")
        (layer.upper / "a").write_text("read")
        merge = Merge.read(layer, commands.quarantine / "kept", {})
        files = {one.path: one.digest for one in merge.list_files()}
        (layer.upper / place / "x.pth").write_text("import os")
        (layer.upper / "a").write_text("other")
        (layer.upper / "l").unlink()
        (layer.upper / "l").symlink_to("/etc")
        merge.apply()
    left, left_link = commands.root / place / "x.pth", commands.root / "l"
    assert not left.exists() or left.read_text() == "src"
    assert not left_link.is_symlink() or left_link.readlink() == Path("inside")
    a = commands.root / "a"
    assert not a.exists() or hashlib.sha256(a.read_bytes()).hexdigest() == files["a"]


async def test_a_server_cannot_open_the_owners_files_by_a_link(commands: Commands) -> None:
    place = outside(commands)
    (place / "file").chmod(0o600)
    async with commands.layers.open("one") as layer:
        upper = layer.upper
        (upper / "d").mkdir(mode=0o077)
        (upper / "d").chmod(0o077)
        (upper / "l").symlink_to(place / "file")

        def swap() -> None:
            (upper / "d").rename(upper / "e")
            (upper / "l").rename(upper / "d")
            (upper / "d").rename(upper / "l")
            (upper / "e").rename(upper / "d")
            (upper / "d").chmod(0o077)

        with Racer(swap):
            for _ in range(2000):
                await asyncio.to_thread(lambda: ChangeReader(layer, {}).changes)
    assert stat.S_IMODE((place / "file").stat().st_mode) == 0o600


async def test_a_pointer_that_is_no_path_ends_no_merge(commands: Commands) -> None:
    note = await run(commands, "echo 1 > a; mkdir s; printf 'gitdir: x\\0y' > s/.git; ln -s l l")
    assert "s/.git" in note
    await run(commands, "mkdir t; echo 'gitdir: ../l/x' > t/.git; echo 2 > a")
    assert (commands.root / "a").read_text() == "2\n"


async def test_names_that_are_no_text_in_a_list_of_branches_end_no_merge(
    commands: Commands,
) -> None:
    root = commands.root
    (root / "a").write_text("a")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "a")
    git(root, "commit", "-qm", "one")
    listed = b"1" * 40 + b" refs/heads/\xff\n"
    (root / ".git/packed-refs").write_bytes(listed)
    await run(commands, "echo 2 > a; git -c user.name=a -c user.email=a@b commit -qam two")
    assert (root / "a").read_text() == "2\n"
    assert (root / ".git/packed-refs").read_bytes() == listed
    assert git(root, "log", "--format=%s", "main") == "two\none"


async def test_a_long_name_that_is_no_ascii_comes_over_by_a_copy(commands: Commands) -> None:
    name = "\u00e4" * 127
    async with commands.layers.open("one") as layer:
        (layer.upper / name).write_text("1")
        Merge.read(layer, commands.quarantine / "kept", {}).apply()
    assert (commands.root / name).read_text() == "1"


async def test_a_deleted_repository_is_kept_behind_no_link(commands: Commands) -> None:
    place = outside(commands)
    git(commands.root, "init", "-q", "d/r")
    for link in ("deleted", "deleted/d", "deleted/d/r", "deleted/d/r/.git"):
        aside = commands.quarantine / link.replace("/", "-")
        (aside / link).parent.mkdir(parents=True)
        (aside / link).symlink_to(place)  # a server's own, kept before
        async with commands.layers.open("one") as layer:
            (layer.upper / "d").mkdir()
            os.mknod(layer.upper / "d/r", stat.S_IFCHR, 0)
            Merge.read(layer, aside).apply()
        assert sorted(one.name for one in place.rglob("*")) == ["file", "file", "folder"]


NUMBERS = b"\0" * 60  # what an entry holds before its flags
LONG_INDEXES = {
    "a number without end": (1, NUMBERS + b"\0\0" + b"\xff" * 3_000_000),
    "a path without end": (
        60_001,
        NUMBERS
        + (b"\x0f\xff\0" + b"a" * 2_000_000 + b"\0")
        + (NUMBERS + b"\x0f\xff\0b\0") * 60_000,
    ),
}


@pytest.mark.parametrize("case", LONG_INDEXES)
def test_a_long_index_is_looked_at_in_moments(case: str) -> None:
    count, entries = LONG_INDEXES[case]
    data = b"DIRC" + (4).to_bytes(4, "big") + count.to_bytes(4, "big") + entries
    began = time.process_time()
    is_fine_index(data, long=False)
    assert time.process_time() - began < 5
