"""Files of HOME that hold words which are to be gone."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from daemon.core import value
from daemon.settings.paths import Paths

CHUNK, OVERLAP = 1 << 16, 4096
DATABASES = ("journal.db", "memory.db")
SKIPPED = ("daemon.json", "models")


@value
class FileTraces:
    """Paths below HOME: those that were removed, and those that still hold the words."""

    removed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def remove_file_traces(paths: Paths, finds: Callable[[str], bool]) -> FileTraces:
    """Delete our own copies that hold it, backups among them, and those lines of our logs; find
    what else does. In a thread: all of HOME is read.
    """
    ours = (paths.inbox.parent, paths.outbox, paths.undo, paths.backups)
    removed, left = list[str](), list[str]()
    for file in _list_files(paths.home):
        name = str(file.relative_to(paths.home))
        try:
            if not (finds(name) or _holds(file, finds)):
                continue
            if any(folder in file.parents for folder in ours):
                file.unlink()
                removed.append(name)
            elif paths.logs in file.parents:
                _remove_lines(file, finds)
                removed.append(f"lines of {name}")
            else:
                left.append(name)
        except (OSError, zlib.error) as error:
            left.append(f"{name} (not looked into: {error})")
    return FileTraces(tuple(removed), tuple(left))


def _list_files(home: Path) -> Iterator[Path]:
    for file in sorted(home.rglob("*")):
        first = file.relative_to(home).parts[0]
        known = first in SKIPPED or first.removesuffix("-wal").removesuffix("-shm") in DATABASES
        if not known and not file.is_symlink() and file.is_file():
            yield file


def _holds(file: Path, finds: Callable[[str], bool]) -> bool:
    with file.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if not packed:
            return _find(raw, finds)
        with suppress(EOFError, gzip.BadGzipFile), gzip.open(raw) as unpacked:
            return _find(unpacked, finds)
    return False


def _find(stream: BinaryIO | gzip.GzipFile, finds: Callable[[str], bool]) -> bool:
    rest = b""
    while data := stream.read(CHUNK):
        rest = rest[-OVERLAP:] + data
        if finds(rest.decode(errors="replace")):
            return True
    return False


def _remove_lines(file: Path, finds: Callable[[str], bool]) -> None:
    """In place: who writes to it goes on doing so."""
    with file.open("r+", encoding="utf-8", errors="replace") as log:
        kept = [line for line in log if not finds(line)]
        log.seek(0)
        log.truncate()
        log.writelines(kept)
