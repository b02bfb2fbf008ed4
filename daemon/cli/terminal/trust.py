"""aidaemon trust: whose the files of the workspace are. As /trust and /untrust in a chat."""

import argparse
import asyncio

from daemon.cli.parsing import Options
from daemon.core.errors import AidaemonError
from daemon.settings.paths import Paths

SESSION = "terminal:main"
OPTIONS: Options = {
    "[PATH]": {
        "default": "",
        "help": "a file or folder of the workspace, . for all; without one: what is not known",
    },
    "--remove": "it is not yours, or not any more",
}
DONE = ("trusted as yours", "not trusted any more")


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Do it; an error where nothing was changed."""
    print(asyncio.run(_run(args, paths)))
    return 0


async def _run(args: argparse.Namespace, paths: Paths) -> str:
    from daemon.app.connect import connect

    command = "/untrust" if args.remove else "/trust"
    async with connect(paths) as opened:
        text = f"{command} {args.path}".strip()
        reply = (await opened.client.send(SESSION, text, stream=False)).reply
    if args.path and not any(words in reply for words in DONE):
        raise AidaemonError(reply)
    return reply
