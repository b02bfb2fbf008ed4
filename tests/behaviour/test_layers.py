"""A command writes on a layer; what it changed comes over when it has ended, as README and trust.md say (issue of layers)."""

import asyncio
import os
import stat
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from daemon.commands.files import bring_first, describe_held
from daemon.core.events import UserSaid
from daemon.core.trust import Label
from daemon.core.turn import Turn
from daemon.tools.base import ToolContext, ToolError
from daemon.tools.layers.layer import Layers
from daemon.tools.layers.merge import Merge
from daemon.tools.shell.bound_files import CommandBinder
from daemon.tools.shell.run import ORIGIN, merge_left
from daemon.tools.shell.sandbox import Sandbox, SandboxKind
from daemon.tools.workspace.command_effects import CommandEffects, CommandOrigin, HeldFiles
from daemon.tools.workspace.file_store import ChangeAuthor
from daemon.tools.workspace.undo import undo_turn
from tests.behaviour.test_files_labels import context
from tests.fakes.commands import Commands
from tests.fakes.files import Desk
from tests.fakes.tools import NOON, Bench

NO_OVERLAY = "it is not there, for the test"
GROUNDS = [("bubblewrap", ""), ("bubblewrap", NO_OVERLAY), ("landlock", NO_OVERLAY)]


@pytest.fixture(params=GROUNDS, ids=["overlay", "copy", "landlock"])
def commands(tmp_path: Path, request: pytest.FixtureRequest) -> Commands:
    kind: SandboxKind
    kind, obstacle = request.param
    root = tmp_path.resolve() / "workspace"
    root.mkdir()
    return Commands(root, kind, obstacle=obstacle)


def around() -> ToolContext:
    return context(Bench([]), untrusted=False)


async def run(commands: Commands, line: str) -> str:
    """What is said of what did not come over."""
    ran, _, note = await commands.run(line, around())
    assert ran.exit_code == 0, ran.output
    return note


def tree(root: Path) -> dict[str, str]:
    """Every file and link, and what is in it."""
    return {
        str(one.relative_to(root)): f"-> {one.readlink()}" if one.is_symlink() else one.read_text()
        for one in sorted(root.rglob("*"))
        if one.is_symlink() or one.is_file()
    }


WORK: dict[str, tuple[str, dict[str, str]]] = {
    "write": ("echo 2 > a; echo 3 > new", {"a": "2\n", "new": "3\n", "d/b": "b", "d/c": "c"}),
    "append": ("echo 2 >> a", {"a": "a2\n", "d/b": "b", "d/c": "c"}),
    "edit": ("sed -i s/a/z/ a", {"a": "z", "d/b": "b", "d/c": "c"}),
    "delete": ("rm a; rm -r d", {}),
    "rename": ("mv a z", {"z": "a", "d/b": "b", "d/c": "c"}),
    "rename a folder": ("mv d e", {"a": "a", "e/b": "b", "e/c": "c"}),
    "two folders in each other's place": (
        "mkdir e; echo 1 > e/b; mv d x; mv e d; mv x e",
        {"a": "a", "d/b": "1\n", "e/b": "b", "e/c": "c"},
    ),
    "a folder for a file": ("rm a; mkdir a; echo 1 > a/x", {"a/x": "1\n", "d/b": "b", "d/c": "c"}),
    "a file for a folder": ("rm -r d; echo 1 > d", {"a": "a", "d": "1\n"}),
    "a new folder for an old one": ("rm -r d; mkdir d; echo 1 > d/n", {"a": "a", "d/n": "1\n"}),
    "a link inside": ("ln -s d/b l", {"a": "a", "d/b": "b", "d/c": "c", "l": "-> d/b"}),
    "a hard link": ("ln a l", {"a": "a", "l": "a", "d/b": "b", "d/c": "c"}),
    "a closed folder": ("mkdir z; echo 1 > z/a; chmod 0 z", {"a": "a", "d/b": "b", "d/c": "c", "z/a": "1\n"}),
    "nothing": ("cat a; touch a; echo a > /dev/null", {"a": "a", "d/b": "b", "d/c": "c"}),
    "written and taken away": ("echo 1 > x; rm x; mkdir y; rmdir y", {"a": "a", "d/b": "b", "d/c": "c"}),
}  # fmt: skip


@pytest.mark.parametrize("work", WORK)
async def test_ordinary_work_comes_over(commands: Commands, work: str) -> None:
    line, left = WORK[work]
    (commands.root / "d").mkdir()
    for name, text in (("a", "a"), ("d/b", "b"), ("d/c", "c")):
        (commands.root / name).write_text(text)
    assert await run(commands, line) == ""
    assert tree(commands.root) == left
    assert not any(commands.layers.folder.iterdir())


