"""The one way in which the house touches a file of the workspace: its label is known, its version so far is kept (F3, F8)."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Self, TypeVar
from weakref import WeakValueDictionary

from daemon.core.errors import StoreUnavailable
from daemon.core.label import Label
from daemon.core.waiting import uninterrupted
from daemon.tools import marks as marking
from daemon.tools import versions as versioning
from daemon.tools.base import ToolContext, ToolError
from daemon.tools.draft import Draft
from daemon.tools.folding import folded
from daemon.tools.keeping import Keeping, Looking, Noting
from daemon.tools.marks import Mark, Marks
from daemon.tools.versions import NOTHING, Version, Versions, hash_of
from daemon.tools.workspace import Workspace

log = logging.getLogger(__name__)
T = TypeVar("T")
Edit = Callable[[bytes | None], bytes | None]


@dataclass(frozen=True, slots=True)
class Author:
    """Who changes a file: a call of a turn, or the owner with /undo. `label` is what their texts are good for."""

    session: str
    turn: str
    call_id: str
    label: Label
    undoes: str = ""

    @classmethod
    def of(cls, context: ToolContext) -> Self:
        """The call that runs."""
        label = Label.UNTRUSTED if context.untrusted_source else Label.TRUSTED
        return cls(context.session_id, context.turn.id, context.call_id, label)


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of a file; see `Files.write`."""

    edit: Edit
    author: Author
    whole: bool
    mode: int | None


@dataclass(frozen=True, slots=True)
class Planned:
    """A change that is ready on disk; `open` gives it up when it is closed."""

    draft: Draft
    old: str
    new: str
    open: ExitStack


@dataclass(slots=True)
class Files:
    """The files of the workspace. Changes of one file come one after the other, and not while it is being read."""

    workspace: Workspace
    versions: Versions
    marks: Marks
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    @classmethod
    async def open(cls, workspace: Workspace, folder: Path, keeping: Keeping, now: Callable[[], datetime]) -> Self:
        """With what the journal knows of versions, which lie in `folder`, and of labels. Raises OSError, StoreUnavailable."""

        def look(tx: Looking) -> tuple[list[str], list[str]]:
            return list(tx.all_kept(versioning.KIND).values()), list(tx.all_kept(marking.KIND).values())

        told, marked = await keeping.read(look)
        versions = await asyncio.to_thread(Versions.open, folder, keeping, now, told)
        return cls(workspace, versions, Marks.of(workspace, keeping, marked))

    async def read(self, path: str, shown: Callable[[bytes], T]) -> tuple[T, Label]:
        """What `shown` makes, in a thread, of what the file holds, and how far that may be trusted. Raises ToolError."""
        async with self._lock(path):
            made = await asyncio.to_thread(lambda: shown(self.workspace.read(path)))
            return made, await self.marks.label_of(path)

    async def write(self, path: str, edit: Edit, author: Author, *, whole: bool = True, mode: int | None = None) -> None:
        """The file holds what `edit` makes of what it held (None: there is no file). Raises ToolError, StoreUnavailable.

        It gets the label of its author; where the author does not write the `whole` of it, joined to its own. What has begun
        goes on to its end, even when the turn is stopped meanwhile.
        """
        await uninterrupted(self._write(path, Change(edit, author, whole, mode)))

    async def _write(self, path: str, change: Change) -> None:
        async with self._lock(path):
            before = await self.marks.label_of(path)
            after = change.author.label if change.whole else change.author.label.joined(before)
            planned = await asyncio.to_thread(self._plan, path, change)
            with planned.open:
                if planned.old != planned.new:
                    await self._do(path, planned, change.author, before, after)
            if after is Label.TRUSTED and before is not after:
                await self.marks.unmark(path)
        try:
            await self.versions.thin_out()
        except StoreUnavailable as error:
            log.warning("old versions of files were not thinned out: %s", error)

    def _plan(self, path: str, change: Change) -> Planned:
        """The version so far and the new content, both on disk; nothing is changed yet."""
        with ExitStack() as stack:
            draft = stack.enter_context(self.workspace.draft(path, make=change.whole))
            new = change.edit(draft.old)
            if draft.old == new:
                return Planned(draft, hash_of(new), hash_of(new), stack.pop_all())
            old = self.versions.save(draft.old)
            stack.callback(self.versions.let_go, old)
            if new is not None:
                draft.hold(new, self.versions.folder, change.mode)
            return Planned(draft, old, hash_of(new), stack.pop_all())

    async def _do(self, path: str, planned: Planned, author: Author, before: Label, after: Label) -> None:
        place, draft, versions = self.workspace.name(path), planned.draft, self.versions
        version = Version(
            versions.next_name(), author.session, author.turn, author.call_id, place, versions.now(), planned.old, planned.new,
            draft.mode, len(draft.old or b""), before, author.undoes,
        )  # fmt: skip
        marks = self._marks(place, draft.made, author.turn) if after is Label.UNTRUSTED else []

        def note(tx: Noting) -> None:
            versions.note(tx, version)
            self.marks.note(tx, marks)

        with self.marks.writing(place):
            await versions.keeping.write(note)
            versions.noted(version)
            self.marks.noted(marks)
            try:
                await asyncio.to_thread(draft.remove if planned.new == NOTHING else draft.put)
            except (OSError, ToolError):
                await versions.forget(version)
                raise

    def _lock(self, path: str) -> asyncio.Lock:
        return self._locks.setdefault(folded(self.workspace.name(path)), asyncio.Lock())


    def _marks(self, place: str, made: Sequence[str], turn: str) -> list[Mark]:
        """For the file, and for the folders that came with it: their names are text, too."""
        return [*self.marks.of_names(made, turn), Mark(place, Label.UNTRUSTED, turn)]
