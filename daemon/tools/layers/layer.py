"""A command works on a layer of the workspace: it sees the workspace, and what it writes lies
beside it until the command has ended. Then it is merged, or held (see changes.py).

An overlay in the user namespace around bubblewrap; where there can be none, a copy of a small
workspace; else the workspace is read-only, but for its folder `out`.
"""

import asyncio
import fcntl
import json
import os
import shutil
import stat
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from daemon.core import value
from daemon.core.clock import run_to_completion
from daemon.tools.base import ToolError

LayerKind = Literal["overlay", "copy", "read-only"]
NOTE, STAMP, LOCK, KIND, OUT = "note.json", "stamp", "lock", "kind", "out"
MAX_COPIED_FILES, COPY_MB = 2000, 50
MIN_LOCK = 10  # the sandbox has its own descriptors below
MAX_DEPTH = 50
FOLDERS, MOVES = "folders.json", "moves"
FICLONE = 0x40049409
# The overlay lies at the workspace's own path, and as long as the command lives. The lower folders
# are links in the layer's, so names need no escape.
MOUNT = (
    'cd "$1" && mount -t overlay overlay "$2" -o "$3,upperdir=upper,workdir=work,userxattr"'
    " && : >stamp && cd / && shift 3 && "
)
OVERLAY_WORDS = "commands write on a layer over the workspace, which is merged when they end"
COPY_WORDS = (
    "commands work on a copy of the workspace, because it can have no overlay ({}); above {} files"
    " or {:g} MB it is read-only for them"
)
READ_ONLY_WORDS = (
    "the workspace is read-only for commands, because it can have no overlay ({}) and is too large"
    " to copy (more than {} files or {:g} MB); they write in {}/ alone"
)
NO_LAYER = (
    "Not run: this machine has no sandbox, so a command works on a copy of the workspace, and this"
    " one is too large for that (more than {} files or {} MB). Make it smaller, or install"
    " bubblewrap; see aidaemon doctor."
)


