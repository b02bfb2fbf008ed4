"""What must hold of MCP servers, files and the config, at the end and at each kill (A20, A22, F3, F8; B5)."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from asyncio import Event, get_running_loop, timeout
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from daemon.core.clock import SystemClock
from daemon.core.events import Outcome, ToolFinished, ToolStarted
from daemon.core.rows import FileVersion
from daemon.core.trust import Label
from daemon.store.sqlite import SqliteStore
from daemon.tools.workspace.file_store import (
    NO_FILE,
    ChangeAuthor,
    FileStore,
    hash_content,
)
from daemon.tools.workspace.fs import Workspace
from daemon.tools.workspace.undo import UndoResult, find_latest_turn, undo_turn
from tests.e2e.crash.life import FIRST
from tests.e2e.crash.model import LIMIT
from tests.e2e.crash.moments import Notebook
from tests.e2e.crash.remains import Remains

SOON_S = 10.0
SERVED = "desk__"
HAPPENED = {
    Outcome.OK: (1,),
    Outcome.UNKNOWN: (0, 1),
    Outcome.ERROR: (0, 1),
    Outcome.NOT_RUN: (0,),
    Outcome.REJECTED: (0,),
}


def servers_execute_at_most_once(it: Remains) -> Iterator[str]:
    """What the server says it did, each thing once, with a start that was written down before; and what was told of it (A22)."""
    lines = [line for line in it.outside.server.lines() if "tool" in line]
    done = Counter(_step(line["arguments"]) for line in lines)
    yield from (f"the server did {what} {n} times" for what, n in done.items() if n > 1)
    asked: set[str] = set()
    for turn in it.turns:
        started = Counter(one.call_id for one in it.of(turn, ToolStarted))
        results = {one.call_id: one.outcome for one in it.of(turn, ToolFinished)}
        for call_id, call in it.calls(turn).items():
            if call.name.startswith(SERVED):
                what, outcome = _step(json.loads(call.arguments)), results[call_id]
                asked.add(what)
                if done[what] not in HAPPENED[outcome] or done[what] > started[call_id]:
                    yield f"the server did {what} {done[what]} times, with {started[call_id]} starts, told was {outcome}"
    yield from (
        f"the server did {what}, which nobody asked for" for what in done if what not in asked
    )


def _step(arguments: object) -> str:
    assert isinstance(arguments, dict)
    return str(arguments["text"])


def servers_are_started_again(it: Remains) -> Iterator[str]:
    """Each daemon has one of its own (A22)."""
    starts = Counter(str(line["for"]) for line in it.outside.server.lines() if "started" in line)
    if starts and starts[str(it.last)] != 1:
        yield f"the last daemon, {it.last}, had {starts[str(it.last)]} servers"
    yield from (f"the daemon {pid} had {n} servers" for pid, n in starts.items() if n > 1)


async def servers_are_gone(folder: Path, within_s: float = SOON_S) -> list[str]:
    """None outlives its daemon for long."""
    log = folder / "desk.jsonl"
    started = [int(line["started"]) for line in Notebook(log).lines() if "started" in line]
    with suppress(TimeoutError):
        async with timeout(within_s):
            for pid in started:
                await _over(pid, str(log))
    left = [pid for pid in started if _lives(pid, str(log))]
    return [f"the servers {left} are still there"] if left else []


async def _over(pid: int, log: str) -> None:
    """Wait for the end of a process that is nobody's child here."""
    with suppress(ProcessLookupError):
        handle, over = os.pidfd_open(pid), Event()
        get_running_loop().add_reader(handle, over.set)
        try:
            if _lives(pid, log):
                await over.wait()
        finally:
            get_running_loop().remove_reader(handle)
            os.close(handle)


