"""A verified backup of HOME once a day, in HOME/backups; older ones make room."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from daemon.core.clock import Clock
from daemon.ops.backup import BackupArchive, BackupFailed, create_backup, verify_backup
from daemon.settings.paths import Paths

log = logging.getLogger(__name__)
NAME = "snapshot-%Y%m%d-%H%M%S.tar.gz"
DAY = timedelta(days=1)
KEPT, MAX_BYTES, JOURNAL_SHARE, FAR_LARGER = 7, 2 << 30, 2, 2
FIRST_S, LOOK_EVERY_S = 60.0, 600.0
FAILED = (
    "The daily backup could not be made: {error} The one before is kept. I try again tomorrow;"
    " `aidaemon backup create` tries it now."
)


def take_snapshot(paths: Paths, at: datetime, most: int = KEPT) -> BackupArchive:
    """Write one, check it, and remove those that are too many. Raises BackupFailed: nothing is kept
    of it then, and nothing else was removed.
    """
    paths.backups.mkdir(mode=0o700, exist_ok=True)
    target = paths.backups / at.astimezone(UTC).strftime(NAME)
    made = create_backup(paths.home, paths.config, target, at)
    if problems := verify_backup(target).problems:
        target.unlink()
        raise BackupFailed(f"{'; '.join(problems)}.")
    _remove_surplus(paths, most)
    return made


def list_snapshots(folder: Path) -> dict[datetime, Path]:
    """By the time of their making, the newest first."""
    found = dict[datetime, Path]()
    for path in sorted(folder.glob("snapshot-*.tar.gz"), reverse=True):
        with suppress(ValueError):
            found[datetime.strptime(path.name, NAME).replace(tzinfo=UTC)] = path
    return found


def is_due(folder: Path, now: datetime) -> bool:
    """None was made within a day. One that lies ahead of a clock that was set back does not
    count.
    """
    return not any(timedelta() <= now - made < DAY for made in list_snapshots(folder))


async def keep_snapshots(
    paths: Paths,
    clock: Clock,
    get_most: Callable[[], int],
    tell: Callable[[str], Awaitable[object]],
    first_s: float = FIRST_S,
) -> None:
    """Until cancelled. `get_most`: how many are kept, 0 for none at all; `tell` reaches the owner,
    once a day at most.
    """
    failed_at: datetime | None = None
    await asyncio.sleep(first_s)
    while True:
        now, most = clock.now(), get_most()
        rests = failed_at and abs(now - failed_at) < DAY
        if most and not rests and await asyncio.to_thread(is_due, paths.backups, now):
            try:
                made = await asyncio.to_thread(take_snapshot, paths, now, most)
                log.info("the daily backup is %s", made.path)
            except (BackupFailed, OSError) as error:
                failed_at, text = now, FAILED.format(error=error)
                log.error("%s", text)
                await tell(text)
        await asyncio.sleep(LOOK_EVERY_S)


def _remove_surplus(paths: Paths, most: int) -> None:
    """The newest is always kept; and for want of room none that is far larger than it, for then
    the journal was lost or has shrunk, and the older ones may be all that is left.
    """
    journal = sum(path.stat().st_size for path in paths.home.glob("journal.db*"))
    room, newest = min(MAX_BYTES, JOURNAL_SHARE * journal), 0
    for number, path in enumerate(list_snapshots(paths.backups).values()):
        size = path.stat().st_size
        room, newest = room - size, newest or size
        if number and (number >= most or (room < 0 and size <= FAR_LARGER * newest)):
            path.unlink()
