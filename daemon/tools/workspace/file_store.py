"""The one way to change a file: its label is set (F3), and its former version is kept (F8).

Contents of former versions lie in HOME/undo by their hash, records in the journal. A content is on
disk before its record, and the record before the change: after a kill, /undo finds what it needs.
"""

import asyncio
import logging
import os
import stat
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Self, TypeVar

from channels.charsets import decode_text
from daemon.core import value
from daemon.core.clock import run_to_completion
from daemon.core.errors import StoreUnavailable
from daemon.core.rows import FileLabel, FileVersion
from daemon.core.trust import Effect, Label, Sources, join_sources
from daemon.settings.paths import write_private_file
from daemon.store.journal import Store, Tx
from daemon.store.tables.file_state import ForeignContent
from daemon.tools.base import ToolContext, ToolError
from daemon.tools.calls import to_printable
from daemon.tools.policy.addresses import find_addresses
from daemon.tools.signature import tool
from daemon.tools.workspace.foreign import ForeignContents, HeldContent
from daemon.tools.workspace.fs import NOTE_KINDS, TEXT_KINDS, PendingWrite, Workspace
from daemon.tools.workspace.labels import NO_FILE, NOTE, FileLabels, hash_content

MAX_HISTORY_BYTES = 175_000_000  # at most 25 more are added until the next look
MAX_RECORDS = 5_000
PRUNE_AFTER_BYTES, PRUNE_AFTER = 8_000_000, 100
MAX_AGE = timedelta(days=30)
KEPT_PREFIX, KEPT_S, MAX_KEPT_FILES = "bound-", 91 * 86_400, 2000  # what a yes was bound to

log = logging.getLogger(__name__)
T = TypeVar("T")
Edit = Callable[[bytes | None], bytes | None]


@value
class ChangeAuthor:
    """A call of a turn, or the owner with /undo. `label`: how far their texts are trusted;
    `carries`: the private sources that may be in these, `has_read` those in an address that they
    make.
    """

    session: str
    turn: str
    call_id: str
    label: Label
    undoes: str = ""
    carries: Sources = ()
    has_read: Sources = ()

    @classmethod
    def from_context(cls, context: ToolContext) -> Self:
        """The call that runs."""
        label = Label.UNTRUSTED if context.untrusted_source else Label.TRUSTED
        turn = context.turn
        return cls(
            context.session_id, turn.id, context.call_id, label, "", context.carries, turn.private
        )


def _adds_link(old: bytes | None, new: bytes | None) -> bool:
    """An address of the web stands in the new content, and did not in the old."""
    if new is None or b"/" not in new:
        return False
    texts = (to_printable(decode_text(one or b"")[0]) for one in (old, new))
    found = [find_addresses(text).links for text in texts]  # as it is shown
    return not {*found[1]} <= {*found[0]}


def count_expired(
    versions: Sequence[FileVersion],
    now: datetime,
    max_bytes: int = MAX_HISTORY_BYTES,
    max_records: int = MAX_RECORDS,
) -> int:
    """How many of these, oldest first, are too old or too much."""
    space, seen = max_bytes, set[str]()
    for count, version in enumerate(reversed(versions)):
        if version.old not in seen:
            seen.add(version.old)
            space -= version.size
        if space < 0 or count == max_records or version.at < now - MAX_AGE:
            return len(versions) - count
    return 0


