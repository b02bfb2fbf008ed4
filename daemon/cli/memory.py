"""aidaemon memory: what is remembered, and what waits for the owner's yes. As the commands /memory
and /forget in a chat.
"""

import argparse
import asyncio
import json

from daemon.cli.parsing import Actions, send_command
from daemon.core.errors import AidaemonError
from daemon.settings.paths import Paths

MAX_LISTED = 1000
IDS = {"nargs": "+", "help": "of `aidaemon memory pending`, or of `list`"}
ACTIONS: Actions = {
    "list": ("what is remembered, the newest first", {"--json": "as a JSON list"}),
    "pending": (
        "what waits for your yes: nothing uses it until then",
        {"--json": "as a JSON list"},
    ),
    "approve": ("say yes: it is remembered", {"ID": IDS}),
    "reject": ("say no: it is removed", {"ID": IDS}),
    "forget": ("remove for good, by words or ids", {"WORD": {"nargs": "+", "help": "or ids"}}),
}
DONE = {"approve": "Approved", "reject": "Rejected", "forget": "Forgotten"}


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Do it; an error where nothing was changed."""
    print(asyncio.run(_run(args, paths)))
    return 0


async def _run(args: argparse.Namespace, paths: Paths) -> str:
    if getattr(args, "json", False):
        from daemon.app.connect import connect  # lazy: brings the whole daemon

        waiting = "1" if args.action == "pending" else ""
        async with connect(paths) as opened:
            listed = await opened.client.list_memories(MAX_LISTED, waiting)
        return json.dumps(listed, ensure_ascii=False)
    words = " ".join(getattr(args, "id", None) or getattr(args, "word", None) or ())
    command = "/forget" if args.action == "forget" else f"/memory {args.action}"
    reply = await send_command(paths, f"{command} {words}")
    if args.action in DONE and not reply.startswith(DONE[args.action]):
        raise AidaemonError(reply)
    return reply
