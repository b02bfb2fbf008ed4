"""When two names may be one and the same file, on this disk or another.

A change of one file that has not happened yet: what stands there is known, what shall stand there is on disk elsewhere.

The one directory that file tools can reach; no link leads out of it (tools/beneath.py).
"""

import errno
import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import BinaryIO

from daemon.core import value
from daemon.tools.base import ToolError
from daemon.tools.workspace.openat import (
    DIRECTORY_FLAGS,
    OpenBeneath,
    make_directories,
    open_beneath,
    open_by_steps,
)

INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0]")


@lru_cache(maxsize=4096)
def casefold_name(name: str) -> str:
    """One spelling for all that some disk takes for this name: upper and lower case, composed and decomposed letters, letters
    in other widths, characters that nobody sees, dots and spaces at the end.
    """
    if name.isascii():
        return name.lower().rstrip(". ") or name
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())
    seen = "".join(char for char in INVISIBLE.sub("", plain) if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFC", seen).rstrip(". ") or name


CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
MAX_FILE_BYTES = 16_000_000
NEW_FILE_MODE = 0o644


@dataclass(slots=True)
class PendingWrite:
    """`place` is the open folder, `name` the file in it, `made` the folders that were made for it.

    `old` is what the file holds, None where there is none; `mode` its permissions. Its owner closes it, whatever happens.
    """

    path: str
    folder: int
    name: str
    created: tuple[str, ...] = ()
    old: bytes | None = field(init=False, default=None)
    mode: int = field(init=False, default=NEW_FILE_MODE)
    _current: tuple[int, ...] | None = field(init=False, default=None)
    _temp_name: str = field(init=False, default="")
    _temp_folder: int = field(init=False, default=-1)

    def read_current(self) -> None:
        """See what is there. Raises OSError, and ToolError for what is no ordinary file of reasonable size."""
        try:
            handle = open_by_steps(self.folder, (self.name,), READ_FLAGS)
        except FileNotFoundError:
            return
        with open_regular(self.path, handle) as file:
            found = os.fstat(handle)
            self.old, self.mode, self._current = (
                read_all(file),
                stat.S_IMODE(found.st_mode) & 0o777,
                _identity(found),
            )

    def stage(self, data: bytes, aside: Path | None = None, mode: int | None = None) -> None:
        """Put the new content on disk: in the folder `aside` if it is on the same disk, else beside the old. Raises OSError.

        What a crash leaves behind lies in `aside`, where nobody takes it for a file of the workspace.
        """
        self._temp_folder, self._temp_name = self._open_temp_folder(aside), f".{token_hex(8)}.tmp"
        handle = os.open(self._temp_name, CREATE_FLAGS, 0o600, dir_fd=self._temp_folder)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(handle, self.mode if mode is None else mode)
            os.fsync(handle)

    def commit(self) -> None:
        """The new content takes the place of the old, on disk. Raises OSError, and ToolError when somebody was quicker."""
        self._expect_unchanged()
        os.rename(self._temp_name, self.name, src_dir_fd=self._temp_folder, dst_dir_fd=self.folder)
        self._temp_name = ""
        os.fsync(self.folder)

    def remove(self) -> None:
        """The file is no more, on disk. Raises OSError, and ToolError when somebody was quicker."""
        self._expect_unchanged()
        os.unlink(self.name, dir_fd=self.folder)
        os.fsync(self.folder)

    def close(self) -> None:
        """Leave nothing behind."""
        if self._temp_name:
            with suppress(OSError):
                os.unlink(self._temp_name, dir_fd=self._temp_folder)
        if self._temp_folder >= 0:
            os.close(self._temp_folder)
        os.close(self.folder)

    def _open_temp_folder(self, aside: Path | None) -> int:
        if aside:
            desk = os.open(aside, DIRECTORY_FLAGS)
            if os.fstat(desk).st_dev == os.fstat(self.folder).st_dev:
                return desk
            os.close(desk)
        return os.dup(self.folder)

    def _expect_unchanged(self) -> None:
        try:
            now = _identity(os.stat(self.name, dir_fd=self.folder, follow_symlinks=False))
        except FileNotFoundError:
            now = None
        if now != self._current:
            raise ToolError(
                f"{self.path}: somebody else changed it just now, so it was left alone; read it and try again"
            )


def open_regular(path: str, handle: int, most: int = MAX_FILE_BYTES) -> BinaryIO:
    """The open file, which is an ordinary one of at most so many bytes; else it is closed, and ToolError raised."""
    try:
        _check_regular(path, os.fstat(handle), most)
    except ToolError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def read_all(file: BinaryIO) -> bytes:
    """All that it holds, and no more than is reasonable, however fast it grows. To ask for the most at once would cost memory."""
    size = os.fstat(file.fileno()).st_size
    data = file.read(min(size, MAX_FILE_BYTES) + 1)
    return data if len(data) <= size else data + file.read(max(MAX_FILE_BYTES - len(data), 0))


def _check_regular(path: str, found: os.stat_result, most: int) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{path}: this is a directory; use list_dir")
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(f"{path}: not an ordinary file")
    if found.st_nlink > 1:
        raise ToolError(
            f"{path}: this file has a second name (a hard link), perhaps outside the workspace; copy it first"
        )
    if found.st_size > most:
        advice = (
            "use shell with head, tail or grep"
            if most == MAX_FILE_BYTES
            else f"at most {most} can be"
        )
        raise ToolError(f"{path}: {found.st_size} bytes are too many; {advice}")


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


OUTSIDE = "outside the workspace {root}; use a path inside it"
READ_ONLY = "{path}: what came with messages can only be read; copy_file makes a copy that can be changed. Nothing was changed."


@value
class Workspace:
    """Files under `root`, which is absolute and without links. `max_chars` is how much of a file one result can hold.

    `beside` are folders elsewhere that can be read, never written, as if they lay in the root under these names, as soon as they
    exist. What stands in them came from outside.
    """

    root: Path
    max_chars: int = 4000
    opener: OpenBeneath = field(default=open_beneath, repr=False)
    mounts: Mapping[str, Path] = field(default_factory=dict, repr=False)

    def split(self, path: str) -> tuple[str, ...]:
        """The steps from the root to here. Raises ToolError for a path that would leave it."""
        if "\0" in path:
            raise ToolError(f"{path!r}: a path cannot hold a NUL character")
        given = PurePosixPath(path)
        if given.is_absolute():
            if not given.is_relative_to(self.root):
                raise ToolError(self._explain_outside(path))
            given = given.relative_to(self.root)
        if ".." in given.parts or path.startswith("~"):
            raise ToolError(f"{self._explain_outside(path)}, without '..' or '~'")
        return given.parts

    def normalize(self, path: str) -> str:
        """The one name of this place, from the root on; "" for the root. Raises ToolError."""
        return join_steps(self.split(path))

    @property
    def mount_names(self) -> list[str]:
        """The names of the folders beside it that exist."""
        return [name for name, place in self.mounts.items() if place.is_dir()]

    def in_mount(self, path: str) -> bool:
        """It lies in a folder beside the workspace, or is one."""
        steps = self.split(path)
        return bool(steps) and steps[0] in self.mounts and self.mounts[steps[0]].is_dir()

    def is_from_outside(self, path: str) -> bool:
        """It lies in a folder beside the workspace: somebody sent it."""
        return self.in_mount(path) and len(self.split(path)) > 1

    @contextmanager
    def open_directory(self, path: str) -> Iterator[int]:
        """This directory, open. Raises ToolError."""
        with self._open_root(path) as (root, steps), explain_os_errors(path):
            place = self.opener(root, steps, DIRECTORY_FLAGS)
        try:
            yield place
        finally:
            os.close(place)

    @contextmanager
    def open_file(self, path: str, most: int = MAX_FILE_BYTES) -> Iterator[BinaryIO]:
        """This file, open for reading. Raises ToolError for what is no ordinary file of at most so many bytes."""
        self._split_file(path)
        with self._open_root(path) as (root, steps), explain_os_errors(path):
            handle = self.opener(root, steps, READ_FLAGS)
        with open_regular(path, handle, most) as file, explain_os_errors(path):
            yield file

    def is_file(self, path: str) -> bool:
        """An ordinary file stands here."""
        steps = self.split(path)
        if not steps or join_steps(steps) in self.mount_names:
            return False
        with self.open_directory(join_steps(steps[:-1])) as place, explain_os_errors(path):
            return stat.S_ISREG(os.stat(steps[-1], dir_fd=place, follow_symlinks=False).st_mode)

    def exists(self, path: str) -> bool:
        """Something stands here, a link perhaps."""
        steps = self.split(path)
        if join_steps(steps) in self.mount_names:
            return True
        try:
            with self.open_directory(join_steps(steps[:-1])) as place:
                return not steps or bool(os.stat(steps[-1], dir_fd=place, follow_symlinks=False))
        except (OSError, ToolError):
            return False

    def read(self, path: str) -> bytes:
        """All of this file."""
        with self.open_file(path) as file:
            return read_all(file)

    @contextmanager
    def prepare_write(self, path: str, make: bool = True) -> Iterator[PendingWrite]:
        """A change of this file to be; directories on the way are made where `make` says so. Raises ToolError."""
        steps = self._split_file(path)
        if self.in_mount(path):
            raise ToolError(READ_ONLY.format(path=path))
        folder, made = steps[:-1], ()
        with self._open_root(path) as (root, _), explain_os_errors(path):
            if make:
                place, made = make_directories(self.opener, root, folder)
            else:
                place = self.opener(root, folder, DIRECTORY_FLAGS)
        draft = PendingWrite(path, place, steps[-1], made)
        try:
            with explain_os_errors(path):
                draft.read_current()
                yield draft
        finally:
            draft.close()

    def write(self, path: str, data: bytes) -> None:
        """The file holds this from now on, whole or not at all; directories on the way are made. Raises ToolError."""
        with self.prepare_write(path) as draft:
            draft.stage(data)
            draft.commit()

    def _explain_outside(self, path: str) -> str:
        return f"{path}: {OUTSIDE.format(root=self.root)}"

    def _split_file(self, path: str) -> tuple[str, ...]:
        steps = self.split(path)
        if not steps:
            raise ToolError(f"{path or '.'}: this is the workspace itself; name a file in it")
        return steps

    @contextmanager
    def _open_root(self, path: str) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Where the path begins, open, and its steps from there."""
        steps, place = self.split(path), self.root
        if self.in_mount(path):
            place, steps = self.mounts[steps[0]], steps[1:]
        with explain_os_errors(path):
            root = os.open(place, DIRECTORY_FLAGS)
        try:
            yield root, steps
        finally:
            os.close(root)


def join_steps(steps: Sequence[str]) -> str:
    """The steps, as they are written."""
    return "/".join(steps)


@contextmanager
def explain_os_errors(path: str) -> Iterator[None]:
    """Troubles of the file system in words for the model."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolError(
            f"{path}: no such file or directory; list_dir shows what there is"
        ) from error
    except NotADirectoryError as error:
        raise ToolError(f"{path}: a part of it is not a directory") from error
    except IsADirectoryError as error:
        raise ToolError(f"{path}: this is a directory; use list_dir") from error
    except OSError as error:
        raise ToolError(f"{path}: {_explain(error)}") from error
    except UnicodeEncodeError as error:
        raise ToolError(
            f"{path}: the path or the text holds broken characters; nothing was changed"
        ) from error


def _explain(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "it is, or leads through, a symbolic link, which is not followed; use the real path"
    return f"{error.strerror or error}; nothing was changed"
