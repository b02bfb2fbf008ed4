"""Labels of files (F3): which files of the workspace hold, or are named by, text from outside. A sidecar in the journal."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

from daemon.core.journal import Store
from daemon.core.rows import FileLabel, LabelScope
from daemon.core.trust import Label, join_all
from daemon.tools.workspace.fs import Workspace, casefold_name


@dataclass(slots=True)
class FileLabels:
    """The only owner of the labels. What is not marked is trusted; the nearest mark counts: a file's own, then its folder's.

    Names that differ only in case or in how they are composed are one name, as they are on some disks.
    """

    workspace: Workspace
    store: Store
    _labels: dict[str, FileLabel] = field(default_factory=dict)
    _by_folded: dict[str, set[str]] = field(default_factory=dict)
    _being_written: list[str] = field(default_factory=list)

    @classmethod
    def load(cls, files: Workspace, keeping: Store, rows: Iterable[FileLabel]) -> Self:
        """With what the journal kept (`rows`)."""
        marks = cls(files, keeping)
        marks.add_labels(rows)
        return marks

    @property
    def has_labels(self) -> bool:
        """Some file is untrusted."""
        return bool(self._labels)

    @property
    def entries(self) -> list[FileLabel]:
        """Every mark."""
        return list(self._labels.values())

    def snapshot(self) -> "FileLabels":
        """The labels as they are now: what is read from here on may have been written over before it is asked about."""
        return FileLabels(
            self.workspace,
            self.store,
            dict(self._labels),
            {name: set(places) for name, places in self._by_folded.items()},
        )

    async def set_label(
        self, path: str, label: Label, turn: str, scope: LabelScope = LabelScope.FILE
    ) -> None:
        """From now on this place has this label. Raises ToolError for a place outside the workspace, StoreUnavailable."""
        await self.save([FileLabel(self.workspace.normalize(path), label, turn, scope)])

    async def set_trusted(self, path: str) -> None:
        """A trusted text stands here now, whole. In a marked folder that is said by a mark of its own."""
        name = self.workspace.normalize(path)
        if self._find_folder_label(name) is Label.UNTRUSTED:
            await self.save([FileLabel(name, Label.TRUSTED, "")])
        else:
            await self.remove([name])

    async def label_of(self, path: str) -> Label:
        """Of what this file holds. A file that is gone loses its mark; what somebody sent is never trusted."""
        if self.workspace.is_from_outside(path):
            return Label.UNTRUSTED
        if not self._labels:
            return Label.TRUSTED
        name = self.workspace.normalize(path)
        if name in self._labels and not self.workspace.exists(name):
            await self.remove([name])
        return self._find_label(name)

    def label_of_names(self, names: Iterable[str]) -> Label:
        """Of these names of places, as a list shows them: a folder's name is as good as the worst thing in it."""
        names = list(names)
        if self.workspace.mount_names and any(map(self.workspace.is_from_outside, names)):
            return Label.UNTRUSTED
        if not self._labels:
            return Label.TRUSTED
        marked = {
            place
            for mark in self._untrusted_labels
            for place in _iter_ancestors(_casefold_path(mark.path))
        }
        return join_all(
            Label.UNTRUSTED if _casefold_path(name) in marked else self._find_label(name)
            for name in names
        )

    def label_new_names(self, places: Iterable[str], turn: str) -> list[FileLabel]:
        """Marks to put on new names that came from outside; what is marked already stays as it is."""
        return [
            FileLabel(place, Label.UNTRUSTED, turn, LabelScope.NAME)
            for place in places
            if place not in self._labels
        ]

    async def save(self, marks: Iterable[FileLabel]) -> None:
        """Several at once, in the journal when this returns."""
        marks = list(marks)
        await self.store.write(lambda tx: tx.put_file_labels(marks))
        self.add_labels(marks)

    async def remove(self, names: Iterable[str]) -> None:
        """Several at once; not those of files that are just being made."""
        gone = [
            self._labels[name]
            for name in names
            if name in self._labels and name not in self._being_written
        ]
        if not gone:
            return

        await self.store.write(lambda tx: tx.remove_file_labels([mark.path for mark in gone]))
        for mark in gone:
            if self._labels.get(mark.path) is mark:  # not one that was put there meanwhile
                del self._labels[mark.path]
                self._by_folded[_casefold_path(mark.path)].discard(mark.path)

    def add_labels(self, marks: Iterable[FileLabel]) -> None:
        """The journal has them."""
        for mark in marks:
            self._labels[mark.path] = mark
            self._by_folded.setdefault(_casefold_path(mark.path), set()).add(mark.path)

    @contextmanager
    def protect_while_writing(self, name: str) -> Iterator[None]:
        """This file is being made: that it is not there yet does not cost it its mark."""
        self._being_written.append(name)
        try:
            yield
        finally:
            self._being_written.remove(name)

    def find_stale(self, there: set[str]) -> list[str]:
        """Places with a mark that are not among these, and not there by now."""
        return [
            mark.path
            for mark in self.entries
            if mark.path not in there and not self.workspace.exists(mark.path)
        ]

    def is_in_untrusted_folder(self, name: str) -> bool:
        """A folder that this lies in is untrusted with everything in it."""
        return self._find_folder_label(name) is Label.UNTRUSTED

    @property
    def _untrusted_labels(self) -> Iterator[FileLabel]:
        return (mark for mark in self._labels.values() if mark.label is Label.UNTRUSTED)

    def _find_label(self, name: str) -> Label:
        own = [self._labels[path] for path in self._by_folded.get(_casefold_path(name), ())]
        speaking = [
            mark.label
            for mark in own
            if mark.scope is not LabelScope.NAME and _applies_to(mark, name)
        ]
        return join_all(speaking) if speaking else self._find_folder_label(name)

    def _find_folder_label(self, name: str) -> Label:
        """What the nearest folder with a mark for everything in it says."""
        for place in list(_iter_ancestors(_casefold_path(name)))[1:]:
            trees = [
                mark.label
                for path in self._by_folded.get(place, ())
                if (mark := self._labels[path]).scope is LabelScope.TREE
            ]
            if trees:
                return join_all(trees)
        return Label.TRUSTED


def _applies_to(mark: FileLabel, name: str) -> bool:
    """Bad news holds for every spelling of the name, good news for the one that it is about."""
    return mark.path == name or mark.label is Label.UNTRUSTED


def _iter_ancestors(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition("/")[0]
    yield ""


def _casefold_path(name: str) -> str:
    return "/".join(map(casefold_name, name.split("/")))
