"""aidaemon replay."""

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemon.cli.parsing import Options
from daemon.core.errors import AidaemonError, UsageError
from daemon.settings.paths import Paths, write_private_file

if TYPE_CHECKING:
    from daemon.client.protocol import RunReader
    from daemon.core.events import RecordedEvent
    from daemon.ops.replay.record import Difference
    from daemon.ops.replay.replay import ReplayResult, TurnRecord

OPTIONS: Options = {
    "TURN": "its id as `aidaemon runs` shows it, the begin of one, or: last",
    "|": {
        "--json": "the result as JSON",
        "--to-test FILE": "write a test that replays it without this database",
        "--fork-at SEQ": {
            "type": int,
            "help": "go on from this event in a conversation of its own, for real",
        },
    },
    "--model M": "of a fork: another model",
    "--prompt TEXT": "of a fork: another message at event 1, later one in addition",
    "--answer A": "of a fork, to what waits there: yes, no, or words",
    "--max-usd USD": {"type": float, "help": "of a fork: another limit in money"},
}
CHANGES = ("model", "prompt", "answer", "max_usd")
WAITS = "It waits for an answer: `aidaemon chat --session {name}`, or the page."


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Replay it, and say whether all was the same; or write a test, or go on from an event."""
    change = {name: found for name in CHANGES if (found := getattr(args, name)) is not None}
    if args.fork_at is not None:
        return asyncio.run(_fork(paths, args.turn, args.fork_at, change))
    if change:
        raise UsageError("--model, --prompt, --answer and --max-usd are for --fork-at SEQ")
    if args.to_test:
        file = Path(args.to_test)
        if file.exists():
            raise UsageError(f"{file} is there already; nothing was written. Name another file")
        return asyncio.run(_write_test(paths, args.turn, file))
    result = asyncio.run(_replay(paths, args.turn))
    if args.json:
        print(json.dumps(to_json(result), ensure_ascii=False))
    else:
        print(render(result))
    return 0 if result.identical else 1


async def _replay(paths: Paths, turn: str) -> "ReplayResult":
    from daemon.app.connect import open_reader  # lazy: brings the daemon
    from daemon.cli.review.show import find_run  # lazy: as above
    from daemon.ops.replay.replay import replay  # lazy: brings the loop

    async with open_reader(paths) as reader:
        view = await find_run(reader, turn)
        record = await load_record(reader, view.turn)
    return await replay(record)


async def _write_test(paths: Paths, turn: str, file: Path) -> int:
    """Nothing secret gets into the file."""
    from daemon.app.config import make_redactor  # lazy: brings the config
    from daemon.app.connect import open_reader  # lazy: brings the daemon
    from daemon.cli.review.show import find_run  # lazy: as above
    from daemon.ops.replay.export import render_test  # lazy: brings the loop

    async with open_reader(paths) as reader:
        record = await load_record(reader, (await find_run(reader, turn)).turn)
    text = make_redactor(paths).redact_text(render_test(record))
    await asyncio.to_thread(write_private_file, file, text)
    print(f"{file}: run it with pytest; it needs no database and no network")
    return 0


async def _fork(paths: Paths, turn: str, at: int, change: dict[str, Any]) -> int:
    """Have it go on; without a daemon here, to its end or to a question."""
    from daemon.app.connect import connect  # lazy: brings the daemon
    from daemon.cli.review.show import find_run  # lazy: as above

    async with connect(paths) as connection:
        client = connection.client
        found = await client.fork_run((await find_run(client, turn)).turn, at, **change)
        if found is None:
            raise AidaemonError(f"there is no run {turn!r}; `aidaemon runs` lists them")
        print(f"turn {found.turn} goes on in {found.session}", flush=True)
        if await client.list_approvals(session=found.session):
            print(WAITS.format(name=found.session.partition(":")[2]))
            return 0
        async for event in client.stream_events(found.turn, at):
            if event.name == "run.suspended":
                print(WAITS.format(name=found.session.partition(":")[2]))
                return 0
            if event.name == "run.completed":
                print(event.data["reply"])
                return 0 if event.data["stop_reason"] == "done" else 1
    return 1


async def load_record(reader: "RunReader", turn: str) -> "TurnRecord":
    """The turn's events, and those of all agents below it."""
    from daemon.ops.replay.replay import TurnRecord  # lazy: brings the loop

    view = await reader.get_run(turn)
    if view is None:
        raise AidaemonError(f"there is no run {turn!r}; `aidaemon runs` lists them")
    children, left = dict[str, "Sequence[RecordedEvent]"](), list(view.children)
    while left:
        name = left.pop()
        children[name] = await _load_events(reader, name)
        child = await reader.get_run(name)
        left += child.children if child else []
    events = await _load_events(reader, turn)
    return TurnRecord(turn, view.session, events, view.parent or "", children)


async def _load_events(reader: "RunReader", turn: str) -> "list[RecordedEvent]":
    from daemon.store.transcript import read_transcript_line  # lazy: with the rest

    return [read_transcript_line(line) for line in await reader.get_transcript(turn)]


def render(result: "ReplayResult") -> str:
    """One line; one more for each further field that differs."""
    if told := result.told:
        return told
    ended = "" if result.ended else ", and it has not ended yet"
    return f"turn {result.turn}: {result.events} events replayed, identical{ended}"


def to_json(result: "ReplayResult") -> dict[str, object]:
    """With the first field that differs."""
    return {
        "turn": result.turn,
        "events": result.events,
        "identical": result.identical,
        "ended": result.ended,
        "difference": result.difference and _difference_to_json(result.difference),
    }


def _difference_to_json(found: "Difference") -> dict[str, object]:
    first = found.fields[0]
    return {
        "seq": found.seq,
        "kind": found.kind,
        "field": first.field,
        "recorded": first.recorded,
        "now": first.now,
    }
