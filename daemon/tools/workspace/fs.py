"""The workspace: the one directory that file tools reach. No symbolic link leads out of it.

Every step of a path is opened by itself: to resolve a path first and open it then would leave a
moment in which a link can be slipped in.
"""

import ctypes
import errno
import os
import re
import stat
import struct
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import BinaryIO

from daemon.core import value
from daemon.core.quoted import normalize
from daemon.tools.base import ToolError

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
NOTE_KINDS = (".md", ".csv")  # no program takes one for a list of what it does
TEXT_KINDS = (*NOTE_KINDS, ".txt", ".rst", ".tsv", ".log", ".ics", ".vcf")
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
MAX_FILE_BYTES = 16_000_000
NEW_FILE_MODE = 0o644
IDENTITY = attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")
PROBLEMS = {
    errno.ENOENT: "no such file or directory; list_dir shows what there is",
    errno.ENOTDIR: "a part of it is no directory, or a symbolic link, which is not followed",
    errno.EISDIR: "this is a directory; use list_dir",
    errno.ELOOP: "a symbolic link, which is not followed; use the real path",
    errno.EILSEQ: "the path or the text holds broken characters; nothing was changed",
}
NO_FOLLOW, BIRTH_TIME, BIRTH_AT = 0x100, 0x800, 80  # of statx(2)
INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0]")


