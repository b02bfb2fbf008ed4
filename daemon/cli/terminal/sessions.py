"""aidaemon sessions; and the conversation that `aidaemon chat --resume` goes on with."""

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict

from channels.markup.sanitize import shorten_line
from daemon.cli.review.runs import (
    LIMIT,
    LIST_OPTIONS,
    PIPE_WIDTH,
    get_width,
    open_light_reader,
    render_table,
)
from daemon.client.protocol import SESSIONS_PAGE
from daemon.client.view_types import SessionView, format_local_time
from daemon.core.errors import AidaemonError
from daemon.core.ids import is_trial_session
from daemon.settings.paths import Paths

HEADER = ("session", "last used", "runs", "last message")
MOVED = (HEADER.index("last used"),)
OPTIONS = LIST_OPTIONS


def run(args: argparse.Namespace, paths: Paths) -> int:
    """List them."""
    found = asyncio.run(load_sessions(paths))[: args.limit]
    if args.json:
        print(json.dumps([asdict(view) for view in found], ensure_ascii=False))
    elif found:
        print(render_sessions(found, get_width()))
    else:
        print("There are no conversations yet. Say something: aidaemon chat")
    return 0


async def load_sessions(paths: Paths) -> list[SessionView]:
    """Conversations, the last used first; not those of agents, loops and events that work for
    one, nor of evaluations.
    """
    found: list[SessionView] = []
    async with open_light_reader(paths) as reader:
        while page := await reader.list_sessions(after=found[-1].id if found else ""):
            found += page
            if len(page) < SESSIONS_PAGE:
                break
    own = [view for view in found if not (view.root or is_trial_session(view.id))]
    return sorted(own, key=lambda view: view.used or view.created, reverse=True)


async def find_session(paths: Paths, name: str) -> str:
    """The name of the terminal conversation that is meant; the last used one for "". Raises
    AidaemonError.
    """
    ids = [view.id for view in await load_sessions(paths)]
    names = [one.removeprefix("terminal:") for one in ids if one.startswith("terminal:")]
    wanted = name.removeprefix("terminal:") or (names[0] if names else "")
    if wanted in names:
        return wanted
    if name in ids:
        raise AidaemonError(f"{name} is not a conversation of the terminal; it goes on where it is")
    if not names:
        raise AidaemonError("there is no conversation to resume yet; begin one: aidaemon chat")
    raise AidaemonError(
        f"there is no conversation {name!r} to resume; there are: {', '.join(names[:LIMIT])}"
    )


def render_sessions(views: Sequence[SessionView], width: int) -> str:
    """A table, one line each; where there is no room for the words, they stand below."""
    return render_table([HEADER, *map(_cells, views)], MOVED, width)


def _cells(view: SessionView) -> tuple[str, ...]:
    used = format_local_time(view.used or view.created)[:-3]
    return shorten_line(view.id, PIPE_WIDTH), used, str(view.turns), view.text
