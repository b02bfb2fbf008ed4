"""Protected files by what they are, not only by their names: links and hard links to them, too.

A walk finds them when a command is about to run unasked: in its sandbox they are hidden.
"""

import fcntl
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import translate
from operator import attrgetter
from pathlib import Path, PurePosixPath

from daemon.tools.base import ToolError
from daemon.tools.calls import is_protected
from daemon.tools.workspace.fs import casefold_name
from daemon.tools.workspace.index import Folder, IndexCache, WorkspaceIndex, join

Inode = tuple[int, int]
INODE: Callable[[os.stat_result], Inode] = attrgetter("st_dev", "st_ino")
LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
GET_GENERATION = 0x80087601  # FS_IOC_GETVERSION: another number for each use of an inode
TOO_MANY = (
    "Not run: the workspace has more than {} files, so protected ones could not be hidden from it."
    " Nothing was done."
)
SKIPPED = ".git/objects"  # git's own names, compressed; what prints from there is judged by git


@dataclass(slots=True)
class ProtectedFiles:
    """What matches `patterns` in the workspace `root`, and what did when it was last looked for:
    whatever it, or a folder above it, is called by now. `known`: the generation of each inode.
    """

    root: Path
    patterns: Sequence[str] = ()
    known: dict[Inode, int] = field(default_factory=dict)
    cache: IndexCache | None = None
    _named: dict[str, tuple[Folder, list[str]]] = field(default_factory=dict, init=False)

    def find(self) -> list[Path]:
        """Every protected file and folder, what one of them leads to as a link, and other names of
        the same files. In a thread. Raises ToolError where that cannot be found out.
        """
        found: list[Path] = []
        inodes: dict[Inode, int] = {}
        linked = False
        for place in self._list_named():
            real = Path(os.path.realpath(place))
            found.append(place)
            inside = real.is_relative_to(self.root) and real != self.root
            if real != place and inside:
                found.append(real)
            for one in (real, *real.rglob("*")) if inside else ():
                with suppress(OSError):
                    info = one.stat(follow_symlinks=False)
                    inodes[INODE(info)] = _find_generation(one)
                    linked = linked or (info.st_nlink > 1 and stat.S_ISREG(info.st_mode))
        wanted, self.known = self.known | inodes, inodes
        if linked or len(wanted) > len(inodes):
            for place in self._list_all():
                with suppress(OSError):
                    inode = INODE(place.lstat())
                    if inode in wanted and _is_same(place, wanted[inode]):
                        found.append(place)
                        self.known[inode] = wanted[inode]
        return list(dict.fromkeys(place for place in found if place.exists()))

    def _list_named(self) -> Iterator[Path]:
        """The topmost that are protected by their names."""
        parts = [PurePosixPath(casefold_name(one)).parts[-1:] for one in self.patterns]
        names = re.compile("|".join(translate(part[0]) for part in parts if part) or "(?!)")
        named, closed = dict[str, tuple[Folder, list[str]]](), set[str]()
        for place, folder in self._look().folders.items():
            if place.rpartition("/")[0] in closed and place:
                closed.add(place)
            if place in closed:
                continue
            known = self._named.get(place)
            if known is None or known[0] is not folder:
                inside = (join(place, name) for name in (*folder.files, *folder.folders))
                known = (
                    folder,
                    [
                        path
                        for path in inside
                        if names.fullmatch(casefold_name(path.rpartition("/")[2]))
                        and is_protected(PurePosixPath(path), self.patterns)
                    ],
                )
            named[place] = known
            closed |= {SKIPPED, *known[1]}
            yield from (self.root / path for path in known[1])
        self._named = named

    def _list_all(self) -> Iterator[Path]:
        for place, folder in self._look().folders.items():
            for name in (*folder.files, *folder.folders):
                yield self.root / join(place, name)

    def _look(self) -> WorkspaceIndex:
        self.cache = self.cache or IndexCache(self.root)
        index = self.cache.look()
        if index.too_much == ".":
            raise ToolError(TOO_MANY.format(index.max_entries))
        return index

    def is_disguised(self, path: str, info: os.stat_result) -> bool:
        """A protected file by another name."""
        generation = self.known.get(INODE(info))
        if generation is None or is_protected(PurePosixPath(path), self.patterns):
            return False
        return _is_same(self.root / path, generation)

    def note(self, paths: Iterable[str]) -> None:
        """Protected files stand here by another name. In a thread."""
        for path in paths:
            place = self.root / path
            with suppress(OSError):
                self.known[INODE(place.lstat())] = _find_generation(place)

    def has_name(self, path: str) -> bool:
        """It is protected by its name, or a folder above it is."""
        return is_protected(PurePosixPath(path), self.patterns)

    def covers(self, path: str) -> bool:
        """It is protected by its name, or may be by another of its names."""
        return is_protected(PurePosixPath(path), self.patterns) or self.leads_astray(path)

    def leads_astray(self, path: str) -> bool:
        """What stands here is no more than a name for what is protected or outside, or has further
        names.
        """
        if not path or "\0" in path:
            return False
        try:
            real = os.path.realpath(self.root / path)
            info = Path(real).stat()
        except (OSError, ValueError):
            return False
        if real == str(self.root):
            return False
        if not real.startswith(f"{self.root}/"):
            return True
        inside = real.removeprefix(f"{self.root}/")
        in_git = ".git" in map(casefold_name, PurePosixPath(inside).parts) and path != inside
        has_names = info.st_nlink > 1 and stat.S_ISREG(info.st_mode)
        is_named = is_protected(PurePosixPath(inside), self.patterns)
        return in_git or is_named or has_names or self.is_disguised(inside, info)


def _find_generation(place: Path) -> int:
    """0 where the file system has none, or it cannot be looked at."""
    try:
        handle = os.open(place, LOOK)
    except OSError:
        return 0
    try:
        found = fcntl.ioctl(handle, GET_GENERATION, bytes(8))
        return int.from_bytes(found, sys.byteorder)
    except OSError:
        return 0
    finally:
        os.close(handle)


def _is_same(place: Path, generation: int) -> bool:
    """The inode was not given to another file since."""
    return generation == 0 or _find_generation(place) in (0, generation)
