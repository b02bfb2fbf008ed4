"""Our turns, starts and clients beside what they cost at least: ratios of one run, for absolute times swing by a factor of two."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter

from tests.bench.crowds import open_lines, talk_on
from tests.bench.figures import Figure
from tests.bench.line import Line, line
from tests.bench.machine import cpu_seconds, rss_mb
from tests.bench.world import PIECES, World
from tests.fakes.command_line import KEPT, ROOT
from tests.fakes.daemon_process import TOKEN, Daemon

WARM_UP = 60
STARTS = "import asyncio, aiohttp.web, pydantic, sqlite3"
CLIENT = "import argparse, json, http.client"


@dataclass(frozen=True, slots=True)
class FloorProcess:
    """A floor that listens."""

    url: str
    pid: int


@asynccontextmanager
async def floor(world: World, kind: str) -> AsyncGenerator[FloorProcess]:
    """The bare floor or the stub, in a process of its own."""
    folder = world.new_place()
    folder.mkdir()
    command = (
        sys.executable,
        "-m",
        "tests.bench.floor_server",
        kind,
        "--model",
        world.model_url,
        "--dir",
        str(folder),
    )
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout
        async with asyncio.timeout(30):
            url = (await process.stdout.readline()).decode().strip()
        yield FloorProcess(url, process.pid)
    finally:
        process.kill()
        await process.wait()


async def turn_floor(world: World, rounds: int = 20) -> list[Figure]:
    """A trivial turn and a turn of ten tools beside the bare floor, ten of each by turns."""
    figures: list[Figure] = []
    async with AsyncExitStack() as stack:
        bare = await stack.enter_async_context(floor(world, "bare"))
        daemon = await stack.enter_async_context(world.daemon())
        ours, floors = await _lines(stack, daemon, bare)
        for word, name in (("hello", "trivial turn"), ("looks", "ten-tool turn")):
            await _say(ours, word, WARM_UP, 10)
            await _say(floors, word, WARM_UP, 10)
            spent, least = 0.0, 0.0
            for _ in range(rounds):
                spent += await _cpu(daemon.process.pid, _say(ours, word, 10, 10))
                least += await _cpu(bare.pid, _say(floors, word, 10, 10))
            turns = 10 * rounds
            figures += [
                Figure(f"{name}, CPU", 1e3 * spent / turns, "ms"),
                Figure(f"{name}, CPU of the bare floor", 1e3 * least / turns, "ms"),
                Figure(f"{name} / bare floor", spent / least, "x", 2.6),
            ]
    return figures


async def fifty_stub(
    world: World, sessions: int = 50, turns: int = 12, rounds: int = 3
) -> list[Figure]:
    """Fifty sessions at once beside the stub, which commits the rows of such a turn."""
    async with AsyncExitStack() as stack:
        stub = await stack.enter_async_context(floor(world, "stub"))
        daemon = await stack.enter_async_context(world.daemon())
        ours = await open_lines(stack, daemon, sessions)
        floors = [await stack.enter_async_context(line(stub.url, TOKEN)) for _ in range(sessions)]
        numbers = count()
        await _crowd(ours, numbers, 2)
        await _crowd(floors, numbers, 2)
        spent, least = 0.0, 0.0
        for _ in range(rounds):
            spent += await _cpu(daemon.process.pid, _crowd(ours, numbers, turns))
            least += await _cpu(stub.pid, _crowd(floors, numbers, turns))
    total = sessions * turns * rounds
    return [
        Figure(f"{sessions} at once, CPU per turn", 1e3 * spent / total, "ms"),
        Figure(f"{sessions} at once, CPU per turn of the stub", 1e3 * least / total, "ms"),
        Figure(f"{sessions} at once / stub", spent / least, "x", 1.3),
    ]


async def pieces(world: World, rounds: int = 8) -> list[Figure]:
    """A streamed piece that somebody watches beside bare aiohttp that reads the same pieces one by one."""
    async with AsyncExitStack() as stack:
        bare = await stack.enter_async_context(floor(world, "bare"))
        daemon = await stack.enter_async_context(world.daemon())
        (talk,) = await open_lines(stack, daemon, 1)
        least_line = await stack.enter_async_context(line(bare.url, TOKEN))
        spent, least = 0.0, 0.0
        for number in range(rounds + 1):
            ours = await _cpu(daemon.process.pid, _watch(daemon, f"stream-{number}"))
            ours -= await _cpu(daemon.process.pid, talk_on(talk, "hello", f"plain-{number}", 1))
            floors = await _cpu(bare.pid, talk_on(least_line, "stream", f"stream-{number}", 1))
            if number:
                spent, least = spent + ours, least + floors
    total = PIECES * rounds
    return [
        Figure("a streamed watched piece, CPU", 1e6 * spent / total, "us"),
        Figure("a piece read by bare aiohttp, CPU", 1e6 * least / total, "us"),
        Figure("a streamed watched piece / bare aiohttp", spent / least, "x", 0.8),
    ]


async def start_floor(world: World, times: int = 7) -> list[Figure]:
    """Start, first turn, memory, clients."""
    home = world.new_place()
    starts: list[float] = []
    floors: list[float] = []
    firsts: list[float] = []
    idle: list[float] = []
    for _ in range(times):
        floors.append(_child_cpu(sys.executable, "-c", STARTS))
        async with world.daemon(home) as daemon, line(daemon.url, TOKEN) as talk:
            starts.append(cpu_seconds(daemon.process.pid))
            await asyncio.sleep(0.5)  # the warm-up after `ready`
            idle.append(rss_mb(daemon.process.pid))
            walls: list[float] = []
            for _ in range(10):
                began = perf_counter()
                await talk.ask("hello", "first")
                walls.append(perf_counter() - began)
            firsts.append(walls[0] / median(walls[5:]))
            await daemon.terminate()
    return [
        Figure("start to ready, CPU", median(starts), "s"),
        Figure(f"`{STARTS}`, CPU", median(floors), "s"),
        Figure("start / these imports", median(starts) / median(floors), "x", 2.2),
        Figure("first turn / tenth, wall", median(firsts), "x", 3),
        Figure("idle memory (RSS)", median(idle), "MB", 58),
    ]


async def clients(world: World, times: int = 7) -> list[Figure]:
    """Commands that ask a running daemon, beside a Python that imports what they need."""
    spent: dict[str, list[float]] = {"floor": [], "runs": [], "chat --once": [], "--help": []}
    async with world.daemon() as daemon:
        await daemon.ask("hello")
        home = ("--home", str(daemon.home))
        for _ in range(times):
            spent["floor"].append(await asyncio.to_thread(_child_cpu, sys.executable, "-c", CLIENT))
            for name, words in (
                ("runs", ("runs", *home)),
                ("chat --once", ("chat", "--once", "hello", *home)),
                ("--help", ("--help",)),
            ):
                spent[name].append(
                    await asyncio.to_thread(_child_cpu, sys.executable, "-m", "daemon", *words)
                )
    least = median(spent["floor"])
    figures = [Figure(f"`{CLIENT}`, CPU", 1e3 * least, "ms")]
    for name, goal in (("runs", 2.5), ("chat --once", 2.5), ("--help", 1.5)):
        value = median(spent[name])
        figures += [
            Figure(f"{name}, CPU", 1e3 * value, "ms"),
            Figure(f"{name} / these imports", value / least, "x", goal),
        ]
    return figures


async def journal(world: World, turns: int = 15) -> list[Figure]:
    """What a trivial turn writes, and how often it commits."""
    async with world.daemon() as daemon, line(daemon.url, TOKEN) as talk:
        await talk.ask("hello", "warm")
        path = daemon.home / "journal.db"
        bytes_before, commits_before = _wal(path)
        for number in range(turns):
            await talk.ask("hello", f"journal-{number}")
        bytes_after, commits_after = _wal(path)
        await talk.ask("looks", "journal-tools")
        commits_of_tools = _wal(path)[1] - commits_after
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            (payloads,) = db.execute(
                "SELECT sum(length(e.payload)) FROM events e JOIN turns t ON e.turn = t.id WHERE t.session LIKE '%journal-%'"
                " AND t.session NOT LIKE '%tools'"
            ).fetchone()
    return [
        Figure("events of a trivial turn", payloads / turns / 1e3, "kB", 1.6),
        Figure("WAL of a trivial turn", (bytes_after - bytes_before) / turns / 1e3, "kB", 90),
        Figure("commits of a trivial turn", (commits_after - commits_before) / turns, ""),
        Figure("commits of a ten-tool turn", commits_of_tools, ""),
    ]


async def long_session(world: World, turns: int = 5000, sample: int = 40) -> list[Figure]:
    """A turn of a session of five thousand beside one of a new session."""
    async with world.daemon() as daemon, AsyncExitStack() as stack:
        (talk,) = await open_lines(stack, daemon, 1)
        await talk_on(talk, "hello", "long", turns)
        pid, spent, least = daemon.process.pid, 0.0, 0.0
        for number in range(5):
            spent += await _cpu(pid, talk_on(talk, "hello", "long", sample))
            least += await _cpu(pid, talk_on(talk, "hello", f"new-{number}", sample))
    return [
        Figure(f"turn {turns} of a session, CPU", 1e3 * spent / sample / 5, "ms"),
        Figure(f"turn {turns} of a session / a new session's", spent / least, "x", 1.2),
    ]


async def _lines(stack: AsyncExitStack, daemon: Daemon, bare: FloorProcess) -> tuple[Line, Line]:
    ours = await stack.enter_async_context(line(daemon.url, TOKEN))
    return ours, await stack.enter_async_context(line(bare.url, TOKEN))


_SESSIONS = count()


async def _say(talk: Line, word: str, turns: int, each: int) -> None:
    """In sessions of so many turns; a tool turn is alone in its session, for its results would weigh on the next."""
    session = ""
    for number in range(turns):
        if number % (1 if word == "looks" else each) == 0:
            session = f"floor-{next(_SESSIONS)}"
        await talk.ask(word, session)


async def _crowd(lines: Sequence[Line], numbers: "count[int]", turns: int) -> None:
    await asyncio.gather(*(talk_on(one, "hello", f"crowd-{next(numbers)}", turns) for one in lines))


async def _watch(daemon: Daemon, session: str) -> None:
    """Have it stream, and read every event of it."""
    turn = await daemon.begin("stream", session)
    async for _ in daemon.stream(turn):
        pass


async def _cpu(pid: int, work: Awaitable[None]) -> float:
    before = cpu_seconds(pid)
    await work
    return cpu_seconds(pid) - before


def _child_cpu(*command: str) -> float:
    env = {name: os.environ[name] for name in KEPT if name in os.environ} | {
        "PYTHONPATH": str(ROOT)
    }
    child = subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {child.returncode}")
    return used.ru_utime + used.ru_stime


def _wal(path: Path) -> tuple[int, int]:
    """Bytes of the write-ahead log, and the commits in it: a frame that ends one says how large the database then is."""
    data = Path(f"{path}-wal").read_bytes()
    page = int.from_bytes(data[8:12], "big")
    frames = range(32, len(data), page + 24)
    return len(data), sum(data[at + 4 : at + 8] != b"\0\0\0\0" for at in frames)
