"""A daemon's short life, many times over: it starts a command in the sandbox and is killed moments later. Prints what it left."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from daemon.tools.shell.process import run_process
from daemon.tools.shell.sandbox import Sandbox

MOST_S = 10.0  # a sandbox that nobody waits for takes its time to end on a busy machine; a sleep is for hours


def processes_with(mark: str) -> list[int]:
    """Whose command line holds this."""
    return [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if mark in _words(path)
    ]


def _words(path: Path) -> str:
    try:
        return path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


async def start_and_die(workspace: Path, mark: str, after_s: float) -> None:
    sandbox = Sandbox(workspace, "bubblewrap")
    asyncio.get_running_loop().call_later(after_s, os.kill, os.getpid(), signal.SIGKILL)
    await run_process(
        sandbox.wrap(["/bin/sh", "-c", f"sleep {mark}"]), cwd=workspace, env=sandbox.env, timeout_s=60, max_chars=100,
        on_output=lambda text: None,
    )  # fmt: skip


def main(workspace: Path, lives: int) -> None:
    for life in range(lives):
        mark, after_s = f"95{os.getpid()}.{life}", 0.004 + 0.022 * life / lives
        child = os.fork()
        if not child:
            asyncio.run(start_and_die(workspace, mark, after_s))
            os._exit(1)
        os.waitpid(child, 0)
        end = time.monotonic() + MOST_S
        while (left := processes_with(mark)) and time.monotonic() < end:
            time.sleep(0.01)
        for pid in left:
            sys.stdout.write(f"life {life}: {pid} lives on\n")
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
