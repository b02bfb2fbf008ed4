"""Puts the files of a backup in the place of HOME's. What is replaced is kept.

What was under way when the backup was made may have gone on after it: it is not begun again, and
nothing that waited to be sent is sent a second time.
"""

import os
import shutil
import sqlite3
import tarfile
import tempfile
import tomllib
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PurePosixPath

from daemon.core import value
from daemon.core.errors import AidaemonError, ConfigError
from daemon.core.rows import FileLabel, LoopStage
from daemon.core.trust import Label
from daemon.ops.backup import DATABASES, FOLDERS, read_created, verify_backup
from daemon.ops.snapshots import list_snapshots
from daemon.settings.load import read_text
from daemon.settings.paths import Paths, flush_to_disk, write_private_file
from daemon.store.journal import Tx
from daemon.store.migrate import open_readonly
from daemon.store.sqlite import SqliteStore

ENDS = ("", "-wal", "-shm")
LACKS = "SELECT count(*) FROM {here} WHERE {key} NOT IN (SELECT {key} FROM {there})"
KINDS = {
    "message": ("{}.inbox", "id"),
    "answer": ("(SELECT id FROM {}.turns WHERE ended_at IS NOT NULL)", "id"),
    "memory": ("{}.facts", "id"),
    "schedule": ("{}.schedules", "id"),
    "goal": ("{}.goals", "id"),
    "permission": ("{}.grants", "id"),
    "rule": ("{}.rules", "n"),
    "person": ("{}.people", "name"),
}
REMOVED = ("memory", "permission", "rule", "person")  # what a restore must not bring back unseen
PLURALS = {"memory": "memories", "person": "people"}
CUT_OFF = (
    "This was under way when the backup of {created:%Y-%m-%d %H:%M} UTC was made, which is in use"
    " again. It may have gone on after that, so I do not begin it again. Please look, and say it"
    " again if it is still wanted."
)
STAGE = ".restore-"
PAUSED = "a backup was restored"
OPEN_STATES = ("new", "ordered")


class RestoreRefused(AidaemonError):
    """Nothing was restored, and nothing was changed."""


@value
class Restored:
    """What was restored, of when, and where the files that it replaced are kept. `newer`: files of
    the workspace that changed since; nothing tells any more who wrote them.
    """

    archive: Path
    created: datetime
    files: tuple[str, ...]
    kept: Path
    newer: int = 0


def find_latest_snapshot(paths: Paths) -> Path:
    """In HOME/backups. Raises RestoreRefused where there is none."""
    for path in list_snapshots(paths.backups).values():
        return path
    raise RestoreRefused(f"{paths.backups} holds no snapshot; give the FILE of a backup.")


async def restore_backup(paths: Paths, archive: Path, at: datetime, *, force: bool) -> Restored:
    """HOME must be locked. Raises RestoreRefused where the archive is damaged, or HOME is newer and
    `force` is not given.
    """
    if problems := verify_backup(archive).problems:
        found = "; ".join(problems)
        raise RestoreRefused(f"{archive}: {found}. Nothing was changed.")
    created = read_created(archive)
    for left in paths.home.glob(f"{STAGE}*"):  # of one that was cut off
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(dir=paths.home, prefix=STAGE) as name:
        stage = Path(name)
        names = _unpack(archive, stage)
        if (newer := _describe_newer(paths, stage, created)) and not force:
            raise RestoreRefused(
                f"{paths.home} is newer than this backup, which was made"
                f" {created:%Y-%m-%d %H:%M} UTC: {'; '.join(newer)}. Nothing was changed. --force"
                " restores it all the same; what it replaces is kept."
            )
        newer_files = _list_newer_files(_find_workspace(paths, stage), created)
        if paths.journal.name in names:
            async with aclosing(await SqliteStore.open(stage / paths.journal.name)) as store:
                await store.write(lambda tx: _settle(tx, created, at, newer_files))
        kept = paths.home / f"replaced-{at:%Y%m%d-%H%M%S}"
        _exchange(paths, stage, names, kept)
    return Restored(archive, created, tuple(names), kept, len(newer_files))


def _find_workspace(paths: Paths, stage: Path) -> Path:
    """As the restored config says."""
    with suppress(ConfigError, ValueError):
        tools = tomllib.loads(read_text(stage / "config.toml")).get("tools")
        if isinstance(tools, dict) and isinstance(tools.get("workspace"), str):
            return paths.home / tools["workspace"]
    return paths.home / "workspace"


def _list_newer_files(root: Path, created: datetime) -> list[str]:
    """Files of the workspace that changed since: by a stamp that only the system sets."""
    return [
        path.relative_to(root).as_posix()
        for folder, _, names in os.walk(root)
        for path in (Path(folder, name) for name in names)
        if path.lstat().st_ctime >= created.timestamp()
    ]


