"""aidaemon open."""

import argparse
import asyncio
import os
import sys
from html import escape

from daemon.cli.parsing import Options
from daemon.client.http import find_running_daemon
from daemon.client.protocol import Endpoint
from daemon.core.errors import AidaemonError
from daemon.settings.paths import Paths, write_private_file

OPTIONS: Options = {"--print": "only print the link, open no browser"}
MAKE_LINK = Endpoint("POST", "/v1/sign-in", str, "link")
FORWARD = '<!doctype html><meta http-equiv="refresh" content="0; url={}"><title>aidaemon</title>\n'
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Print a link, and open it where there is a screen."""
    client = find_running_daemon(paths)
    if client is None:
        raise AidaemonError("no daemon is running here, so there is no page; start `aidaemon run`")
    link = asyncio.run(client.request(MAKE_LINK, {}))
    print(link, flush=True)
    print("It signs one browser in, once, within five minutes.", file=sys.stderr)
    screen = sys.platform == "darwin" or any(os.environ.get(name) for name in DISPLAYS)
    if screen and not args.print:
        import webbrowser  # lazy: only with a screen

        # in a file of our own: others on this machine may read a browser's command line
        page = paths.home / "open.html"
        write_private_file(page, FORWARD.format(escape(link, quote=True)))
        webbrowser.open(page.as_uri())
    return 0
