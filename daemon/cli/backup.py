"""aidaemon backup create|verify|restore."""

import argparse
import asyncio
from pathlib import Path

from daemon.cli.parsing import Actions
from daemon.core.clock import SystemClock, show_time
from daemon.core.errors import AidaemonError
from daemon.ops import backup, restore
from daemon.settings.paths import Paths
from daemon.store.lock import lock_home

ACTIONS: Actions = {
    "create": (
        "write one .tar.gz that only you can read; the daemon may go on running",
        {
            "[FILE]": "default: aidaemon-DATE-TIME.tar.gz here",
            "--with-secrets": "put secrets.toml in as well",
        },
    ),
    "verify": ("check every file's SHA-256 and the databases' integrity", {"FILE": ""}),
    "restore": (
        "put a backup in the place of HOME's files, which are kept; stop the daemon first",
        {
            "[FILE]": "default: the newest snapshot in HOME/backups",
            "--force": "also where HOME holds what is newer than the backup",
        },
    ),
}


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Do it."""
    if args.action == "create":
        now = SystemClock().now()
        target = Path(args.file or f"aidaemon-{now:%Y%m%d-%H%M%S}.tar.gz").absolute()
        made = backup.create_backup(
            paths.home, paths.config, target, now, with_secrets=args.with_secrets
        )
        print(f"{made.path}: {len(made.files)} files, {made.path.stat().st_size} bytes")
        return 0
    if args.action == "restore":
        return _restore(args, paths)
    looked_at = backup.verify_backup(Path(args.file).absolute())
    if looked_at.problems:
        raise AidaemonError("\n".join(f"{args.file}: {fault}" for fault in looked_at.problems))
    print(f"{args.file}: ok, {len(looked_at.files)} files")
    return 0


def _restore(args: argparse.Namespace, paths: Paths) -> int:
    with lock_home(paths.home):
        archive = Path(args.file).absolute() if args.file else restore.find_latest_snapshot(paths)
        work = restore.restore_backup(paths, archive, SystemClock().now(), force=args.force)
        done = asyncio.run(work)
    print(f"{done.archive}: {len(done.files)} files of {show_time(done.created)} are in place.")
    print(f"What they replaced is kept in {done.kept}.")
    if done.newer:
        what = "1 file" if done.newer == 1 else f"{done.newer} files"
        print(
            f"Of the workspace, {what} changed since then. Nothing tells any more who wrote that,"
        )
        print("so it counts as a stranger's; in a chat, /trust NAME or /trust . makes it yours.")
    print("Loops, goals and schedules that were due since are paused; what was under way is not")
    print("begun again. /schedule resume NAME lets one go on.")
    print("Start: aidaemon run")
    return 0
