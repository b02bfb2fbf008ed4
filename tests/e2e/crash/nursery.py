"""A process that has imported the daemon and forks a fresh one for each life: `python -m tests.e2e.crash.nursery`.

It has no event loop and no thread of its own. A line of JSON in is a life; a line out is how it ended.
"""

import asyncio
import gc
import json
import logging
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from time import sleep

from daemon import plugins
from daemon.providers.prices import PriceTable
from tests.e2e.crash.life import Life, live

LONGEST_S = 60


def main() -> None:
    """Until nobody asks any more."""
    plugins.load("providers", "openai")  # what the house imports late, here before any fork
    PriceTable().load()
    gc.freeze()
    for line in sys.stdin:
        life = Life.read(json.loads(line))
        assert threading.active_count() == 1
        pid = os.fork()
        if pid == 0:
            _live(life)
        if life.die_after:
            sleep(life.die_after)
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        ended = {"pid": pid, "status": os.waitstatus_to_exitcode(status)}
        sys.stdout.write(json.dumps(ended) + "\n")
        sys.stdout.flush()


def _live(life: Life) -> None:
    """In the child, which never returns; one that hangs is ended by SIGALRM."""
    signal.alarm(LONGEST_S)
    log = (Path(life.folder) / "log").open("a")
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    logging.basicConfig(stream=log, level=logging.INFO, format="%(process)d %(levelname)s %(name)s: %(message)s")
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
