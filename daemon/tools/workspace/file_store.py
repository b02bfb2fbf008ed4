"""The one way to change a file: its label is set, its former version is kept (F3, F8).

Also undoes the changes of a turn, where nobody has changed the files since.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Self, TypeVar
from weakref import WeakValueDictionary

from daemon.core import value
from daemon.core.clock import run_to_completion
from daemon.core.errors import StoreUnavailable
from daemon.core.rows import FileLabel, FileVersion
from daemon.core.trust import Label
from daemon.store.journal import Store, Tx
from daemon.tools.base import ToolContext, ToolError
from daemon.tools.workspace.fs import PendingWrite, Workspace, casefold_name
from daemon.tools.workspace.history import NO_FILE, FileHistory, hash_content
from daemon.tools.workspace.labels import FileLabels

log = logging.getLogger(__name__)
T = TypeVar("T")
Edit = Callable[[bytes | None], bytes | None]


@value
class ChangeAuthor:
    """A call of a turn, or the owner with /undo. `label`: how far their texts are trusted."""

    session: str
    turn: str
    call_id: str
    label: Label
    undoes: str = ""

    @classmethod
    def from_context(cls, context: ToolContext) -> Self:
        """The call that runs."""
        label = Label.UNTRUSTED if context.untrusted_source else Label.TRUSTED
        return cls(context.session_id, context.turn.id, context.call_id, label)


@dataclass(slots=True)
class FileStore:
    """Changes of one file are made one after the other, and not while it is being read."""

    workspace: Workspace
    history: FileHistory
    labels: FileLabels
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    @classmethod
    async def open(
        cls, workspace: Workspace, folder: Path, store: Store, now: Callable[[], datetime]
    ) -> Self:
        """With the journal's rows; contents of versions lie in `folder`."""

        def look(tx: Tx) -> tuple[list[FileVersion], list[FileLabel]]:
            return tx.list_file_versions(), tx.list_file_labels()

        versions, labels = await store.read(look)
        history = await asyncio.to_thread(FileHistory.open, folder, store, now, versions)
        await history.prune()
        return cls(workspace, history, FileLabels.load(workspace, store, labels))

    async def read(self, path: str, convert: Callable[[bytes], T]) -> tuple[T, Label]:
        """What `convert`, in a thread, makes of the file's content, and its label."""
        place = self.workspace.normalize(path)
        async with self._locks.setdefault(casefold_name(place), asyncio.Lock()):
            made = await asyncio.to_thread(lambda: convert(self.workspace.read(path)))
            return made, await self.labels.label_of(place)

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
        history, labels, place = self.history, self.labels, self.workspace.normalize(path)
        async with self._locks.setdefault(casefold_name(place), asyncio.Lock()):
            before = await labels.label_of(place)
            after = author.label if whole else author.label.join_with(before)
            with ExitStack() as stack:
                pending, old, new = await asyncio.to_thread(
                    self._prepare, stack, path, edit, whole, mode
                )
                if old != new:
                    version = FileVersion(
                        history.next_name(), author.session, author.turn, author.call_id,
                        place, history.now(), old, new,
                        pending.mode, len(pending.old or b""), before, author.undoes,
                    )  # fmt: skip
                    added: list[FileLabel] = []
                    if after is Label.UNTRUSTED:  # the names of created folders are text, too
                        added = labels.label_new_names(pending.created, author.turn)
                        added.append(FileLabel(place, after, author.turn))
                    await self._commit(pending, version, added)
            if after is Label.TRUSTED and before is not after:
                await labels.set_trusted(place)
        try:
            await history.prune()
        except StoreUnavailable as error:
            log.warning("old versions of files were not pruned: %s", error)

    def _prepare(
        self, stack: ExitStack, path: str, edit: Edit, whole: bool, mode: int | None
    ) -> tuple[PendingWrite, str, str]:
        """Both contents on disk, and their hashes; nothing is changed yet. In a thread."""
        pending = stack.enter_context(self.workspace.prepare_write(path, whole))
        new = edit(pending.old)
        if pending.old == new:
            return pending, "", ""
        old = self.history.save_content(pending.old)
        stack.callback(self.history.release, old)
        if new is not None:
            pending.stage(new, self.history.folder, mode)
        return pending, old, hash_content(new)

    async def _commit(
        self, pending: PendingWrite, version: FileVersion, added: list[FileLabel]
    ) -> None:
        def record(tx: Tx) -> None:
            tx.put_file_versions([version])
            if added:
                tx.put_file_labels(added)

        self.labels.being_written.add(version.path)
        try:
            await self.history.store.write(record)
            self.history.add_version(version)
            if added:
                self.labels.add_labels(added)
            try:
                await asyncio.to_thread(pending.commit, version.new == NO_FILE)
            except (OSError, ToolError):
                await self.history.remove([version.name])
                raise
        finally:
            self.labels.being_written.discard(version.path)


@value
class UndoResult:
    """What became of one file."""

    path: str
    done: bool
    words: str


def find_latest_turn(versions: Sequence[FileVersion], sessions: Collection[str]) -> str:
    """The latest turn of these sessions that changed files and is not undone; "" for none."""
    for one in reversed(versions):
        if one.session in sessions and not one.undone and not one.undoes:
            return one.turn
    return ""


def group_by_path(versions: Iterable[FileVersion], turn: str) -> dict[str, list[FileVersion]]:
    """The changes of a turn, oldest first, by file."""
    found: dict[str, list[FileVersion]] = {}
    for version in versions:
        if version.turn == turn:
            found.setdefault(version.path, []).append(version)
    return found


async def undo_turn(files: FileStore, turn: str, author: ChangeAuthor) -> list[UndoResult]:
    """Restore every file that the turn changed, unless it was changed since."""
    changes = group_by_path(files.history.entries, turn)
    return [await _undo_file(files, path, changes[path], author) for path in changes]


async def _undo_file(
    files: FileStore, path: str, changes: Sequence[FileVersion], author: ChangeAuthor
) -> UndoResult:
    # Of several changes, the last may have been cut off before it was made.
    first, own = changes[0], {one.new for one in changes}

    def restore(now: bytes | None) -> bytes | None:
        if hash_content(now) == first.old:
            return now
        if hash_content(now) not in own:
            raise ToolError("changed since, so it was left as it is")
        return files.history.load_content(first.old)

    try:
        await files.write(path, restore, replace(author, label=first.label), mode=first.mode)
    except ToolError as error:
        return UndoResult(path, done=False, words=str(error).removeprefix(f"{path}: "))
    await files.history.set_undone(changes, undone=True)
    if first.undoes:  # an undo was undone: what it had undone stands again
        redone = [one for one in files.history.entries if one.turn == first.undoes]
        await files.history.set_undone(redone, undone=False)
    if first.old == NO_FILE:
        return UndoResult(path, done=True, words="removed; it did not exist before")
    outside = " (text from outside)" if first.label is Label.UNTRUSTED else ""
    return UndoResult(path, done=True, words=f"as it was before{outside}")
