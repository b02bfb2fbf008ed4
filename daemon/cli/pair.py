"""aidaemon pair."""

import argparse
import asyncio
import sys

from daemon.cli.parsing import Options
from daemon.core.trust import NewCode, Role
from daemon.settings.paths import Paths

OPTIONS: Options = {
    "--role": {
        "choices": list(map(str, Role)),
        "default": "editor",
        "help": "what they may do (default: editor)",
    },
    "--channel C": {
        "default": "",
        "help": "only there, for example telegram (default: on any channel)",
    },
}


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Do it."""
    invited = asyncio.run(_invite(paths, Role(args.role), args.channel))
    where = f" on {invited.channel}" if invited.channel else ""
    print(invited.code)
    print(
        f"Send it to the assistant{where} within 10 minutes: /pair {invited.code}\n"
        "It is for chat platforms; the terminal and HTTP know you already.\n"
        f"Whoever sends it first is {invited.role} here; give it to nobody else.",
        file=sys.stderr,
    )
    return 0


async def _invite(paths: Paths, role: Role, channel: str) -> NewCode:
    from daemon.app.connect import connect

    async with connect(paths) as opened:
        return await opened.client.invite(role, channel)
