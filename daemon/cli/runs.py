"""aidaemon runs."""

import argparse
import asyncio
import json
from dataclasses import asdict

from daemon.client.protocol import RunLine
from daemon.settings.paths import Paths, resolve_paths

HELP = "list runs, newest first"
LIMIT = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """[--session S] [--limit N] [--json]."""
    parser.add_argument(
        "--session", metavar="S", help="only of this session, for example terminal:default"
    )
    parser.add_argument(
        "--limit",
        type=_count,
        default=LIMIT,
        metavar="N",
        help=f"how many at most (default: {LIMIT})",
    )
    parser.add_argument("--json", action="store_true", help="as a JSON list")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    lines = asyncio.run(_look_up(resolve_paths(args.home, args.config), args.session, args.limit))
    if args.json:
        print(json.dumps([asdict(line) for line in lines], ensure_ascii=False))
    elif lines:
        _draw(lines)
    else:
        print("There are no runs yet. Say something: aidaemon chat")
    return 0


def _draw(lines: list[RunLine]) -> None:
    from rich.console import Console

    from daemon.cli.render_run import render_runs

    Console(highlight=False).print(render_runs(lines))


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 10000")
    return int(text)


async def _look_up(paths: Paths, session: str | None, limit: int) -> list[RunLine]:
    from daemon.app.connect import open_reader

    async with open_reader(paths) as door:
        return await door.list_runs(session, limit)
