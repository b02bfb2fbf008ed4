"""A change of one file that has not happened yet: what stands there is known, what shall stand there is on disk elsewhere."""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from daemon.tools.base import ToolError
from daemon.tools.beneath import DIRECTORY, by_steps

CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
MAX_BYTES = 16_000_000
NEW_FILE = 0o644


@dataclass(slots=True)
class Draft:
    """`place` is the open folder, `name` the file in it, `made` the folders that were made for it.

    `old` is what the file holds, None where there is none; `mode` its permissions. Its owner closes it, whatever happens.
    """

    path: str
    place: int
    name: str
    made: tuple[str, ...] = ()
    old: bytes | None = field(init=False, default=None)
    mode: int = field(init=False, default=NEW_FILE)
    _seen: tuple[int, ...] | None = field(init=False, default=None)
    _fresh: str = field(init=False, default="")
    _desk: int = field(init=False, default=-1)

    def look(self) -> None:
        """See what is there. Raises OSError, and ToolError for what is no ordinary file of reasonable size."""
        try:
            handle = by_steps(self.place, (self.name,), READ)
        except FileNotFoundError:
            return
        with ordinary(self.path, handle) as file:
            found = os.fstat(handle)
            self.old, self.mode, self._seen = content(file), stat.S_IMODE(found.st_mode) & 0o777, _identity(found)

    def hold(self, data: bytes, aside: Path | None = None, mode: int | None = None) -> None:
        """Put the new content on disk: in the folder `aside` if it is on the same disk, else beside the old. Raises OSError.

        What a crash leaves behind lies in `aside`, where nobody takes it for a file of the workspace.
        """
        self._desk, self._fresh = self._aside(aside), f".{token_hex(8)}.tmp"
        handle = os.open(self._fresh, CREATE, 0o600, dir_fd=self._desk)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(handle, self.mode if mode is None else mode)
            os.fsync(handle)

    def put(self) -> None:
        """The new content takes the place of the old, on disk. Raises OSError, and ToolError when somebody was quicker."""
        self._expect_unchanged()
        os.rename(self._fresh, self.name, src_dir_fd=self._desk, dst_dir_fd=self.place)
        self._fresh = ""
        os.fsync(self.place)

    def remove(self) -> None:
        """The file is no more, on disk. Raises OSError, and ToolError when somebody was quicker."""
        self._expect_unchanged()
        os.unlink(self.name, dir_fd=self.place)
        os.fsync(self.place)

    def close(self) -> None:
        """Leave nothing behind."""
        if self._fresh:
            with suppress(OSError):
                os.unlink(self._fresh, dir_fd=self._desk)
        if self._desk >= 0:
            os.close(self._desk)
        os.close(self.place)

    def _aside(self, aside: Path | None) -> int:
        if aside:
            desk = os.open(aside, DIRECTORY)
            if os.fstat(desk).st_dev == os.fstat(self.place).st_dev:
                return desk
            os.close(desk)
        return os.dup(self.place)

    def _expect_unchanged(self) -> None:
        try:
            now = _identity(os.stat(self.name, dir_fd=self.place, follow_symlinks=False))
        except FileNotFoundError:
            now = None
        if now != self._seen:
            raise ToolError(f"{self.path}: somebody else changed it just now, so it was left alone; read it and try again")


def ordinary(path: str, handle: int, most: int = MAX_BYTES) -> BinaryIO:
    """The open file, which is an ordinary one of at most so many bytes; else it is closed, and ToolError raised."""
    try:
        _check_ordinary(path, os.fstat(handle), most)
    except ToolError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def content(file: BinaryIO) -> bytes:
    """All that it holds, and no more than is reasonable, however fast it grows. To ask for the most at once would cost memory."""
    size = os.fstat(file.fileno()).st_size
    data = file.read(min(size, MAX_BYTES) + 1)
    return data if len(data) <= size else data + file.read(max(MAX_BYTES - len(data), 0))


def _check_ordinary(path: str, found: os.stat_result, most: int) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{path}: this is a directory; use list_dir")
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(f"{path}: not an ordinary file")
    if found.st_nlink > 1:
        raise ToolError(f"{path}: this file has a second name (a hard link), perhaps outside the workspace; copy it first")
    if found.st_size > most:
        advice = "use shell with head, tail or grep" if most == MAX_BYTES else f"at most {most} can be"
        raise ToolError(f"{path}: {found.st_size} bytes are too many; {advice}")


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
