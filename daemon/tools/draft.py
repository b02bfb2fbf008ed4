"""A change of one file that has not happened yet: what stands there is known, what shall stand there lies beside it, on disk."""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field

from daemon.tools.base import ToolError
from daemon.tools.beneath import by_steps

CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
MAX_BYTES = 16_000_000
NEW_FILE = 0o644


@dataclass(slots=True)
class Draft:
    """`place` is the open folder, `name` the file in it, `fresh` the name that new content has until it is put in place.

    `old` is what the file holds, None where there is none; `mode` its permissions. Its owner closes it, whatever happens.
    """

    path: str
    place: int
    name: str
    fresh: str
    old: bytes | None = field(init=False, default=None)
    mode: int = field(init=False, default=NEW_FILE)
    _seen: tuple[int, ...] | None = field(init=False, default=None)
    _held: bool = field(init=False, default=False)

    def look(self) -> None:
        """See what is there. Raises OSError, and ToolError for what is no ordinary file of reasonable size."""
        try:
            handle = by_steps(self.place, (self.name,), READ)
        except FileNotFoundError:
            return
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            check_ordinary(self.path, found)
            self.old, self.mode, self._seen = file.read(MAX_BYTES), stat.S_IMODE(found.st_mode) & 0o777, _identity(found)

    def hold(self, data: bytes, mode: int | None = None) -> None:
        """Put the new content on disk, beside the old. Raises OSError."""
        handle = os.open(self.fresh, CREATE, 0o600, dir_fd=self.place)
        self._held = True
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(handle, self.mode if mode is None else mode)
            os.fsync(handle)

    def put(self) -> None:
        """The new content takes the place of the old, on disk. Raises OSError, and ToolError when somebody was quicker."""
        self._expect_unchanged()
        os.rename(self.fresh, self.name, src_dir_fd=self.place, dst_dir_fd=self.place)
        self._held = False
        os.fsync(self.place)

    def remove(self) -> None:
        """The file is no more, on disk. Raises OSError, and ToolError when somebody was quicker."""
        self._expect_unchanged()
        os.unlink(self.name, dir_fd=self.place)
        os.fsync(self.place)

    def close(self) -> None:
        """Leave nothing behind."""
        if self._held:
            with suppress(OSError):
                os.unlink(self.fresh, dir_fd=self.place)
        os.close(self.place)

    def _expect_unchanged(self) -> None:
        try:
            now = _identity(os.stat(self.name, dir_fd=self.place, follow_symlinks=False))
        except FileNotFoundError:
            now = None
        if now != self._seen:
            raise ToolError(f"{self.path}: somebody else changed it just now, so it was left alone; read it and try again")


def check_ordinary(path: str, found: os.stat_result) -> None:
    """Raises ToolError for what is no ordinary file, has a second name, or is huge."""
    if stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{path}: this is a directory; use list_dir")
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(f"{path}: not an ordinary file")
    if found.st_nlink > 1:
        raise ToolError(f"{path}: this file has a second name (a hard link), perhaps outside the workspace; copy it first")
    if found.st_size > MAX_BYTES:
        raise ToolError(f"{path}: {found.st_size} bytes are too many; use shell with head, tail or grep")


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
