"""Does something to a file, and kills itself at the event of the interpreter with the given number: `files_child HOME N DEED`.

DEED: "outside" writes as a turn from outside would, in a workspace that its owner trusts; in one that nobody trusts "mine" writes by
the owner's words, and "undo" takes that back; "undo many" takes back what a command did to many files, "merge many" brings over what one
left in its layer.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from daemon.core.trust import Label
from daemon.store.sqlite import SqliteStore
from daemon.tools.shell.run import merge_left
from daemon.tools.workspace.command_effects import CommandEffects
from daemon.tools.workspace.file_store import ChangeAuthor
from daemon.tools.workspace.undo import undo_turn
from tests.fakes.commands import Commands
from tests.fakes.files import Desk


async def main(home: Path, skip: int, deed: str) -> None:
    """Open, count from there, do it."""
    store = await SqliteStore.open(home / "journal.db")
    desk = await Desk.at(home, store, trusted=deed in ("outside", "undo many", "merge many"))
    if deed == "undo":
        await desk.write("a.txt", "new")
    left = [skip]

    def count(event: str, arguments: tuple[object, ...]) -> None:
        left[0] -= 1
        if left[0] < 0:
            left[0] = 1 << 60
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    if deed == "merge many":
        await merge_left(Commands(desk.root).sandbox, CommandEffects(desk.files))
    elif deed.startswith("undo"):
        author = ChangeAuthor("chat", "undo-t1", "", Label.TRUSTED, undoes="t1")
        await undo_turn(desk.files, "t1", author)
    else:
        label = Label.TRUSTED if deed == "mine" else Label.UNTRUSTED
        await desk.write("a.txt", "new", label=label)
    left[0] = 1 << 60
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
