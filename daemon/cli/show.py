"""aidaemon show TURN."""

import argparse
import asyncio
import json
from dataclasses import asdict

from daemon.config.paths import Paths, resolve
from daemon.core.errors import AidaemonError
from daemon.door.base import RunView

HELP = "show one run, step by step"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """TURN [--json | --jsonl]."""
    parser.add_argument("turn", metavar="TURN", help="its id, as `aidaemon runs` shows it")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the run and its events as one JSON object")
    form.add_argument("--jsonl", action="store_true", help="the transcript: one event a line")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    view, transcript = asyncio.run(_look_up(resolve(args.home, args.config), args.turn))
    if args.jsonl:
        for line in transcript:
            print(json.dumps(line, ensure_ascii=False))
    elif args.json:
        print(json.dumps(asdict(view) | {"events": transcript}, ensure_ascii=False))
    else:
        _draw(view, transcript)
    return 0


def _draw(view: RunView, transcript: list[dict[str, object]]) -> None:
    from rich.console import Console

    from daemon.cli.drawing import draw_run

    Console(highlight=False).print(draw_run(view, transcript))


async def _look_up(paths: Paths, turn: str) -> tuple[RunView, list[dict[str, object]]]:
    from daemon.app.doors import reading_door

    async with reading_door(paths) as door:
        view = await door.run(turn)
        if view is None:
            raise AidaemonError(f"there is no run {turn!r} in {paths.home}; `aidaemon runs` lists them")
        return view, await door.transcript(turn)
