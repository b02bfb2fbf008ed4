"""What a command did: files that it wrote or moved get the label of what they may hold (F3).

Nobody knows what a command reads. So while any file of the workspace is a stranger's or unknown,
its output is untrusted, and so is what it changed. What a trusted command leaves is known.
"""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from daemon.core.clock import run_to_completion
from daemon.core.rows import FileLabel, LabelScope, RunningCommand
from daemon.core.trust import Label, join_sources
from daemon.store.tables.file_state import ForeignContent
from daemon.tools.base import ToolContext
from daemon.tools.workspace.file_store import FileStore
from daemon.tools.workspace.labels import (
    OWNERS,
    CommandStart,
    FileLabels,
    Folders,
    casefold_path,
    file_clock_ns,
)

MAX_ENTRIES, MAX_KNOWN, MAX_FOREIGN, MAX_HASHED = 200_000, 5_000, 5_000, 64_000_000
TICK_NS, BAD = 20_000_000, Label.UNTRUSTED
Span = tuple[int, int]
Snapshot = tuple["list[ScannedEntry]", list[str]]  # all that is there, and unreadable folders


class ScannedEntry(NamedTuple):
    """`changed_ns`: when it was last written, renamed or made, by the machine's clock. `size`: of
    an ordinary file, else -1; `owner`: the user id of who owns it.
    """

    path: str
    folder: bool
    inode: tuple[int, int]
    changed_ns: int
    size: int = -1
    owner: int | None = None


