"""What a command did: files that it wrote or moved get the label of what they may hold (F3).

Nobody knows what a command reads. So while any file of the workspace is a stranger's or unknown,
its output is untrusted, and so is what it changed. What a trusted command leaves is known.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path

from daemon.core import value
from daemon.core.rows import FileLabel, LabelScope
from daemon.core.trust import Label, Sources, join_sources
from daemon.store.tables.file_state import ForeignContent
from daemon.tools.base import ToolContext
from daemon.tools.workspace.command_history import Former, Replaced, keep_former
from daemon.tools.workspace.file_store import FileStore
from daemon.tools.workspace.foreign import HeldContent
from daemon.tools.workspace.index import IndexCache, WorkspaceIndex
from daemon.tools.workspace.labels import (
    OWNERS,
    FileLabels,
)
from daemon.tools.workspace.protected import ProtectedFiles

HELD, OTHERS, MAX_DIGITS = "held", "others", 16
MAX_ENTRIES, MAX_FOREIGN, MAX_HASHED = 200_000, 5_000, 64_000_000
TICK_NS, BAD = 20_000_000, Label.UNTRUSTED


@value
class ChangedFile:
    """What a command leaves at a path; `digest`: of a file or a link. `held`: it waits there for
    the owner, so it needs a label of its own.
    """

    path: str
    digest: str = ""
    size: int = 0
    head: bytes = b""  # see foreign.HeldContent
    place: Path | None = None  # where it is read until then
    folder: bool = False
    gone: bool = False
    held: bool = False


@value
class CommandOrigin:
    """What a command is from: a call of a turn. It outlives a kill of the daemon beside the layer
    that the command works on. `trusted`: so is what began it; `clean`: what it could read, too.
    `holds`: private sources that any file may have held; `carries`: those of the turn; `maker`: see
    FileLabel. `strange_count`: that of the labels when it began. `others`: see HeldFiles.
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
    others: str = ""


@value
class HeldFiles:
    """Where files wait that commands have made and that are not merged. They lie over the workspace
    for later commands: what the owner's turns leave for those, what each conversation of others and
    each server leaves for that one alone.
    """

    quarantine: Path

    def find(self, others: str = "") -> Path:
        """The folder of this conversation of others, or this server; "" is the owner's."""
        name = sha256(others.encode()).hexdigest()[:MAX_DIGITS]
        place = self.quarantine / OTHERS / name if others else self.quarantine
        return place / HELD

    def list_folders(self) -> list[Path]:
        """The owner's first. In a thread."""
        others = self.quarantine / OTHERS
        names = os.listdir(others) if others.is_dir() else []  # noqa: PTH208  fewer calls
        return [self.find(), *(others / name / HELD for name in sorted(names))]


def name_others(context: ToolContext) -> str:
    """Whose held files a call works on."""
    return "" if context.turn.is_owners else context.session_id


