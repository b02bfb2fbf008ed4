"""Labels of files (F3): which files of the workspace hold, or are named by, text from outside. A sidecar in the journal."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Self
from urllib.parse import quote_from_bytes

from daemon.core.label import Label, join_all
from daemon.tools.folding import folded
from daemon.tools.keeping import Keeping, Noting
from daemon.tools.workspace import Workspace

KIND = "file"


class Scope(StrEnum):
    """What a mark speaks of: a file and its name, a name alone, or a folder with everything in it."""

    FILE = "file"
    NAME = "name"
    TREE = "tree"


@dataclass(frozen=True, slots=True)
class Mark:
    """The label of a place, and the turn that gave it. `path` is its one name in the workspace."""

    path: str
    label: Label
    turn: str
    scope: Scope = Scope.FILE

    @property
    def name(self) -> str:
        """What it is kept under: any path can be written so, in broken characters too."""
        return quote_from_bytes(os.fsencode(self.path))

    def written(self) -> str:
        """As the journal keeps it."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Self:
        """The opposite of `written`."""
        row = json.loads(text)
        return cls(row["path"], Label(row["label"]), row["turn"], Scope(row["scope"]))


@dataclass(slots=True)
class Marks:
    """The only owner of the labels. What is not marked is trusted; the nearest mark counts: a file's own, then its folder's.

    Names that differ only in case or in how they are composed are one name, as they are on some disks.
    """

    files: Workspace
    keeping: Keeping
    _kept: dict[str, Mark] = field(default_factory=dict)
    _places: dict[str, set[str]] = field(default_factory=dict)
    _writing: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, files: Workspace, keeping: Keeping, rows: Iterable[str]) -> Self:
        """With what the journal kept (`rows`)."""
        marks = cls(files, keeping)
        marks.noted([Mark.read(row) for row in rows])
        return marks

    @property
    def any(self) -> bool:
        """Some file is untrusted."""
        return bool(self._kept)

    @property
    def all(self) -> list[Mark]:
        """Every mark."""
        return list(self._kept.values())

    def snapshot(self) -> "Marks":
        """The labels as they are now: what is read from here on may have been written over before it is asked about."""
        return Marks(self.files, self.keeping, dict(self._kept), {name: set(places) for name, places in self._places.items()})

    async def mark(self, path: str, label: Label, turn: str, scope: Scope = Scope.FILE) -> None:
        """From now on this place has this label. Raises ToolError for a place outside the workspace, StoreUnavailable."""
        await self.put([Mark(self.files.name(path), label, turn, scope)])

    async def unmark(self, path: str) -> None:
        """A trusted text stands here now, whole. In a marked folder that is said by a mark of its own."""
        name = self.files.name(path)
        if self._inherited(name) is Label.UNTRUSTED:
            await self.put([Mark(name, Label.TRUSTED, "")])
        else:
            await self.drop([name])

    async def label_of(self, path: str) -> Label:
        """Of what this file holds. A file that is gone loses its mark; what somebody sent is never trusted."""
        if self.files.came_from_outside(path):
            return Label.UNTRUSTED
        if not self._kept:
            return Label.TRUSTED
        name = self.files.name(path)
        if name in self._kept and not self.files.exists(name):
            await self.drop([name])
        return self._label(name)

    def label_of_names(self, names: Iterable[str]) -> Label:
        """Of these names of places, as a list shows them: a folder's name is as good as the worst thing in it."""
        names = list(names)
        if self.files.guests and any(map(self.files.came_from_outside, names)):
            return Label.UNTRUSTED
        if not self._kept:
            return Label.TRUSTED
        marked = {place for mark in self._untrusted for place in _self_and_above(_folded(mark.path))}
        return join_all(Label.UNTRUSTED if _folded(name) in marked else self._label(name) for name in names)

    def of_names(self, places: Iterable[str], turn: str) -> list[Mark]:
        """Marks to put on new names that came from outside; what is marked already stays as it is."""
        return [Mark(place, Label.UNTRUSTED, turn, Scope.NAME) for place in places if place not in self._kept]

    async def put(self, marks: Iterable[Mark]) -> None:
        """Several at once, in the journal when this returns."""
        marks = list(marks)
        await self.keeping.write(lambda tx: self.note(tx, marks))
        self.noted(marks)

    async def drop(self, names: Iterable[str]) -> None:
        """Several at once; not those of files that are just being made."""
        gone = [self._kept[name] for name in names if name in self._kept and name not in self._writing]
        if not gone:
            return

        def work(tx: Noting) -> None:
            for mark in gone:
                tx.drop(KIND, mark.name)

        await self.keeping.write(work)
        for mark in gone:
            if self._kept.get(mark.path) is mark:  # not one that was put there meanwhile
                del self._kept[mark.path]
                self._places[_folded(mark.path)].discard(mark.path)

    def note(self, tx: Noting, marks: Iterable[Mark]) -> None:
        """Into the journal, together with something else."""
        for mark in marks:
            tx.keep(KIND, mark.name, mark.written())

    def noted(self, marks: Iterable[Mark]) -> None:
        """The journal has them."""
        for mark in marks:
            self._kept[mark.path] = mark
            self._places.setdefault(_folded(mark.path), set()).add(mark.path)

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """This file is being made: that it is not there yet does not cost it its mark."""
        self._writing.append(name)
        try:
            yield
        finally:
            self._writing.remove(name)

    def gone(self, there: set[str]) -> list[str]:
        """Places with a mark that are not among these, and not there by now."""
        return [mark.path for mark in self.all if mark.path not in there and not self.files.exists(mark.path)]

    def tree_above(self, name: str) -> bool:
        """A folder that this lies in is untrusted with everything in it."""
        return self._inherited(name) is Label.UNTRUSTED

    @property
    def _untrusted(self) -> Iterator[Mark]:
        return (mark for mark in self._kept.values() if mark.label is Label.UNTRUSTED)

    def _label(self, name: str) -> Label:
        own = [self._kept[path] for path in self._places.get(_folded(name), ())]
        speaking = [mark.label for mark in own if mark.scope is not Scope.NAME and _speaks(mark, name)]
        return join_all(speaking) if speaking else self._inherited(name)

    def _inherited(self, name: str) -> Label:
        """What the nearest folder with a mark for everything in it says."""
        for place in list(_self_and_above(_folded(name)))[1:]:
            trees = [mark.label for path in self._places.get(place, ()) if (mark := self._kept[path]).scope is Scope.TREE]
            if trees:
                return join_all(trees)
        return Label.TRUSTED


def _speaks(mark: Mark, name: str) -> bool:
    """Bad news holds for every spelling of the name, good news for the one that it is about."""
    return mark.path == name or mark.label is Label.UNTRUSTED


def _self_and_above(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition("/")[0]
    yield ""


def _folded(name: str) -> str:
    return "/".join(map(folded, name.split("/")))