def _lives(pid: int, log: str) -> bool:
    try:
        return log.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def files_hold_old_or_new(folder: Path, it: Remains) -> Iterator[str]:
    """What stands there is what the last change that is told of found, or what it put there; one follows from the other (F8)."""
    versions, root = _versions(it), folder / "home" / "workspace"
    paths = {one.path for one in versions} | {
        str(file.relative_to(root))
        for file in root.rglob("*")
        if file.is_file() and ".git" not in file.parts
    }
    ended = {
        (turn, one.call_id)
        for turn in it.turns
        for one in it.of(turn, ToolFinished)
        if one.outcome is Outcome.OK
    }
    for path in paths:
        changes = [one for one in versions if one.path == path]
        found = [one.old for one in changes[1:]] + [_hash(root / path)]
        for change, after in zip(changes, found, strict=False):
            sure = (change.turn, change.call_id) in ended
            if after != change.new and (sure or after != change.old):
                yield f"{path}: {'old' if after == change.old else 'neither old nor new'} after {change}"
        if not changes and path:
            yield f"{path}: nobody tells where it came from"
    hidden = (file for file in root.glob(".*") if file.name != ".git")
    yield from (f"{file.name} was left in the workspace" for file in hidden)


def former_versions_are_there(folder: Path, it: Remains) -> Iterator[str]:
    """Whatever /undo may have to put back (F8)."""
    for one in _versions(it):
        if one.old != NO_FILE and _hash(folder / "home" / "undo" / one.old) != one.old:
            yield f"{one.path}: what it held before turn {one.turn} is lost"


def outside_text_keeps_its_mark(folder: Path, it: Remains) -> Iterator[str]:
    """What a turn wrote that had heard a stranger is never taken for the owner's own (F3)."""
    marked = {mark.path for mark in it.file_labels if mark.label is Label.UNTRUSTED}
    root = folder / "home" / "workspace"
    for file in root.rglob("*.txt"):
        if _from_outside(it, file.read_text()) and str(file.relative_to(root)) not in marked:
            yield f"{file.name} holds text from outside, and has no mark"
    for turn in it.turns:
        for one in it.of(turn, ToolFinished):
            if (
                one.tool == "read_file"
                and _from_outside(it, one.text)
                and one.label is not Label.UNTRUSTED
            ):
                yield f"turn {turn} read text from outside, and took it for {one.label}"


def _from_outside(it: Remains, text: str) -> bool:
    heard = [one.client for messages in it.plan.values() for one in messages if " hear" in one.text]
    return any(re.search(rf"\b{name}\.", text) for name in heard)


def the_config_is_whole(folder: Path, it: Remains) -> Iterator[str]:
    """The file, and what it was before: each as it was at first, but for the one key that was set (A20)."""
    first = tomllib.loads((folder / FIRST / "config.toml").read_text())
    section, _, key = LIMIT.partition(".")
    start = first[section].pop(key, None)
    values = _may_be(it, start)
    if not (folder / "home" / "config.toml").exists():
        yield "config.toml is gone"
    for file in (folder / "home").glob("config.toml*"):
        try:
            now = tomllib.loads(file.read_text())
            value = now[section].pop(key, None)
        except (tomllib.TOMLDecodeError, KeyError) as error:
            yield f"{file.name} is broken: {error}"
            continue
        if now != first or value not in {start, *(value for value, _ in _sets(it))}:
            yield f"{file.name} is neither old nor new: {file.read_text()!r}"
        if file.name == "config.toml" and value not in values:
            yield f"config.toml says {value}, and was told to say {values}"


def _sets(it: Remains) -> Iterator[tuple[int, Outcome | None]]:
    for turn in it.turns:
        results = {one.call_id: one.outcome for one in it.of(turn, ToolFinished)}
        for call_id, call in it.calls(turn).items():
            if call.name == "config_set":
                yield json.loads(call.arguments)["value"], results.get(call_id)


def _may_be(it: Remains, start: int | None) -> set[int | None]:
    """What can stand in the file: the last that was told to be there, or what was cut off after it."""
    values: set[int | None] = {start}
    for value, outcome in _sets(it):
        if outcome is Outcome.OK:
            values = {value}
        elif outcome in (None, Outcome.UNKNOWN):
            values.add(value)
    return values


AT_ANY_TIME = (
    files_hold_old_or_new,
    former_versions_are_there,
    outside_text_keeps_its_mark,
    the_config_is_whole,
)


