"""A backup is one private .tar.gz: the databases as of one moment, the config, agents and skills,
and the hash of each.
"""

import hashlib
import json
import shutil
import sqlite3
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

from daemon import VERSION
from daemon.core import value
from daemon.core.errors import AidaemonError

MANIFEST = "manifest.json"
DATABASES = ("journal.db", "memory.db")
FOLDERS = ("agents", "skills")
UNREADABLE = (tarfile.TarError, zlib.error, EOFError, OSError, ValueError, KeyError)


class BackupFailed(AidaemonError):
    """The backup could not be made; what is in the home directory was not touched."""


@value
class BackupSource:
    """What a backup is made of."""

    home: Path
    config: Path
    with_secrets: bool = False


@value
class BackupArchive:
    """A backup that was made or looked at: what is in it (name -> SHA-256), and what is wrong with
    it.
    """

    path: Path
    files: dict[str, str]
    problems: tuple[str, ...] = ()


def create_backup(source: BackupSource, target: Path, at: datetime) -> BackupArchive:
    """Write the backup; the daemon may run meanwhile. Raises BackupFailed; an existing file is
    never overwritten.
    """
    if target.exists():
        raise BackupFailed(f"{target} exists already; nothing was written. Choose another name.")
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".aidaemon-backup-") as name:
            return _build(source, target, at, Path(name))
    except (OSError, sqlite3.Error) as error:
        raise BackupFailed(f"{target}: {error}. Nothing in {source.home} was touched.") from error


def verify_backup(path: Path) -> BackupArchive:
    """Check every hash and every database of the backup; nothing is restored."""
    try:
        with (
            tempfile.TemporaryDirectory(prefix="aidaemon-verify-") as name,
            tarfile.open(path, "r:gz") as tar,
        ):
            return _verify(path, tar, Path(name))
    except UNREADABLE as error:
        return BackupArchive(path, {}, (f"is not a whole backup: {error or type(error).__name__}",))


def check_integrity(path: Path, *, quick: bool = False) -> str:
    """What SQLite says of the database: "ok", or its first complaint."""
    check = "PRAGMA quick_check(1)" if quick else "PRAGMA integrity_check(1)"
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30)) as database:
            return str(database.execute(check).fetchone()[0])
    except sqlite3.Error as error:
        return str(error)


def _build(source: BackupSource, target: Path, at: datetime, stage: Path) -> BackupArchive:
    for origin, name in _iter_files(source):
        place = stage / "content" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if name in DATABASES:
            _copy_database(origin, place)
        else:
            shutil.copyfile(origin, place)
    content = sorted(path for path in (stage / "content").rglob("*") if path.is_file())
    files = {path.relative_to(stage / "content").as_posix(): _sha256(path) for path in content}
    if not files:
        raise BackupFailed(f"{source.home} holds nothing to back up; nothing was written.")
    manifest = {
        "format": 1,
        "aidaemon": VERSION,
        "created": at.isoformat(timespec="seconds"),
        "files": files,
    }
    (stage / MANIFEST).write_text(json.dumps(manifest, indent=1))
    packed = stage / "packed.tar.gz"
    packed.touch(mode=0o600)
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(stage / MANIFEST, MANIFEST, filter=_make_private)
        for name in files:
            tar.add(stage / "content" / name, name, filter=_make_private)
    packed.replace(target)
    return BackupArchive(target, files)


def _make_private(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Unpacked by hand it is as private as it was; secrets.toml is not accepted otherwise."""
    member.mode = 0o600
    return member


def _iter_files(source: BackupSource) -> Iterator[tuple[Path, str]]:
    """What is there to back up, and its name in the backup."""
    if source.config.is_file():
        yield source.config, "config.toml"
    for path in sorted(source.home.glob("config.toml.*")):
        yield path, path.name
    singles = (*DATABASES, "secrets.toml") if source.with_secrets else DATABASES
    for name in singles:
        if (source.home / name).is_file():
            yield source.home / name, name
    for folder in FOLDERS:
        for path in sorted((source.home / folder).rglob("*")):
            if path.is_file():
                yield path, path.relative_to(source.home).as_posix()


def _copy_database(origin: Path, place: Path) -> None:
    """SQLite's own copy: one moment, whole, whoever writes meanwhile."""
    with (
        closing(sqlite3.connect(f"{origin.as_uri()}?mode=ro", uri=True, timeout=30)) as live,
        closing(sqlite3.connect(place)) as copy,
    ):
        live.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE").fetchone()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _verify(path: Path, tar: tarfile.TarFile, folder: Path) -> BackupArchive:
    found: dict[str, str] = {}
    expected: dict[str, str] = {}
    faults: list[str] = []
    for index, member in enumerate(tar):
        copy = _extract(tar, member, folder / str(index))
        if member.name == MANIFEST:
            expected = {
                str(name): str(digest)
                for name, digest in json.loads(copy.read_bytes())["files"].items()
            }
            continue
        found[member.name] = _sha256(copy)
        if member.name in DATABASES and (said := check_integrity(copy)) != "ok":
            faults.append(f"{member.name}: the database is damaged: {said}")
        copy.unlink()
    faults += _compare_hashes(expected, found)
    return BackupArchive(path, found, tuple(faults))


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> Path:
    stream = tar.extractfile(member) if member.isreg() else None
    if stream is None:
        raise ValueError(f"{member.name} is not a plain file")
    with stream, place.open("wb") as file:
        shutil.copyfileobj(stream, file)
    return place


def _compare_hashes(expected: dict[str, str], found: dict[str, str]) -> Iterator[str]:
    if not expected:
        yield f"{MANIFEST}: is missing or empty"
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            yield f"{name}: is missing"
        elif name not in expected:
            yield f"{name}: is not in the manifest"
        elif expected[name] != found[name]:
            hashes = f"SHA-256 {found[name][:12]}..., expected {expected[name][:12]}..."
            yield f"{name}: was changed ({hashes})"
