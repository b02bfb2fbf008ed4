"""What a command left behind: files that it wrote, moved or copied get the label of what they may hold now (F3).

A command is not asked what it reads. So while any file of the workspace is untrusted, its output is, and so is what it changed.
"""

import asyncio
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from json import dumps, loads
from pathlib import Path

from daemon.core.label import Label
from daemon.tools.base import ToolContext
from daemon.tools.changes import Files
from daemon.tools.keeping import Looking, Noting
from daemon.tools.marks import Mark, Marks, Scope

KIND = "command"
MOST_ENTRIES = 200_000
COARSE = 5
TICK_NS = 20_000_000
Folders = Mapping[tuple[int, int], str]


@dataclass(frozen=True, slots=True)
class Entry:
    """A thing in the workspace. `changed_ns`: when it was last written, renamed or made, by the machine's clock."""

    path: str
    folder: bool
    device: int
    number: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class Sight:
    """All that is in a workspace; `dark` are folders that could not be looked into, "" when there was too much to look at."""

    entries: list[Entry] = field(default_factory=list)
    dark: list[str] = field(default_factory=list)

    @property
    def folders(self) -> Folders:
        """Where each folder is."""
        return {(entry.device, entry.number): entry.path for entry in self.entries if entry.folder}


@dataclass(frozen=True, slots=True)
class Moment:
    """Before a command. `folders` is None where nobody looked: then nothing was marked, and the command was trusted."""

    name: str
    at_ns: int
    stopwatch: float
    folders: Folders | None
    noted: bool


def machine_ns() -> int:
    """The clock that files are stamped by, as coarse as it is there."""
    return time.clock_gettime_ns(COARSE) if os.uname().sysname == "Linux" else time.time_ns() - 1_000_000_000


@dataclass(slots=True)
class Traces:
    """Looks before a command and after it. A daemon that is killed in between looks at its next start."""

    files: Files
    stopwatch: Callable[[], float]
    wall_ns: Callable[[], int] = machine_ns
    most: int = MOST_ENTRIES
    _count: int = 0

    async def began(self, context: ToolContext | None = None) -> Moment:
        """Before it starts. Raises StoreUnavailable."""
        self._count += 1
        name, at, stopwatch = f"{self.wall_ns()}-{self._count}", self.wall_ns(), self.stopwatch()
        if not (self.files.marks.any or context is None or context.untrusted_source):
            return Moment(name, at, stopwatch, None, noted=False)
        sight = await asyncio.to_thread(look, self.files.workspace.root, self.most)
        row = dumps({"at_ns": at, "turn": context.turn.id if context else ""})
        await self.files.marks.keeping.write(lambda tx: tx.keep(KIND, name, row))
        return Moment(name, at, stopwatch, sight.folders, noted=True)

    async def ended(
        self, began: object, context: ToolContext, *, label: Label = Label.TRUSTED, over: bool = True
    ) -> Label:
        """What its output may be trusted for; what it changed is marked. `label` is what it had from elsewhere, the network say;
        `over` is False for one that goes on in the background. Raises StoreUnavailable.
        """
        if not isinstance(began, Moment):
            raise TypeError("ended is given what began gave")
        marks, untrusted = self.files.marks, context.untrusted_source or label is Label.UNTRUSTED
        settled = [began.name] if began.noted and over else []
        if not (untrusted or marks.any):
            await self._settle([], settled)
            return label
        since = earliest(began.at_ns, self.wall_ns(), self.stopwatch() - began.stopwatch)
        sight = await asyncio.to_thread(look, self.files.workspace.root, self.most)
        await self._settle(traces(sight, since, began.folders, marks, context.turn.id), settled)
        await self._forget(sight)
        return Label.UNTRUSTED

    async def recover(self) -> None:
        """Look after the commands that a former daemon did not see the end of. Raises StoreUnavailable."""

        def left(tx: Looking) -> dict[str, str]:
            return tx.all_kept(KIND)

        rows = await self.files.marks.keeping.read(left)
        if not rows:
            return
        sight = await asyncio.to_thread(look, self.files.workspace.root, self.most)
        told = [loads(row) for row in rows.values()]
        marks = [mark for row in told for mark in traces(sight, row["at_ns"], None, self.files.marks, row["turn"])]
        await self._settle(marks, list(rows))

    async def _settle(self, marks: Iterable[Mark], done: Iterable[str]) -> None:
        marks, done = list(marks), list(done)
        if not marks and not done:
            return

        def work(tx: Noting) -> None:
            self.files.marks.note(tx, marks)
            for name in done:
                tx.drop(KIND, name)

        await self.files.marks.keeping.write(work)
        self.files.marks.noted(marks)

    async def _forget(self, sight: Sight) -> None:
        if not sight.dark:
            await self.files.marks.drop(self.files.marks.gone({entry.path for entry in sight.entries}))


def earliest(began_ns: int, ended_ns: int, seconds: float) -> int:
    """From when on stamps count as new: from the beginning, by a clock that may have been set back meanwhile."""
    reckoned = ended_ns - int(seconds * 1e9)
    return reckoned if reckoned < began_ns - TICK_NS else began_ns


def traces(sight: Sight, since_ns: int, folders: Folders | None, marks: Marks, turn: str) -> list[Mark]:
    """The marks that a command leaves, given what is there after it, and where the folders were before it.

    Files with a new stamp are marked, new folders' names too. A folder that was moved takes the marks in it along: the stamps of
    files in it do not tell. Where nobody knows what was moved, and something is marked, everything in a changed folder counts.
    """
    found: list[Mark] = []
    for entry in sight.entries:
        changed = entry.changed_ns >= since_ns
        if not entry.folder:
            found += [Mark(entry.path, Label.UNTRUSTED, turn)] if changed else []
        elif folders is None:
            found += _unknown(marks, entry.path, turn) if changed else []
        elif (former := folders.get((entry.device, entry.number))) != entry.path:
            found += marks.of_names([entry.path], turn)
            found += _moved(marks, former, entry.path, turn) if former else []
    return [*found, *(_dark(place, turn) for place in sight.dark)]


def _unknown(marks: Marks, place: str, turn: str) -> list[Mark]:
    return [_dark(place, turn)] if marks.any else marks.of_names([place], turn)


def _moved(marks: Marks, former: str, now: str, turn: str) -> Iterator[Mark]:
    for mark in marks.all:
        if mark.label is Label.UNTRUSTED and (mark.path == former or mark.path.startswith(f"{former}/")):
            yield Mark(now + mark.path.removeprefix(former), mark.label, mark.turn, mark.scope)
    if marks.tree_above(former):
        yield _dark(now, turn)


def _dark(place: str, turn: str) -> Mark:
    return Mark(place, Label.UNTRUSTED, turn, Scope.TREE)


def look(root: Path, most: int = MOST_ENTRIES) -> Sight:
    """Everything in the workspace, without following links. In a thread."""
    sight, waiting = Sight(), [""]
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(root / place) as entries:
                here = [_entry(place, entry) for entry in entries]
        except FileNotFoundError:
            continue
        except OSError:
            sight.dark.append(place)
            continue
        found = [entry for entry in here if entry]
        sight.entries.extend(found)
        waiting += [entry.path for entry in found if entry.folder]
        if len(sight.entries) > most:
            return Sight(sight.entries, [""])
    return sight


def _entry(place: str, entry: "os.DirEntry[str]") -> Entry | None:
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    path = f"{place}/{entry.name}" if place else entry.name
    return Entry(path, stat.S_ISDIR(found.st_mode), found.st_dev, found.st_ino, found.st_ctime_ns)