@dataclass(slots=True)
class CommandEffects:
    """Labels what commands leave when it is merged, and what servers write that share the
    workspace.
    """

    files: FileStore
    held: HeldFiles = field(default_factory=lambda: HeldFiles(Path("/nonexistent")))
    protected: ProtectedFiles | None = None
    cache: IndexCache | None = None
    max_entries: int = MAX_ENTRIES

    async def start(self, context: ToolContext, label: Label, maker: str = "") -> CommandOrigin:
        """Before a command on a layer. `label` is what its output has from elsewhere, such as the
        network.
        """
        labels, count = self.files.labels, self.files.labels.strange_count
        trusted = not context.untrusted_source and label is Label.TRUSTED
        others = name_others(context)
        clean = trusted and not await self.find_foreign(others)
        holds = join_sources(one.holds for one in labels.entries)
        return CommandOrigin(
            context.turn.id, context.session_id, context.call_id, trusted, clean, holds,
            tuple(context.carries), maker, count, others,
        )  # fmt: skip

    def judge_server(self) -> CommandOrigin:
        """Of a server that works on a layer: what it leaves is a stranger's."""
        holds = join_sources(one.holds for one in self.files.labels.entries)
        return CommandOrigin("", "", "", trusted=False, clean=False, holds=holds)

    async def judge_output(self, origin: CommandOrigin) -> Label:
        """Of what it printed, by what is there now and what was there since it began."""
        is_same = origin.strange_count == self.files.labels.strange_count
        clean = origin.clean and is_same and not await self.find_foreign(origin.others)
        return Label.TRUSTED if clean else Label.UNTRUSTED

    async def merge(
        self, origin: CommandOrigin, changed: Sequence[ChangedFile], apply: Callable[[], str]
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
            now, added, trees = labels.snapshot(), list[FileLabel](), list[str]()
            foreign: list[ForeignContent] = []
            if label is Label.TRUSTED:
                known = partial(label_own, changed, now, origin.turn)
                added = await asyncio.to_thread(lambda: [*known()])
                trees = await asyncio.to_thread(lambda: find_new_repositories(changed, now))
            elif changed:
                find = partial(label_foreign, changed, await self.look(), now, origin)
                added, foreign = await asyncio.to_thread(find)
            former = await asyncio.to_thread(self._keep_former, changed, origin)
            await labels.save(added, foreign, former.versions)
            files.add_versions(former.versions)
            await files.prune_if_due()
            renamed = await asyncio.to_thread(self._find_renamed, changed)
            said = await asyncio.to_thread(apply)
            for one in trees:
                await labels.save(label_repository(one, labels, origin.turn))
            if self.protected:
                await asyncio.to_thread(self.protected.note, renamed)
            gone = [one.path for one in changed if one.gone]
            await labels.remove(one for one in gone if not files.workspace.stat(one))
        return label, "\n".join(filter(None, (said, former.why)))

    def _keep_former(self, changed: Sequence[ChangedFile], origin: CommandOrigin) -> Former:
        """For /undo; of what a server did, which is no turn's, nothing."""
        if not origin.turn:
            return Former()
        replaced = [
            Replaced(one.path, one.digest, one.place, one.folder)
            for one in changed
            if not one.held and (one.gone or one.digest or one.folder)
        ]
        return keep_former(self.files, replaced, origin.session, origin.turn, origin.call_id)

    def _find_renamed(self, changed: Sequence[ChangedFile]) -> list[str]:
        """What is a protected file by another name, which it had before."""
        if self.protected is None:
            return []
        names = (one.path for one in changed if one.gone and self.protected.has_name(one.path))
        digests = {*map(self.files.labels.hash_file, names)}
        return [one.path for one in changed if one.size and one.digest in digests]

    async def distrust(self) -> None:
        """A server without a sandbox runs with this daemon: what is in the workspace is a
        stranger's until /trust, and what changes afterwards is, too.
        """
        labels = self.files.labels
        labels.unsandboxed = True
        if labels.find_folder_label("x") is Label.TRUSTED:
            await labels.save([FileLabel("", Label.UNTRUSTED, "", LabelScope.TREE)])

    async def look(self) -> WorkspaceIndex:
        """What is there now."""
        self.cache = self.cache or IndexCache(self.files.workspace.root, self.max_entries)
        return await asyncio.to_thread(self.cache.look)

    async def find_sockets(self) -> list[Path]:
        """Of other programs that listen in the workspace."""
        return [*(await self.look()).list_sockets()]

    async def find_foreign(self, others: str = "") -> str:
        """A file that nobody knows now; empty where there is none. `others`: see HeldFiles."""
        index, labels = await self.look(), self.files.labels.snapshot()
        return await asyncio.to_thread(find_foreign, index, labels, self.held.find(others))


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


def find_new_repositories(changed: Iterable[ChangedFile], labels: FileLabels) -> list[str]:
    """Folders of the owner's in which something trusted makes a repository. In a thread."""
    splits = (f"{one.path}/".partition("/.git/") for one in changed if not (one.gone or one.held))
    return [
        place
        for place in {place for place, git, _ in splits if git}
        if labels.find_folder_label(f"{place}/") is Label.TRUSTED
        and not os.path.lexists(labels.workspace.root / place / ".git")
    ]


def label_repository(place: str, labels: FileLabels, turn: str) -> list[FileLabel]:
    """It is the owner's, as its folder was, as long as it is this one."""
    born = labels.find_repository(place)
    return [FileLabel(place, Label.TRUSTED, turn, LabelScope.TREE, born)] if born else []


def label_foreign(
    changed: Sequence[ChangedFile], index: WorkspaceIndex, labels: FileLabels, origin: CommandOrigin
) -> tuple[list[FileLabel], list[ForeignContent]]:
    """What a command leaves that is not clean, with what strangers' files hold by now. It may hold
    what any file did. What it has copied is whose it was. In a thread.
    """
    turn, maker, files = origin.turn, origin.maker, [one for one in changed if one.digest]
    added = labels.label_new_names([one.path for one in changed if one.folder], turn)
    holds = join_sources((origin.carries, origin.holds))
    strange = find_strange(index, labels, maker) if maker else set()
    contents = list[HeldContent]()
    for one in files:
        if labels.is_same(one.path, one.digest):
            continue
        is_made = one.digest not in strange
        found = {maker} if is_made else labels.find_makers(one.path, one.digest)
        by = found.pop() if len(found) == 1 else ""
        added.append(FileLabel(one.path, BAD, turn, digest=one.digest, holds=holds, maker=by))
        is_plain = "/.git/" not in f"/{one.path}" and one.size <= MAX_HASHED
        if is_plain and len(contents) < MAX_FOREIGN:
            contents.append(HeldContent(one.path, one.digest, one.size, one.head))
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
