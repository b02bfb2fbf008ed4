"""What a command did: files that it wrote or moved get the label of what they may hold (F3).

Nobody knows what a command reads. So while any file of the workspace is untrusted, its output is,
and so is what it changed.
"""

import asyncio
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from daemon.core import value
from daemon.core.rows import FileLabel, LabelScope, RunningCommand
from daemon.core.trust import Label
from daemon.store.journal import Tx
from daemon.tools.base import ToolContext
from daemon.tools.workspace.file_store import FileStore
from daemon.tools.workspace.labels import FileLabels

MAX_ENTRIES = 200_000
CLOCK_REALTIME_COARSE = 5
TICK_NS = 20_000_000
Folders = Mapping[tuple[int, int], str]
Snapshot = tuple["list[ScannedEntry]", list[str]]  # all that is there, and unreadable folders


@value
class ScannedEntry:
    """`changed_ns`: when it was last written, renamed or made, by the machine's clock."""

    path: str
    folder: bool
    inode: tuple[int, int]
    changed_ns: int


@value
class CommandStart:
    """`folders` is None where nobody looked and the journal has no row: nothing was untrusted."""

    name: str
    at_ns: int
    monotonic: float
    folders: Folders | None


def file_clock_ns() -> int:
    """The clock that stamps files, as coarse as it is."""
    if os.uname().sysname == "Linux":
        return time.clock_gettime_ns(CLOCK_REALTIME_COARSE)
    return time.time_ns() - 1_000_000_000


@dataclass(slots=True)
class CommandEffects:
    """Looks before and after a command; after a kill in between, at the next start."""

    files: FileStore
    monotonic: Callable[[], float]
    wall_ns: Callable[[], int] = file_clock_ns
    max_entries: int = MAX_ENTRIES
    _count: int = 0

    async def start(self, context: ToolContext) -> CommandStart:
        """Before the command. Raises StoreUnavailable."""
        self._count += 1
        name, at, began = f"{self.wall_ns()}-{self._count}", self.wall_ns(), self.monotonic()
        if not (self.files.labels.has_labels or context.untrusted_source):
            return CommandStart(name, at, began, None)
        entries, _ = await self._scan()
        folders = {entry.inode: entry.path for entry in entries if entry.folder}
        row = RunningCommand(name, at, context.turn.id)
        await self.files.labels.store.write(lambda tx: tx.add_running_command(row))
        return CommandStart(name, at, began, folders)

    async def finish(
        self,
        began: CommandStart,
        context: ToolContext,
        *,
        label: Label = Label.TRUSTED,
        final: bool = True,
    ) -> Label:
        """Label what it changed; gives the label of its output. Raises StoreUnavailable.

        `label` is what the output has from elsewhere, such as the network; `final` is False while
        the command continues in the background.
        """
        labels = self.files.labels
        untrusted = context.untrusted_source or label is Label.UNTRUSTED or labels.has_labels
        settled = [began.name] if began.folders is not None and final else []
        if not untrusted:
            await self._save([], settled)
            return label
        # A clock that was set back meanwhile hides nothing.
        reckoned = self.wall_ns() - int((self.monotonic() - began.monotonic) * 1e9)
        since = reckoned if reckoned < began.at_ns - TICK_NS else began.at_ns
        snapshot = await self._scan()
        changes = label_changes(snapshot, since, began.folders, labels, context.turn.id)
        await self._save(changes, settled)
        entries, unreadable = snapshot
        if not unreadable:
            await labels.remove(labels.find_stale({entry.path for entry in entries}))
        return Label.UNTRUSTED

    async def recover(self) -> None:
        """Label what commands did whose end an earlier daemon did not see."""

        rows = await self.files.labels.store.read(lambda tx: tx.list_running_commands())
        if not rows:
            return
        snapshot, labels = await self._scan(), self.files.labels
        changes = [
            change
            for row in rows
            for change in label_changes(snapshot, row.at_ns, None, labels, row.turn)
        ]
        await self._save(changes, [row.name for row in rows])

    async def _scan(self) -> Snapshot:
        return await asyncio.to_thread(scan, self.files.workspace.root, self.max_entries)

    async def _save(self, changes: list[FileLabel], done: list[str]) -> None:
        if not changes and not done:
            return

        def record(tx: Tx) -> None:
            tx.put_file_labels(changes)
            tx.remove_running_commands(done)

        await self.files.labels.store.write(record)
        self.files.labels.add_labels(changes)


def label_changes(
    snapshot: Snapshot,
    since_ns: int,
    folders: Folders | None,
    labels: FileLabels,
    turn: str,
) -> list[FileLabel]:
    """The labels that a command leaves, given what is there now and where folders were before.

    Files with a new stamp are labelled, and names of new folders. A moved folder takes the labels
    in it along: the stamps of files in it do not tell. Where nobody knows what was moved, and
    something is untrusted, everything in a changed folder counts.
    """
    entries, unreadable = snapshot
    found: list[FileLabel] = []
    for entry in entries:
        path, changed = entry.path, entry.changed_ns >= since_ns
        if not entry.folder:
            found += [FileLabel(path, Label.UNTRUSTED, turn)] * changed
        elif folders is None and changed and labels.has_labels:
            found.append(_label_tree(path, turn))
        elif folders is None:
            found += labels.label_new_names([path], turn) if changed else []
        elif (former := folders.get(entry.inode)) != path:
            found += labels.label_new_names([path], turn)
            found += _label_moved(labels, former, path, turn) if former else []
    return [*found, *(_label_tree(place, turn) for place in unreadable)]


def _label_moved(labels: FileLabels, former: str, now: str, turn: str) -> Iterator[FileLabel]:
    for one in labels.entries:
        inside = one.path == former or one.path.startswith(f"{former}/")
        if inside and one.label is Label.UNTRUSTED:
            yield replace(one, path=now + one.path.removeprefix(former))
    if labels.find_folder_label(former) is Label.UNTRUSTED:
        yield _label_tree(now, turn)


def _label_tree(place: str, turn: str) -> FileLabel:
    return FileLabel(place, Label.UNTRUSTED, turn, LabelScope.TREE)


def scan(root: Path, max_entries: int = MAX_ENTRIES) -> Snapshot:
    """Everything in the workspace, without following links; "" for too much. In a thread."""
    found: list[ScannedEntry] = []
    unreadable: list[str] = []
    waiting = [""]
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(root / place) as entries:
                here = [*_read_entries(place, entries)]
        except FileNotFoundError:
            continue
        except OSError:
            unreadable.append(place)
            continue
        found += here
        waiting += [entry.path for entry in here if entry.folder]
        if len(found) > max_entries:
            return found, [""]
    return found, unreadable


def _read_entries(place: str, entries: "Iterable[os.DirEntry[str]]") -> Iterator[ScannedEntry]:
    for entry in entries:
        with suppress(FileNotFoundError):
            found = entry.stat(follow_symlinks=False)
            path = f"{place}/{entry.name}" if place else entry.name
            inode = (found.st_dev, found.st_ino)
            yield ScannedEntry(path, stat.S_ISDIR(found.st_mode), inode, found.st_ctime_ns)
