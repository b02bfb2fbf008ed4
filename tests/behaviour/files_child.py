"""Writes a file as a turn from outside would, and kills itself at the event of the interpreter with the given number."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from daemon.core.trust import Label
from daemon.store.sqlite import SqliteStore
from tests.fakes.files import Desk


async def main(home: Path, skip: int) -> None:
    """Open, count from there, write."""
    store = await SqliteStore.open(home / "journal.db")
    desk = await Desk.at(home, store)
    left = [skip]

    def count(event: str, arguments: tuple[object, ...]) -> None:
        left[0] -= 1
        if left[0] < 0:
            left[0] = 1 << 60
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    await desk.write("a.txt", "new", label=Label.UNTRUSTED)
    left[0] = 1 << 60
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
