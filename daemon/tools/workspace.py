"""The one directory that file tools can reach. Every step of a path is opened by hand, so that no link leads out of it.

Resolving a path first and opening it then would leave a moment in which a link can be slipped in.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import BinaryIO

from daemon.tools.base import ToolError

MAX_BYTES = 16_000_000
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Workspace:
    """Files under `root`, which is absolute and without links. `max_chars` is how much of a file one result can hold."""

    root: Path
    max_chars: int = 4000

    def parts(self, path: str) -> tuple[str, ...]:
        """The steps from the root to here. Raises ToolError for a path that would leave it."""
        if "\0" in path:
            raise ToolError(f"{path!r}: a path cannot hold a NUL character")
        given = PurePosixPath(path)
        if given.is_absolute():
            if not given.is_relative_to(self.root):
                raise ToolError(f"{path}: outside the workspace {self.root}; use a path inside it")
            given = given.relative_to(self.root)
        if ".." in given.parts or path.startswith("~"):
            raise ToolError(f"{path}: outside the workspace {self.root}; use a path inside it, without '..' or '~'")
        return given.parts

    @contextmanager
    def directory(self, path: str) -> Iterator[int]:
        """This directory, open. Raises ToolError."""
        with self._walked(path, self.parts(path)) as place:
            yield place

    @contextmanager
    def reading(self, path: str) -> Iterator[BinaryIO]:
        """This file, open for reading. Raises ToolError for what is no ordinary file of reasonable size."""
        with self._parent(path) as (place, name), told(path), self._opened(path, name, READ, place) as handle:
            found = os.fstat(handle)
            _check(path, found)
            with os.fdopen(os.dup(handle), "rb") as file:
                yield file

    def is_file(self, path: str) -> bool:
        """An ordinary file stands here."""
        if not self.parts(path):
            return False
        with self._parent(path) as (place, name), told(path):
            return stat.S_ISREG(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode)

    def read(self, path: str) -> bytes:
        """All of this file."""
        with self.reading(path) as file:
            return file.read(MAX_BYTES)

    def write(self, path: str, data: bytes) -> None:
        """The file holds this from now on, whole or not at all; directories on the way are made. Raises ToolError."""
        with self._parent(path, make=True) as (place, name), told(path):
            mode = _mode_of_old(path, name, place)
            fresh = f".{token_hex(8)}.tmp"
            try:
                _write_new(fresh, place, data, mode)
                os.rename(fresh, name, src_dir_fd=place, dst_dir_fd=place)
            except OSError:
                with suppress(FileNotFoundError):
                    os.unlink(fresh, dir_fd=place)
                raise
            os.fsync(place)

    @contextmanager
    def _parent(self, path: str, make: bool = False) -> Iterator[tuple[int, str]]:
        parts = self.parts(path)
        if not parts:
            raise ToolError(f"{path or '.'}: this is the workspace itself; name a file in it")
        with self._walked(path, parts[:-1], make) as place:
            yield place, parts[-1]

    @contextmanager
    def _walked(self, path: str, steps: tuple[str, ...], make: bool = False) -> Iterator[int]:
        with told(path):
            place = os.open(self.root, DIRECTORY)
        try:
            for step in steps:
                following = self._step(path, step, place, make)
                os.close(place)
                place = following
            yield place
        finally:
            os.close(place)

    def _step(self, path: str, step: str, place: int, make: bool) -> int:
        with told(path):
            if make:
                with suppress(FileExistsError):
                    os.mkdir(step, dir_fd=place)
            return _open(path, step, DIRECTORY, place)

    @contextmanager
    def _opened(self, path: str, name: str, flags: int, place: int) -> Iterator[int]:
        handle = _open(path, name, flags, place)
        try:
            yield handle
        finally:
            os.close(handle)


@contextmanager
def told(path: str) -> Iterator[None]:
    """Troubles of the file system in words for the model."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolError(f"{path}: no such file or directory; list_dir shows what there is") from error
    except NotADirectoryError as error:
        raise ToolError(f"{path}: a part of it is not a directory") from error
    except IsADirectoryError as error:
        raise ToolError(f"{path}: this is a directory; use list_dir") from error
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror or error}; nothing was changed") from error
    except UnicodeEncodeError as error:
        raise ToolError(f"{path}: the path or the text holds broken characters; nothing was changed") from error


def _open(path: str, name: str, flags: int, place: int) -> int:
    try:
        return os.open(name, flags, dir_fd=place)
    except OSError as error:
        if _is_link(name, place):
            raise ToolError(f"{path}: {name} is a symbolic link, which is not followed; use the real path") from error
        raise


def _is_link(name: str, place: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _check(path: str, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{path}: this is a directory; use list_dir")
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(f"{path}: not an ordinary file")
    if found.st_nlink > 1:
        raise ToolError(f"{path}: this file has a second name (a hard link), perhaps outside the workspace; copy it first")
    if found.st_size > MAX_BYTES:
        raise ToolError(f"{path}: {found.st_size} bytes are too many; use shell with head, tail or grep")


def _mode_of_old(path: str, name: str, place: int) -> int:
    """The permissions to keep. Only an ordinary file is ever replaced."""
    try:
        old = os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return 0o644
    if not stat.S_ISREG(old.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(old.st_mode) else "not an ordinary file"
        raise ToolError(f"{path}: this is {kind}; nothing was changed")
    return stat.S_IMODE(old.st_mode)


def _write_new(name: str, place: int, data: bytes, mode: int) -> None:
    with os.fdopen(os.open(name, CREATE, 0o600, dir_fd=place), "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), mode & 0o777)
        os.fsync(file.fileno())