@value
class Layer:
    """`place` is the layer's own folder; `held` has what earlier commands made that waits for the
    owner: it lies over the workspace for commands.
    """

    place: Path
    workspace: Path
    kind: LayerKind
    held: Path
    out: str = OUT  # what can be written of a read-only workspace
    lock: int = -1  # held while its command may be alive

    @property
    def upper(self) -> Path:
        """What the command wrote; in a copy, all that is there."""
        return self.place / "upper"

    @property
    def tmp(self) -> Path:
        """For temporary files where a command has no folder of its own for them."""
        return self.place / "tmp"

    @property
    def taken(self) -> Path:
        """Copies of what a server that goes on has written."""
        return self.place / "taken"

    @property
    def note(self) -> Path:
        """What a restart needs to merge this layer."""
        return self.place / NOTE

    @property
    def mount_words(self) -> list[str]:
        """What is around bubblewrap's line, up to its script: the overlay's arguments."""
        lower = "lowerdir=held:lower" if self.has_held else "lowerdir=lower"
        return [str(self.place), str(self.workspace), lower]

    @property
    def has_held(self) -> bool:
        """Something is held."""
        return self.held.is_dir() and any(self.held.iterdir())

    def is_late(self, info: os.stat_result) -> bool:
        """This was changed since the command began. A rename counts, and nobody sets this time."""
        return info.st_ctime_ns >= (self.place / STAMP).stat().st_ctime_ns

    def create(self) -> None:
        """In a thread."""
        self.place.mkdir(parents=True, mode=0o700)  # what is the owner's is read by nobody else
        for name in ("upper", "work", "tmp"):
            (self.place / name).mkdir(mode=0o755)
        (self.place / "lower").symlink_to(self.workspace)
        (self.place / "held").symlink_to(self.held)
        (self.place / LOCK).touch()
        (self.place / KIND).write_text(f"{self.kind}\n{self.out}")
        if self.kind == "copy":
            copy_tree(self.workspace, self.upper)
            if self.has_held:
                copy_tree(self.held, self.upper)
        elif self.kind == "read-only":
            for root in (self.workspace, self.upper):
                (root / self.out).mkdir(parents=True, exist_ok=True)
            copy_tree(self.workspace / self.out, self.upper / self.out)
        if self.kind != "overlay":
            self.note_folders()
        stamp = self.place / STAMP
        stamp.touch()
        copied_ns = stamp.stat().st_ctime_ns
        while self.kind != "overlay" and stamp.stat().st_ctime_ns == copied_ns:
            stamp.touch()  # later than all that was copied, by a tick of the file system's clock

    def note_folders(self) -> None:
        """Which folder of the workspace each of a copy is of: the owner may exchange them."""
        found, waiting = dict[str, int](), [""]
        while waiting:
            place = waiting.pop()
            with suppress(OSError), os.scandir(self.upper / place) as entries:
                found[place] = (self.workspace / place).lstat().st_ino
                names = [one.name for one in entries if one.is_dir(follow_symlinks=False)]
                waiting += [f"{place}/{name}" if place else name for name in names]
        (self.place / FOLDERS).write_text(json.dumps(found))

    def read_folders(self) -> dict[str, int]:
        """See note_folders."""
        with suppress(OSError, ValueError):
            found: dict[str, int] = json.loads((self.place / FOLDERS).read_bytes())
            return found
        return {}

    def note_moves(self, paths: Iterable[str]) -> None:
        """What a merge is about to bring over: a later one finds it in the workspace."""
        if not (self.place / MOVES).exists():
            fresh = self.place / f"{MOVES}.new"
            fresh.write_bytes(b"\0".join(map(os.fsencode, paths)))
            fresh.rename(self.place / MOVES)

    def read_moves(self) -> set[str]:
        """See note_moves."""
        with suppress(FileNotFoundError):
            return {*map(os.fsdecode, (self.place / MOVES).read_bytes().split(b"\0"))}
        return set()

    async def wait_for_end(self, tries: int, pause_s: float) -> None:
        """A command of an earlier daemon dies with that daemon, some moments later."""
        with (self.place / LOCK).open() as lock:
            for _ in range(tries):
                if _try_lock(lock.fileno()):
                    return
                await asyncio.sleep(pause_s)

    def drop(self) -> None:
        """In a thread. Nothing of it is needed any more."""
        remove_tree(self.place)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove_tree(place: Path) -> None:
    """Whatever a command has made of it: what is deep is moved up first, what is closed opened."""
    waiting, count = [(place, 0)], 0
    while waiting:
        folder, depth = waiting.pop()
        with suppress(OSError):
            folder.chmod(0o700)  # the kernel's own `work/work` has no mode
            with os.scandir(folder) as entries:
                below = [Path(one.path) for one in entries if one.is_dir(follow_symlinks=False)]
            for one in below:
                at, deep = one, depth + 1
                if depth >= MAX_DEPTH:
                    count += 1
                    one.chmod(0o700)
                    at, deep = one.rename(place / f"deep-{count}"), 1
                waiting.append((at, deep))
    shutil.rmtree(place, ignore_errors=True)


