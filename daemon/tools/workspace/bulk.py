"""What one command changed in very many files is kept as one file of HOME/undo (F8): what stood
there before, then a list of what was where and what came there, then the length of the list.

Its record in the journal is one FileVersion: `path` is the folder above them all and ends with "/",
`old` names the file, `new` says how many files they are.
"""

import errno
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from daemon.core import value
from daemon.core.rows import FileVersion
from daemon.core.trust import Label
from daemon.tools.base import ToolError
from daemon.tools.workspace.fs import DIRECTORY_FLAGS, READ_FLAGS, open_beneath
from daemon.tools.workspace.labels import NO_FILE

MAX_BULK_BYTES = 150_000_000
FOLDER, LINK, OTHER = "/", "@", "?"  # OTHER: no file, or one that cannot be read
MANY, PIECE, LENGTH = "/", 1_000_000, 8
ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
GONE, DAMAGED = "what it held is not kept any more", "what was kept of it is damaged"


@value
class Entry:
    """One path. `old` and `new`: what stood there before and after, a digest of a file, LINK and
    the digest of where it leads, FOLDER, or NO_FILE; `mode`, `label` and `size` are the old one's.
    Its content begins at `at` in `source`.
    """

    path: str
    old: str
    new: str
    mode: int
    label: Label
    at: int = 0
    size: int = 0
    source: str = ""


@value
class AtPath:
    """What stands at a path now, and where an archive has its content; `fresh`: since now."""

    what: str = NO_FILE
    info: os.stat_result | None = None
    at: int = 0
    size: int = 0
    fresh: bool = False

    @property
    def mode(self) -> int:
        return stat.S_IMODE(self.info.st_mode) if self.info else 0


class Archive:
    """As it is written. `full`: there was too much, so it is not to be kept; what is looked at
    then is hashed alone.
    """

    def __init__(self, root: Path, file: BinaryIO, limit: int) -> None:
        self.root, self.file, self.limit = root, file, limit
        self.full = False
        self._places = dict[str, int]()
        self._end = 0

    def add(self, path: str) -> AtPath:
        """What stands there comes into it; no link is followed. Raises OSError where the disk is
        full.
        """
        *above, name = path.split("/")
        try:
            folder = open_beneath(self.root, above, DIRECTORY_FLAGS)
        except OSError as error:
            # There is no such folder, or a link in its place; else nobody knows what is there.
            return AtPath() if error.errno in ABSENT else AtPath(OTHER)
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode):
                return AtPath(FOLDER, info)
            if stat.S_ISLNK(info.st_mode):
                target = os.fsencode(os.readlink(name, dir_fd=folder))
                return self._store([target], info, LINK)
            if not stat.S_ISREG(info.st_mode):
                return AtPath(OTHER, info)
            try:
                handle = os.open(name, READ_FLAGS, dir_fd=folder)
            except PermissionError:
                return AtPath(OTHER, info)
            with os.fdopen(handle, "rb") as file:
                return self._store(iter(lambda: file.read(PIECE), b""), info)
        except FileNotFoundError:
            return AtPath()
        finally:
            os.close(folder)

    def forget(self, found: AtPath) -> None:
        """This was the last that was added, and is not needed."""
        if found.fresh:
            del self._places[found.what.removeprefix(LINK)]
            self._end = found.at

    def _store(self, pieces: Iterable[bytes], info: os.stat_result, kind: str = "") -> AtPath:
        digest, at, size = sha256(), self._end, 0
        self.file.seek(at)
        for data in pieces:
            digest.update(data)
            size += len(data)
            self.full = self.full or at + size > self.limit
            if not self.full:
                self.file.write(data)
        name = digest.hexdigest()
        fresh = name not in self._places and not self.full
        if fresh:
            self._places[name], self._end = at, at + size
        return AtPath(kind + name, info, self._places.get(name, at), size, fresh)

    def close(self, entries: Iterable[Entry]) -> tuple[str, int]:
        """The list comes last; its digest, and the size of all."""
        rows = [[o.path, o.old, o.new, o.mode, o.label, o.at, o.size] for o in entries]
        text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
        data = text.encode(errors="surrogateescape")
        self.file.seek(self._end)
        self.file.truncate()
        self.file.write(data + len(data).to_bytes(LENGTH))
        self.file.flush()
        os.fsync(self.file.fileno())
        return sha256(data).hexdigest(), self.file.tell()


def write_archive(
    root: Path, folder: Path, list_entries: Callable[[Archive], Iterable[Entry]], limit: int
) -> tuple[str, int, list[Entry]]:
    """Its name in `folder`, its size and the entries; "" where it is too much. It is whole or not
    there. In a thread. Raises OSError.
    """
    fresh = folder / f".{token_hex(8)}.bulk"
    try:
        with fresh.open("xb") as file:
            os.fchmod(file.fileno(), 0o600)
            archive = Archive(root, file, limit)
            entries = [*list_entries(archive)]
            if archive.full:
                return "", 0, entries
            name, size = archive.close(entries)
        fresh.rename(folder / name)
        return name, size, entries
    finally:
        fresh.unlink(missing_ok=True)


def read_archive(folder: Path, version: FileVersion) -> list[Entry]:
    """What a record of many files names; of another, its one file. In a thread. Raises ToolError
    if it is gone or damaged.
    """
    if not is_bulk(version):
        return [
            Entry(
                version.path, version.old, version.new, version.mode, version.label,
                size=version.size, source=version.old,
            )
        ]  # fmt: skip
    try:
        with (folder / version.old).open("rb") as file:
            file.seek(-LENGTH, os.SEEK_END)
            end = file.tell()
            length = int.from_bytes(file.read(LENGTH))
            file.seek(end - length)
            data = file.read(length)
    except FileNotFoundError as error:
        raise ToolError(GONE) from error
    except (OSError, ValueError) as error:
        raise ToolError(DAMAGED) from error
    if sha256(data).hexdigest() != version.old:
        raise ToolError(DAMAGED)
    rows = json.loads(data.decode(errors="surrogateescape"))
    return [
        Entry(path, old, new, mode, Label(label), at, size, version.old)
        for path, old, new, mode, label, at, size in rows
    ]


def load_pieces(folder: Path, entry: Entry) -> Iterator[bytes]:
    """What a file held, or where a link led. Raises ToolError after the last if it is gone or
    damaged.
    """
    digest, left = sha256(), entry.size
    try:
        with (folder / entry.source).open("rb") as file:
            file.seek(entry.at)
            while left > 0 and (data := file.read(min(left, PIECE))):
                left -= len(data)
                digest.update(data)
                yield data
    except FileNotFoundError as error:
        raise ToolError(GONE) from error
    if digest.hexdigest() != entry.old.removeprefix(LINK):
        raise ToolError(DAMAGED)


def load_head(folder: Path, entry: Entry, count: int) -> bytes:
    """How it begins; "" where it is gone."""
    with suppress(OSError), (folder / entry.source).open("rb") as file:
        file.seek(entry.at)
        return file.read(min(count, entry.size))
    return b""


def is_bulk(version: FileVersion) -> bool:
    """It is a record of many files."""
    return version.path.endswith(MANY)


def name_bulk(paths: Iterable[str]) -> str:
    """The folder above all of these, as the path of a record."""
    known = [*paths]
    common = os.path.commonpath([min(known), max(known)])
    return f"{common or '.'}{MANY}"


def count_words(entries: Iterable[Entry]) -> str:
    """How many files and links they are."""
    number = sum(FOLDER not in ({one.old, one.new} - {NO_FILE}) for one in entries)
    return f"{number} files"
