"""The one way in which the house touches a file of the workspace: its label is known, its version so far is kept (F3, F8).

Taking changes of files back (F8): which turn, which files, and only where nobody has changed them since.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Self, TypeVar
from weakref import WeakValueDictionary

from daemon.core import value
from daemon.core.clock import run_to_completion
from daemon.core.errors import StoreUnavailable
from daemon.core.journal import ReadTx, Store, Tx
from daemon.core.rows import FileLabel, FileVersion
from daemon.core.trust import Label
from daemon.tools.base import ToolContext, ToolError
from daemon.tools.workspace.fs import PendingWrite, Workspace, casefold_name
from daemon.tools.workspace.history import NO_FILE, FileHistory, hash_content
from daemon.tools.workspace.labels import FileLabels

log = logging.getLogger(__name__)
T = TypeVar("T")
Edit = Callable[[bytes | None], bytes | None]


@value
class ChangeAuthor:
    """Who changes a file: a call of a turn, or the owner with /undo. `label` is what their texts are good for."""

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


@value
class FileChange:
    """What is to become of a file; see `Files.write`."""

    edit: Edit
    author: ChangeAuthor
    whole: bool
    mode: int | None


@value
class PreparedWrite:
    """A change that is ready on disk; `open` gives it up when it is closed."""

    pending: PendingWrite
    old: str
    new: str
    open: ExitStack


@dataclass(slots=True)
class FileStore:
    """The files of the workspace. Changes of one file come one after the other, and not while it is being read."""

    workspace: Workspace
    history: FileHistory
    labels: FileLabels
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    @classmethod
    async def open(
        cls, workspace: Workspace, folder: Path, keeping: Store, now: Callable[[], datetime]
    ) -> Self:
        """With what the journal knows of versions, which lie in `folder`, and of labels. Raises OSError, StoreUnavailable."""

        def look(tx: ReadTx) -> tuple[list[FileVersion], list[FileLabel]]:
            return tx.list_file_versions(), tx.list_file_labels()

        told, marked = await keeping.read(look)
        versions = await asyncio.to_thread(FileHistory.open, folder, keeping, now, told)
        return cls(workspace, versions, FileLabels.load(workspace, keeping, marked))

    async def read(self, path: str, shown: Callable[[bytes], T]) -> tuple[T, Label]:
        """What `shown` makes, in a thread, of what the file holds, and how far that may be trusted. Raises ToolError."""
        async with self._lock_for(path):
            made = await asyncio.to_thread(lambda: shown(self.workspace.read(path)))
            return made, await self.labels.label_of(path)

    async def write(
        self,
        path: str,
        edit: Edit,
        author: ChangeAuthor,
        *,
        whole: bool = True,
        mode: int | None = None,
    ) -> None:
        """The file holds what `edit` makes of what it held (None: there is no file). Raises ToolError, StoreUnavailable.

        It gets the label of its author; where the author does not write the `whole` of it, joined to its own. What has begun
        goes on to its end, even when the turn is stopped meanwhile.
        """
        await run_to_completion(self._write(path, FileChange(edit, author, whole, mode)))

    async def _write(self, path: str, change: FileChange) -> None:
        async with self._lock_for(path):
            before = await self.labels.label_of(path)
            after = change.author.label if change.whole else change.author.label.join_with(before)
            planned = await asyncio.to_thread(self._prepare, path, change)
            with planned.open:
                if planned.old != planned.new:
                    await self._commit(path, planned, change.author, before, after)
            if after is Label.TRUSTED and before is not after:
                await self.labels.set_trusted(path)
        try:
            await self.history.prune()
        except StoreUnavailable as error:
            log.warning("old versions of files were not thinned out: %s", error)

    def _prepare(self, path: str, change: FileChange) -> PreparedWrite:
        """The version so far and the new content, both on disk; nothing is changed yet."""
        with ExitStack() as stack:
            draft = stack.enter_context(self.workspace.prepare_write(path, make=change.whole))
            new = change.edit(draft.old)
            if draft.old == new:
                return PreparedWrite(draft, hash_content(new), hash_content(new), stack.pop_all())
            old = self.history.save_content(draft.old)
            stack.callback(self.history.release, old)
            if new is not None:
                draft.stage(new, self.history.folder, change.mode)
            return PreparedWrite(draft, old, hash_content(new), stack.pop_all())

    async def _commit(
        self, path: str, planned: PreparedWrite, author: ChangeAuthor, before: Label, after: Label
    ) -> None:
        place, draft, versions = self.workspace.normalize(path), planned.pending, self.history
        version = FileVersion(
            versions.next_name(), author.session, author.turn, author.call_id, place, versions.now(), planned.old, planned.new,
            draft.mode, len(draft.old or b""), before, author.undoes,
        )  # fmt: skip
        marks = (
            self._labels_for(place, draft.created, author.turn) if after is Label.UNTRUSTED else []
        )

        def note(tx: Tx) -> None:
            tx.put_file_versions([version])
            tx.put_file_labels(marks)

        with self.labels.protect_while_writing(place):
            await versions.store.write(note)
            versions.add_version(version)
            self.labels.add_labels(marks)
            try:
                await asyncio.to_thread(draft.remove if planned.new == NO_FILE else draft.commit)
            except (OSError, ToolError):
                await versions.discard(version)
                raise

    def _lock_for(self, path: str) -> asyncio.Lock:
        return self._locks.setdefault(casefold_name(self.workspace.normalize(path)), asyncio.Lock())

    def _labels_for(self, place: str, made: Sequence[str], turn: str) -> list[FileLabel]:
        """For the file, and for the folders that came with it: their names are text, too."""
        return [*self.labels.label_new_names(made, turn), FileLabel(place, Label.UNTRUSTED, turn)]


@value
class UndoResult:
    """What became of one file."""

    path: str
    done: bool
    words: str


def find_latest_turn(versions: Sequence[FileVersion], sessions: Collection[str]) -> str:
    """The latest turn of these sessions that changed files and has not been taken back; "" when there is none."""
    own = (
        one
        for one in reversed(versions)
        if one.session in sessions and not one.undone and not one.undoes
    )
    return next((one.turn for one in own), "")


def group_by_path(versions: Sequence[FileVersion], turn: str) -> dict[str, list[FileVersion]]:
    """What a turn changed, oldest first, in order of its first change of each file."""
    found: dict[str, list[FileVersion]] = {}
    for version in versions:
        if version.turn == turn:
            found.setdefault(version.path, []).append(version)
    return found


async def undo_turn(files: FileStore, turn: str, author: ChangeAuthor) -> list[UndoResult]:
    """Every file that the turn changed holds what it held before it. Raises StoreUnavailable.

    Each file for itself: one that has been changed since is left alone, and told.
    """
    return [
        await _undo_file(files, path, changes, author)
        for path, changes in group_by_path(files.history.entries, turn).items()
    ]


async def _undo_file(
    files: FileStore, path: str, changes: Sequence[FileVersion], author: ChangeAuthor
) -> UndoResult:
    first, own = (
        changes[0],
        {one.new for one in changes},
    )  # of several, the last may have been cut off before it was done

    def former(now: bytes | None) -> bytes | None:
        if hash_content(now) == first.old:
            return now
        if hash_content(now) not in own:
            raise ToolError("changed since, so it was left as it is")
        return files.history.load_content(first.old)

    as_before = ChangeAuthor(
        author.session, author.turn, author.call_id, first.label, author.undoes
    )
    try:
        await files.write(path, former, as_before, mode=first.mode)
    except ToolError as error:
        return UndoResult(path, done=False, words=str(error).removeprefix(f"{path}: "))
    await files.history.set_undone(changes, undone=True)
    await _restore_undone(files, first.undoes)
    return UndoResult(path, done=True, words=_describe(first))


async def _restore_undone(files: FileStore, turn: str) -> None:
    """An undo was taken back: what it had taken back stands again."""
    if turn:
        await files.history.set_undone(
            [one for one in files.history.entries if one.turn == turn], undone=False
        )


def _describe(first: FileVersion) -> str:
    if first.old == NO_FILE:
        return "removed; it did not exist before"
    return "as it was before" + (" (text from outside)" if first.label is Label.UNTRUSTED else "")
