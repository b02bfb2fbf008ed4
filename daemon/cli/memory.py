"""aidaemon memory: what is remembered, what was said, and what waits for the owner's yes. The
commands /memory and /forget in a chat do the same.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from daemon.cli.parsing import Actions, count, send_command
from daemon.core.clock import show_day
from daemon.core.errors import AidaemonError
from daemon.settings.paths import Paths

if TYPE_CHECKING:
    from daemon.client.protocol import DaemonClient

MAX_LISTED, BATCH, BATCH_BYTES, MAX_SHOWN = 1000, 1000, 500_000, 200
IDS = {"nargs": "+", "help": "of `aidaemon memory pending`, or of `list`"}
ACTIONS: Actions = {
    "list": ("what is remembered, the newest first", {"--json": "as a JSON list"}),
    "search": (
        "what is remembered and what was said that fits, the best first",
        {
            "QUERY": {"nargs": "+", "help": "words, or a question"},
            "--session S": "in this conversation only",
            "--k N": {
                "type": partial(count, MAX_LISTED),
                "default": 10,
                "help": "how many (default: 10)",
            },
            "--explain": "show each part of the score",
            "--json": "as a JSON list",
        },
    ),
    "status": ("how much can be found, and by what", {"--json": "as a JSON object"}),
    "import": (
        "messages of elsewhere, as if they were said then: what Telegram, Slack or Discord export,"
        " or lines of JSON with id, session, sender, role, at, text",
        {
            "FILE": "the file: JSON, or Slack's archive or folder",
            "--trusted": "they hold nobody's words but yours and those that you vouch for",
        },
    ),
    "export": (
        "all that was said and is remembered, as `import` takes it back: lines of JSON",
        {"[FILE]": "where to; not one that exists (default: standard output)"},
    ),
    "pending": (
        "what waits for your yes: nothing uses it until then",
        {"--json": "as a JSON list"},
    ),
    "approve": ("say yes: it is remembered", {"ID": IDS}),
    "reject": ("say no: it is removed", {"ID": IDS}),
    "who": (
        "what holds of a key, and what held before it",
        {"KEY": "such as user.city; `list` shows those of your memories"},
    ),
    "consolidate": ("look through what you said for facts to keep", {}),
    "pin": ("show it to each of your turns, whatever it is about", {"ID": IDS}),
    "unpin": ("show it only where it fits", {"ID": IDS}),
    "forget": (
        "remove for good, by words or ids",
        {
            "WORD": {"nargs": "*", "help": "or ids; with --person the code that it shows"},
            "--person NAME": "all that somebody said, and their name everywhere",
        },
    ),
}
DONE = {
    "approve": "Approved", "reject": "Rejected", "forget": "Forgotten", "pin": "Pinned",
    "unpin": "No longer pinned",
}  # fmt: skip


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Do it; an error where nothing was changed."""
    if shown := asyncio.run(_run(args, paths)):
        print(shown)
    return 0


async def _run(args: argparse.Namespace, paths: Paths) -> str:
    as_json = getattr(args, "json", False)
    if as_json or args.action in ("search", "status", "import", "export"):
        from daemon.app.connect import connect  # lazy: brings the whole daemon

        async with connect(paths) as opened:
            return await _ask(args, opened.client)
    given = vars(args)
    words = " ".join(given.get("id") or given.get("word") or filter(None, [given.get("key")]))
    words = " ".join(filter(None, (given.get("person") and f"--person {args.person}", words)))
    command = "/forget" if args.action == "forget" else f"/memory {args.action}"
    reply = await send_command(paths, f"{command} {words}")
    if args.action in DONE and not reply.startswith(DONE[args.action]):
        raise AidaemonError(reply)
    return reply