def on_disk(folder: Path, it: Remains) -> list[str]:
    """What does not hold of the files of this place, at a kill or at the end; `it` is what the journal says at that time."""
    return [fault for check in AT_ANY_TIME for fault in check(folder, it)]


def _at_the_end(it: Remains) -> Iterator[str]:
    yield from on_disk(it.outside.folder, it)
    known = {one.old for one in _versions(it)}
    left = [
        file.name
        for file in (it.outside.folder / "home" / "undo").glob("*")
        if file.name not in known and not file.name.startswith("bound-")  # see bound_files.py
    ]
    yield from (f"{name} was left among the former versions" for name in left)
    layers = it.outside.folder / "home" / "layers"
    yield from (f"the layer {one.name} was left" for one in layers.glob("*"))
    yield from _repositories_are_whole(it.outside.folder / "home" / "workspace", it)
    yield from _commands_come_over_whole(it.outside.folder / "home" / "workspace", it)


def _commands_come_over_whole(root: Path, it: Remains) -> Iterator[str]:
    """Of what the last command changed, all or nothing is there (F8)."""
    versions = _versions(it)
    calls = {
        f"{turn}/{call}"
        for turn in it.turns
        for call, one in it.calls(turn).items()
        if one.name == "shell"
    }
    last = [one for one in versions if f"{one.turn}/{one.call_id}" in calls][-1:]
    changed = [
        one
        for one in versions
        if last and (one.turn, one.call_id) == (last[0].turn, last[0].call_id)
    ]
    if len({_hash(root / one.path) == one.new for one in changed}) > 1:
        yield f"half of the command of turn {last[0].turn} came over: {changed}"


def _repositories_are_whole(root: Path, it: Remains) -> Iterator[str]:
    """And hold what a command committed that is told of as done (F8)."""
    git = ("git", "-c", "safe.directory=*", "-C", str(root))
    if not (root / ".git").is_dir():
        return
    checked = subprocess.run([*git, "fsck", "--full"], capture_output=True, text=True, check=False)
    if checked.returncode or "missing" in checked.stdout:
        yield f"the repository is damaged: {checked.stdout}{checked.stderr}"
    log = subprocess.run(
        [*git, "log", "--format=%s"], capture_output=True, text=True, check=False
    ).stdout
    for turn in it.turns:
        results = {one.call_id: one.outcome for one in it.of(turn, ToolFinished)}
        for call_id, call in it.calls(turn).items():
            what = json.loads(call.arguments).get("_step", "")
            if call.name == "shell" and "commit" in what and results[call_id] is Outcome.OK:
                yield from [f"the commit {what} is lost"] * (what not in log)


OF_TOOLS = (servers_execute_at_most_once, servers_are_started_again, _at_the_end)


async def undo_is_usable(it: Remains) -> list[str]:
    """On a copy: the owner takes everything back, turn by turn, until there is nothing left to take back; and nothing is (F8)."""
    if not _versions(it):
        return []
    home = it.outside.folder / f"back-{uuid4().hex[:8]}"
    shutil.copytree(it.outside.folder / "home", home, ignore=shutil.ignore_patterns("mcp"))
    store = await SqliteStore.open(home / "journal.db")
    try:
        files = await FileStore.open(
            Workspace(home.resolve() / "workspace"), home / "undo", store, SystemClock().now
        )
        taken = [one async for one in _taken_back(files)]
    finally:
        await store.aclose()
    refused = [f"/undo of {one.path}: {one.words}" for one in taken if not one.done]
    return refused + [
        f"/undo left {file.name}"
        for file in (home / "workspace").rglob("*")
        if file.is_file() and ".git" not in file.parts and not refused
    ]


async def _taken_back(files: FileStore) -> AsyncIterator[UndoResult]:
    while turn := find_latest_turn([*files.versions.values()]):
        taken = await undo_turn(
            files, turn, ChangeAuthor("owner", uuid4().hex, "", Label.TRUSTED, undoes=turn)
        )
        for one in taken:
            yield one
        if not all(one.done for one in taken):
            return


def _versions(it: Remains) -> list[FileVersion]:
    return it.file_versions


def _hash(file: Path) -> str:
    return hash_content(file.read_bytes() if file.exists() else None)
