"""aidaemon show TURN."""

import argparse
import asyncio
import json
from dataclasses import asdict

from daemon.client.protocol import RunReader, RunView
from daemon.client.views import RunBundle
from daemon.core.errors import AidaemonError
from daemon.settings.paths import Paths, resolve_paths

HELP = "show one run, step by step"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """TURN [--json | --jsonl]."""
    parser.add_argument("turn", metavar="TURN", help="its id, as `aidaemon runs` shows it")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json",
        action="store_true",
        help="the run, its events and its agents' runs as one JSON object",
    )
    form.add_argument("--jsonl", action="store_true", help="the transcript: one event a line")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    whole = asyncio.run(
        _look_up(resolve_paths(args.home, args.config), args.turn, deep=not args.jsonl)
    )
    if args.jsonl:
        for line in whole.transcript:
            print(json.dumps(line, ensure_ascii=False))
    elif args.json:
        print(json.dumps(_as_object(whole), ensure_ascii=False))
    else:
        _draw(whole)
    return 0


def _as_object(whole: RunBundle) -> dict[str, object]:
    children = [_as_object(child) for child in whole.children]
    return {**asdict(whole.run), "events": whole.transcript, "children": children}


def _draw(whole: RunBundle) -> None:
    from rich.console import Console

    from daemon.cli.render_run import render_run

    Console(highlight=False).print(render_run(whole))


async def _look_up(paths: Paths, turn: str, *, deep: bool) -> RunBundle:
    from daemon.app.connect import open_reader

    async with open_reader(paths) as door:
        view = await door.get_run(turn)
        if view is None:
            raise AidaemonError(
                f"there is no run {turn!r} in {paths.home}; `aidaemon runs` lists them"
            )
        return await _load_bundle(door, view, deep)


async def _load_bundle(door: RunReader, view: RunView, deep: bool) -> RunBundle:
    children = (
        [found for name in view.children if (found := await door.get_run(name))] if deep else []
    )
    return RunBundle(
        view,
        await door.get_transcript(view.turn),
        [await _load_bundle(door, child, deep) for child in children],
    )
