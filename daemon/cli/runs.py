"""aidaemon runs."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from daemon.cli.parsing import Options
from daemon.client.http import find_running_daemon
from daemon.client.protocol import RunLine
from daemon.settings.paths import Paths, resolve_paths

LIMIT, MAX_LIMIT = 20, 10_000
HEADER = ("turn", "session", "state", "why", "started", "took")
ANSI = {"green": 32, "cyan": 36, "blue": 34, "yellow": 33, "red": 31, "bold red": 31}
COLORS = {
    "ended": "green",
    "running": "cyan",
    "queued": "blue",
    "suspended": "yellow",
    "quarantined": "red",
    "ok": "green",
    "done": "green",
    "condition": "green",
    "passed": "green",
    "error": "red",
    "failed": "red",
    "rejected": "yellow",
    "unknown": "bold red",
    "not_run": "yellow",
    "allow": "green",
    "ask": "yellow",
    "deny": "red",
}


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_LIMIT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MAX_LIMIT}")
    return int(text)


OPTIONS: Options = {
    "--session S": "only of this session, for example terminal:default",
    "--limit N": {
        "type": _count,
        "default": LIMIT,
        "help": f"how many at most (default: {LIMIT})",
    },
    "--json": "as a JSON list",
}


def run(args: argparse.Namespace) -> int:
    """List them."""
    paths = resolve_paths(args.home, args.config)
    lines = asyncio.run(_load(paths, args.session, args.limit))
    if args.json:
        print(json.dumps([asdict(line) for line in lines], ensure_ascii=False))
    elif lines:
        print(render_runs(lines, colors=sys.stdout.isatty()))
    else:
        print("There are no runs yet. Say something: aidaemon chat")
    return 0


async def _load(paths: Paths, session: str | None, limit: int) -> list[RunLine]:
    if client := find_running_daemon(paths):
        return await client.list_runs(session, limit)
    from daemon.app.connect import open_reader  # lazy: brings the whole daemon

    async with open_reader(paths) as reader:
        return await reader.list_runs(session, limit)


def render_runs(lines: Sequence[RunLine], *, colors: bool = False) -> str:
    """A table of runs, one line each."""
    rows = [HEADER, *map(_cells, lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            _color(cell.ljust(width), cell if colors else "")
            for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    )


def _cells(line: RunLine) -> tuple[str, ...]:
    session = line.session if line.agent == "default" else f"{line.session} ({line.agent})"
    session = f"agent {line.agent}" if line.parent else session
    session = "".join(sign if sign.isprintable() else "\ufffd" for sign in session)
    started = format_local_time(line.started)[:-3]
    return (line.turn, session, line.state, line.stop_reason or "", started, _duration(line))


def _color(text: str, state: str) -> str:
    color = ANSI.get(COLORS.get(state, ""))
    return f"\x1b[{color}m{text}\x1b[0m" if color else text


def format_local_time(instant: str | None) -> str:
    """An ISO instant in local time."""
    return f"{datetime.fromisoformat(instant).astimezone():%Y-%m-%d %H:%M:%S}" if instant else ""


def _duration(line: RunLine) -> str:
    """From begin to end, with the time that it waited for people."""
    if not line.started or not line.ended:
        return ""
    begin, end = map(datetime.fromisoformat, (line.started, line.ended))
    seconds = (end - begin).total_seconds()
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.0f} min"
