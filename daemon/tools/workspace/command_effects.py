"""What a command did: files that it wrote or moved get the label of what they may hold (F3).

Nobody knows what a command reads. So while any file of the workspace is untrusted, its output is,
and so is what it changed.
"""

import asyncio
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from daemon.core import value
from daemon.core.rows import FileLabel, LabelScope, RunningCommand
from daemon.core.trust import Label
from daemon.tools.base import ToolContext
from daemon.tools.workspace.file_store import FileLabels, FileStore

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
        if not (self.files.labels.by_folded or context.untrusted_source):
            return CommandStart(name, at, began, None)
        entries, _ = await self._scan()
        folders = {entry.inode: entry.path for entry in entries if entry.folder}
        row = RunningCommand(name, at, context.turn.id)
        await self.files.store.write(lambda tx: tx.add_running_command(row))
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
        untrusted = context.untrusted_source or label is Label.UNTRUSTED or labels.by_folded
        ended = [began.name] if began.folders is not None and final else []
        if not untrusted:
            await labels.save([], ended)
            return label
        # A clock that was set back meanwhile hides nothing.
        reckoned = self.wall_ns() - int((self.monotonic() - began.monotonic) * 1e9)
        since = reckoned if reckoned < began.at_ns - TICK_NS else began.at_ns
        snapshot = await self._scan()
        async with self.files.lock:
            changes = label_changes(snapshot, since, began.folders, labels, context.turn.id)
            await labels.save([*changes], ended)
            entries, unreadable = snapshot
            if not unreadable:
                gone = {one.path for one in labels.entries} - {entry.path for entry in entries}
                await labels.remove(one for one in gone if not self.files.workspace.stat(one))
        return Label.UNTRUSTED

    async def recover(self) -> None:
        """Label what commands did whose end an earlier daemon did not see."""
        labels = self.files.labels
        rows = await self.files.store.read(lambda tx: tx.list_running_commands())
        if rows:
            snapshot = await self._scan()
            changes = [
                change
                for row in rows
                for change in label_changes(snapshot, row.at_ns, None, labels, row.turn)
            ]
            await labels.save(changes, [row.name for row in rows])

    async def _scan(self) -> Snapshot:
        return await asyncio.to_thread(scan, self.files.workspace.root, self.max_entries)


def label_changes(
    snapshot: Snapshot,
    since_ns: int,
    folders: Folders | None,
    labels: FileLabels,
    turn: str,
) -> Iterator[FileLabel]:
    """The labels that a command leaves, given what is there now and where folders were before.

    Files with a new stamp are labelled, and names of new folders. A moved folder takes the labels
    in it along: the stamps of files in it do not tell. Where nobody knows what was moved, and
    something is untrusted, everything in a changed folder counts.
    """
    entries, unreadable = snapshot
    trees = [*unreadable]
    for entry in entries:
        path, changed = entry.path, entry.changed_ns >= since_ns
        if not entry.folder:
            if changed:
                yield FileLabel(path, Label.UNTRUSTED, turn)
        elif folders is None:
            if changed and labels.by_folded:
                trees.append(path)
            elif changed:
                yield from labels.label_new_names([path], turn)
        elif (former := folders.get(entry.inode)) != path:
            yield from labels.label_new_names([path], turn)
            if former:
                for one in labels.entries:
                    inside = one.path == former or one.path.startswith(f"{former}/")
                    if inside and one.label is Label.UNTRUSTED:
                        yield replace(one, path=path + one.path.removeprefix(former))
                if labels.find_folder_label(former) is Label.UNTRUSTED:
                    trees.append(path)
    for place in trees:
        yield FileLabel(place, Label.UNTRUSTED, turn, LabelScope.TREE)


def scan(root: Path, max_entries: int = MAX_ENTRIES) -> Snapshot:
    """Everything in the workspace, without following links; "" for too much. In a thread."""
    found: list[ScannedEntry] = []
    unreadable: list[str] = []
    folders = [""]
    for place in folders:
        try:
            with os.scandir(root / place) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        info = entry.stat(follow_symlinks=False)
                        path = f"{place}/{entry.name}" if place else entry.name
                        inode, is_folder = (info.st_dev, info.st_ino), stat.S_ISDIR(info.st_mode)
                        found.append(ScannedEntry(path, is_folder, inode, info.st_ctime_ns))
                        folders += [path] * is_folder
        except FileNotFoundError:
            continue
        except OSError:
            unreadable.append(place)
        if len(found) > max_entries:
            return found, [""]
    return found, unreadable
