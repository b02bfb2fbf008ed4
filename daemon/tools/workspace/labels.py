"""Labels of files (F3): which files of the workspace hold, or are named by, text from outside."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Self

from daemon.core.rows import FileLabel, LabelScope
from daemon.core.trust import Label, join_all
from daemon.store.journal import Store
from daemon.tools.workspace.fs import Workspace, casefold_name

UNTRUSTED = Label.UNTRUSTED


@dataclass(slots=True)
class FileLabels:
    """Owns the labels. What has none is trusted; a file's own counts before its folders'.

    Names that differ only in case or composition are one name, as they are on some disks.
    `being_written` are files that need not exist yet to keep their label.
    """

    workspace: Workspace
    store: Store
    being_written: set[str] = field(default_factory=set)
    _by_folded: dict[str, dict[str, FileLabel]] = field(default_factory=dict)

    @classmethod
    def load(cls, workspace: Workspace, store: Store, rows: Iterable[FileLabel]) -> Self:
        """With the journal's rows."""
        labels = cls(workspace, store)
        labels.add_labels(rows)
        return labels

    @property
    def entries(self) -> list[FileLabel]:
        """Every label."""
        return [label for group in self._by_folded.values() for label in group.values()]

    @property
    def has_labels(self) -> bool:
        """Some file is untrusted."""
        return bool(self._by_folded)

    def snapshot(self) -> "FileLabels":
        """The labels of now: what is read next may be overwritten before it is asked about."""
        return self.load(self.workspace, self.store, self.entries)

    async def set_trusted(self, name: str) -> None:
        """Trusted text replaces the whole file. In an untrusted folder it gets its own label."""
        if self.find_folder_label(name) is UNTRUSTED:
            await self.save([FileLabel(name, Label.TRUSTED, "")])
        else:
            await self.remove([name])

    async def label_of(self, name: str) -> Label:
        """Of what this file holds. A file that is gone loses its label."""
        top, slash, _ = name.partition("/")
        if slash and top in self.workspace.mount_names:
            return UNTRUSTED
        if not self._by_folded:
            return Label.TRUSTED
        if not self.workspace.stat(name):
            await self.remove([name])
        return self._find_label(name)

    def label_of_names(self, names: Iterable[str]) -> Label:
        """Of these names, as a list shows them: a folder's name is as bad as what is in it."""
        names, mounts = list(names), self.workspace.mount_names
        if any("/" in name and name.partition("/")[0] in mounts for name in names):
            return UNTRUSTED
        if not self._by_folded:
            return Label.TRUSTED
        places = {
            place
            for folded, group in self._by_folded.items()
            if any(one.label is UNTRUSTED for one in group.values())
            for place in _iter_ancestors(folded)
        }
        return join_all(
            UNTRUSTED if _casefold_path(name) in places else self._find_label(name)
            for name in names
        )

    def label_new_names(self, names: Iterable[str], turn: str) -> list[FileLabel]:
        """Labels for new names that came from outside; existing labels stay as they are."""
        return [
            FileLabel(name, UNTRUSTED, turn, LabelScope.NAME)
            for name in names
            if name not in self._by_folded.get(_casefold_path(name), ())
        ]

    async def save(self, labels: Iterable[FileLabel]) -> None:
        """On disk when this returns."""
        labels = list(labels)
        await self.store.write(lambda tx: tx.put_file_labels(labels))
        self.add_labels(labels)

    def add_labels(self, labels: Iterable[FileLabel]) -> None:
        """The journal has them."""
        for label in labels:
            self._by_folded.setdefault(_casefold_path(label.path), {})[label.path] = label

    async def remove(self, names: Iterable[str]) -> None:
        """Not those of files that are being written."""
        gone: dict[str, FileLabel] = {}
        for name in set(names) - self.being_written:
            if label := self._by_folded.get(_casefold_path(name), {}).get(name):
                gone[name] = label
        if not gone:
            return
        await self.store.write(lambda tx: tx.remove_file_labels(gone))
        for name, label in gone.items():
            folded = _casefold_path(name)
            group = self._by_folded.get(folded, {})
            if group.get(name) is label:  # not one that was added meanwhile
                del group[name]
                if not group:
                    del self._by_folded[folded]

    def find_stale(self, existing: set[str]) -> list[str]:
        """Labelled places that are not among `existing`, and do not exist by now."""
        paths = {label.path for label in self.entries} - existing
        return [path for path in paths if not self.workspace.stat(path)]

    def find_folder_label(self, name: str) -> Label:
        """That of the nearest folder with a label for everything in it."""
        for place in list(_iter_ancestors(_casefold_path(name)))[1:]:
            group = self._by_folded.get(place, {}).values()
            if trees := [one.label for one in group if one.scope is LabelScope.TREE]:
                return join_all(trees)
        return Label.TRUSTED

    def _find_label(self, name: str) -> Label:
        """Bad news holds for every spelling of the name, good news for its own."""
        own = [
            one.label
            for one in self._by_folded.get(_casefold_path(name), {}).values()
            if one.scope is not LabelScope.NAME and (one.path == name or one.label is UNTRUSTED)
        ]
        return join_all(own) if own else self.find_folder_label(name)


def _iter_ancestors(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition("/")[0]
    yield ""


def _casefold_path(name: str) -> str:
    return "/".join(map(casefold_name, name.split("/")))
