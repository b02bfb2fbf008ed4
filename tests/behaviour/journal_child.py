"""A process that works on a journal until something happens to it: `python -m tests.behaviour.journal_child WHAT DIR [...]`.

It prints one line per promise that it was given, after it was given.
"""

import asyncio
import resource
import signal
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path

from daemon.core.errors import StoreUnavailable
from daemon.store.journal import Tx
from daemon.store.lock import lock_home
from daemon.store.sqlite import SqliteStore
from tests.contract.journal import ended, message, recorded, replied, said, session, turn

WRITERS = 20
BALLAST = 400_000
GROWN = 800_000


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def answer_messages(home: Path, first: int) -> None:
    """Twenty lanes, each a message and its turn after the other, for ever; a line per acknowledged commit."""
    store = await SqliteStore.open(home / "journal.db")
    async with asyncio.TaskGroup() as tasks:
        for lane in range(WRITERS):
            tasks.create_task(answer_lane(store, lane, first))


async def answer_lane(store: SqliteStore, lane: int, first: int) -> None:
    where = f"terminal:{lane}"
    epoch = await store.write(
        lambda tx: (tx.put_session(session(where)), tx.claim_session(where, "child"))[1]
    )
    for number in range(first, first + 1_000_000):
        name = f"{lane}-{number}"
        await store.write(lambda tx, name=name: tx.accept_input(message(f"m{name}", session=where)))
        tell(f"accepted {name}")
        await store.write(lambda tx, name=name: one_turn(tx, where, epoch, name))
        tell(f"answered {name}")


def one_turn(tx: Tx, where: str, epoch: int, name: str) -> None:
    tx.begin_turn(turn(f"t{name}", session=where), epoch)
    tx.append_events(
        where, epoch, f"t{name}", recorded(said(f"m{name}"), replied(), ended(f"reply to {name}"))
    )


async def fill_the_disk(home: Path, how: str) -> None:
    """Write until the disk is full, see how the journal takes it, make room, write again."""
    store = await SqliteStore.open(home / "journal.db")
    ballast = home / "ballast"
    if how == "full":
        ballast.write_bytes(bytes(BALLAST))
    else:
        limit_files(GROWN)
    kept = await write_until_refused(store)
    tell(f"kept {kept} healthy {not store.problem}")
    await store.write(lambda tx: tx.list_sessions())
    tell(f"looked healthy {not store.problem}")
    huge = await asyncio.gather(write_big(store, "huge", size=5_000_000), return_exceptions=True)
    tell(f"huge {[type(outcome).__name__ for outcome in huge]}")
    together = await asyncio.gather(
        *(write_big(store, f"t-{index}") for index in range(20)), return_exceptions=True
    )
    tell(
        f"refused {sum(isinstance(outcome, StoreUnavailable) for outcome in together)} healthy {not store.problem}"
    )
    if how == "full":
        ballast.unlink()
    else:
        limit_files(resource.RLIM_INFINITY)
    await write_big(store, "after")
    tell(f"recovered healthy {not store.problem}")
    await store.aclose()


def limit_files(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def write_until_refused(store: SqliteStore) -> int:
    for kept in range(10_000):
        try:
            await write_big(store, str(kept))
        except StoreUnavailable:
            return kept
    return -1


async def write_big(store: SqliteStore, name: str, size: int = 10_000) -> None:
    await store.write(lambda tx: tx.accept_input(replace(message(f"m{name}"), body="x" * size)))


def hold(home: Path) -> None:
    """Hold HOME until stdin ends."""
    with lock_home(home):
        tell("held")
        sys.stdin.read()


def lock(home: Path) -> None:
    """Hold the write lock of the file, as a backup tool would, until stdin ends."""
    db = sqlite3.connect(home / "journal.db", isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    tell("locked")
    sys.stdin.read()
    db.execute("COMMIT")
    db.close()


if __name__ == "__main__":
    what, folder, *rest = sys.argv[1:]
    match what:
        case "answer":
            asyncio.run(answer_messages(Path(folder), int(rest[0])))
        case "fill":
            asyncio.run(fill_the_disk(Path(folder), rest[0]))
        case "lock":
            lock(Path(folder))
        case "hold":
            hold(Path(folder))