@dataclass(slots=True)
class FileStore:
    """The files of the workspace, their labels, and their former versions by name, oldest first.

    Changes are made one after the other, and none while a file is read or labels are removed.
    """

    workspace: Workspace
    folder: Path
    store: Store
    now: Callable[[], datetime]
    versions: dict[str, FileVersion]
    labels: FileLabels
    max_bytes: int = MAX_HISTORY_BYTES
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _unpruned_bytes: int = 0

    @classmethod
    async def open(
        cls, workspace: Workspace, folder: Path, store: Store, now: Callable[[], datetime]
    ) -> Self:
        """With the journal's rows; contents of versions lie in `folder`."""

        def look(tx: Tx) -> tuple[list[FileVersion], FileLabels]:
            foreign = ForeignContents(tx.list_foreign_contents())
            labels = FileLabels(workspace, store, tx.list_file_labels(), foreign)
            return tx.list_file_versions(), labels

        versions, labels = await store.read(look)
        await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        by_name = {version.name: version for version in versions}
        files = cls(workspace, folder, store, now, by_name, labels)
        await labels.note_old()
        await files._prune()
        return files

    async def read(
        self, path: str, convert: Callable[[bytes], T]
    ) -> tuple[T, Label, tuple[str, ...]]:
        """What `convert`, in a thread, makes of the file's content, its label, and what private
        sources it may hold.
        """
        place = self.workspace.normalize(path)
        async with self.lock:

            def look() -> tuple[T, str]:
                data = self.workspace.read(path)
                return convert(data), hash_content(data)

            result, digest = await asyncio.to_thread(look)
            label = await self.labels.label_of(place, digest)
            if label is Label.TRUSTED:
                self.labels.foreign.note_own(digest)
            return result, label, await self.labels.load_held(place, digest, label)

    async def write(
        self,
        path: str,
        edit: Edit,
        author: ChangeAuthor,
        *,
        whole: bool = True,
        mode: int | None = None,
    ) -> None:
        """`edit` turns the old content (None: no file) into the new one.

        The file gets the label of its author; unless they write the `whole` of it, joined to its
        own. Once begun it runs to its end, even when the turn is stopped. Raises ToolError.
        """
        await run_to_completion(self._write(path, edit, author, whole, mode))

    async def _write(
        self, path: str, edit: Edit, author: ChangeAuthor, whole: bool, mode: int | None
    ) -> None:
        labels = self.labels
        async with self.lock:
            with ExitStack() as stack:
                pending, new, lines = await asyncio.to_thread(
                    self._prepare, stack, path, edit, whole, mode
                )
                place, before, digest = pending.place, Label.TRUSTED, hash_content(new)
                if pending.old is not None:
                    before = await labels.label_of(place, former := hash_content(pending.old))
                    if before is Label.TRUSTED:
                        labels.foreign.note_own(former)
                elif labels.by_folded and labels.find_own(place):
                    await labels.remove([place])
                after = author.label if whole else author.label.join_with(before)
                made = author.has_read
                if made and not await asyncio.to_thread(_adds_link, pending.old, new):
                    made = ()
                kept = () if whole else labels.list_held([place])
                holds = join_sources((author.carries, made, kept))
                if pending.old != new:
                    version = FileVersion(
                        f"{int(max(self.versions, default=0)) + 1:012}", author.session,
                        author.turn, author.call_id, place, self.now(), hash_content(pending.old),
                        digest, pending.mode, len(pending.old or b""), before,
                        author.undoes, lines=lines,
                    )  # fmt: skip
                    added: list[FileLabel] = []
                    foreign: list[ForeignContent] = []
                    if after is Label.UNTRUSTED:  # the names of created folders are text, too
                        added = labels.label_new_names(pending.created, author.turn)
                        holds = join_sources((holds, labels.list_held([place])))
                        is_note = place.endswith(NOTE_KINDS) and self.workspace.is_plain_text(place)
                        maker = NOTE if is_note else ""
                        added.append(
                            FileLabel(
                                place, after, author.turn, digest=digest, holds=holds, maker=maker
                            )
                        )
                        held = HeldContent.of(place, digest, new or b"")
                        foreign = labels.find_new_foreign([held], author.turn)
                    elif (
                        holds
                        or not labels.by_folded
                        or (not labels.needs_cleaning(place) and labels.needs_row(place, digest))
                    ):
                        added.append(
                            FileLabel(place, after, author.turn, digest=digest, holds=holds)
                        )
                    await self._commit(pending, version, added, foreign)
            if after is Label.TRUSTED and (new is None or before is not after):
                await labels.set_trusted(place, digest, author.turn)
            await self.prune_if_due()

    def _prepare(
        self, stack: ExitStack, path: str, edit: Edit, whole: bool, mode: int | None
    ) -> tuple[PendingWrite, bytes | None, int]:
        """Both contents, on disk unless they are the same, and how many more lines the new one has;
        nothing is changed yet. In a thread.
        """
        pending = stack.enter_context(self.workspace.prepare_write(path, whole))
        old, new = pending.old, edit(pending.old)
        if old is not None and old != new:
            place = self.folder / hash_content(old)
            try:
                if not place.exists() or place.read_bytes() != old:  # a crash may have cut it off
                    write_private_file(place, old)
            except OSError as error:
                raise ToolError(
                    f"the version so far could not be kept in {self.folder}:"
                    f" {error.strerror or error}; nothing was changed"
                ) from error
        if new is not None and old != new:
            pending.stage(new, self.folder, mode)
        counts = [0, 0]
        for at, content in enumerate((old, new)):
            if content and b"\0" not in content:
                counts[at] = content.count(b"\n") + (not content.endswith(b"\n"))
        return pending, new, counts[1] - counts[0]

    async def _commit(
        self,
        pending: PendingWrite,
        version: FileVersion,
        added: list[FileLabel],
        foreign: list[ForeignContent],
    ) -> None:
        """The record first, then the change."""
        surplus = self.labels.foreign.list_surplus(foreign) if foreign else []

        def record(tx: Tx) -> None:
            tx.put_files(added, [version])
            if foreign:
                tx.change_foreign_contents(foreign, surplus)

        await self.store.write(record)
        self.add_versions([version])
        if added:
            self.labels.add(added)
        if foreign:
            self.labels.foreign.change(foreign, surplus)
        try:
            await asyncio.to_thread(pending.commit)
        except (OSError, ToolError):
            await self._remove_versions([version.name])
            raise

    def add_versions(self, versions: Iterable[FileVersion]) -> None:
        """The journal has them."""
        for version in versions:
            self.versions[version.name] = version
            self._unpruned_bytes += version.size + PRUNE_AFTER_BYTES // PRUNE_AFTER

    async def prune_if_due(self) -> None:
        """The caller holds the lock."""
        if self._unpruned_bytes >= PRUNE_AFTER_BYTES:
            try:
                await self._prune()
            except StoreUnavailable as error:
                log.warning("old versions of files were not pruned: %s", error)

    def is_own_text(self, path: str, session: str) -> bool:
        """A plain text that a conversation may write after a stranger's: a new one, or one that it
        has made then, as it left it. Where there are programs, only a note: some follow a `.txt`.
        """
        if not self.workspace.is_plain_text(path):
            return False
        place = self.workspace.normalize(path)
        if not (place.endswith(NOTE_KINDS) or self._lies_among_texts(place)):
            return False
        if self.workspace.stat(path) is None:
            return True
        changes = [one for one in self.versions.values() if one.path == place]
        is_made_here = bool(changes) and {one.session for one in changes} == {session}
        return (
            is_made_here
            and changes[0].old == NO_FILE
            and self.labels.find_label(place) is Label.UNTRUSTED
            and self.labels.hash_file(place) == changes[-1].new
        )

    def _lies_among_texts(self, place: str) -> bool:
        """Its folder and those above hold texts and no other file, and one of these is the owner's.
        Folders are not looked into, nor what is hidden.
        """
        found: list[PurePosixPath] = []
        for folder in PurePosixPath(place).parents:
            with suppress(OSError), os.scandir(self.workspace.root / folder) as entries:
                files = (one.name for one in entries if not one.is_dir(follow_symlinks=False))
                found += (folder / name for name in files if not name.startswith("."))
        is_mine = (self.labels.find_label(str(one)) is Label.TRUSTED for one in found)
        return all(one.suffix.lower() in TEXT_KINDS for one in found) and any(is_mine)

    def load_content(self, name: str) -> bytes | None:
        """A former version, by its hash. In a thread. Raises ToolError if it is gone or damaged."""
        if name == NO_FILE:
            return None
        try:
            data = (self.folder / name).read_bytes()
        except OSError as error:
            raise ToolError("what it held is not kept any more") from error
        if hash_content(data) != name:
            raise ToolError("what was kept of it is damaged")
        return data

    async def set_undone(self, versions: Iterable[FileVersion], undone: bool) -> None:
        """These were undone, or redone."""
        changed = {version.name: replace(version, undone=undone) for version in versions}
        await self.store.write(lambda tx: tx.put_files(versions=changed.values()))
        self.versions |= changed

    async def remove_turns(self, turns: Collection[str]) -> None:
        """What these turns changed cannot be undone any more: what the files held is deleted."""
        async with self.lock:
            names = [one.name for one in self.versions.values() if one.turn in turns]
            if names:
                await self._remove_versions(names)
                await asyncio.to_thread(self._delete_contents)

    async def _remove_versions(self, names: Sequence[str]) -> None:
        await self.store.write(lambda tx: tx.remove_file_versions(names))
        for name in names:
            del self.versions[name]

    async def _prune(self) -> None:
        """Delete what is too old or too much: the records, then contents without a record."""
        self._unpruned_bytes = 0
        versions = list(self.versions.values())
        expired = versions[: count_expired(versions, self.now(), self.max_bytes)]
        if expired:
            await self._remove_versions([version.name for version in expired])
        await asyncio.to_thread(self._delete_contents)

    def _delete_contents(self) -> None:
        known = {version.old for version in list(self.versions.values())}
        files = [(file, file.stat().st_mtime) for file in self.folder.iterdir()]
        bound = sorted((at, file) for file, at in files if file.name.startswith(KEPT_PREFIX))
        since = self.now().timestamp() - KEPT_S
        known |= {file.name for at, file in bound[-MAX_KEPT_FILES:] if at > since}
        for file, _ in files:
            if file.name not in known:
                file.unlink()


