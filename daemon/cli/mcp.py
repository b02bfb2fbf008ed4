"""aidaemon mcp."""

import argparse
import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from daemon.cli.parsing import TERMINAL, Actions
from daemon.client.http import find_running_daemon
from daemon.core.errors import AidaemonError, UsageError
from daemon.settings.paths import Paths

CODE = re.compile(r"/mcp approve (\S+) ([0-9a-f]{8})")


ACTIONS: Actions = {
    "list": ("every server, its tools, and whether something waits for an approval", {}),
    "approve": (
        "show what a server has changed, and take it as it is after a yes",
        {
            "NAME": "the server, as it stands in the config: [mcp.NAME]",
            "[TOOL]": {"default": "", "help": "this tool only"},
            "--yes": "do not ask after showing it",
        },
    ),
}


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Do it; 1 when it was not approved."""
    return asyncio.run(_run(args, paths))


async def _run(args: argparse.Namespace, paths: Paths) -> int:
    """A running daemon gets chat commands; else its journal is read, and no server is started."""
    if client := find_running_daemon(paths):

        async def send(text: str) -> str:
            return (await client.send(TERMINAL, text, stream=False)).reply

        return await _run_verb(args, send)
    from daemon.app.config import load_or_last_good  # lazy: brings the whole daemon
    from daemon.services.admin import answer_mcp  # lazy: with it
    from daemon.store.lock import lock_home  # lazy: with it
    from daemon.store.sqlite import SqliteStore  # lazy: with it
    from daemon.tools.mcp.pins import PinStore  # lazy: with it

    names = tuple(load_or_last_good(paths).config.mcp)
    with lock_home(paths.home):
        async with aclosing(await SqliteStore.open(paths.journal)) as store:
            pins = PinStore(store)
            return await _run_verb(
                args, lambda text: answer_mcp(text.removeprefix("/mcp "), pins, names)
            )


async def _run_verb(args: argparse.Namespace, say: Callable[[str], Awaitable[str]]) -> int:
    if args.action == "list":
        print(await say("/mcp list"))
        return 0
    shown = await say(f"/mcp whole {args.name} {args.tool}".rstrip())
    text, _, last = shown.rpartition("\n")  # before that a server may have written what it likes
    code = CODE.search(last)
    if code is None:
        raise UsageError(shown)
    print(text)
    if not args.yes and not _confirm():
        print("Nothing was approved.", file=sys.stderr)
        return 1
    done = await say(f"/mcp approve {args.name} {code[2]} {args.tool}".rstrip())
    if not done.startswith("Approved"):
        raise AidaemonError(
            "Nothing was approved: what waits by now is something else."
            " Look again: aidaemon mcp list"
        )
    print(done)
    return 0


def _confirm() -> bool:
    if not sys.stdin.isatty():
        print("aidaemon: not a terminal: say yes with --yes", file=sys.stderr)
        return False
    return input("Approve this? [y/N] ").strip().lower() in ("y", "yes")
