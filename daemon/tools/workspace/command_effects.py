"""What a command did: files that it wrote or moved get the label of what they may hold (F3).

Nobody knows what a command reads. So while any file of the workspace is a stranger's or unknown,
its output is untrusted, and so is what it changed. What a trusted command leaves is known.
"""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from daemon.core import value
from daemon.core.clock import run_to_completion
from daemon.core.rows import FileLabel, LabelScope, RunningCommand
from daemon.core.trust import Label, Sources, join_sources
from daemon.store.tables.file_state import ForeignContent
from daemon.tools.base import ToolContext
from daemon.tools.workspace.command_history import Former, Replaced, keep_former
from daemon.tools.workspace.file_store import FileStore
from daemon.tools.workspace.foreign import Held
from daemon.tools.workspace.index import IndexCache, WorkspaceIndex
from daemon.tools.workspace.labels import (
    OWNERS,
    CommandStart,
    FileLabels,
    Folders,
    file_clock_ns,
)
from daemon.tools.workspace.protected import ProtectedFiles

MAX_ENTRIES, MAX_FOREIGN, MAX_HASHED = 200_000, 5_000, 64_000_000
TICK_NS, BAD = 20_000_000, Label.UNTRUSTED
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


@value
class ChangedFile:
    """What a command leaves at a path; `digest`: of a file or a link. `held`: it waits there for
    the owner, so it needs a label of its own.
    """

    path: str
    digest: str = ""
    size: int = 0
    head: bytes = b""  # see foreign.Held
    place: Path | None = None  # where it is read until then
    folder: bool = False
    gone: bool = False
    held: bool = False


@value
class Origin:
    """What a command is from: a call of a turn. It outlives a kill of the daemon beside the layer
    that the command works on. `trusted`: so is what began it; `clean`: what it could read, too.
    `holds`: private sources that any file may have held; `carries`: those of the turn; `maker`: see
    FileLabel. `strange_count`: that of the labels when it began.
    """

    turn: str
    session: str
    call_id: str
    trusted: bool
    clean: bool
    holds: Sources = ()
    carries: Sources = ()
    maker: str = ""
    strange_count: int = 0


