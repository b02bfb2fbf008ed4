"""What a command changed: read from its layer, beside the workspace as it stands by now."""

import filecmp
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Literal

from daemon.core import value
from daemon.tools.layers.held import hold
from daemon.tools.layers.layer import Layer
from daemon.tools.workspace.index import join, lstat

Kind = Literal["folder", "file", "mode", "link", "deleted", "special"]
MEANWHILE = "the owner changed it meanwhile"
OPAQUE, ORIGIN = "user.overlay.opaque", "user.overlay.origin"
MAX_PATH = 4096 - 256  # the names in it are to fit, too
MAX_STEPS = 200
PATH_ONLY = os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
UPS = re.compile(r"(\.\./)*")


@value
class Change:
    """`source`: where the new content lies. `conflict`: what the owner did there meanwhile."""

    path: str
    kind: Kind
    source: Path
    conflict: str = ""


class ChangeReader:
    """Of one layer. What is held lies over the workspace. `own`: when files were merged, by their
    path, from a layer that goes on. In a thread.
    """

    def __init__(self, layer: Layer, own: Mapping[str, int]) -> None:
        self.layer, self.upper, self.own = layer, layer.upper, own
        self.lowers = (layer.held, layer.workspace)
        self._plain = {(lower, ""): True for lower in self.lowers}
        self._moved = layer.read_moves()

    @cached_property
    def changes(self) -> list[Change]:
        """In the order of merging: what is gone first, folders before what is in them."""
        if self.layer.kind == "overlay":
            return [*self._find_undone(), *self._walk("")]
        return [*self._compare(self.layer.out * (self.layer.kind == "read-only"), moved=False)]

    def list_names(self, place: str) -> dict[str, os.stat_result]:
        """What stands in this folder of the view when the command has ended."""
        upper = list_folder(self.upper / place)
        if self.layer.kind != "overlay":  # and what came to its place after it was copied
            below = self._list_below(place)
            late = {one: info for one, info in below.items() if self.layer.is_late(info)}
            return {**late, **upper}
        below = {} if has_mark(self.upper / place, OPAQUE) else self._list_below(place)
        return {name: info for name, info in {**below, **upper}.items() if not is_whiteout(info)}

    def find_before(self, path: str) -> os.stat_result | None:
        """What stands below the layer; None for nothing."""
        place = self._find_place(path)
        return lstat(place) if place else None

    def _find_place(self, path: str) -> Path | None:
        above = path.rpartition("/")[0]
        places = (lower / path for lower in self.lowers if self._is_plain(lower, above))
        return next((one for one in places if lstat(one)), None)

    def _is_plain(self, lower: Path, place: str) -> bool:
        """A folder there, not behind a link: what is behind one is no part of the view."""
        if (lower, place) not in self._plain:
            is_folder = stat.S_ISDIR(getattr(lstat(lower / place), "st_mode", 0))
            above = place.rpartition("/")[0]
            self._plain[lower, place] = is_folder and self._is_plain(lower, above)
        return self._plain[lower, place]

    @cached_property
    def _copied(self) -> dict[str, int]:
        return self.layer.read_folders()

    def _is_exchanged(self, path: str) -> bool:
        """The owner has put another folder in the place of one above it that was copied."""
        above = path.rpartition("/")[0]
        info = lstat(self.layer.workspace / above) if above in self._copied else None
        if info is None or not above:
            return False
        return info.st_ino != self._copied[above] or self._is_exchanged(above)

    def _list_below(self, place: str) -> dict[str, os.stat_result]:
        held, workspace = (
            list_folder(lower / place) if self._is_plain(lower, place) else {}
            for lower in self.lowers
        )
        return {**workspace, **held}

    def _find_undone(self) -> Iterator[Change]:
        """What came over before and is in the layer no more: it leaves no mark there."""
        for path, at in self.own.items():
            info = lstat(self.layer.workspace / path)
            if info and info.st_ctime_ns == at and not lstat(self.upper / path):
                yield Change(path, "deleted", self.upper / path)

    def _walk(self, place: str) -> Iterator[Change]:
        here = self.upper / place
        if not open_folder(self.upper, place):
            yield Change(place, "special", here)
            return
        inside = list_folder(here)
        if has_mark(here, OPAQUE):
            for name in sorted(self._list_below(place).keys() - inside.keys()):
                if join(place, name) not in self._moved:
                    yield from self._delete(join(place, name))
        for name, now in sorted(inside.items()):
            yield from self._judge(join(place, name), now)

    def _judge(self, path: str, now: os.stat_result) -> Iterator[Change]:
        source, before = self.upper / path, self.find_before(path)
        if is_whiteout(now):
            yield from self._delete(path)
            return
        if before and stat.S_IFMT(before.st_mode) != stat.S_IFMT(now.st_mode):
            yield from self._delete(path)
            before = None
        if stat.S_ISDIR(now.st_mode):
            if before is None:
                yield Change(path, "folder", source)
            yield from self._walk(path)
        else:
            yield from self._judge_file(path, now, before)

    def _judge_file(
        self, path: str, now: os.stat_result, before: os.stat_result | None
    ) -> Iterator[Change]:
        source, conflict = self.upper / path, self._find_conflict(path)
        if stat.S_ISREG(now.st_mode):
            same = before is not None and self._is_same(path, now, before)
            if not same:
                yield Change(path, "file", source, conflict)
            elif before and (now.st_mode ^ before.st_mode) & 0o111:
                yield Change(path, "mode", source, conflict)
        elif not stat.S_ISLNK(now.st_mode):
            yield Change(path, "special", source)
        elif before is None or self._is_other_link(path):
            yield Change(path, "link", source, conflict)

    def _is_late(self, path: str, info: os.stat_result) -> bool:
        """The owner changed it since the command began."""
        return self.layer.is_late(info) and info.st_ctime_ns != self.own.get(path)

    def is_late(self, path: str) -> bool:
        """The owner changed it since the command began: it did not come from a merge before."""
        info = lstat(self.layer.workspace / path)
        return info is not None and path not in self._moved and self._is_late(path, info)

    def list_stale(self) -> Iterator[str]:
        """What the owner changed below a copy that is in the layer."""
        for change in list_files(self.upper, ""):
            if (info := lstat(self.layer.workspace / change)) and self._is_late(change, info):
                yield change

    def _is_other_link(self, path: str) -> bool:
        place = self._find_place(path)
        with suppress(OSError):
            return place is None or (self.upper / path).readlink() != place.readlink()
        return True

    def _is_same(self, path: str, now: os.stat_result, before: os.stat_result) -> bool:
        if now.st_size != before.st_size:
            return False
        place = self._find_place(path)
        with suppress(OSError):
            return place is not None and filecmp.cmp(self.upper / path, place, shallow=False)
        return False

    def _delete(self, path: str) -> Iterator[Change]:
        waiting, found = [path], list[Change]()
        while waiting:
            one = waiting.pop()
            before = self.find_before(one)
            is_folder = before is not None and stat.S_ISDIR(before.st_mode)
            conflict = "" if is_folder else self._find_conflict(one)
            found += [Change(one, "deleted", self.upper / one, conflict)] * (before is not None)
            waiting += [join(one, name) for name in self._list_below(one)] if is_folder else []
        yield from reversed(found)

    def _find_conflict(self, path: str) -> str:
        """By the workspace's own stamps: what is there is newer, or what was there has gone."""
        workspace, above = self.layer.workspace, path.rpartition("/")[0]
        places = [lower / path for lower in self.lowers if self._is_plain(lower, above)]
        if found := [info for info in map(lstat, places) if info]:
            is_late = self._is_exchanged(path) or any(self._is_late(path, one) for one in found)
            return MEANWHILE * is_late
        folder, was_there = lstat((workspace / path).parent), has_mark(self.upper / path, ORIGIN)
        return MEANWHILE * bool(was_there and folder and self.layer.is_late(folder))

    def _compare(self, place: str, *, moved: bool) -> Iterator[Change]:
        """Of a copy: what is newer than the copy, or stands in a folder that is, is looked at."""
        here = self.upper / place
        if not open_folder(self.upper, place):
            yield Change(place, "special", here)
            return
        inside, below = list_folder(here), self._list_below(place)
        for name in sorted(below.keys() - inside.keys()):
            path = join(place, name)
            if not (self._is_exchanged(path) or self._is_late(path, below[name])):
                yield from self._delete(path)
        for name, now in sorted(inside.items()):
            path, before = join(place, name), below.get(name)
            late = self.layer.is_late(now)
            if before and stat.S_IFMT(before.st_mode) != stat.S_IFMT(now.st_mode):
                if late or moved or not self._is_late(path, before):
                    yield from self._delete(path)
                    before = None
                else:
                    continue
            if stat.S_ISDIR(now.st_mode):
                if before is None:
                    yield Change(path, "folder", self.upper / path)
                yield from self._compare(path, moved=late or moved)
            elif before is None or late or (moved and not self._is_late(path, before)):
                yield from self._judge_file(path, now, before)


