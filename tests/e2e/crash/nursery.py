"""A process that has lived once and forks a fresh daemon for each life: `python -m tests.e2e.crash.nursery FD`.

It has no event loop and no thread when it forks. A message is a life.
"""

import asyncio
import gc
import importlib
import json
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import traceback
from pathlib import Path

from daemon.addons import load_class
from tests.e2e.crash.life import Life, live
from tests.e2e.crash.model import Deadly
from tests.e2e.crash.person import Said
from tests.fakes.nursery import Nursery
from tests.fakes.openai import FakeOpenAI

LONGEST_S = 60


def main() -> None:
    """Until nobody asks any more."""
    asyncio.run(_warm_up())
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(
                LONGEST_S
            )  # asyncio waits for a child process in a thread, which may still be about to end
    gc.freeze()
    newborn = Nursery(socket.socket(fileno=int(sys.argv[1]))).serve()
    if newborn:
        newborn.tell()
        _live(Life.read(json.loads(newborn.message)))


async def _warm_up() -> None:
    """One life in good order: what a first one imports and builds late is there before any fork."""
    load_class("providers", "openai")
    importlib.import_module("daemon.tools.mcp.client")
    with tempfile.TemporaryDirectory() as folder:
        async with FakeOpenAI() as model:
            model.otherwise(Deadly())
            await live(
                Life(
                    folder,
                    model.base_url,
                    {"terminal:a": [Said("k0", "[k0 look spawn.a] {a note}")]},
                )
            )


def _live(life: Life) -> None:
    """In the child, which never returns; one that hangs is ended by SIGALRM."""
    signal.alarm(LONGEST_S)
    log = (Path(life.folder) / "log").open("a")
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    logging.basicConfig(
        stream=log, level=logging.INFO, format="%(process)d %(levelname)s %(name)s: %(message)s"
    )
    code = 1
    try:
        passed = asyncio.run(live(life))
        (Path(life.folder) / "passed").write_text("\n".join(passed))
        code = 0
    finally:
        if code:
            traceback.print_exc(file=log)
        log.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