@dataclass(slots=True)
class CommandEffects:
    """Labels what commands leave when it is merged, and what servers write that share the
    workspace. `held`: where the files wait that commands have made and that are not merged.
    """

    files: FileStore
    monotonic: Callable[[], float]
    held: Path = Path("/nonexistent")
    protected: ProtectedFiles | None = None
    wall_ns: Callable[[], int] = file_clock_ns
    max_entries: int = MAX_ENTRIES
    running: dict[str, CommandStart] = field(default_factory=dict)
    cache: IndexCache | None = None
    _count: int = 0

    async def start(self, context: ToolContext, label: Label, maker: str = "") -> Origin:
        """Before a command on a layer. `label` is what its output has from elsewhere, such as the
        network.
        """
        labels, count = self.files.labels, self.files.labels.strange_count
        trusted = not context.untrusted_source and label is Label.TRUSTED
        clean = trusted and not labels.at_work and not await self.find_foreign()
        holds = join_sources(one.holds for one in labels.entries)
        return Origin(
            context.turn.id, context.session_id, context.call_id, trusted, clean, holds,
            tuple(context.carries), maker, count,
        )  # fmt: skip

    def judge_server(self) -> Origin:
        """Of a server that works on a layer: what it leaves is a stranger's."""
        holds = join_sources(one.holds for one in self.files.labels.entries)
        return Origin("", "", "", trusted=False, clean=False, holds=holds)

    async def judge_output(self, origin: Origin) -> Label:
        """Of what it printed, by what is there now and what was there since it began."""
        labels = self.files.labels
        is_same = origin.strange_count == labels.strange_count
        clean = origin.clean and is_same and not labels.at_work and not await self.find_foreign()
        return Label.TRUSTED if clean else Label.UNTRUSTED

    async def merge(
        self, origin: Origin, changed: Sequence[ChangedFile], apply: Callable[[], str]
    ) -> tuple[Label, str]:
        """Label what a command has changed and let `apply` bring it over, in a thread; gives the
        label of its output, and what `apply` says. Raises StoreUnavailable.
        """
        labels, files = self.files.labels, self.files
        async with files.lock:
            label = await self.judge_output(origin)
            if any(
                labels.needs_cleaning(one.path) or labels.is_foreign(one.path, one.digest)
                for one in changed
                if one.digest
            ):
                label = Label.UNTRUSTED
            now, added = labels.snapshot(), list[FileLabel]()
            foreign: list[ForeignContent] = []
            if label is Label.TRUSTED:
                known = partial(label_own, changed, now, origin.turn)
                added = await asyncio.to_thread(lambda: [*known()])
            elif changed:
                find = partial(label_foreign, changed, await self.look(), now, origin)
                added, foreign = await asyncio.to_thread(find)
            former = await asyncio.to_thread(self._keep_former, changed, origin)
            await labels.save(added, (), foreign, former.versions)
            files.add_versions(former.versions)
            await files.prune_if_due()
            renamed = await asyncio.to_thread(self._find_renamed, changed)
            said = await asyncio.to_thread(apply)
            if self.protected:
                await asyncio.to_thread(self.protected.note, renamed)
            gone = [one.path for one in changed if one.gone]
            await labels.remove(one for one in gone if not files.workspace.stat(one))
        return label, "\n".join(filter(None, (said, former.why)))

    def _keep_former(self, changed: Sequence[ChangedFile], origin: Origin) -> Former:
        """For /undo; of what a server did, which is no turn's, nothing."""
        if not origin.turn:
            return Former()
        replaced = [
            Replaced(one.path, one.digest, one.place)
            for one in changed
            if not (one.held or one.folder) and (one.gone or one.digest)
        ]
        return keep_former(self.files, replaced, origin.session, origin.turn, origin.call_id)

    def _find_renamed(self, changed: Sequence[ChangedFile]) -> list[str]:
        """What is a protected file by another name, which it had before."""
        if self.protected is None:
            return []
        names = (one.path for one in changed if one.gone and self.protected.has_name(one.path))
        digests = {*map(self.files.labels.hash_file, names)}
        return [one.path for one in changed if one.size and one.digest in digests]

    async def begin(self, turn: str) -> CommandStart:
        """Before a stranger's program that can change files itself. Raises StoreUnavailable."""
        self._count += 1
        name, at, began = f"{self.wall_ns()}-{self._count}", self.wall_ns(), self.monotonic()
        snapshot = await self.scan()
        await self.files.store.write(
            lambda tx: tx.add_running_command(RunningCommand(name, at, turn))
        )
        folders = {entry.inode: entry.path for entry in snapshot[0] if entry.folder}
        self.running[name] = started = CommandStart(name, at, began, folders)
        self.files.labels.at_work[name] = started
        return started

    async def end(self, began: CommandStart, turn: str) -> None:
        """Label what it changed. Raises StoreUnavailable."""
        labels, files = self.files.labels, self.files
        # A clock that was set back meanwhile hides nothing.
        reckoned = self.wall_ns() - int((self.monotonic() - began.monotonic) * 1e9)
        since = reckoned if reckoned < began.at_ns - TICK_NS else began.at_ns
        snapshot = await self.scan()
        async with files.lock:
            now = labels.snapshot()
            changes = label_changes(snapshot, since, began.folders, now, turn)
            added = await asyncio.to_thread(lambda: [*changes])
            foreign = await asyncio.to_thread(list_foreign, snapshot, since, added, now, turn)
            await labels.save(added, [began.name], foreign)
            self._forget(began.name)
            entries, unreadable = snapshot
            if not unreadable:
                gone = {one.path for one in labels.entries} - {entry.path for entry in entries}
                await labels.remove(one for one in gone if one and not self._stands(one))

    def _stands(self, path: str) -> bool:
        return bool(self.files.workspace.stat(path)) or os.path.lexists(self.held / path)

    @asynccontextmanager
    async def watch_server(self, *, outlives: bool = False) -> AsyncIterator[None]:
        """A server that can write in the workspace runs: what it leaves is a stranger's.

        `outlives`: what it has started may go on without the daemon; the next start labels that.
        """
        began = await self.begin("")
        try:
            yield
        finally:
            await run_to_completion(self._end_server(began, outlives))

    async def _end_server(self, began: CommandStart, outlives: bool) -> None:
        if outlives:
            await self.begin("")
        await self.end(began, "")

    def _forget(self, name: str) -> None:
        for table in (self.files.labels.at_work, self.running):
            table.pop(name, None)

    async def recover(self) -> None:
        """Label what servers did whose end an earlier daemon did not see."""
        labels = self.files.labels
        found = await self.files.store.read(lambda tx: tx.list_running_commands())
        rows = [row for row in found if row.name not in self.running]
        bad = [row for row in rows if not row.clean]  # an older daemon has noted commands, too
        if not rows:
            return
        snapshot = await self.scan()
        if not bad and await self.find_foreign():
            bad = rows
        changes = [
            change
            for row in bad
            for change in label_changes(snapshot, row.at_ns, None, labels, row.turn)
        ]
        foreign: list[ForeignContent] = []
        if bad:
            since = min(row.at_ns for row in bad)
            foreign = await asyncio.to_thread(
                list_foreign, snapshot, since, changes, labels.snapshot(), bad[0].turn
            )
        await labels.save(changes, [row.name for row in rows], foreign)

    async def scan(self) -> Snapshot:
        """Everything in the workspace."""
        return await asyncio.to_thread(scan, self.files.workspace.root, self.max_entries)

    async def look(self) -> WorkspaceIndex:
        """What is there now."""
        self.cache = self.cache or IndexCache(self.files.workspace.root, self.max_entries)
        return await asyncio.to_thread(self.cache.look)

    async def find_sockets(self) -> list[Path]:
        """Of other programs that listen in the workspace."""
        return [*(await self.look()).list_sockets()]

    async def find_foreign(self) -> str:
        """A file that nobody knows now; empty where there is none."""
        index, labels = await self.look(), self.files.labels.snapshot()
        return await asyncio.to_thread(find_foreign, index, labels, self.held)