@dataclass(slots=True)
class CommandEffects:
    """Looks before and after a command; after a kill in between, at the next start.

    `running` are all; what is not trusted of these is in the labels' `at_work`; `crossed` are
    those that ran beside it, `beside` those that did not run alone; `held` are servers that only
    read while a command runs.
    """

    files: FileStore
    monotonic: Callable[[], float]
    wall_ns: Callable[[], int] = file_clock_ns
    max_entries: int = MAX_ENTRIES
    running: dict[str, CommandStart] = field(default_factory=dict)
    crossed: set[str] = field(default_factory=set)
    beside: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    _count: int = 0

    async def start(
        self, context: ToolContext, label: Label = Label.TRUSTED, maker: str = ""
    ) -> CommandStart:
        """Before the command. Raises StoreUnavailable."""
        trusted = not context.untrusted_source and label is Label.TRUSTED
        return await self.begin(context.turn.id, trusted=trusted, maker=maker)

    async def begin(
        self, turn: str, *, trusted: bool, maker: str = "", held: bool = False
    ) -> CommandStart:
        """Before something that can change files. Raises StoreUnavailable."""
        self._count += 1
        name, at, began = f"{self.wall_ns()}-{self._count}", self.wall_ns(), self.monotonic()
        snapshot = await self.scan()
        clean = trusted and not await self._find_foreign(snapshot)
        row = RunningCommand(name, at, turn, clean and not self.files.labels.at_work)
        await self.files.store.write(lambda tx: tx.add_running_command(row))
        folders = {entry.inode: entry.path for entry in snapshot[0] if entry.folder}
        strange = frozenset[str]()
        if maker and not clean:
            labels = self.files.labels.snapshot()
            strange = await asyncio.to_thread(find_strange, snapshot, labels, maker)
        holds = join_sources(one.holds for one in self.files.labels.entries)
        self.running[name] = started = CommandStart(
            name, at, began, folders, clean, holds, maker, strange
        )
        self.held |= {name} if held else set()
        if len(free := self.running.keys() - self.held) > 1:
            self.beside |= free
        if not clean:
            self._distrust(started)
        elif self.files.labels.at_work:
            self.crossed.add(name)
        return started

    def _distrust(self, started: CommandStart) -> None:
        if started.name in self.running:
            self.files.labels.at_work[started.name] = started
            self.crossed |= self.running.keys()

    async def judge_reading(
        self, context: ToolContext, label: Label, *, beside: bool
    ) -> tuple[Label, tuple[str, ...]]:
        """The label of what a command printed that could change nothing, and what private sources
        it may hold; `beside`: something was at work when it began.
        """
        labels = self.files.labels
        trusted = not context.untrusted_source and label is Label.TRUSTED
        clean = trusted and not (beside or labels.at_work) and not await self.find_foreign()
        holds = join_sources(one.holds for one in labels.entries)
        return Label.TRUSTED if clean else Label.UNTRUSTED, holds

    async def finish(
        self,
        began: CommandStart,
        context: ToolContext,
        *,
        label: Label = Label.TRUSTED,
        final: bool = True,
        alone: Span | None = None,
    ) -> Label:
        """Label what it changed; gives the label of its output. Raises StoreUnavailable.

        `label` is what the output has from elsewhere, such as the network; `final` is False while
        the command continues in the background.
        """
        trusted = not context.untrusted_source and label is Label.TRUSTED
        turn, carries = context.turn.id, context.carries
        return await self.end(
            began, turn, trusted=trusted, final=final, carries=carries, alone=alone
        )

    async def end(
        self,
        began: CommandStart,
        turn: str,
        *,
        trusted: bool,
        final: bool = True,
        carries: Iterable[str] = (),
        alone: Span | None = None,
    ) -> Label:
        """The same for what has no context of a call. `carries`: private sources that what began it
        may have put into files; `alone`: when no server could write, by the clock of files.
        """
        labels, files = self.files.labels, self.files
        # A clock that was set back meanwhile hides nothing.
        reckoned = self.wall_ns() - int((self.monotonic() - began.monotonic) * 1e9)
        since = reckoned if reckoned < began.at_ns - TICK_NS else began.at_ns
        snapshot = await self.scan()
        async with files.lock:
            clean = trusted and began.clean and began.name not in labels.at_work
            crossed = began.name in self.crossed
            if clean:
                own_ns = None if crossed else since  # beside something else, nothing is its own
                clean = not await self._find_foreign(snapshot, own_ns)
            now = labels.snapshot()
            foreign: list[ForeignContent] = []
            if clean:
                added = await asyncio.to_thread(lambda: [*label_known(snapshot, now, turn)])
            else:
                self._distrust(began)
                holds = (*carries, *began.holds)
                if began.name in self.beside or not alone:
                    began = replace(began, maker="")
                changes = label_changes(
                    snapshot, since, began.folders, now, turn, holds, began, alone or (0, 0)
                )
                added = await asyncio.to_thread(lambda: [*changes])
                foreign = await asyncio.to_thread(list_foreign, snapshot, since, added, now, turn)
            await labels.save(added, [began.name] if final else [], foreign)
            if final:
                self._forget(began.name)
            entries, unreadable = snapshot
            if not unreadable:
                gone = {one.path for one in labels.entries} - {entry.path for entry in entries}
                await labels.remove(one for one in gone if one and not files.workspace.stat(one))
        return Label.TRUSTED if clean else Label.UNTRUSTED

    @asynccontextmanager
    async def watch_server(
        self, *, outlives: bool = False, held: bool = False
    ) -> AsyncIterator[None]:
        """A server that can write in the workspace runs: what it leaves is a stranger's.

        `outlives`: what it has started may go on without the daemon; the next start labels that.
        `held`: it only reads while a command runs.
        """
        began = await self.begin("", trusted=False, held=held)
        try:
            yield
        finally:
            await run_to_completion(self._end_server(began, outlives))

    async def _end_server(self, began: CommandStart, outlives: bool) -> None:
        if outlives:
            await self.begin("", trusted=False)
        await self.end(began, "", trusted=False)

    def _forget(self, name: str) -> None:
        for table in (self.files.labels.at_work, self.running):
            table.pop(name, None)
        for names in (self.crossed, self.beside, self.held):
            names.discard(name)

    async def cancel(self, began: CommandStart) -> None:
        """It did not run."""
        self._forget(began.name)
        await self.files.labels.save([], [began.name])

    async def recover(self) -> None:
        """Label what commands did whose end an earlier daemon did not see. Beside one that is not
        clean, none is.
        """
        labels = self.files.labels
        found = await self.files.store.read(lambda tx: tx.list_running_commands())
        rows = [row for row in found if row.name not in self.running]
        if not rows:
            return
        snapshot = await self.scan()
        clean = all(row.clean for row in rows)
        foreign: list[ForeignContent] = []
        if clean and not await self._find_foreign(snapshot, rows[0].at_ns):
            changes = [*label_known(snapshot, labels, rows[0].turn)]
        else:
            changes = [
                change
                for row in rows
                for change in label_changes(snapshot, row.at_ns, None, labels, row.turn)
            ]
            since = min(row.at_ns for row in rows)
            foreign = await asyncio.to_thread(
                list_foreign, snapshot, since, changes, labels.snapshot(), rows[0].turn
            )
        await labels.save(changes, [row.name for row in rows], foreign)

    async def scan(self) -> Snapshot:
        """Everything in the workspace."""
        return await asyncio.to_thread(scan, self.files.workspace.root, self.max_entries)

    async def find_foreign(self) -> str:
        """A file that nobody knows now; empty where there is none."""
        return await self._find_foreign(await self.scan())

    async def _find_foreign(self, snapshot: Snapshot, own_ns: int | None = None) -> str:
        labels = self.files.labels.snapshot()
        return await asyncio.to_thread(find_foreign, snapshot, labels, own_ns)


