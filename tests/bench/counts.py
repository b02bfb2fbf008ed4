"""What a turn costs in counts that load cannot blur, beside their budgets: `python -m tests.bench counts`."""

import asyncio
import json
import signal
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, closing
from itertools import count
from pathlib import Path

import tomli_w

from tests.bench.figures import Figure
from tests.bench.world import World
from tests.fakes.daemon_process import Daemon
from tests.fakes.mail.mailbox import until_watching
from tests.fakes.mail.server import mail_server, write_mail

KINDS = ("calls", "tasks", "iterations", "commits", "stats", "scans")
BUDGETS: Mapping[str, tuple[int, ...]] = {
    "trivial turn": (1_850, 5, 23, 3, 14, 0),
    "ten-tool turn": (13_500, 16, 100, 13, 46, 0),
    "command in 2,000 files": (13_500, 10, 86, 8, 600, 0),
    "mail": (2_900, 10, 48, 4, 14, 0),
}
"""In the order of KINDS. Only a commit that says why raises one."""
WARM_UP, TURNS = 4, 3
MOST_TURNS = 40
FILES, FOLDERS = 2000, 20
LONGEST_S = 30.0
Act = Callable[[int], Awaitable[None]]


async def figures(world: World) -> list[Figure]:
    """All counts, each with its budget."""
    found = await count_all(world)
    return [
        Figure(f"{name}: {kind}", found[name][kind], "", budget)
        for name, budgets in BUDGETS.items()
        for kind, budget in zip(KINDS, budgets, strict=True)
    ]


async def count_all(world: World) -> dict[str, dict[str, int]]:
    """The least of some turns, by what they do and what is counted."""
    found: dict[str, dict[str, int]] = {}
    async with _counted(world) as daemon:
        for name, word in (("trivial turn", "hello"), ("ten-tool turn", "looks")):
            found[name] = await _count_least(daemon, name, _ask(daemon, word))
    place = world.new_place()
    _fill(place / "workspace")
    async with _counted(world, place, '[tools.shell]\nallowed = ["ls"]\n') as daemon:
        await daemon.post("/v1/messages", session="trust", text="/trust .")
        found["command in 2,000 files"] = await _count_least(
            daemon, "command in 2,000 files", _ask(daemon, "command")
        )
    async with mail_server() as server:
        section = server.config(notify="web:owner", allowed_senders=["ann@example.org"])
        more = tomli_w.dumps({"email": section})
        async with _counted(world, more=more) as daemon:
            await until_watching(daemon)

            async def deliver(number: int) -> None:
                await server.dovecot.deliver(write_mail("hello", number=str(number)))
                await _until_ended(daemon.home, number + 1)

            found["mail"] = await _count_least(daemon, "mail", deliver)
    return found


@asynccontextmanager
async def _counted(
    world: World, home: Path | None = None, more: str = ""
) -> AsyncGenerator[Daemon]:
    place = home or world.new_place()
    env = {"COUNTS_FILE": str(place / "counts.json")}
    async with world.daemon(place, more=more, env=env, module="tests.bench.counted_daemon") as it:
        yield it


def _fill(workspace: Path) -> None:
    for folder in range(FOLDERS):
        place = workspace / f"folder{folder}"
        place.mkdir(parents=True)
        for number in range(FILES // FOLDERS):
            (place / f"file{number}.txt").write_text("text\n")


def _ask(daemon: Daemon, word: str) -> Act:
    numbers = count()

    async def act(_: int) -> None:
        async with asyncio.timeout(LONGEST_S):
            answer = await daemon.ask(word, f"{word}-{next(numbers)}")
        if answer["stop_reason"] != "done":
            raise RuntimeError(f"a turn that was to be counted did not end well: {answer}")

    return act


async def _count_least(daemon: Daemon, name: str, act: Act) -> dict[str, int]:
    """The least of TURNS; of more where one is over its budget, for a moment in which the machine is
    slow moves reads and commits to threads, which only adds.
    """
    for number in range(WARM_UP):
        await act(number)
    least: dict[str, int] = {}
    for number in range(WARM_UP, WARM_UP + MOST_TURNS):
        await _until_indexed(daemon.home)
        await _read_counts(daemon)
        await act(number)
        found = await _read_counts(daemon)
        least = {kind: min(found.get(kind, 0), least.get(kind, 1 << 60)) for kind in KINDS}
        budgets = zip(KINDS, BUDGETS[name], strict=True)
        if number + 1 >= WARM_UP + TURNS and all(least[kind] <= most for kind, most in budgets):
            break
    return least


async def _read_counts(daemon: Daemon) -> dict[str, int]:
    """Since they were last read."""
    file = daemon.home / "counts.json"
    file.unlink(missing_ok=True)
    daemon.process.send_signal(signal.SIGUSR2)
    async with asyncio.timeout(LONGEST_S):
        while not file.exists():
            if daemon.process.returncode is not None:
                raise RuntimeError(f"the daemon that is counted ended: {daemon.log[-20:]}")
            await asyncio.sleep(0.005)
    counts: dict[str, int] = json.loads(file.read_text())
    return counts


async def _until_indexed(home: Path) -> None:
    """What the turns before have said: that is done in the background, and is not of the next one."""
    ended = "SELECT max(ended_n) FROM turns"
    read = "SELECT CAST(value AS INTEGER) FROM state WHERE name = 'cursor'"
    names = home / "journal.db", home / "memory.db"
    with ExitStack() as stack:
        journal, memory = (
            stack.enter_context(closing(sqlite3.connect(f"file:{name}?mode=ro", uri=True))) for name in names
        )
        async with asyncio.timeout(LONGEST_S):
            while journal.execute(ended).fetchone() != memory.execute(read).fetchone():
                await asyncio.sleep(0.01)


async def _until_ended(home: Path, turns: int) -> None:
    """From the journal, for a request would be counted."""
    ended = "SELECT count(*) FROM turns WHERE state = 'ended' AND session LIKE 'email%'"
    with closing(sqlite3.connect(f"file:{home / 'journal.db'}?mode=ro", uri=True)) as db:
        async with asyncio.timeout(LONGEST_S):
            while db.execute(ended).fetchone()[0] < turns:
                await asyncio.sleep(0.005)