@pytest.mark.parametrize("work", WORK)
async def test_undo_takes_back_what_a_command_did(tmp_path: Path, work: str) -> None:
    desk = await Desk.at(tmp_path.resolve())
    effects = CommandEffects(desk.files)
    commands = Commands(desk.root, effects=effects)
    (desk.root / "d").mkdir()
    for name, text in (("a", "a"), ("d/b", "b"), ("d/c", "c")):
        (desk.root / name).write_text(text)
    before, around = tree(desk.root), context(desk.bench(), untrusted=False)
    line, left = WORK[work]
    await commands.run(line, around)
    assert tree(desk.root) == left
    author = ChangeAuthor("s", "undoing", "", Label.TRUSTED, undoes=around.turn.id)
    results = await undo_turn(desk.files, around.turn.id, author)
    if work == "a folder for a file":  # the folder stays, and that is said
        assert [one.words for one in results if not one.done] == [
            "this is a directory; use list_dir"
        ]
        return
    assert all(one.done for one in results), results
    links = {path for path in left if left[path].startswith("->")}
    assert {path: text for path, text in tree(desk.root).items() if path not in links} == before
    again = replace(author, turn="again", undoes="undoing")
    if work != "a file for a folder":
        await undo_turn(desk.files, "undoing", again)
        assert tree(desk.root) == left


async def test_modes_of_programs_come_over_and_no_other_users_rights(commands: Commands) -> None:
    (commands.root / "run").write_text("x")
    (commands.root / "run").chmod(0o644)
    await run(commands, "chmod +x run; echo 1 > key; chmod 600 key; echo 1 > all; chmod 777 all")
    modes = [stat.S_IMODE((commands.root / one).stat().st_mode) for one in ("run", "key", "all")]
    assert modes == [0o755, 0o600, 0o755]


async def test_nothing_is_in_the_workspace_before_the_command_has_ended(commands: Commands) -> None:
    (commands.root / "gate").touch()
    line = "echo half > a; until cat gate | grep -q go; do sleep 0.02; done; echo whole > a"
    running = asyncio.create_task(run(commands, line))
    await asyncio.sleep(0.3)
    assert not (commands.root / "a").exists()
    if commands.layers.obstacle:  # a copy sees nothing of what comes later
        running.cancel()
        await asyncio.wait([running])
        return
    (commands.root / "gate").write_text("go")
    await running
    assert (commands.root / "a").read_text() == "whole\n"


MEANWHILE: dict[str, tuple[str, Callable[[Path], object], dict[str, str]]] = {
    "both wrote": ("echo theirs > a", lambda at: (at / "a").write_text("mine"), {"a": "mine"}),
    "it deleted": ("rm a", lambda at: (at / "a").write_text("mine"), {"a": "mine"}),
    "both made": ("echo theirs > n", lambda at: (at / "n").write_text("mine"), {"a": "a", "n": "mine"}),
    "another file": ("echo 1 > n", lambda at: (at / "a").write_text("mine"), {"a": "mine", "n": "1\n"}),
}  # fmt: skip


@pytest.mark.parametrize("case", MEANWHILE)
async def test_what_the_owner_changed_meanwhile_stays_and_the_commands_own_is_kept(
    commands: Commands, case: str
) -> None:
    line, change, left = MEANWHILE[case]
    (commands.root / "a").write_text("a")
    async with commands.layers.open("one") as layer:
        target = {"echo theirs > a": "a", "echo theirs > n": "n", "echo 1 > n": "n"}.get(line)
        await asyncio.sleep(0.02)
        change(commands.root)
        if target:
            (layer.upper / target).write_text(line.split()[1] + "\n")
        elif layer.kind == "copy":
            (layer.upper / "a").unlink()
        else:
            os.mknod(layer.upper / "a", stat.S_IFCHR, 0)
        said = Merge.read(layer, commands.quarantine / "kept").apply()
    assert tree(commands.root) == left
    # Of a copy, nobody knows whether a file was deleted there or is new in the workspace.
    is_told = case != "another file" and (case != "it deleted" or not commands.layers.obstacle)
    assert ("meanwhile" in said) == is_told
    kept = commands.quarantine / "kept"
    assert [one.read_text() for one in kept.rglob("*") if one.is_file()] == (
        ["theirs\n"] if case.startswith("both") else []
    )


