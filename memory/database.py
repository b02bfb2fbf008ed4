"""The file of the memory: one connection, and one thread that owns it."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import TypeVar

from memory.words import write_forms

log = logging.getLogger(__name__)
T = TypeVar("T")
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
CHECKED_UP_TO = 64 * 2**20  # bytes; the check reads the whole file, and a start must stay quick
PAGE_SIZE = 8192  # bytes; vectors leave a part of each page empty, the smaller the more
CHECKPOINT = "PRAGMA wal_checkpoint(TRUNCATE)"
PARTS, NEWEST = (
    ("schema", "said", "vectors", "pins", "keys", "forgotten", "spans", "forms", "batches"),
    11,
)
ADD_OWNED = "ALTER TABLE facts ADD COLUMN owned INTEGER NOT NULL DEFAULT 1;"
PUT_AWAY = """
DROP TRIGGER facts_added; DROP TRIGGER facts_removed; DROP TRIGGER IF EXISTS facts_approved;
DROP INDEX facts_at; DROP INDEX IF EXISTS facts_state; DROP INDEX IF EXISTS facts_same;
DROP TABLE words; ALTER TABLE facts RENAME TO old_facts;
"""
TAKE_OVER = """
INSERT INTO facts (id, text, sameness, at, source, label, owned, state)
SELECT id, text, CASE label WHEN 'trusted' THEN sameness ELSE text END, at, source, label, owned,
    CASE label WHEN 'trusted' THEN 'active' ELSE 'pending' END
FROM old_facts ORDER BY rowid;
DROP TABLE old_facts;
"""


class Database:
    """Each call is one hop to its thread. `set_aside`: the new name of a damaged file in whose
    place this one is.
    """

    def __init__(
        self, file: sqlite3.Connection, thread: ThreadPoolExecutor, set_aside: Path | None
    ) -> None:
        self._file, self._thread, self.set_aside = file, thread, set_aside

    @classmethod
    async def open(cls, path: Path) -> "Database":
        """Made if need be; a damaged one is set aside, and an empty one made in its place. Close it
        with `aclose`. Raises sqlite3.Error, for a newer file, too, OSError.
        """
        thread = ThreadPoolExecutor(1, thread_name_prefix="memory")
        try:
            opened = await asyncio.get_running_loop().run_in_executor(thread, _open_or_new, path)
        except (sqlite3.Error, OSError):
            thread.shutdown()
            raise
        return cls(opened[0], thread, opened[1])

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """In one transaction."""
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, _in_transaction, self._file, work
        )

    async def get_state(self, name: str) -> str:
        """What `set_state` has kept; "" for nothing."""
        query = "SELECT value FROM state WHERE name = ?"
        return await self.run(lambda file: (file.execute(query, (name,)).fetchone() or ("",))[0])

    async def set_state(self, name: str, value: str) -> None:
        """Keep it beside the rows."""
        query = "INSERT OR REPLACE INTO state VALUES (?, ?)"
        await self.run(lambda file: file.execute(query, (name, value)))

    async def checkpoint(self) -> None:
        """The log of changes would hold deleted words a while."""
        await asyncio.get_running_loop().run_in_executor(self._thread, _checkpoint, self._file)

    async def aclose(self) -> None:
        """Finish what is queued, then close the file."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._file.close)
        self._thread.shutdown()


def _open_or_new(path: Path) -> tuple[sqlite3.Connection, Path | None]:
    try:
        return _open(path), None
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code not in DAMAGE or isinstance(error, sqlite3.NotSupportedError):
            raise
        log.error("%s is damaged (%s) and is set aside", path, error)
    names = (path.with_name(f"{path.name}.damaged{number or ''}") for number in count())
    aside = next(name for name in names if not name.exists())
    for end in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            path.with_name(path.name + end).rename(aside.with_name(aside.name + end))
    return _open(path), aside


def _open(path: Path) -> sqlite3.Connection:
    path.touch(mode=0o600)  # what is remembered is for its owner alone
    file = sqlite3.connect(path)
    try:
        file.execute(f"PRAGMA page_size = {PAGE_SIZE}")  # of a new file
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA synchronous = FULL")
        file.execute("PRAGMA secure_delete = ON")
        if path.stat().st_size <= CHECKED_UP_TO:
            found = file.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(found)
        _migrate(file)
        _checkpoint(file)  # a kill may have left deleted words in the log of changes
    except sqlite3.Error:
        file.close()
        raise
    return file


def _migrate(file: sqlite3.Connection) -> None:
    """To the newest schema; before there were several people, everything was the owner's. Facts of
    before there were states: what is not trusted waits from now on.
    """
    version = file.execute("PRAGMA user_version").fetchone()[0]
    if version > NEWEST:
        what = f"schema {version}; this one knows up to {NEWEST}"
        raise sqlite3.NotSupportedError(f"it was written by a newer aidaemon ({what})")
    if version == NEWEST:
        return
    facts, *later = (files("memory").joinpath(f"{one}.sql").read_text() for one in PARTS)
    steps = [facts]
    if 0 < version < 3:
        steps = [ADD_OWNED if version == 1 else "", PUT_AWAY, facts, TAKE_OVER]
    steps = steps if version < 3 else []
    file.create_function("forms_of", 1, write_forms, deterministic=True)
    steps += [part for after, part in enumerate(later, 4) if version < after]
    file.executescript(f"BEGIN; {' '.join(steps)} COMMIT;")


def _in_transaction(file: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    with file:
        return work(file)


def _checkpoint(file: sqlite3.Connection) -> None:
    file.execute(CHECKPOINT).fetchall()  # one that is not read to its end holds up the next
