"""aidaemon backup create|verify."""

import argparse
from pathlib import Path

from daemon.cli.parsing import Actions
from daemon.core.clock import SystemClock
from daemon.core.errors import AidaemonError
from daemon.ops import backup
from daemon.settings.paths import resolve_paths

ACTIONS: Actions = {
    "create": (
        "write one .tar.gz that only you can read; the daemon may go on running",
        {
            "[FILE]": "default: aidaemon-DATE-TIME.tar.gz here",
            "--with-secrets": "put secrets.toml in as well",
        },
    ),
    "verify": ("check every file's SHA-256 and the databases' integrity", {"FILE": ""}),
}


def run(args: argparse.Namespace) -> int:
    """Do it."""
    if args.action == "create":
        paths = resolve_paths(args.home, args.config)
        now = SystemClock().now()
        target = Path(args.file or f"aidaemon-{now:%Y%m%d-%H%M%S}.tar.gz").absolute()
        made = backup.create_backup(
            paths.home, paths.config, target, now, with_secrets=args.with_secrets
        )
        print(f"{made.path}: {len(made.files)} files, {made.path.stat().st_size} bytes")
        return 0
    looked_at = backup.verify_backup(Path(args.file).absolute())
    if looked_at.problems:
        raise AidaemonError("\n".join(f"{args.file}: {fault}" for fault in looked_at.problems))
    print(f"{args.file}: ok, {len(looked_at.files)} files")
    return 0