@tool(effect=Effect.WRITE, parallel=True, critical=("to",), paths=("path", "to"), public=True)
async def copy_file(files: FileStore, context: ToolContext, path: str, to: str) -> str:
    """Copy a file within the workspace, or one that came with a message (inbox/...) into it,
    so that commands can read it.
    """
    data, author = await _read_to_copy(files, context, path)
    await files.write(to, lambda old: data, author)
    return f"copied {len(data)} bytes to {to}"


@tool(effect=Effect.WRITE, parallel=True, critical=("path", "to"), paths=("path", "to"))
async def move_file(files: FileStore, context: ToolContext, path: str, to: str) -> str:
    """Move or rename a file of the workspace; `to` is its whole new path, where nothing may be."""
    workspace = files.workspace
    source, there = workspace.stat(path), workspace.stat(to)
    if source and stat.S_ISDIR(source.st_mode):
        raise ToolError(f"{path}: this is a folder; move its files one by one")
    if there:
        what = "a folder; name the file in it" if stat.S_ISDIR(there.st_mode) else "something"
        raise ToolError(f"{to}: there is {what} already")
    if workspace.is_mounted(workspace.normalize(path)):
        raise ToolError(f"{path}: what came with messages stays there; copy_file copies it")
    data, author = await _read_to_copy(files, context, path)

    def create(old: bytes | None) -> bytes:
        if old is not None:
            raise ToolError(f"{to}: somebody else made it just now")
        return data

    def remove(old: bytes | None) -> None:
        if old != data:
            raise ToolError(f"{path}: somebody else changed it just now; it is in {to}, too")

    async def move() -> None:
        """A crash in between leaves the file in both places."""
        await files.write(to, create, author, mode=source.st_mode & 0o777 if source else None)
        await files.write(path, remove, author)

    await run_to_completion(move())
    return f"moved {path} to {to}"


async def _read_to_copy(
    files: FileStore, context: ToolContext, path: str
) -> tuple[bytes, ChangeAuthor]:
    """The content, and whose words a copy of it is."""
    data, label, holds = await files.read(path, bytes)
    author = ChangeAuthor.from_context(context)
    own = (path,) if author.label is Label.UNTRUSTED and label is Label.TRUSTED else ()
    label, carries = author.label.join_with(label), (*author.carries, *holds, *own)
    return data, replace(author, label=label, carries=carries)
