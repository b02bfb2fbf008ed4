"""What a command left behind: files that it wrote, moved or copied get the label of what they may hold now (F3).

A command is not asked what it reads. So while any file of the workspace is untrusted, its output is, and so is what it changed.
"""

import asyncio
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from daemon.core import value
from daemon.core.journal import Tx
from daemon.core.rows import RunningCommand
from daemon.core.trust import Label
from daemon.tools.base import ToolContext
from daemon.tools.workspace.file_store import FileStore
from daemon.tools.workspace.labels import FileLabel, FileLabels, LabelScope

MAX_ENTRIES = 200_000
CLOCK_REALTIME_COARSE = 5
TICK_NS = 20_000_000
Folders = Mapping[tuple[int, int], str]


@value
class ScannedEntry:
    """A thing in the workspace. `changed_ns`: when it was last written, renamed or made, by the machine's clock."""

    path: str
    folder: bool
    device: int
    number: int
    changed_ns: int


@value
class WorkspaceSnapshot:
    """All that is in a workspace; `dark` are folders that could not be looked into, "" when there was too much to look at."""

    entries: list[ScannedEntry] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    @property
    def folders(self) -> Folders:
        """Where each folder is."""
        return {(entry.device, entry.number): entry.path for entry in self.entries if entry.folder}


@value
class CommandStart:
    """Before a command. `folders` is None where nobody looked: then nothing was marked, and the command was trusted."""

    name: str
    at_ns: int
    monotonic: float
    folders: Folders | None
    has_row: bool


def file_clock_ns() -> int:
    """The clock that files are stamped by, as coarse as it is there."""
    return (
        time.clock_gettime_ns(CLOCK_REALTIME_COARSE)
        if os.uname().sysname == "Linux"
        else time.time_ns() - 1_000_000_000
    )


@dataclass(slots=True)
class CommandEffects:
    """Looks before a command and after it. A daemon that is killed in between looks at its next start."""

    files: FileStore
    monotonic: Callable[[], float]
    wall_ns: Callable[[], int] = file_clock_ns
    max_entries: int = MAX_ENTRIES
    _count: int = 0

    async def start(self, context: ToolContext | None = None) -> CommandStart:
        """Before it starts. Raises StoreUnavailable."""
        self._count += 1
        name, at, stopwatch = f"{self.wall_ns()}-{self._count}", self.wall_ns(), self.monotonic()
        if not (self.files.labels.has_labels or context is None or context.untrusted_source):
            return CommandStart(name, at, stopwatch, None, has_row=False)
        sight = await asyncio.to_thread(scan, self.files.workspace.root, self.max_entries)
        row = RunningCommand(name, at, context.turn.id if context else "")
        await self.files.labels.store.write(lambda tx: tx.add_running_command(row))
        return CommandStart(name, at, stopwatch, sight.folders, has_row=True)

    async def finish(
        self,
        began: CommandStart,
        context: ToolContext,
        *,
        label: Label = Label.TRUSTED,
        final: bool = True,
    ) -> Label:
        """What its output may be trusted for; what it changed is marked. `label` is what it had from elsewhere, the network say;
        `final` is False while the command continues in the background. Raises StoreUnavailable.
        """
        marks, untrusted = self.files.labels, context.untrusted_source or label is Label.UNTRUSTED
        settled = [began.name] if began.has_row and final else []
        if not (untrusted or marks.has_labels):
            await self._save([], settled)
            return label
        since = first_change_ns(began.at_ns, self.wall_ns(), self.monotonic() - began.monotonic)
        sight = await asyncio.to_thread(scan, self.files.workspace.root, self.max_entries)
        await self._save(
            label_changes(sight, since, began.folders, marks, context.turn.id), settled
        )
        await self._remove_stale(sight)
        return Label.UNTRUSTED

    async def recover(self) -> None:
        """Look after the commands that a former daemon did not see the end of. Raises StoreUnavailable."""
        rows = await self.files.labels.store.read(lambda tx: tx.list_running_commands())
        if not rows:
            return
        sight = await asyncio.to_thread(scan, self.files.workspace.root, self.max_entries)
        marks = [
            mark
            for row in rows
            for mark in label_changes(sight, row.at_ns, None, self.files.labels, row.turn)
        ]
        await self._save(marks, [row.name for row in rows])

    async def _save(self, marks: Iterable[FileLabel], done: Iterable[str]) -> None:
        marks, done = list(marks), list(done)
        if not marks and not done:
            return

        def work(tx: Tx) -> None:
            tx.put_file_labels(marks)
            tx.remove_running_commands(done)

        await self.files.labels.store.write(work)
        self.files.labels.add_labels(marks)

    async def _remove_stale(self, sight: WorkspaceSnapshot) -> None:
        if not sight.unreadable:
            await self.files.labels.remove(
                self.files.labels.find_stale({entry.path for entry in sight.entries})
            )