HELD: dict[str, tuple[str, str]] = {
    "a link that leads out": ("ln -s /etc/passwd l", "l"),
    "a link above the workspace": ("mkdir d; ln -s ../../x d/l", "d/l"),
    "a link on a winding way": ("mkdir d; ln -s d/../../x l", "l"),
    "a name that is no UTF-8": ("echo 1 > $'\\xff'", "\udcff"),
    "a start-up file": ("echo 1 > .envrc", ".envrc"),
    "a repository in plain sight": ("git init -q --bare r", "r/HEAD"),
    "a repository that is the workspace": ("git init -q --bare .", "HEAD"),
    "a pointer to a repository": ("mkdir s; echo 'gitdir: /tmp/x' > s/.git", "s/.git"),
    "what Python compiled beside its source": ("mkdir p; echo 1 > p/a.pyc", "p/a.pyc"),
}


@pytest.mark.parametrize("case", HELD)
async def test_what_could_run_later_or_leads_out_waits_and_later_commands_see_it(
    commands: Commands, case: str
) -> None:
    line, path = HELD[case]
    note = await run(commands, line)
    assert "nothing is lost" in note
    assert not os.path.lexists(commands.root / path)
    assert os.path.lexists(commands.quarantine / "held" / path)
    name = path if path.isascii() else f"$'\\x{path.encode(errors='surrogateescape').hex()}'"
    await run(commands, f"ls -d {name}; rm {name}")
    assert not os.path.lexists(commands.quarantine / "held" / path)


async def test_what_is_no_file_does_not_come_over(commands: Commands) -> None:
    note = await run(commands, "mkfifo pipe; echo 1 > a")
    assert "pipe is no plain file" in note
    assert tree(commands.root) == {"a": "1\n"}


async def test_a_workspace_that_is_too_large_to_copy_is_read_only_but_for_out(
    tmp_path: Path,
) -> None:
    root = tmp_path.resolve() / "workspace"
    root.mkdir()
    for number in range(2001):
        (root / f"f{number}").touch()
    for kind in ("bubblewrap", "landlock"):
        commands = Commands(root, kind, obstacle=NO_OVERLAY)
        _, _, note = await commands.run("echo 1 > f1; echo $?; echo 2 > $OUT/made", around())
        assert (root / "f1").read_text() == "" and (root / "out/made").read_text() == "2\n"
        assert "read-only for commands" in note and NO_OVERLAY in note
        (root / "out/made").unlink()
    bare = Commands(root, "none", obstacle=NO_OVERLAY)
    with pytest.raises(ToolError, match="too large"):
        await bare.run("echo 1", around())


async def test_a_layer_is_read_by_nobody_else(commands: Commands) -> None:
    async with commands.layers.open("one") as layer:
        assert stat.S_IMODE(layer.place.stat().st_mode) == 0o700


