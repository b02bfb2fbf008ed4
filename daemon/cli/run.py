"""aidaemon run."""

import argparse
import asyncio
import logging
import sys

from daemon.cli.undisturbed import undisturbed
from daemon.config.paths import resolve

HELP = "the daemon: answers over HTTP on this machine until it is stopped"
LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """[--verbose]."""
    parser.add_argument("--verbose", action="store_true", help="log everything, not only what matters")


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT, which lets running turns finish for a while; `ready URL` and logs go to stderr."""
    with undisturbed():
        from daemon.app.serve import serve

    logging.basicConfig(stream=sys.stderr, level=logging.DEBUG if args.verbose else logging.INFO, format=LINE)
    return asyncio.run(serve(resolve(args.home, args.config), _tell))


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
