"""aidaemon show."""

import argparse
import asyncio
import json
from dataclasses import asdict

from channels.markup.sanitize import summarize_call
from daemon.app.connect import open_reader
from daemon.cli.parsing import Options
from daemon.cli.terminal.chat_renderer import ChatRenderer
from daemon.cli.terminal.items import UserText, to_plain_text
from daemon.client.http import find_running_daemon
from daemon.client.protocol import RunReader
from daemon.client.view_types import RunView
from daemon.client.views import RunBundle
from daemon.core.errors import AidaemonError
from daemon.settings.paths import Paths

LAST, MOST_SEARCHED, MOST_NAMED = "last", 500, 10
OPTIONS: Options = {
    "TURN": "its id as `aidaemon runs` shows it, the begin of one, or: last",
    "|": {
        "--follow": "what a run that is at work does, until it ends",
        "--json": "the run, its events and its agents' runs as JSON",
        "--jsonl": "the transcript: one event a line",
    },
}


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Print it."""
    if args.follow:
        return asyncio.run(_follow(paths, args.turn))
    bundle = asyncio.run(_load(paths, args.turn, with_children=not args.jsonl))
    if args.jsonl:
        for line in bundle.transcript:
            print(json.dumps(line, ensure_ascii=False))
    elif args.json:
        print(json.dumps(_to_json(bundle), ensure_ascii=False))
    else:
        from rich.console import Console  # lazy: 60 ms

        from daemon.cli.review.render_run import render_run  # lazy: brings rich

        Console(highlight=False).print(render_run(bundle))
    return 0


def _to_json(bundle: RunBundle) -> dict[str, object]:
    children = [_to_json(child) for child in bundle.children]
    return {**asdict(bundle.run), "events": bundle.transcript, "children": children}


async def _load(paths: Paths, turn: str, *, with_children: bool) -> RunBundle:
    async with open_reader(paths) as reader:
        view = await find_run(reader, turn)
        return await _load_bundle(reader, view, with_children)


async def find_run(reader: RunReader, turn: str) -> RunView:
    """The run that is meant. Raises AidaemonError."""
    if turn == LAST:
        lines = await reader.list_runs(limit=MOST_SEARCHED)
        found = [line for line in lines if not line.parent][:1]
    elif view := await reader.get_run(turn):
        return view
    else:
        found = await reader.list_runs(limit=MOST_SEARCHED, prefix=turn) if turn else []
    if len(found) == 1 and (view := await reader.get_run(found[0].turn)):
        return view
    if not found:
        raise AidaemonError(f"there is no run {turn!r}; `aidaemon runs` lists them")
    named = "\n".join(f"  {line.turn}  {line.text}" for line in found[:MOST_NAMED])
    more = f"\n  … {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    raise AidaemonError(f"{turn!r} is the begin of {len(found)} runs:\n{named}{more}")


async def _follow(paths: Paths, turn: str) -> int:
    client = find_running_daemon(paths)
    if client is None:
        raise AidaemonError("no daemon is running, so no run is at work; without --follow it shows")
    view, renderer = await find_run(client, turn), ChatRenderer()
    for item in [UserText(line.text) for line in await client.list_runs(prefix=view.turn)]:
        print(to_plain_text(item), flush=True)
    async for event in client.stream_events(view.turn):
        for item in renderer.render(event):
            print(to_plain_text(item), flush=True)
        if event.name == "approval.asked":
            call = summarize_call(str(event.data["tool"]), str(event.data["arguments"]))
            print(f"· waits for an answer: {call}", flush=True)
    return 0


async def _load_bundle(reader: RunReader, view: RunView, with_children: bool) -> RunBundle:
    names = view.children if with_children else []
    children = [found for name in names if (found := await reader.get_run(name))]
    bundles = [await _load_bundle(reader, child, with_children) for child in children]
    return RunBundle(view, await reader.get_transcript(view.turn), bundles)