def first_change_ns(began_ns: int, ended_ns: int, seconds: float) -> int:
    """From when on stamps count as new: from the beginning, by a clock that may have been set back meanwhile."""
    reckoned = ended_ns - int(seconds * 1e9)
    return reckoned if reckoned < began_ns - TICK_NS else began_ns


def label_changes(
    sight: WorkspaceSnapshot, since_ns: int, folders: Folders | None, marks: FileLabels, turn: str
) -> list[FileLabel]:
    """The marks that a command leaves, given what is there after it, and where the folders were before it.

    Files with a new stamp are marked, new folders' names too. A folder that was moved takes the marks in it along: the stamps of
    files in it do not tell. Where nobody knows what was moved, and something is marked, everything in a changed folder counts.
    """
    found: list[FileLabel] = []
    for entry in sight.entries:
        changed = entry.changed_ns >= since_ns
        if not entry.folder:
            found += [FileLabel(entry.path, Label.UNTRUSTED, turn)] if changed else []
        elif folders is None:
            found += _label_unknown(marks, entry.path, turn) if changed else []
        elif (former := folders.get((entry.device, entry.number))) != entry.path:
            found += marks.label_new_names([entry.path], turn)
            found += _label_moved(marks, former, entry.path, turn) if former else []
    return [*found, *(_label_tree(place, turn) for place in sight.unreadable)]


def _label_unknown(marks: FileLabels, place: str, turn: str) -> list[FileLabel]:
    return [_label_tree(place, turn)] if marks.has_labels else marks.label_new_names([place], turn)


def _label_moved(marks: FileLabels, former: str, now: str, turn: str) -> Iterator[FileLabel]:
    for mark in marks.entries:
        if mark.label is Label.UNTRUSTED and (
            mark.path == former or mark.path.startswith(f"{former}/")
        ):
            yield FileLabel(now + mark.path.removeprefix(former), mark.label, mark.turn, mark.scope)
    if marks.is_in_untrusted_folder(former):
        yield _label_tree(now, turn)


def _label_tree(place: str, turn: str) -> FileLabel:
    return FileLabel(place, Label.UNTRUSTED, turn, LabelScope.TREE)


def scan(root: Path, most: int = MAX_ENTRIES) -> WorkspaceSnapshot:
    """Everything in the workspace, without following links. In a thread."""
    sight, waiting = WorkspaceSnapshot(), [""]
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(root / place) as entries:
                here = [_scan_entry(place, entry) for entry in entries]
        except FileNotFoundError:
            continue
        except OSError:
            sight.unreadable.append(place)
            continue
        found = [entry for entry in here if entry]
        sight.entries.extend(found)
        waiting += [entry.path for entry in found if entry.folder]
        if len(sight.entries) > most:
            return WorkspaceSnapshot(sight.entries, [""])
    return sight


def _scan_entry(place: str, entry: "os.DirEntry[str]") -> ScannedEntry | None:
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    path = f"{place}/{entry.name}" if place else entry.name
    return ScannedEntry(
        path, stat.S_ISDIR(found.st_mode), found.st_dev, found.st_ino, found.st_ctime_ns
    )
