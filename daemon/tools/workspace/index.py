"""What lies in the workspace, folder by folder: a folder that did not change is not listed again,
so a look costs as much as there are folders.

Names, owners and kinds are those of now. A size is that of when its folder last changed: who writes
into a file in place, by hand, is its owner.
"""

import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from daemon.core import value
from daemon.core.rows import LabelScope
from daemon.core.trust import Label
from daemon.tools.workspace.labels import SETTLED_NS, FileLabels, casefold_path, file_clock_ns

MAX_ENTRIES = 200_000
UNTRUSTED = Label.UNTRUSTED
Stamp = tuple[int, int, int]


@value
class Folder:
    """`files`: their sizes; of what is no ordinary file, -1. `others`: whose, of files of other
    users than ours.
    """

    files: dict[str, int]
    folders: tuple[str, ...]
    others: dict[str, int]
    sockets: tuple[str, ...]
    sizes: frozenset[int]
    has_repository: bool


@dataclass(slots=True)
class WorkspaceIndex:
    """`too_much`: there is more than is looked at, or what cannot be; its name."""

    root: Path
    max_entries: int = MAX_ENTRIES
    folders: dict[str, Folder] = field(default_factory=dict)
    too_much: str | None = None
    _stamps: dict[str, Stamp] = field(default_factory=dict)

    def refresh(self) -> "WorkspaceIndex":
        """As it is now; another value, so that it stays as it is for who has it. In a thread."""
        found = WorkspaceIndex(self.root, self.max_entries)
        waiting, count = [""], 0
        while waiting:
            place = waiting.pop()
            at = f"{self.root}/{place}"
            try:
                info = os.lstat(at)
                stamp = (info.st_ino, info.st_mtime_ns, info.st_ctime_ns)
                folder = (
                    self.folders[place] if self._stamps.get(place) == stamp else read_folder(at)
                )
            except FileNotFoundError:
                continue
            except OSError:
                found.too_much = found.too_much or place or "."
                continue
            if info.st_ctime_ns < file_clock_ns() - SETTLED_NS:
                found._stamps[place] = stamp
            found.folders[place] = folder
            count += len(folder.files) + len(folder.folders)
            if count > self.max_entries:
                found.too_much = "."
                break
            prefix = f"{place}/" if place else ""
            waiting += [prefix + name for name in folder.folders]
        return found

    def list_sockets(self) -> Iterator[Path]:
        """Of other programs that listen here."""
        for place, folder in self.folders.items():
            for name in folder.sockets:
                yield self.root / place / name

    def list_sized(self, sizes: Collection[int]) -> Iterator[str]:
        """Files of these sizes."""
        for place, folder in self.folders.items():
            if not folder.sizes.isdisjoint(sizes):
                prefix = f"{place}/" if place else ""
                yield from (prefix + one for one, size in folder.files.items() if size in sizes)

    def list_untrusted(self, labels: FileLabels) -> Iterator[str]:
        """Files that are not known to be the owner's. In a thread."""
        marked = {
            casefold_path(one.path)
            for one in labels.entries
            if one.label is Label.UNTRUSTED and one.scope is LabelScope.FILE
        }
        above = {one.rpartition("/")[0] for one in marked}
        sizes, states = labels.foreign.sizes, dict[str, Label]()
        for place, folder in self.folders.items():
            state = UNTRUSTED if labels.unsandboxed else _judge(place, folder, labels, states)
            states[place] = state
            prefix = f"{place}/" if place else ""
            names = dict[str, int](folder.others)
            if state is Label.UNTRUSTED:
                names |= folder.files
            elif not sizes.isdisjoint(folder.sizes):
                names |= {name: size for name, size in folder.files.items() if size in sizes}
            if marked and casefold_path(place) in above:
                spelled = {name: casefold_path(prefix + name) for name in folder.files}
                names |= {name: 0 for name, folded in spelled.items() if folded in marked}
            for name in names:
                owner = folder.others.get(name)
                if labels.find_label(prefix + name, owner=owner) is Label.UNTRUSTED:
                    yield prefix + name


def _judge(place: str, folder: Folder, labels: FileLabels, states: dict[str, Label]) -> Label:
    """What a folder says of what is in it, unless a file has a label of its own."""
    if labels.by_folded and (found := labels.find_tree(place, casefold_path(place))):
        return found
    if not place:
        return Label.TRUSTED
    above = states.get(place.rpartition("/")[0], Label.TRUSTED)
    return Label.UNTRUSTED if folder.has_repository else above


def show_name(path: str) -> str:
    """On one line, with the escapes of Python where a sign of it cannot be shown."""
    return path if path.isprintable() else repr(path)


def lstat(place: Path) -> os.stat_result | None:
    """None for nothing."""
    try:
        return place.lstat()
    except (OSError, ValueError):
        return None


def join(place: str, name: str) -> str:
    """A path below a folder; "" is the workspace."""
    return f"{place}/{name}" if place else name


def read_folder(at: str) -> Folder:
    """Raises OSError."""
    files, others = dict[str, int](), dict[str, int]()
    folders, sockets = list[str](), list[str]()
    own = os.getuid()
    with os.scandir(at) as entries:
        for entry in entries:
            try:
                info = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(info.st_mode):
                folders.append(entry.name)
                continue
            files[entry.name] = info.st_size if stat.S_ISREG(info.st_mode) else -1
            if info.st_uid != own:
                others[entry.name] = info.st_uid
            if stat.S_ISSOCK(info.st_mode):
                sockets.append(entry.name)
    return Folder(
        files,
        tuple(folders),
        others,
        tuple(sockets),
        frozenset(files.values()),
        ".git" in files or ".git" in folders,
    )


@dataclass(slots=True)
class IndexCache:
    """The index of now, for all that look."""

    root: Path
    max_entries: int = MAX_ENTRIES
    lock: Lock = field(default_factory=Lock)
    index: WorkspaceIndex | None = None

    def look(self) -> WorkspaceIndex:
        """In a thread."""
        with self.lock:
            known = self.index or WorkspaceIndex(self.root, self.max_entries)
            self.index = known.refresh()
            return self.index
