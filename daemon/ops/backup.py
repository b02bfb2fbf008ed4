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
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import IO, cast

from daemon import VERSION
from daemon.core import value
from daemon.core.errors import AidaemonError
from daemon.store.migrate import find_damage, open_readonly

MANIFEST = "manifest.json"
DATABASES = ("journal.db", "memory.db")
FOLDERS = ("agents", "skills")
UNREADABLE = (tarfile.TarError, zlib.error, EOFError, OSError, ValueError, KeyError)


class BackupFailed(AidaemonError):
    """The backup could not be made; what is in the home directory was not touched."""


@value
class BackupArchive:
    """A backup that was made or looked at: what is in it (name -> SHA-256), and what is wrong with
    it.
    """

    path: Path
    files: dict[str, str]
    problems: tuple[str, ...] = ()


def create_backup(
    home: Path, config: Path, target: Path, at: datetime, *, with_secrets: bool = False
) -> BackupArchive:
    """Write the backup; the daemon may run meanwhile. Raises BackupFailed; an existing file is
    never overwritten.
    """
    if target.exists():
        raise BackupFailed(f"{target} exists already; nothing was written. Choose another name.")
    if not target.parent.is_dir():
        raise BackupFailed(
            f"There is no folder {target.parent}; nothing was written. Make it first."
        )
    sources = {"config.toml": config} | {path.name: path for path in home.glob("config.toml.*")}
    for name in (*DATABASES, *["secrets.toml"] * with_secrets):
        sources[name] = home / name
    for folder in FOLDERS:
        for path in (home / folder).rglob("*"):
            sources[path.relative_to(home).as_posix()] = path
    sources = {name: path for name, path in sorted(sources.items()) if path.is_file()}
    if not sources:
        raise BackupFailed(f"{home} holds nothing to back up; nothing was written.")
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".aidaemon-backup-") as name:
            return _build(sources, target, at, Path(name))
    except (OSError, sqlite3.Error) as error:
        raise BackupFailed(f"{target}: {error}. Nothing in {home} was touched.") from error


def verify_backup(path: Path) -> BackupArchive:
    """Check every hash and every database of the backup; nothing is restored."""
    if not path.exists():
        return BackupArchive(path, {}, ("there is no such file",))
    try:
        with (
            tempfile.TemporaryDirectory(prefix="aidaemon-verify-") as name,
            tarfile.open(path, "r:gz") as tar,
        ):
            return _verify(path, tar, Path(name))
    except UNREADABLE as error:
        return BackupArchive(path, {}, (f"is not a whole backup: {error or type(error).__name__}",))


def read_created(path: Path) -> datetime:
    """When a verified backup was made."""
    with tarfile.open(path, "r:gz") as tar, cast(IO[bytes], tar.extractfile(MANIFEST)) as stream:
        return datetime.fromisoformat(json.load(stream)["created"])


def _build(sources: dict[str, Path], target: Path, at: datetime, stage: Path) -> BackupArchive:
    files: dict[str, str] = {}
    for name, origin in sources.items():
        place = stage / "content" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if name in DATABASES:  # SQLite's own copy: one moment, whole, whoever writes meanwhile
            with open_readonly(origin) as database, closing(sqlite3.connect(place)) as copy:
                database.backup(copy)
                copy.execute("PRAGMA journal_mode=DELETE").fetchone()
        else:
            shutil.copyfile(origin, place)
        files[name] = _sha256(place)
    manifest = {
        "format": 1,
        "aidaemon": VERSION,
        "created": at.isoformat(),
        "files": files,
    }
    (stage / "content" / MANIFEST).write_text(json.dumps(manifest, indent=1))
    packed = stage / "packed.tar.gz"
    packed.touch(mode=0o600)
    with tarfile.open(packed, "w:gz") as tar:
        for name in (MANIFEST, *files):
            tar.add(stage / "content" / name, name, filter=_make_private)
    packed.replace(target)
    return BackupArchive(target, files)


def _make_private(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Unpacked by hand it is as private as it was; secrets.toml is not accepted otherwise."""
    member.mode = 0o600
    return member


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _verify(path: Path, tar: tarfile.TarFile, folder: Path) -> BackupArchive:
    found: dict[str, str] = {}
    expected: dict[str, str] = {}
    faults: list[str] = []
    for index, member in enumerate(tar):
        stream, copy = tar.extractfile(member) if member.isreg() else None, folder / str(index)
        if stream is None:
            raise ValueError(f"{member.name} is not a plain file")
        with stream, copy.open("wb") as file:
            shutil.copyfileobj(stream, file)
        if member.name == MANIFEST:
            expected = dict(json.loads(copy.read_bytes())["files"])
            continue
        found[member.name] = _sha256(copy)
        if member.name in DATABASES and (damage := find_damage(copy)):
            faults.append(f"{member.name}: the database is damaged: {damage}")
        copy.unlink()
    if not expected:
        faults.append(f"{MANIFEST}: is missing or empty")
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            faults.append(f"{name}: is missing")
        elif name not in expected:
            faults.append(f"{name}: is not in the manifest")
        elif expected[name] != found[name]:
            hashes = f"SHA-256 {found[name][:12]}..., expected {expected[name][:12]}..."
            faults.append(f"{name}: was changed ({hashes})")
    return BackupArchive(path, found, tuple(faults))
