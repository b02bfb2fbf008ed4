"""aidaemon trust: whose the files of the workspace are. As /trust and /untrust in a chat."""

import argparse
import asyncio

from daemon.cli.parsing import Options, send_command
from daemon.core.errors import AidaemonError
from daemon.settings.paths import Paths

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
    command = "/untrust" if args.remove else "/trust"
    reply = asyncio.run(send_command(paths, f"{command} {args.path}".strip()))
    if args.path and not any(words in reply for words in DONE):
        raise AidaemonError(reply)
    print(reply)
    return 0