async def test_a_probe_says_why_there_is_no_overlay(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "workspace"
    root.mkdir()
    good = await Sandbox.open(root, tmp_path / "q", tmp_path / "layers")
    assert good.layers and good.layers.obstacle == ""
    inside = await Sandbox.open(root, tmp_path / "q", root / "layers")
    assert inside.layers and "in the workspace" in inside.layers.obstacle
    bare = await Sandbox(root, "landlock").probe_layers(Layers(root, tmp_path, tmp_path / "held"))
    assert "bubblewrap" in bare.obstacle
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("moved", range(6))
async def test_a_merge_that_a_kill_cut_goes_on_at_the_next_start(
    tmp_path: Path, moved: int
) -> None:
    """Each file is the old one or the new one; nothing comes twice, nothing is lost."""
    desk = await Desk.at(tmp_path.resolve())
    (desk.root / "old").write_text("old")
    (desk.root / "gone").write_text("gone")
    commands = Commands(desk.root)
    async with commands.layers.open("killed") as layer:
        layer.note.write_bytes(ORIGIN.dump_json(CommandOrigin("t", "s", "c", trusted=False, clean=False)))
        for name in ("a", "old", ".envrc"):
            (layer.upper / name).write_text("new")
        os.mknod(layer.upper / "gone", stat.S_IFCHR, 0)
    merge = Merge.read(layer, commands.quarantine / "kept")
    for step in merge.steps[:moved]:  # the kill
        Merge(layer, [step], merge.aside).apply()
    again = await desk.again()
    effects = CommandEffects(again.files)
    said = await merge_left(commands.sandbox, effects)
    assert tree(desk.root) == {"a": "new", "old": "new"}
    assert tree(commands.quarantine / "held") == {".envrc": "new"}
    assert not any(commands.layers.folder.iterdir())
    assert bool(said) == (moved <= [step.change.path for step in merge.steps].index(".envrc"))
    for name in {"a", "old"} - {step.change.path for step in merge.steps[:moved]}:
        assert await again.files.labels.label_of(name) is Label.UNTRUSTED
    assert await merge_left(commands.sandbox, effects) == []


def of_others(session: str, role: str = "editor") -> ToolContext:
    """A call in a turn of somebody who is not the owner."""
    bench = Bench([])
    said = bench.turn.events[0].event
    assert isinstance(said, UserSaid)
    turn = Turn("t2", session, bench.journal)
    turn.record(replace(said, role=role), NOON)
    return replace(around(), session_id=session, turn=turn)


async def test_what_others_left_lies_over_their_own_commands_alone(tmp_path: Path) -> None:
    desk = await Desk.at(tmp_path.resolve())
    effects = CommandEffects(desk.files)
    commands = Commands(desk.root, effects=effects)
    lay = "mkdir -p .venv/bin; echo 'echo {}' > .venv/bin/tool"
    ann, ben = of_others("slack:ann"), of_others("slack:ben")
    _, _, note = await commands.run(lay.format("of ann"), ann)
    assert ".venv/bin/tool" in note and not (desk.root / ".venv/bin").exists()
    look = "cat .venv/bin/tool 2>&1 || true"
    for context_, shown in ((ann, "of ann"), (ben, "No such file"), (around(), "No such file")):
        ran, _, _ = await commands.run(look, context_)
        assert shown in ran.output
    await commands.run(lay.format("of the owner"), around())
    for context_, shown in ((ann, "of ann"), (ben, "No such file"), (around(), "of the owner")):
        ran, _, _ = await commands.run(look, context_)
        assert shown in ran.output


async def test_a_yes_is_bound_to_what_waits_at_one_path_in_each_folder(tmp_path: Path) -> None:
    desk = await Desk.at(tmp_path.resolve())
    effects = CommandEffects(desk.files, HeldFiles(tmp_path / "quarantine"))
    binder = CommandBinder(effects, tmp_path, "shell", lambda arguments: False)
    places = [effects.held.find(others) / ".envrc" for others in ("", "slack:ann")]
    for place in places:
        place.parent.mkdir(parents=True)
        place.write_text("one")
    keys = [(await binder.look({"command": "make"}, NOON)).key]
    for place in places:
        place.write_text("two")
        keys.append((await binder.look({"command": "make"}, NOON)).key)
    assert len({*keys}) == 3


async def test_what_others_left_is_held_apart_after_a_kill_too(tmp_path: Path) -> None:
    desk = await Desk.at(tmp_path.resolve())
    effects = CommandEffects(desk.files)
    commands = Commands(desk.root, effects=effects)
    place = effects.held.find("slack:ann")
    async with commands.layers.open("killed", place) as layer:
        layer.note.write_bytes(ORIGIN.dump_json(CommandOrigin("t", "s", "c", trusted=False, clean=False)))
        (layer.upper / ".envrc").write_text("new")
    again = await desk.again()
    effects = CommandEffects(again.files, effects.held)
    assert await merge_left(commands.sandbox, effects)
    assert tree(place) == {".envrc": "new"} and not effects.held.find().exists()
    told = "\n".join(describe_held(effects.held))
    assert ".envrc" in told and str(place) in told and "of others" in told
    assert bring_first(effects.held, desk.root, ".envrc") == [".envrc"]
    assert (desk.root / ".envrc").read_text() == "new" and describe_held(effects.held) == []


def system(*words: str) -> bool:
    """A program of the system succeeds."""
    return subprocess.run(words, check=False, capture_output=True).returncode == 0


async def test_with_a_full_disk_nothing_of_a_command_is_lost(tmp_path: Path) -> None:
    """The workspace is on a small disk of its own: what does not fit comes over at the next start."""
    root = tmp_path.resolve() / "workspace"
    root.mkdir()
    if not system("mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(root)):
        pytest.skip("only root may mount a small disk")
    try:
        commands = Commands(root, quarantine=root / ".." / "small")
        (root.parent / "small").symlink_to(root)  # what is kept does not fit either
        line = "head -c 200000 /dev/zero > a; head -c 200000 /dev/zero > b"
        note = await run(commands, line)
        assert "No space left" in note and "Nothing is lost" in note
        assert system("mount", "-o", "remount,size=9m", str(root))
        desk = await Desk.at(tmp_path.resolve())
        assert await merge_left(commands.sandbox, CommandEffects(desk.files)) == []
        assert [(root / one).stat().st_size for one in ("a", "b")] == [200000, 200000]
    finally:
        system("umount", "-l", str(root))


async def test_what_cannot_stand_in_its_place_is_kept(commands: Commands) -> None:
    async with commands.layers.open("one") as layer:
        (layer.upper / "d").mkdir()
        (layer.upper / "d/x").write_text("theirs")
        (commands.root / "d").write_text("a file of the owner's")
        said = Merge.read(layer, commands.quarantine / "kept").apply()
    assert tree(commands.root) == {"d": "a file of the owner's"}
    assert tree(commands.quarantine / "kept") == {"d/x": "theirs"} and "d" in said