async def _ask(args: argparse.Namespace, client: "DaemonClient") -> str:
    match args.action:
        case "import":
            return await _import(Path(args.file), client, trusted=args.trusted)
        case "export":
            return await _export(Path(args.file) if args.file else None, client)
        case "search":
            found = await client.search_memories(" ".join(args.query), args.k, args.session or "")
            lines = (_render(one, explain=args.explain) for one in found)
            shown = "\n".join(lines) or "Nothing that was said has these words."
        case "status":
            found = await client.get_memory_status()
            shown = "\n".join(
                f"{name}: {'none' if value == '' else value}" for name, value in found.items()
            )
        case _:
            found = await client.list_memories(MAX_LISTED, "1" if args.action == "pending" else "")
            shown = ""
    return json.dumps(found, ensure_ascii=False) if args.json else shown


def _render(found: dict[str, object], *, explain: bool) -> str:
    """One hit: when, where and by whom, and the words."""
    from daemon.services.approvals import make_visible  # lazy: brings the store

    words = " ".join(str(found["text"]).split())
    words = make_visible(words if len(words) <= MAX_SHOWN else f"{words[:MAX_SHOWN]} …")
    mark = "" if found["label"] == "trusted" else ", from outside"
    who = f", {make_visible(str(found['speaker']))}" if found["speaker"] else ""
    where = make_visible(str(found["session"]))
    day = show_day(datetime.fromisoformat(str(found["at"])))
    line = f"{day}  {where}{who}{mark}\n    {words}"
    why = found["why"]
    if explain and isinstance(why, dict):
        parts = " ".join(f"{name} {value:+.3f}" for name, value in why.items())
        line += f"\n    {found['score']} = {parts}"
    return line


async def _import(file: Path, client: "DaemonClient", *, trusted: bool) -> str:
    """Batch by batch; what is there already stays once. Raises AidaemonError."""
    read = added = 0
    for batch in _read_batches(file):
        added += await client.import_memories(batch, trusted=trusted)
        read += len(batch)
        print(f"\r{read:,} lines", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    there = f"; {read - added:,} were there already" if read > added else ""
    return f"Imported {added:,} of {read:,} messages{there}."


@contextmanager
def _open_new(file: Path | None) -> Iterator[TextIO]:
    """Standard output for none; else one that is for its owner alone. Raises OSError."""
    if not file:
        yield sys.stdout
        return
    file.touch(mode=0o600, exist_ok=False)
    with file.open("w", encoding="utf-8") as out:
        yield out


async def _export(file: Path | None, client: "DaemonClient") -> str:
    """Page by page. Raises AidaemonError; a file that it made is incomplete then."""
    count, after = 0, 0
    try:
        with _open_new(file) as out:
            while True:
                page = await client.export_memories(after)
                lines = page["lines"]
                assert isinstance(lines, list)
                for line in lines:
                    print(json.dumps(line, ensure_ascii=False), file=out)
                count += len(lines)
                if page["after"] == after:
                    break
                after = int(str(page["after"]))
                print(f"\r{count:,} lines", end="", file=sys.stderr, flush=True)
    except OSError as error:
        if file is None:
            raise  # who reads it has read enough
        raise AidaemonError(f"{file} cannot be written: {error}") from error
    print(file=sys.stderr)
    return f"Exported {count:,} lines to {file}." if file else ""


def _read_batches(file: Path) -> Iterator[list[dict[str, object]]]:
    from daemon.recall.export_files import read_export  # lazy: for this command only

    batch, size, begun = list[dict[str, object]](), 0, False
    try:
        for line in read_export(file):
            begun = True
            given = line.model_dump(mode="json")
            size += len(json.dumps(given))
            if batch and (len(batch) == BATCH or size > BATCH_BYTES):
                yield batch
                batch, size = [], len(json.dumps(given))
            batch.append(given)
    except AidaemonError as error:
        if batch:
            yield batch
        before = "What stands before it is imported" if begun else "Nothing was imported"
        raise AidaemonError(
            f"{error}. {before}; import the file again when it is mended."
        ) from error
    if batch:
        yield batch
