"""What files held before the house changed them: kept in HOME/undo by their hash, told of in the journal (F8).

A version is safe on disk before its record is, and the record before the change: killed in between, /undo finds what it needs.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Self

from daemon.core.journal import Store
from daemon.core.rows import FileVersion
from daemon.tools.base import ToolError

MAX_HISTORY_BYTES = 175_000_000  # what comes between two looks at it stays below 25 more
MAX_RECORDS = 5_000
PRUNE_AFTER_BYTES, PRUNE_AFTER = 8_000_000, 100
MAX_AGE = timedelta(days=30)
NO_FILE = ""


def hash_content(data: bytes | None) -> str:
    """The name of a content; NOTHING for no file."""
    return NO_FILE if data is None else sha256(data).hexdigest()


def count_expired(
    kept: Sequence[FileVersion],
    now: datetime,
    most_bytes: int = MAX_HISTORY_BYTES,
    most: int = MAX_RECORDS,
) -> int:
    """How many of these, oldest first, have to go: those that are too old, and the oldest until the rest fits."""
    room, seen = most_bytes, set[str]()
    for count, version in enumerate(reversed(kept)):
        if version.old not in seen:
            seen.add(version.old)
            room -= version.size
        if room < 0 or count == most or version.at < now - MAX_AGE:
            return len(kept) - count
    return 0


@dataclass(slots=True)
class FileHistory:
    """The only owner of HOME/undo and of its records."""

    folder: Path
    store: Store
    now: Callable[[], datetime]
    max_bytes: int = MAX_HISTORY_BYTES
    _versions: dict[str, FileVersion] = field(default_factory=dict)
    _last_number: int = 0
    _unpruned_bytes: int = PRUNE_AFTER_BYTES
    _in_use: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def open(
        cls, folder: Path, keeping: Store, now: Callable[[], datetime], rows: Iterable[FileVersion]
    ) -> Self:
        """With what the journal kept of it (`rows`); contents that nobody tells of are thrown away. In a thread."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = {version.name: version for version in rows}
        versions = cls(
            folder, keeping, now, _versions=kept, _last_number=int(max(kept, default="0"))
        )
        known = {version.old for version in kept.values()}
        for file in folder.iterdir():
            if file.name not in known:
                file.unlink(missing_ok=True)
        return versions

    @property
    def entries(self) -> list[FileVersion]:
        """Every change that is still known, oldest first."""
        return list(self._versions.values())

    def next_name(self) -> str:
        """The name of a version to be."""
        self._last_number += 1
        return f"{self._last_number:012}"

    def save_content(self, data: bytes | None) -> str:
        """Its hash; on disk when this returns. In a thread. Whoever saves it calls `let_go` after telling the journal."""
        if data is None:
            return NO_FILE
        name = hash_content(data)
        with self._lock:
            self._in_use[name] += 1
        try:
            _write_content(self.folder, name, data)
        except OSError as error:
            self.release(name)
            why = error.strerror or error
            raise ToolError(
                f"the version so far could not be kept in {self.folder}: {why}; nothing was changed"
            ) from error
        return name

    def release(self, name: str) -> None:
        """The journal tells of it, or never will."""
        with self._lock:
            self._in_use[name] -= 1
            if self._in_use[name] <= 0:
                del self._in_use[name]

    def load_content(self, name: str) -> bytes | None:
        """What was kept under this hash. In a thread. Raises ToolError when it is gone or damaged."""
        if name == NO_FILE:
            return None
        try:
            data = (self.folder / name).read_bytes()
        except OSError as error:
            raise ToolError("what it held is not kept any more") from error
        if hash_content(data) != name:
            raise ToolError("what was kept of it is damaged")
        return data

    def add_version(self, version: FileVersion) -> None:
        """The journal has it."""
        self._versions[version.name] = version
        self._unpruned_bytes += version.size + PRUNE_AFTER_BYTES // PRUNE_AFTER

    async def discard(self, version: FileVersion) -> None:
        """It did not happen."""
        await self.store.write(lambda tx: tx.remove_file_versions([version.name]))
        self._versions.pop(version.name, None)

    async def set_undone(self, versions: Sequence[FileVersion], undone: bool) -> None:
        """These were taken back, or put back."""
        changed = [replace(version, undone=undone) for version in versions]
        await self.store.write(lambda tx: tx.put_file_versions(changed))
        self._versions |= {version.name: version for version in changed}

    async def prune(self) -> None:
        """Let go of what is too old or too much, now and then: records first, then the contents that nobody tells of."""
        if self._unpruned_bytes < PRUNE_AFTER_BYTES:
            return
        self._unpruned_bytes = 0
        gone = self.entries[: count_expired(self.entries, self.now(), self.max_bytes)]
        if not gone:
            return

        names = [version.name for version in gone]
        await self.store.write(lambda tx: tx.remove_file_versions(names))
        for version in gone:
            self._versions.pop(version.name, None)
        still = {version.old for version in self._versions.values()}
        await asyncio.to_thread(
            self._delete_contents, {version.old for version in gone} - still - {NO_FILE}
        )

    def _delete_contents(self, names: Iterable[str]) -> None:
        """Contents, unless somebody is just saving the same."""
        for name in names:
            with self._lock:
                if name not in self._in_use:
                    (self.folder / name).unlink(missing_ok=True)


def _write_content(folder: Path, name: str, data: bytes) -> None:
    try:
        _write_new_file(folder / name, data)
    except FileExistsError:
        _verify_content(folder, name, data)


def _verify_content(folder: Path, name: str, data: bytes) -> None:
    """It is there: whole, or cut off by a crash."""
    with (folder / name).open("rb") as file:
        if file.read() == data:
            os.fsync(file.fileno())
            return
    fresh = folder / f".{token_hex(8)}.tmp"
    _write_new_file(fresh, data)
    fresh.replace(folder / name)


def _write_new_file(path: Path, data: bytes) -> None:
    with open(path, "xb", opener=_open_private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
