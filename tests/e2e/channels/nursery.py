"""A process that has imported what a daemon imports and forks one for each life: `python -m tests.e2e.channels.nursery telegram`.

It has no event loop and no thread when it forks. A line in is a HOME, whose daemon is run as `aidaemon run --home HOME` runs it;
lines out are the daemon's pid, as soon as it leads a process group of its own, and in the end its exit code.
"""

import gc
import importlib
import os
import sys
import threading
from pathlib import Path

from daemon.addons import load_class
from daemon.cli import main

NEEDED = ("daemon.cli.parsing", "daemon.app.serve", "daemon.app.channels")


def nurse() -> int:
    """Until nobody asks any more; in a child, its exit code."""
    for module in NEEDED:
        importlib.import_module(module)
    for group, name in (("providers", "openai"), *(("channels", name) for name in sys.argv[1:])):
        load_class(group, name)
    gc.freeze()
    for line in sys.stdin:
        assert threading.active_count() == 1
        pid = os.fork()
        if pid == 0:
            return _live(Path(line.rstrip("\n")))
        _, status = os.waitpid(pid, 0)
        _tell(os.waitstatus_to_exitcode(status))
    return 0


def _live(home: Path) -> int:
    os.setsid()
    _tell(os.getpid())
    with Path(os.devnull).open("rb") as nothing, (home.parent / "log").open("ab") as log:
        os.dup2(nothing.fileno(), 0)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    return main(["run", "--home", str(home)])


def _tell(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(nurse())