def mode_of(path: Path) -> int:
    """What kind of file it is; 0 for none, also where the name can be none."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return 0


def find_birth(path: Path) -> str:
    """When this file or folder was made, which no program can set, so another one in its place has
    another birth. "" where there is none, or where the disk does not say.
    """
    found = ctypes.create_string_buffer(256)
    try:
        statx = ctypes.CDLL(None).statx
    except AttributeError:  # no Linux
        with suppress(OSError):
            return str(getattr(path.lstat(), "st_birthtime", ""))
        return ""
    if statx(-1, os.fsencode(path), NO_FOLLOW, BIRTH_TIME, found):
        return ""
    seconds, ns = struct.unpack_from("qI", found, BIRTH_AT)
    return f"{seconds}.{ns:09}" if struct.unpack_from("I", found)[0] & BIRTH_TIME else ""


@lru_cache(maxsize=4096)
def casefold_name(name: str) -> str:
    """One spelling for all names that some disk takes for the same file.

    Upper and lower case, composed and decomposed letters, letters of other widths, invisible
    characters, dots and spaces at the end.
    """
    if name.isascii():
        return name.lower().rstrip(". ") or name
    plain = normalize("NFKD", normalize("NFKD", name).casefold())
    seen = "".join(char for char in INVISIBLE.sub("", plain) if unicodedata.category(char) != "Cf")
    return normalize("NFC", seen).rstrip(". ") or name


def open_beneath(
    root: Path, steps: Sequence[str], flags: int, created: list[str] | None = None
) -> int:
    """Open a path below `root` without following any link. Raises OSError.

    With `created`, missing folders on the way are created, the last step too, and listed there.
    """
    if any(step in ("", ".", "..") or "/" in step or "\0" in step for step in steps):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    handle = os.open(root, DIRECTORY_FLAGS if steps else flags)
    for count, step in enumerate(steps, 1):
        parent, wanted = handle, flags if count == len(steps) else DIRECTORY_FLAGS
        try:
            if created is not None:
                with suppress(FileExistsError):
                    os.mkdir(step, dir_fd=parent)
                    created.append("/".join(steps[:count]))
            handle = os.open(step, wanted | os.O_NOFOLLOW, dir_fd=parent)
        finally:
            os.close(parent)
    return handle


def open_regular(path: str, handle: int, max_bytes: int = MAX_FILE_BYTES) -> BinaryIO:
    """The open file. Closed, with a ToolError, unless it is an ordinary one of this size."""
    found, problem = os.fstat(handle), ""
    if stat.S_ISDIR(found.st_mode):
        problem = "this is a directory; use list_dir"
    elif not stat.S_ISREG(found.st_mode):
        problem = "not an ordinary file"
    elif found.st_nlink > 1:
        problem = (
            "this file has a second name (a hard link), perhaps outside the workspace;"
            " copy it first"
        )
    elif found.st_size > max_bytes:
        use_shell = max_bytes == MAX_FILE_BYTES
        advice = "use shell with head, tail or grep" if use_shell else f"at most {max_bytes} can be"
        problem = f"{found.st_size} bytes are too many; {advice}"
    if problem:
        os.close(handle)
        raise ToolError(f"{path}: {problem}")
    return os.fdopen(handle, "rb")


@dataclass(slots=True)
class PendingWrite:
    """A change of one file that has not happened yet.

    `place` is its one name, `folder` its open folder, `created` the folders that were made for it.
    `old` is what the file holds, None where there is no file; `mode` its permissions, `identity`
    its state.
    """

    path: str
    place: str
    folder: int
    name: str
    created: list[str]
    old: bytes | None = None
    mode: int = NEW_FILE_MODE
    identity: object = None
    temp_name: str = ""
    temp_folder: int = -1

    def stage(self, data: bytes, temp_folder: Path, mode: int | None = None) -> None:
        """Put the new content on disk, in `temp_folder` if that is on the same disk.

        What a crash leaves there is not taken for a file of the workspace. Raises OSError.
        """
        self.temp_folder = os.open(temp_folder, DIRECTORY_FLAGS)
        if os.fstat(self.temp_folder).st_dev != os.fstat(self.folder).st_dev:
            os.dup2(self.folder, self.temp_folder, inheritable=False)
        name = f".{token_hex(8)}.tmp"
        handle = os.open(name, CREATE_FLAGS, 0o600, dir_fd=self.temp_folder)
        self.temp_name = name
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(handle, self.mode if mode is None else mode)
            os.fsync(handle)

    def commit(self) -> None:
        """The staged content replaces the old; without one, the file is removed. On disk when this
        returns.

        Raises OSError, and ToolError when somebody else changed the file since it was read.
        """
        now = None
        with suppress(FileNotFoundError):
            now = IDENTITY(os.stat(self.name, dir_fd=self.folder, follow_symlinks=False))
        if now != self.identity:
            raise ToolError(
                f"{self.path}: somebody else changed it just now, so it was left alone;"
                " read it and try again"
            )
        if self.temp_name:
            os.rename(
                self.temp_name, self.name, src_dir_fd=self.temp_folder, dst_dir_fd=self.folder
            )
            self.temp_name = ""
        else:
            os.unlink(self.name, dir_fd=self.folder)
        os.fsync(self.folder)


@value
class Workspace:
    """Files under `root`, an absolute path without links. `max_chars`: what one result can hold.

    `mounts` are folders elsewhere that can be read, never written, as if they lay in the root under
    these names, once they exist. What is in them came from outside. `is_disguised` knows a
    protected file by another name.
    """

    root: Path
    max_chars: int = 4000
    mounts: Mapping[str, Path] = field(default_factory=dict, repr=False)
    is_disguised: Callable[[str, os.stat_result], bool] = field(
        default=lambda path, info: False, repr=False
    )

    def split(self, path: str) -> tuple[str, ...]:
        """The steps from the root to here. Raises ToolError for a path that would leave it."""
        if "\0" in path:
            raise ToolError(f"{path!r}: a path cannot hold a NUL character")
        given, outside = PurePosixPath(path), f"{path}: outside the workspace {self.root}"
        if given.is_absolute():
            if not given.is_relative_to(self.root):
                raise ToolError(f"{outside}; use a path inside it")
            given = given.relative_to(self.root)
        if ".." in given.parts or path.startswith("~"):
            raise ToolError(f"{outside}; use a path inside it, without '..' or '~'")
        return given.parts

    def normalize(self, path: str) -> str:
        """The one name of this place, relative to the root; "" for the root. Raises ToolError."""
        return "/".join(self.split(path))

    def is_plain_text(self, path: str) -> bool:
        """A text there has a name that says no more than what it is about: small letters and one
        ending, in folders without one. What programs follow by name has capitals or further parts.
        """
        try:
            *folders, name = self.split(path) or ("",)
        except ToolError:
            return False
        stem, ending = PurePosixPath(name).stem, PurePosixPath(name).suffix
        is_plain = stem.replace("-", "").replace("_", "").isalnum() and name == name.lower()
        return is_plain and ending in TEXT_KINDS and not any("." in one for one in folders)

    def is_mounted(self, name: str) -> bool:
        """This lies in a mount."""
        top, slash, _ = name.partition("/")
        return bool(slash) and top in self.mount_names

    @property
    def mount_names(self) -> list[str]:
        """Of the mounts that exist."""
        return [name for name, place in self.mounts.items() if place.is_dir()]

    def stat(self, path: str) -> os.stat_result | None:
        """Of what stands here, a link perhaps; None for nothing."""
        with suppress(OSError, ToolError):
            root, steps = self._locate(path)
            if not steps:
                return root.stat()
            with self.open_directory(str(PurePosixPath(path).parent)) as folder:
                return os.stat(steps[-1], dir_fd=folder, follow_symlinks=False)
        return None

    @contextmanager
    def open_directory(self, path: str) -> Iterator[int]:
        """This directory, open; errors of the file system become ToolErrors until it is closed."""
        with explain_os_errors(path):
            handle = open_beneath(*self._locate(path), DIRECTORY_FLAGS)
            try:
                yield handle
            finally:
                os.close(handle)

    def open_file(self, path: str, max_bytes: int = MAX_FILE_BYTES) -> BinaryIO:
        """Raises ToolError for what is no ordinary file of at most so many bytes."""
        with explain_os_errors(path):
            handle = open_beneath(*self._locate(path), READ_FLAGS)
        self._refuse_disguised(path, handle)
        return open_regular(path, handle, max_bytes)

    def _refuse_disguised(self, path: str, handle: int) -> None:
        if self.is_disguised(self.normalize(path), os.fstat(handle)):
            os.close(handle)
            raise ToolError(
                f"{path}: a protected file or folder that was renamed; a command that reads or"
                " changes it asks first. Nothing was done."
            )

    def read(self, path: str) -> bytes:
        """All of this file, however fast it grows at most MAX_FILE_BYTES. Raises ToolError."""
        with self.open_file(path) as file, explain_os_errors(path):
            return file.read(MAX_FILE_BYTES)

    @contextmanager
    def prepare_write(self, path: str, create_folders: bool = True) -> Iterator[PendingWrite]:
        """A change of this file that is not made yet; leaves nothing behind. Raises ToolError."""
        root, steps = self._locate(path)
        if root is not self.root:
            raise ToolError(
                f"{path}: what came with messages can only be read; copy_file makes a copy that"
                " can be changed. Nothing was changed."
            )
        if not steps:
            raise ToolError(f"{path or '.'}: this is the workspace itself; name a file in it")
        created: list[str] = []
        with explain_os_errors(path):
            make = created if create_folders else None
            folder = open_beneath(root, steps[:-1], DIRECTORY_FLAGS, make)
            self._refuse_disguised("/".join(steps[:-1]), folder)
            pending = PendingWrite(path, "/".join(steps), folder, steps[-1], created)
            try:
                with suppress(FileNotFoundError):
                    handle = os.open(pending.name, READ_FLAGS, dir_fd=folder)
                    self._refuse_disguised(path, handle)
                    with open_regular(path, handle) as file:
                        found, pending.old = os.fstat(handle), file.read(MAX_FILE_BYTES)
                    pending.identity, pending.mode = IDENTITY(found), found.st_mode & 0o777
                yield pending
            finally:
                if pending.temp_name:
                    with suppress(OSError):
                        os.unlink(pending.temp_name, dir_fd=pending.temp_folder)
                for handle in {pending.temp_folder, folder} - {-1}:
                    os.close(handle)

    def _locate(self, path: str) -> tuple[Path, tuple[str, ...]]:
        """Where the path begins, and its steps from there."""
        steps = self.split(path)
        mount = self.mounts.get(steps[0]) if steps else None
        return (mount, steps[1:]) if mount and mount.is_dir() else (self.root, steps)


@contextmanager
def explain_os_errors(path: str) -> Iterator[None]:
    """Turns errors of the file system into words for the model."""
    try:
        yield
    except (OSError, UnicodeEncodeError) as error:
        number = error.errno or 0 if isinstance(error, OSError) else errno.EILSEQ
        problem = PROBLEMS.get(number, f"{os.strerror(number)}; nothing was changed")
        raise ToolError(f"{path}: {problem}") from error
