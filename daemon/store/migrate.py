"""Opening the journal's file: pragmas, a look for damage, and numbered migrations kept count of in
`user_version` (K23).
"""

import os
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from daemon.core.errors import ConfigError

MIGRATIONS_FOLDER = Path(__file__).parent / "migrations"
BUSY_MS = 3_000  # how long another program's lock on the file is waited for
STATEMENTS = 256
CHECKED_UP_TO = 64 * 2**20  # bytes; quick_check reads the whole file, and a start must stay quick
COPIES = 2  # of journals of former versions
WAL_KEPT = 16 * 2**20
SPOILT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
UNREADABLE = (*SPOILT, sqlite3.SQLITE_IOERR)  # and not only now
PRAGMAS = (
    "PRAGMA page_size = 2048",  # of a new file: a turn of 0.8 kB writes 27 pages to the WAL
    f"PRAGMA busy_timeout = {BUSY_MS}",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA temp_store = MEMORY",
    f"PRAGMA journal_size_limit = {WAL_KEPT}",
)


class JournalUnusable(ConfigError):
    """The journal's file cannot be used."""


Migration = tuple[int, str]  # from version number - 1 to number: the number, the statements


def migrations(folder: Path = MIGRATIONS_FOLDER) -> list[Migration]:
    """What stands in the folder, in order: 0001_start.sql is number 1."""
    return [
        (int(path.name.split("_")[0]), path.read_text("utf-8"))
        for path in sorted(folder.glob("*.sql"))
    ]


def open_writer(path: Path) -> sqlite3.Connection:
    """The one connection that writes; creates the file if needed. Raises JournalUnusable."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as exc:
        raise JournalUnusable(
            f"{path}: cannot be opened: {exc.strerror}. Check the directory and its owner."
        ) from exc
    with ExitStack() as undo:
        db = connect(path)
        undo.callback(db.close)
        _prepare(db, path)
        db.execute("PRAGMA busy_timeout = 0")
        undo.pop_all()
    return db


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that sees what is committed and can write nothing."""
    db = connect(path)
    db.execute("PRAGMA busy_timeout = 0")
    db.execute("PRAGMA query_only = ON")
    return db


def connect(path: Path) -> sqlite3.Connection:
    """Transactions begin and end by our own statements only. One thread at a time may use it."""
    return sqlite3.connect(
        path, isolation_level=None, cached_statements=STATEMENTS, check_same_thread=False
    )


def migrate(db: sqlite3.Connection, path: Path, steps: Sequence[Migration]) -> None:
    """Bring the schema up to the newest step, each in a transaction of its own. Raises
    JournalUnusable for a newer file.
    """
    newest, _ = steps[-1]
    if _version(db) > newest:
        raise JournalUnusable(
            f"{path}: written by a newer aidaemon (schema {_version(db)}; this one knows up to"
            f" {newest}). Nothing was changed. Install the newer aidaemon again, or give another"
            " --home."
        )
    if 0 < _version(db) < newest:
        copy_before_migration(db, path)
    for number, statements in steps:
        if number > _version(db):
            _apply(db, number, statements)


def copy_before_migration(db: sqlite3.Connection, path: Path) -> None:
    """HOME/backups/journal-schema-NN.db: what a former version opens. The two latest are kept.
    Raises JournalUnusable.
    """
    folder = path.parent / "backups"
    target = folder / f"journal-schema-{_version(db):02}.db"
    part = target.with_suffix(".part")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        part.unlink(missing_ok=True)
        part.touch(mode=0o600)
        with closing(sqlite3.connect(part)) as copy:
            db.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE").fetchone()
        part.replace(target)
        for old in sorted(folder.glob("journal-schema-*.db"))[:-COPIES]:
            old.unlink()
    except (OSError, sqlite3.Error) as error:
        part.unlink(missing_ok=True)
        raise JournalUnusable(
            f"{target}: the copy that is made before the journal is brought up to a new version"
            f" failed: {error}. Nothing was changed. Make space on the disk and start again."
        ) from error


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    try:
        for pragma in PRAGMAS:
            db.execute(pragma).fetchall()
        _refuse_damage(db, path)
        migrate(db, path, migrations())
    except sqlite3.OperationalError as exc:
        raise JournalUnusable(
            f"{path}: the journal cannot be opened: {exc}. Nothing was changed."
        ) from exc
    except sqlite3.DatabaseError as exc:
        raise JournalUnusable(describe_damage(path, str(exc))) from exc


def _refuse_damage(db: sqlite3.Connection, path: Path) -> None:
    if path.stat().st_size > CHECKED_UP_TO:
        return
    found = db.execute("PRAGMA quick_check(1)").fetchone()
    if found != ("ok",):
        raise JournalUnusable(describe_damage(path, str(found[0])))


def open_readonly(path: Path) -> "closing[sqlite3.Connection]":
    """Any database, as a look from outside; makes no file."""
    return closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30))


def find_damage(path: Path, *, quick: bool = False) -> str:
    """What SQLite finds wrong with a whole database; "" for nothing. `quick` does not compare
    indexes with their tables.
    """
    try:
        with open_readonly(path) as db:
            check = f"PRAGMA {'quick' if quick else 'integrity'}_check(1)"
            found = str(db.execute(check).fetchone()[0])
    except sqlite3.Error as error:
        return str(error)
    return "" if found == "ok" else found


def has_code(error: sqlite3.Error, codes: Collection[int]) -> bool:
    """It is one of these errors, or a kind of one."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in codes  # of an extended code


def describe_damage(path: Path, found: str, *, running: bool = False) -> str:
    """What to tell whose journal is damaged."""
    so_far = "Nothing was changed."
    stop = ""
    if running:
        so_far = "Nothing more is taken in or done until it is repaired."
        stop = "Stop the daemon. "
    return (
        f"{path}: the journal is damaged ({found}). {so_far} {stop}"
        "Keep the file, then take the last backup with `aidaemon backup restore`."
    )


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _apply(db: sqlite3.Connection, number: int, statements: str) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        for statement in _statements(statements):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {number}")
        db.execute("COMMIT")
    except sqlite3.Error:
        db.execute("ROLLBACK")
        raise


def _statements(sql: str) -> Iterator[str]:
    """One by one, because `executescript` would commit what is open."""
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