@value
class Layers:
    """`folder` is that of all layers, outside the workspace; `held`: of the owner's, see Layer."""

    workspace: Path
    folder: Path
    held: Path
    obstacle: str = ""  # why there is no overlay
    copy_mb: float = COPY_MB

    def describe(self) -> str:
        """How commands write in the workspace here, and why not better. In a thread."""
        if not self.obstacle:
            return OVERLAY_WORDS
        if is_small(self.workspace, self.copy_mb):
            return COPY_WORDS.format(self.obstacle, MAX_COPIED_FILES, self.copy_mb)
        return READ_ONLY_WORDS.format(self.obstacle, MAX_COPIED_FILES, self.copy_mb, OUT)

    @asynccontextmanager
    async def open(
        self, name: str, held: Path | None = None, *, needs_copy: bool = False, out: str = ""
    ) -> AsyncIterator[Layer]:
        """It is dropped at the end, unless it has a note: then it is still to be merged. `held`: of
        somebody else. `out`: no more than this folder is to be written. Raises ToolError.
        """
        layer = await asyncio.to_thread(self._create, name, held or self.held, needs_copy, out)
        lock = os.open(layer.place / LOCK, os.O_RDONLY | os.O_CLOEXEC)
        try:
            high = fcntl.fcntl(lock, fcntl.F_DUPFD_CLOEXEC, MIN_LOCK)
        finally:
            os.close(lock)
        try:
            fcntl.flock(high, fcntl.LOCK_SH)
            yield replace(layer, lock=high)
        finally:
            os.close(high)
            if not layer.note.exists():
                await run_to_completion(asyncio.to_thread(layer.drop))

    def _create(self, name: str, held: Path, needs_copy: bool, out: str) -> Layer:
        kind: LayerKind = "read-only" if out else "overlay"
        if self.obstacle and not out:
            fits = is_small(self.workspace, self.copy_mb)
            if needs_copy and not fits:
                raise ToolError(NO_LAYER.format(MAX_COPIED_FILES, self.copy_mb))
            kind = "copy" if fits else "read-only"
        layer = Layer(self.folder / name, self.workspace, kind, held, out or OUT)
        try:
            layer.create()
        except OSError as error:
            layer.drop()
            raise ToolError(
                f"Not run: the layer that a command writes on could not be made in {self.folder}:"
                f" {error.strerror or error}. Nothing was changed."
            ) from error
        return layer

    def list_left(self) -> list[Layer]:
        """What an earlier daemon did not merge, the oldest first."""
        places = [one for one in self.folder.glob("*") if (one / NOTE).exists()]
        places.sort(key=lambda one: (one / NOTE).stat().st_mtime_ns)
        return [Layer(one, self.workspace, *read_kind(one)) for one in places]

    def take_lent(self) -> None:
        """What versions before had set aside for later commands, each by its quoted path."""
        for old in (self.held.parent / "lent").glob("*"):
            new = self.held / unquote(old.name)
            new.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.path.lexists(new):
                old.rename(new)

    def remove_unused(self) -> None:
        """Layers without a note: nothing ran on them."""
        for place in self.folder.glob("*"):
            if not (place / NOTE).exists():
                Layer(place, self.workspace, "copy", self.held).drop()


def read_kind(place: Path) -> tuple[LayerKind, Path, str]:
    """Of a layer that an earlier daemon made, with where its held files are."""
    kinds: tuple[LayerKind, ...] = ("overlay", "copy", "read-only")
    found, _, out = (place / KIND).read_text().partition("\n")
    held = (place / "held").readlink()
    return next((kind for kind in kinds if kind == found), "overlay"), held, out or OUT


def is_small(root: Path, max_mb: float) -> bool:
    """It can be copied for each command. In a thread."""
    count, size = 0, 0
    folders = [root]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                info = entry.stat(follow_symlinks=False)
                count, size = count + 1, size + info.st_size
                if count > MAX_COPIED_FILES or size > max_mb * 1_000_000:
                    return False
                if stat.S_ISDIR(info.st_mode):
                    folders.append(Path(entry.path))
    return True


def list_mounts(root: Path) -> list[str]:
    """What is mounted below this folder; an overlay cannot show it."""
    mounts = (line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [one for one in mounts if one.startswith(f"{root}/")]


def copy_tree(source: Path, target: Path) -> None:
    """All files, folders and links in it, with their modes and times; blocks are shared where the
    file system can. In a thread.
    """
    target.mkdir(exist_ok=True)
    with os.scandir(source) as entries:
        for entry in entries:
            to = target / entry.name
            info = entry.stat(follow_symlinks=False)
            if entry.is_symlink():
                with suppress(FileExistsError):
                    to.symlink_to(Path(entry.path).readlink())
            elif stat.S_ISDIR(info.st_mode):
                copy_tree(Path(entry.path), to)
            elif stat.S_ISREG(info.st_mode):
                copy_file(Path(entry.path), to)
    shutil.copystat(source, target)


def copy_file(source: Path, target: Path) -> None:
    """An ordinary file, never by a hard link."""
    with source.open("rb") as old, target.open("wb") as new:
        try:
            fcntl.ioctl(new.fileno(), FICLONE, old.fileno())
        except OSError:
            shutil.copyfileobj(old, new)
    shutil.copystat(source, target)
