"""aidaemon runs."""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import datetime
from functools import partial
from shutil import get_terminal_size

from channels.markup.sanitize import shorten_line
from daemon.cli.parsing import Options, count, strip_pasted
from daemon.client.http import find_running_daemon
from daemon.client.protocol import RunReader
from daemon.client.view_types import STATE_TONES, RunLine, format_local_time
from daemon.settings.paths import Paths

LIMIT, MAX_LIMIT = 20, 10_000
PIPE_WIDTH, MIN_WORDS = 160, 20
HEADER = ("turn", "session", "state", "why", "started", "took", "cost", "words")
MOVED = (HEADER.index("session"), HEADER.index("started"))
ANSI = {"good": 32, "busy": 36, "waiting": 34, "warn": 33, "bad": 31}


LIST_OPTIONS: Options = {
    "--limit N": {
        "type": partial(count, MAX_LIMIT),
        "default": LIMIT,
        "help": f"how many at most (default: {LIMIT})",
    },
    "--json": "as a JSON list",
}
OPTIONS: Options = {
    "--session S": {
        "type": strip_pasted,
        "help": "only of this session, for example terminal:default",
    },
    **LIST_OPTIONS,
}


def run(args: argparse.Namespace, paths: Paths) -> int:
    """List them."""
    lines = asyncio.run(_load(paths, args.session, args.limit))
    if args.json:
        print(json.dumps([asdict(line) for line in lines], ensure_ascii=False))
    elif lines:
        print(render_runs(lines, get_width(), colors=sys.stdout.isatty()))
    elif args.session:
        print(f"There are no runs in {args.session}. `aidaemon sessions` lists conversations.")
    else:
        print("There are no runs yet. Say something: aidaemon chat")
    return 0


@asynccontextmanager
async def open_light_reader(paths: Paths) -> AsyncIterator[RunReader]:
    """What runs, else the journal; the daemon itself is imported for the journal only."""
    if client := find_running_daemon(paths):
        yield client
        return
    from daemon.app.connect import open_reader  # lazy: brings the whole daemon

    async with open_reader(paths) as reader:
        yield reader


async def _load(paths: Paths, session: str | None, limit: int) -> list[RunLine]:
    async with open_light_reader(paths) as reader:
        lines = await reader.list_runs(session, limit)
        if session and not lines and ":" not in session:  # as `chat --session` takes it
            return await reader.list_runs(f"terminal:{session}", limit)
        return lines


def get_width() -> int:
    """Of the terminal; of lines in a pipe."""
    return get_terminal_size().columns if sys.stdout.isatty() else PIPE_WIDTH


def render_runs(lines: Sequence[RunLine], width: int, *, colors: bool = False) -> str:
    """A table of runs, one line each."""
    return render_table([HEADER, *map(_cells, lines)], MOVED, width, colors=colors)


def render_table(
    rows: Sequence[tuple[str, ...]], moved: Sequence[int], width: int, *, colors: bool = False
) -> str:
    """Rows under a header; the last cell of each is words. On a narrow terminal they stand below
    the others, and so do the cells at `moved`.
    """
    is_narrow = sum(_measure(rows)) > width
    if is_narrow:
        stay = [at for at in range(len(rows[0]) - 1) if at not in moved]
        rows = [
            (*(cells[at] for at in stay), " · ".join(cells[at] for at in (*moved, -1) if cells[at]))
            for cells in rows
        ]
    widths = _measure(rows)
    return "\n".join(
        _add_words(
            "".join(
                _color(cell.ljust(size), cell if colors else "")
                for cell, size in zip(cells, widths, strict=False)
            ),
            cells[-1],
            0 if is_narrow else width - sum(widths),
            width,
        )
        for cells in rows
    )


def _measure(rows: Sequence[tuple[str, ...]]) -> list[int]:
    return [max(map(len, column)) + 2 for column in list(zip(*rows, strict=True))[:-1]]


def _add_words(line: str, words: str, room: int, width: int) -> str:
    if room >= MIN_WORDS:
        return (line + shorten_line(words, room)).rstrip()
    return line.rstrip() + (f"\n    {shorten_line(words, width - 4)}" if words else "")


def _cells(line: RunLine) -> tuple[str, ...]:
    session = line.session if line.agent == "default" else f"{line.session} ({line.agent})"
    session = f"agent {line.agent}" if line.parent else session
    session = "".join(sign if sign.isprintable() else "\ufffd" for sign in session)
    started, ended = format_local_time(line.started)[:-3], (line.state, line.stop_reason or "")
    beside = started, _duration(line), format_cost(line.usd), line.text
    return (line.turn, session, *ended, *beside)


def format_cost(usd: float | None) -> str:
    """USD; "?" for an unknown price."""
    if usd is None:
        return "?"
    if usd == 0:
        return "$0"
    return f"${usd:.2f}" if usd >= 0.1 else f"${usd:.4f}"


def _color(text: str, state: str) -> str:
    color = ANSI.get(STATE_TONES.get(state, ""))
    return f"\x1b[{color}m{text}\x1b[0m" if color else text


def _duration(line: RunLine) -> str:
    """From begin to end, with the time that it waited for people."""
    if not line.started or not line.ended:
        return ""
    begin, end = map(datetime.fromisoformat, (line.started, line.ended))
    seconds = (end - begin).total_seconds()
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.0f} min"