def _describe_newer(paths: Paths, stage: Path, created: datetime) -> list[str]:
    """What would be lost, and what would come back; a database that cannot be read has nothing to
    lose.
    """
    lost, back = list[str](), list[str]()
    for path in (paths.journal, paths.memory):
        with suppress(sqlite3.Error), open_readonly(path) as db:
            db.execute("ATTACH ? AS backup", (f"{(stage / path.name).as_uri()}?mode=ro",))
            for what in KINDS:
                lost += _count_lacking(db, what, "main", "backup")
            for what in REMOVED:
                back += _count_lacking(db, what, "backup", "main")
    with suppress(OSError):
        is_newer = paths.config.stat().st_mtime > created.timestamp()
        if is_newer and paths.config.read_bytes() != (stage / "config.toml").read_bytes():
            lost.append("a config.toml")
    parts = (f"it has {' and '.join(lost)} that the backup lacks", lost), (
        f"{' and '.join(back)}, removed since, would come back", back
    )  # fmt: skip
    return [text for text, found in parts if found]


def _count_lacking(db: sqlite3.Connection, what: str, here: str, there: str) -> list[str]:
    """Such as "2 messages"; nothing for none, and for a table of the other database."""
    source, key = KINDS[what]
    query = LACKS.format(here=source.format(here), there=source.format(there), key=key)
    with suppress(sqlite3.OperationalError):
        if count := db.execute(query).fetchone()[0]:
            return [f"{count} {what if count == 1 else PLURALS.get(what, f'{what}s')}"]
    return []


def _unpack(archive: Path, stage: Path) -> list[str]:
    """The archive was verified; its names may still be anything."""
    names: list[str] = []
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            stream, name = tar.extractfile(member), PurePosixPath(member.name)
            if stream is None or not _is_ours(name):
                continue
            place = stage / name
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.touch(mode=0o600)
            with stream, place.open("wb") as file:
                while block := stream.read(1 << 20):
                    file.write(block)
            names.append(member.name)
    return names


def _is_ours(name: PurePosixPath) -> bool:
    first, *rest = name.parts
    if ".." in name.parts or name.is_absolute():
        return False
    files = (*DATABASES, "secrets.toml")
    return first in FOLDERS if rest else first in files or first.startswith("config.toml")


def _exchange(paths: Paths, stage: Path, names: list[str], kept: Path) -> None:
    """One after the other, the journal last: after a kill in between, HOME has its old journal, or
    tells that it is absent. A config on another disk is copied.
    """
    tops = {name.partition("/")[0] for name in names}
    kept.mkdir(mode=0o700)
    for top in sorted(tops, key=lambda top: (top == paths.journal.name, top)):
        for end in ENDS if top in DATABASES else ENDS[:1]:
            with suppress(FileNotFoundError):
                (paths.home / (top + end)).rename(kept / (top + end))
        new, target = stage / top, paths.home / top
        if top == "config.toml" and paths.config != target:
            with suppress(FileNotFoundError):
                shutil.copy2(paths.config, kept / top)
            write_private_file(paths.config, new.read_bytes())
            continue
        _flush(new)
        new.rename(target)
    flush_to_disk(paths.home)


def _flush(path: Path) -> None:
    """To the disk, before anything takes its place."""
    for one in (*path.rglob("*"), path) if path.name in FOLDERS else (path,):
        flush_to_disk(one)


def _settle(tx: Tx, created: datetime, at: datetime, newer_files: list[str]) -> None:
    tx.put_files(FileLabel(path, Label.UNTRUSTED, "") for path in newer_files)
    tx.give_up_deliveries(PAUSED)
    tx.remove_cursors()
    notice = CUT_OFF.format(created=created)
    for session in tx.list_unfinished_sessions():
        for turn in tx.list_unfinished_turns(session):
            tx.quarantine(turn.id, at, notice)
    for state in OPEN_STATES:
        for row in tx.list_inputs(state):
            tx.quarantine(row.turn, at, notice)
    for loop in tx.list_running_loops():
        if loop.stage is LoopStage.RUNNING:
            tx.put_loop(replace(loop, stage=LoopStage.PAUSED))
    for row in tx.list_schedules():
        if row.state == "active" and row.due and row.due <= at:
            tx.put_schedule(replace(row, state="paused", due=None, fires_at=None))
    for one in tx.list_checking():
        tx.set_occurrence("skipped", "", one.schedule, one.key)
    for goal in tx.list_goals(-1):
        if goal.state == "active":
            tx.halt_goal(goal, "paused", PAUSED)
