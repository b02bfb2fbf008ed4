"""Former versions of files: contents in HOME/undo by their hash, records in the journal (F8).

A content is on disk before its record, and the record before the change: after a kill in between,
/undo finds what it needs.
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

from daemon.core.rows import FileVersion
from daemon.store.journal import Store
from daemon.tools.base import ToolError

MAX_HISTORY_BYTES = 175_000_000  # at most 25 more are added until the next look
MAX_RECORDS = 5_000
PRUNE_AFTER_BYTES, PRUNE_AFTER = 8_000_000, 100
MAX_AGE = timedelta(days=30)
NO_FILE = ""


def hash_content(data: bytes | None) -> str:
    """NO_FILE for None."""
    return NO_FILE if data is None else sha256(data).hexdigest()


def count_expired(
    versions: Sequence[FileVersion],
    now: datetime,
    max_bytes: int = MAX_HISTORY_BYTES,
    max_records: int = MAX_RECORDS,
) -> int:
    """How many of these, oldest first, are too old or too much."""
    space, seen = max_bytes, set[str]()
    for count, version in enumerate(reversed(versions)):
        if version.old not in seen:
            seen.add(version.old)
            space -= version.size
        if space < 0 or count == max_records or version.at < now - MAX_AGE:
            return len(versions) - count
    return 0


@dataclass(slots=True)
class FileHistory:
    """Owns HOME/undo and its records."""

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
        cls,
        folder: Path,
        store: Store,
        now: Callable[[], datetime],
        rows: Iterable[FileVersion],
    ) -> Self:
        """With the journal's rows; contents without one are deleted. In a thread."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        versions = {version.name: version for version in rows}
        number = int(max(versions, default="0"))
        history = cls(folder, store, now, _versions=versions, _last_number=number)
        history._delete_contents(file.name for file in folder.iterdir())
        return history

    @property
    def entries(self) -> list[FileVersion]:
        """Every change that is still known, oldest first."""
        return [*self._versions.values()]

    def next_name(self) -> str:
        """Names sort by time."""
        self._last_number += 1
        return f"{self._last_number:012}"

    def save_content(self, data: bytes | None) -> str:
        """Its hash; on disk when this returns. In a thread. The caller calls `release` once the
        journal has, or never will have, a record of it.
        """
        if data is None:
            return NO_FILE
        name = hash_content(data)
        path, temp = self.folder / name, self.folder / f".{token_hex(8)}.tmp"
        with self._lock:
            self._in_use[name] += 1
        try:
            whole = path.exists() and path.read_bytes() == data  # a crash may have cut it off
            with open(path if whole else temp, "ab", opener=_open_private) as file:
                if not whole:
                    file.write(data)
                    file.flush()
                os.fsync(file.fileno())
            if not whole:
                temp.replace(path)
        except OSError as error:
            self.release(name)
            raise ToolError(
                f"the version so far could not be kept in {self.folder}:"
                f" {error.strerror or error}; nothing was changed"
            ) from error
        return name

    def release(self, name: str) -> None:
        """See `save_content`."""
        with self._lock:
            self._in_use -= Counter([name])

    def load_content(self, name: str) -> bytes | None:
        """In a thread. Raises ToolError when it is gone or damaged."""
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

    async def remove(self, names: Iterable[str]) -> None:
        """Forget these records."""
        names = list(names)
        await self.store.write(lambda tx: tx.remove_file_versions(names))
        for name in names:
            self._versions.pop(name, None)

    async def set_undone(self, versions: Iterable[FileVersion], undone: bool) -> None:
        """These were undone, or redone."""
        changed = [replace(version, undone=undone) for version in versions]
        await self.store.write(lambda tx: tx.put_file_versions(changed))
        self._versions |= {version.name: version for version in changed}

    async def prune(self) -> None:
        """Now and then delete what is too old or too much: the records, then their contents."""
        if self._unpruned_bytes < PRUNE_AFTER_BYTES:
            return
        self._unpruned_bytes = 0
        expired = self.entries[: count_expired(self.entries, self.now(), self.max_bytes)]
        if expired:
            await self.remove(version.name for version in expired)
            await asyncio.to_thread(self._delete_contents, {one.old for one in expired})

    def _delete_contents(self, names: Iterable[str]) -> None:
        """Unless a record has them, or somebody is just saving the same."""
        known = {version.old for version in list(self._versions.values())} | {NO_FILE}
        for name in names:
            with self._lock:
                if name not in known and name not in self._in_use:
                    (self.folder / name).unlink(missing_ok=True)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