def leads_out(path: str, target: str) -> bool:
    """A link at this path may lead out of the workspace, or into a repository's own files."""
    found = UPS.match(f"{target}/")
    ups = len(found[0]) // 3 if found else 0
    rest = f"{target}/"[3 * ups :]
    is_plain = not target.startswith("/") and "../" not in f"/{rest}" and ups <= path.count("/")
    return not is_plain or ".git" in target.lower().split("/")


def list_files(root: Path, place: str) -> Iterator[str]:
    """All that is no folder, below this one."""
    folders = [place]
    while folders:
        here = folders.pop()
        for name, info in list_folder(root / here).items():
            if stat.S_ISDIR(info.st_mode):
                folders.append(join(here, name))
            else:
                yield join(here, name)


def list_folder(place: Path) -> dict[str, os.stat_result]:
    """What is in it, by name; no link is followed."""
    found = dict[str, os.stat_result]()
    if stat.S_ISDIR(getattr(lstat(place), "st_mode", 0)):
        with suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    found[entry.name] = entry.stat(follow_symlinks=False)
    return found


def open_folder(root: Path, path: str) -> bool:
    """The command may have closed it; one whose path is too long cannot be looked into. One that
    goes on may put a link in its place.
    """
    place = root / path
    if len(os.fsencode(place)) >= MAX_PATH or path.count("/") >= MAX_STEPS:
        return False
    try:
        mode = stat.S_IMODE(place.lstat().st_mode)
        if not path:
            place.chmod(mode | 0o700)
        elif mode & 0o700 != 0o700:
            with hold(root, path) as held:
                handle = os.open(held.name, PATH_ONLY, dir_fd=held.folder)
            try:
                Path(f"/proc/self/fd/{handle}").chmod(mode | 0o700)
            finally:
                os.close(handle)
    except OSError:
        return False
    return True


def is_whiteout(info: os.stat_result) -> bool:
    """The mark of an overlay for what was deleted."""
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0


def has_mark(place: Path, name: str) -> bool:
    """An overlay's own, which no command can set."""
    try:
        return os.getxattr(place, name, follow_symlinks=False) in (b"y", b"")
    except OSError:
        return False