def find_foreign(snapshot: Snapshot, labels: FileLabels, own_ns: int | None = None) -> str:
    """A file that is not known to be trusted; empty where there is none. In a thread.

    What changed since `own_ns` has just been made by what is trusted, unless it has a bad label or
    holds what a stranger's file held.
    """
    entries, unreadable = snapshot
    if unreadable:
        return unreadable[0] or "."
    for entry in entries:
        if entry.folder:
            continue
        is_own = own_ns is not None and entry.changed_ns >= own_ns
        if is_own and not (labels.needs_cleaning(entry.path) or labels.is_foreign(entry.path)):
            continue
        if labels.find_label(entry.path, owner=entry.owner) is Label.UNTRUSTED:
            return entry.path
    return ""


def hash_unknown(snapshot: Snapshot, labels: FileLabels) -> Iterator[tuple[ScannedEntry, str]]:
    """What is not known to be trusted, with its digest; "" where it is too much. In a thread."""
    space = MAX_HASHED
    for entry in snapshot[0]:
        if entry.folder or labels.find_label(entry.path, owner=entry.owner) is Label.TRUSTED:
            continue
        fits = entry.size <= space
        space -= max(entry.size, 0) * fits
        yield entry, labels.hash_file(entry.path) if fits else ""


def find_strange(snapshot: Snapshot, labels: FileLabels, maker: str) -> frozenset[str]:
    """See CommandStart: what this maker's commands and the owner's have not left. In a thread."""
    return frozenset(
        digest or str(entry.size)
        for entry, digest in hash_unknown(snapshot, labels)
        if (digest or entry.size > 0)
        and not labels.find_makers(entry.path, digest) <= {maker, OWNERS}
    )


def label_known(snapshot: Snapshot, labels: FileLabels, turn: str) -> Iterator[FileLabel]:
    """What something trusted has left: labels for what no folder's trust covers. In a thread."""
    count = 0
    for entry in snapshot[0]:
        if entry.folder:
            if labels.label_of_names([entry.path]) is Label.UNTRUSTED:
                yield from labels.label_new_names([entry.path], turn, Label.TRUSTED)
        elif labels.find_label(entry.path, owner=entry.owner) is Label.UNTRUSTED:
            if digest := labels.hash_file(entry.path):
                yield FileLabel(entry.path, Label.TRUSTED, turn, digest=digest)
        else:
            continue
        count += 1
        if count > MAX_KNOWN:  # the rest stays unknown, and is asked about
            return


