"""aidaemon show TURN."""

import argparse
import asyncio
import json
from dataclasses import asdict

from daemon.cli.whole import Whole
from daemon.config.paths import Paths, resolve
from daemon.core.errors import AidaemonError
from daemon.door.base import Door, RunView
from daemon.door.reading import Reading

HELP = "show one run, step by step"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """TURN [--json | --jsonl]."""
    parser.add_argument("turn", metavar="TURN", help="its id, as `aidaemon runs` shows it")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the run, its events and its agents' runs as one JSON object")
    form.add_argument("--jsonl", action="store_true", help="the transcript: one event a line")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    whole = asyncio.run(_look_up(resolve(args.home, args.config), args.turn, deep=not args.jsonl))
    if args.jsonl:
        for line in whole.transcript:
            print(json.dumps(line, ensure_ascii=False))
    elif args.json:
        print(json.dumps(_as_object(whole), ensure_ascii=False))
    else:
        _draw(whole)
    return 0


def _as_object(whole: Whole) -> dict[str, object]:
    children = [_as_object(child) for child in whole.children]
    return {**asdict(whole.run), "events": whole.transcript, "children": children}


def _draw(whole: Whole) -> None:
    from rich.console import Console

    from daemon.cli.drawing import draw_run

    Console(highlight=False).print(draw_run(whole))


async def _look_up(paths: Paths, turn: str, *, deep: bool) -> Whole:
    from daemon.app.doors import reading_door

    async with reading_door(paths) as door:
        view = await door.run(turn)
        if view is None:
            raise AidaemonError(f"there is no run {turn!r} in {paths.home}; `aidaemon runs` lists them")
        return await _whole(door, view, deep)


async def _whole(door: Door | Reading, view: RunView, deep: bool) -> Whole:
    children = [found for name in view.children if (found := await door.run(name))] if deep else []
    return Whole(view, await door.transcript(view.turn), [await _whole(door, child, deep) for child in children])
