"""What files held before the house changed them: kept in HOME/undo by their hash, told of in the journal (F8).

A version is safe on disk before its record is, and the record before the change: killed in between, /undo finds what it needs.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Self

from daemon.core.label import Label
from daemon.tools.base import ToolError
from daemon.tools.keeping import Keeping, Noting

KIND = "undo"
MOST_BYTES = 175_000_000  # what comes between two looks at it stays below 25 more
MOST_RECORDS = 5_000
LOOK_AFTER_BYTES, LOOK_AFTER = 8_000_000, 100
KEPT_FOR = timedelta(days=30)
NOTHING = ""


@dataclass(frozen=True, slots=True)
class Version:
    """One change of one file. `old` and `new` are hashes of what it held, NOTHING where there was no file; `label` and `mode`
    are the old content's, `size` is its bytes. `name` sorts by time.

    `undoes` is the turn that this change took back; `undone`: this change has been taken back.
    """

    name: str
    session: str
    turn: str
    call_id: str
    path: str
    at: datetime
    old: str
    new: str
    mode: int
    size: int
    label: Label
    undoes: str = ""
    undone: bool = False

    def written(self) -> str:
        """As the journal keeps it."""
        return json.dumps(asdict(self) | {"at": self.at.isoformat()})

    @classmethod
    def read(cls, text: str) -> Self:
        """The opposite of `written`."""
        row = json.loads(text)
        return cls(**row | {"at": datetime.fromisoformat(row["at"]), "label": Label(row["label"])})


def hash_of(data: bytes | None) -> str:
    """The name of a content; NOTHING for no file."""
    return NOTHING if data is None else sha256(data).hexdigest()


def too_many(kept: Sequence[Version], now: datetime, most_bytes: int = MOST_BYTES, most: int = MOST_RECORDS) -> int:
    """How many of these, oldest first, have to go: those that are too old, and the oldest until the rest fits."""
    room, seen = most_bytes, set[str]()
    for count, version in enumerate(reversed(kept)):
        if version.old not in seen:
            seen.add(version.old)
            room -= version.size
        if room < 0 or count == most or version.at < now - KEPT_FOR:
            return len(kept) - count
    return 0


@dataclass(slots=True)
class Versions:
    """The only owner of HOME/undo and of its records."""

    folder: Path
    keeping: Keeping
    now: Callable[[], datetime]
    most_bytes: int = MOST_BYTES
    _kept: dict[str, Version] = field(default_factory=dict)
    _last: int = 0
    _new_bytes: int = LOOK_AFTER_BYTES
    _claimed: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def open(cls, folder: Path, keeping: Keeping, now: Callable[[], datetime], rows: Iterable[str]) -> Self:
        """With what the journal kept of it (`rows`); contents that nobody tells of are thrown away. In a thread."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = {version.name: version for version in map(Version.read, rows)}
        versions = cls(folder, keeping, now, _kept=kept, _last=int(max(kept, default="0")))
        known = {version.old for version in kept.values()}
        for file in folder.iterdir():
            if file.name not in known:
                file.unlink(missing_ok=True)
        return versions

    @property
    def all(self) -> list[Version]:
        """Every change that is still known, oldest first."""
        return list(self._kept.values())

    def next_name(self) -> str:
        """The name of a version to be."""
        self._last += 1
        return f"{self._last:012}"

    def save(self, data: bytes | None) -> str:
        """Its hash; on disk when this returns. In a thread. Whoever saves it calls `let_go` after telling the journal."""
        if data is None:
            return NOTHING
        name = hash_of(data)
        with self._lock:
            self._claimed[name] += 1
        try:
            _save(self.folder, name, data)
        except OSError as error:
            self.let_go(name)
            why = error.strerror or error
            raise ToolError(f"the version so far could not be kept in {self.folder}: {why}; nothing was changed") from error
        return name

    def let_go(self, name: str) -> None:
        """The journal tells of it, or never will."""
        with self._lock:
            self._claimed[name] -= 1
            if self._claimed[name] <= 0:
                del self._claimed[name]

    def content(self, name: str) -> bytes | None:
        """What was kept under this hash. In a thread. Raises ToolError when it is gone or damaged."""
        if name == NOTHING:
            return None
        try:
            data = (self.folder / name).read_bytes()
        except OSError as error:
            raise ToolError("what it held is not kept any more") from error
        if hash_of(data) != name:
            raise ToolError("what was kept of it is damaged")
        return data

    def note(self, tx: Noting, version: Version) -> None:
        """Into the journal."""
        tx.keep(KIND, version.name, version.written())

    def noted(self, version: Version) -> None:
        """The journal has it."""
        self._kept[version.name] = version
        self._new_bytes += version.size + LOOK_AFTER_BYTES // LOOK_AFTER

    async def forget(self, version: Version) -> None:
        """It did not happen."""
        await self.keeping.write(lambda tx: tx.drop(KIND, version.name))
        self._kept.pop(version.name, None)

    async def mark_undone(self, versions: Sequence[Version], undone: bool) -> None:
        """These were taken back, or put back."""
        changed = [replace(version, undone=undone) for version in versions]

        def work(tx: Noting) -> None:
            for version in changed:
                self.note(tx, version)

        await self.keeping.write(work)
        self._kept |= {version.name: version for version in changed}

    async def thin_out(self) -> None:
        """Let go of what is too old or too much, now and then: records first, then the contents that nobody tells of."""
        if self._new_bytes < LOOK_AFTER_BYTES:
            return
        self._new_bytes = 0
        gone = self.all[: too_many(self.all, self.now(), self.most_bytes)]
        if not gone:
            return

        def work(tx: Noting) -> None:
            for version in gone:
                tx.drop(KIND, version.name)

        await self.keeping.write(work)
        for version in gone:
            self._kept.pop(version.name, None)
        still = {version.old for version in self._kept.values()}
        await asyncio.to_thread(self._throw_away, {version.old for version in gone} - still - {NOTHING})

    def _throw_away(self, names: Iterable[str]) -> None:
        """Contents, unless somebody is just saving the same."""
        for name in names:
            with self._lock:
                if name not in self._claimed:
                    (self.folder / name).unlink(missing_ok=True)


def _save(folder: Path, name: str, data: bytes) -> None:
    try:
        _write_new(folder / name, data)
    except FileExistsError:
        _save_again(folder, name, data)


def _save_again(folder: Path, name: str, data: bytes) -> None:
    """It is there: whole, or cut off by a crash."""
    with (folder / name).open("rb") as file:
        if file.read() == data:
            os.fsync(file.fileno())
            return
    fresh = folder / f".{token_hex(8)}.tmp"
    _write_new(fresh, data)
    fresh.replace(folder / name)


def _write_new(path: Path, data: bytes) -> None:
    with open(path, "xb", opener=_private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