def label_changes(
    snapshot: Snapshot,
    since_ns: int,
    folders: Folders | None,
    labels: FileLabels,
    turn: str,
    carries: Iterable[str] = (),
    began: CommandStart | None = None,
    alone: Span = (0, 0),
) -> Iterator[FileLabel]:
    """The labels that a command leaves, given what is there now and where folders were before.

    Files with a new stamp are labelled, and names of new folders. A moved folder takes the labels
    in it along: the stamps of files in it do not tell. Where nobody knows what was moved, and
    something is untrusted, everything in a changed folder counts. What it changed may hold what any
    file did. What others left it has not made, wherever that stands now, nor what changed when it
    was not `alone`.
    """
    holds = join_sources((carries, *(one.holds for one in labels.entries)))
    maker, strange = (began.maker, {*began.strange}) if began else ("", set[str]())
    strange |= {
        one.digest
        for one in labels.entries
        if one.label is Label.UNTRUSTED and one.maker not in (maker, OWNERS)
    }
    entries, unreadable = snapshot
    trees = [*unreadable]
    for entry in entries:
        path, changed = entry.path, entry.changed_ns >= since_ns
        if not entry.folder:
            if changed and not labels.is_same(path):
                digest = labels.hash_file(path) if maker and entry.size <= MAX_HASHED else ""
                is_new = not entry.size or strange.isdisjoint((digest, str(entry.size)))
                is_made = is_new and alone[0] < entry.changed_ns < alone[1]
                found = {maker} if is_made else labels.find_makers(path, digest)
                by = found.pop() if len(found) == 1 else ""
                yield FileLabel(path, BAD, turn, digest=digest, holds=holds, maker=by)
        elif folders is None:
            if changed and labels.has_foreign:
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
        tree = FileLabel(place, BAD, turn, LabelScope.TREE, holds=holds, maker=maker)
        had = labels.by_folded.get(casefold_path(place), {}).get(place, tree)
        if maker == OWNERS and (had.label, had.scope) == (tree.label, tree.scope):
            tree = replace(had, holds=holds)  # whoever has left something there, it still is
        yield tree


def list_foreign(
    snapshot: Snapshot, since_ns: int, added: Iterable[FileLabel], labels: FileLabels, turn: str
) -> list[ForeignContent]:
    """What the files with these bad labels hold, unless a file of the owner's that did not change
    since holds it, too. In a thread.
    """
    bad = [one for one in added if one.label is Label.UNTRUSTED]
    names = {one.path for one in bad if one.scope is LabelScope.FILE}
    trees = tuple(one.path and f"{one.path}/" for one in bad if one.scope is LabelScope.TREE)
    found = [
        entry
        for entry in snapshot[0]
        if 0 <= entry.size <= MAX_HASHED
        and (entry.path in names or entry.path.startswith(trees))
        and "/.git/" not in f"/{entry.path}"
    ]
    found.sort(key=lambda one: -one.path.count("/"))  # of too many, the deepest are left out
    held = [labels.hold(entry.path) for entry in found[-MAX_FOREIGN:]]
    sizes, bad_paths = {one.size for one in held}, {entry.path for entry in found}
    own = {
        labels.hash_file(entry.path)
        for entry in snapshot[0]
        if entry.size in sizes
        and entry.changed_ns < since_ns
        and entry.path not in bad_paths
        and labels.find_label(entry.path, owner=entry.owner) is Label.TRUSTED
    }
    return labels.find_new_foreign((one for one in held if one.digest not in own), turn)


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
                        size = info.st_size if stat.S_ISREG(info.st_mode) else -1
                        changed, owner = info.st_ctime_ns, info.st_uid
                        found.append(ScannedEntry(path, is_folder, inode, changed, size, owner))
                        folders += [path] * is_folder
        except FileNotFoundError:
            continue
        except OSError:
            unreadable.append(place)
        if len(found) > max_entries:
            return found, [""]
    return found, unreadable
