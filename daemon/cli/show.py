"""aidaemon show TURN."""

import argparse
import asyncio
import json
from dataclasses import asdict

from daemon.app.connect import open_reader
from daemon.cli.parsing import Options
from daemon.client.protocol import RunReader, RunView
from daemon.client.views import RunBundle
from daemon.core.errors import AidaemonError
from daemon.settings.paths import Paths, resolve_paths

OPTIONS: Options = {
    "TURN": "its id, as `aidaemon runs` shows it",
    "|": {
        "--json": "the run, its events and its agents' runs as JSON",
        "--jsonl": "the transcript: one event a line",
    },
}


def run(args: argparse.Namespace) -> int:
    """Print it."""
    paths = resolve_paths(args.home, args.config)
    bundle = asyncio.run(_load(paths, args.turn, with_children=not args.jsonl))
    if args.jsonl:
        for line in bundle.transcript:
            print(json.dumps(line, ensure_ascii=False))
    elif args.json:
        print(json.dumps(_to_json(bundle), ensure_ascii=False))
    else:
        from rich.console import Console  # lazy: 60 ms

        from daemon.cli.terminal.render_run import render_run  # lazy: brings rich

        Console(highlight=False).print(render_run(bundle))
    return 0


def _to_json(bundle: RunBundle) -> dict[str, object]:
    children = [_to_json(child) for child in bundle.children]
    return {**asdict(bundle.run), "events": bundle.transcript, "children": children}


async def _load(paths: Paths, turn: str, *, with_children: bool) -> RunBundle:
    async with open_reader(paths) as reader:
        view = await reader.get_run(turn)
        if view is None:
            raise AidaemonError(
                f"there is no run {turn!r} in {paths.home}; `aidaemon runs` lists them"
            )
        return await _load_bundle(reader, view, with_children)


async def _load_bundle(reader: RunReader, view: RunView, with_children: bool) -> RunBundle:
    names = view.children if with_children else []
    children = [found for name in names if (found := await reader.get_run(name))]
    bundles = [await _load_bundle(reader, child, with_children) for child in children]
    return RunBundle(view, await reader.get_transcript(view.turn), bundles)