def label_own(changed: Iterable[ChangedFile], labels: FileLabels, turn: str) -> Iterator[FileLabel]:
    """What something trusted leaves: labels for what no folder's trust covers. In a thread."""
    for one in changed:
        if one.gone:
            continue
        if one.folder:
            if labels.label_of_names([one.path]) is Label.UNTRUSTED:
                yield from labels.label_new_names([one.path], turn, Label.TRUSTED)
        elif one.held or labels.find_label(one.path, one.digest) is Label.UNTRUSTED:
            yield FileLabel(one.path, Label.TRUSTED, turn, digest=one.digest)


def label_foreign(
    changed: Sequence[ChangedFile], index: WorkspaceIndex, labels: FileLabels, origin: Origin
) -> tuple[list[FileLabel], list[ForeignContent]]:
    """What a command leaves that is not clean, with what strangers' files hold by now. It may hold
    what any file did. What it has copied is whose it was. In a thread.
    """
    turn, maker, files = origin.turn, origin.maker, [one for one in changed if one.digest]
    added = labels.label_new_names([one.path for one in changed if one.folder], turn)
    holds = join_sources((origin.carries, origin.holds))
    strange = find_strange(index, labels, maker) if maker else set()
    contents = list[Held]()
    for one in files:
        if labels.is_same(one.path, one.digest):
            continue
        is_made = one.digest not in strange
        found = {maker} if is_made else labels.find_makers(one.path, one.digest)
        by = found.pop() if len(found) == 1 else ""
        added.append(FileLabel(one.path, BAD, turn, digest=one.digest, holds=holds, maker=by))
        is_plain = "/.git/" not in f"/{one.path}" and one.size <= MAX_HASHED
        if is_plain and len(contents) < MAX_FOREIGN:
            contents.append(Held(one.path, one.digest, one.size, one.head))
    own = {
        labels.hash_file(path)
        for path in index.list_sized({one.size for one in contents})
        if labels.find_label(path) is Label.TRUSTED
    }
    contents = [one for one in contents if one.digest not in own]
    return added, labels.find_new_foreign(contents, turn)


def find_foreign(index: WorkspaceIndex, labels: FileLabels, held: Path) -> str:
    """A file that is not known to be trusted; empty where there is none. In a thread."""
    if index.too_much:
        return index.too_much
    for path in list_held(held):
        if not labels.is_same(path, hash_held(labels, held, path)):
            return path
    return next(index.list_untrusted(labels), "")


def list_held(held: Path) -> Iterator[str]:
    """The files and links that wait there. In a thread."""
    for folder, folders, files in os.walk(held):
        links = [one for one in folders if Path(folder, one).is_symlink()]
        for name in (*files, *links):
            yield str(Path(folder, name).relative_to(held))


def hash_held(labels: FileLabels, held: Path, path: str) -> str:
    """The digest of what waits there."""
    return labels.hash_file(str(held / path))


def hash_untrusted(index: WorkspaceIndex, labels: FileLabels) -> Iterator[tuple[str, int, str]]:
    """What is not known to be trusted, its size and its digest; "" where it is too much. In a
    thread.
    """
    space = MAX_HASHED
    for path in index.list_untrusted(labels):
        with suppress(OSError):
            size = (labels.workspace.root / path).lstat().st_size
            fits = size <= space
            space -= size * fits
            yield path, size, labels.hash_file(path) if fits else ""


def find_strange(index: WorkspaceIndex, labels: FileLabels, maker: str) -> set[str]:
    """The digests of what this maker's commands and the owner's have not left."""
    rows = {
        one.digest
        for one in labels.entries
        if one.label is Label.UNTRUSTED and one.maker not in (maker, OWNERS)
    }
    return rows | {
        digest
        for path, size, digest in hash_untrusted(index, labels)
        if size and not labels.find_makers(path, digest) <= {maker, OWNERS}
    }


def label_changes(
    snapshot: Snapshot, since_ns: int, folders: Folders | None, labels: FileLabels, turn: str
) -> Iterator[FileLabel]:
    """The labels that a server leaves, given what is there now and where folders were before.

    Files with a new stamp are labelled, and names of new folders. A moved folder takes the labels
    in it along: the stamps of files in it do not tell. Where nobody knows what was moved, and
    something is untrusted, everything in a changed folder counts. What it changed may hold what any
    file did.
    """
    holds = join_sources(one.holds for one in labels.entries)
    entries, unreadable = snapshot
    trees = [*unreadable]
    for entry in entries:
        path, changed = entry.path, entry.changed_ns >= since_ns
        if not entry.folder:
            if changed and not labels.is_same(path):
                yield FileLabel(path, BAD, turn, holds=holds)
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
        yield FileLabel(place, BAD, turn, LabelScope.TREE, holds=holds)


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
