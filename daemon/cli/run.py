"""aidaemon run."""

import argparse
import asyncio
import gc
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from daemon.settings.paths import Paths

YOUNG_THRESHOLD, OLD_THRESHOLD = 5_000, 1_000_000
# Objects between two looks for garbage: among fifty turns at once Python's own 700 find next to
# none, and take a tenth of what the event loop does.
RUNNING_THRESHOLD = 7_000


@contextmanager
def gc_free_import() -> Iterator[None]:
    """What is imported inside stays for good: the garbage collector passes over it, which saves a
    tenth of the start and pauses later. Nor does pydantic look for plugins.
    """
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    _, *older = gc.get_threshold()
    gc.set_threshold(YOUNG_THRESHOLD, OLD_THRESHOLD, OLD_THRESHOLD)
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(RUNNING_THRESHOLD, *older)


LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"


OPTIONS = {"--verbose": "log everything but what the journal reads and writes"}


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Serve until SIGTERM or SIGINT, which lets running turns finish for a while; `ready URL` and
    logs go to stderr.
    """
    with gc_free_import():
        from daemon.app.serve import serve  # lazy: imported without garbage collection

    logging.basicConfig(
        stream=sys.stderr, level=logging.DEBUG if args.verbose else logging.INFO, format=LINE
    )
    # no line shows which thread or process it is of: nobody asks the system for each
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.getLogger("aiosqlite").setLevel(logging.INFO)  # its DEBUG prints whole conversations
    try:
        from uvloop import new_event_loop  # lazy: the extra `speed`  # pyrefly: ignore
    except ModuleNotFoundError:
        new_event_loop = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        tell = partial(print, file=sys.stderr, flush=True)
        return runner.run(serve(paths, tell))
