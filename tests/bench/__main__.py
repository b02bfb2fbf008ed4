"""`python -m tests.bench [--full | --beside DIR] [SECTION ...]`: what a turn, a start and a crowd cost. It prints; it never judges.

The scripted model is a process of its own, the daemon is the real one, the journal lies on a real disk with synchronous=FULL.
CPU is what counts on a busy machine; wall times are told with the load at the end.
"""

import argparse
import asyncio
import resource
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from daemon.store.migrate import open_writer
from tests.bench import chats, counts, crowds, day, floors, mails, memories, pages, standing, turns
from tests.bench.beside import KINDS, ROUNDS, compare
from tests.bench.figures import Figure, table
from tests.bench.machine import filesystem, is_disk, load
from tests.bench.world import World, world

Section = Callable[[World], Awaitable[list[Figure]]]
SECTIONS: Mapping[str, Section] = {
    "turn": turns.trivial,
    "tools": turns.tools,
    "counts": counts.figures,
    "fifty": crowds.fifty,
    "thousand": crowds.thousand,
    "start": standing.start,
    "memory": memories.have,
    "version": standing.version,
    "prompt": standing.prompt,
    "channels": chats.have,
    "chats": chats.at_once,
    "each": chats.each,
    "mail": mails.waits,
    "pages": pages.have,
    "day": day.simulated,
    "floor": floors.turn_floor,
    "stub": floors.fifty_stub,
    "pieces": floors.pieces,
    "startfloor": floors.start_floor,
    "clients": floors.clients,
    "journal": floors.journal,
    "long": floors.long_session,
}
FILES = 8192


def main(words: Sequence[str]) -> int:
    """Run the sections that were named, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument(
        "--full", action="store_true", help="every section; so it is when none is named"
    )
    parser.add_argument(
        "--dir",
        type=Path,
        help="where the journals are to lie: a real disk (default: $TMPDIR, else /tmp)",
    )
    parser.add_argument(
        "--beside", type=Path, metavar="DIR",
        help=f"a checkout of another version: the CPU of both, by turns ({', '.join(KINDS)}; default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="with --beside (default: %(default)s)"
    )
    options = parser.parse_args(words)
    known = KINDS if options.beside else SECTIONS
    if unknown := set(options.sections) - set(known):
        parser.error(
            f"there is no section {', '.join(sorted(unknown))}; sections: {', '.join(known)}"
        )
    with TemporaryDirectory(prefix="aidaemon-bench-", dir=options.dir) as name:
        place = Path(name)
        if not is_disk(place):
            parser.error(f"{place} lies in memory ({filesystem(place)}): give --dir on a real disk")
        _more_files()
        if options.beside:
            other, names = options.beside.resolve(), options.sections or list(KINDS)
            asyncio.run(_compare(place, other, names, options.rounds))
        else:
            asyncio.run(_run(place, (not options.full and options.sections) or list(SECTIONS)))
    return 0


async def _run(place: Path, names: Sequence[str]) -> None:
    print(
        f"journals in {place}: {filesystem(place)}, PRAGMA synchronous = {_synchronous(place)} (2: FULL); {load()}\n"
    )
    figures: list[Figure] = []
    async with world(place) as at:
        for name in names:
            began = perf_counter()
            figures += await SECTIONS[name](at)
            print(
                f"  {name}: done in {perf_counter() - began:.1f} s; {load()}",
                file=sys.stderr,
                flush=True,
            )
    print(table(figures), flush=True)
    if at.yardstick.spent:
        print(
            f"\nA fixed loop took {at.yardstick.stretch:.2f} times its best CPU time: CPU figures are that much too high."
        )


async def _compare(place: Path, other: Path, names: Sequence[str], rounds: int) -> None:
    async with world(place) as at:
        print(await compare(at, other, names, rounds), flush=True)
    print(f"\n{load()}")


def _synchronous(place: Path) -> int:
    """As the journal's own writer sets it."""
    db = open_writer(place / "probe.db")
    try:
        return int(db.execute("PRAGMA synchronous").fetchone()[0])
    finally:
        db.close()


def _more_files() -> None:
    """A thousand connections at each end; child processes inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
