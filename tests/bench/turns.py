"""One turn at a time: a raw call and bare commits to compare with, our trivial turn, turns with tools."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from statistics import median
from time import perf_counter

import aiohttp

from daemon.core.rows import InboxRow
from daemon.core.trust import Label
from daemon.store.sqlite import SqliteStore
from tests.bench.figures import Figure
from tests.bench.line import Line, line
from tests.bench.machine import cpu_seconds, own_cpu_seconds
from tests.bench.world import STEPS, World
from tests.fakes.daemon_process import TOKEN

TALK = 10  # turns of one conversation
COMMITS = 3
Act = Callable[[], Awaitable[object]]


@dataclass(slots=True)
class Timed:
    """Wall times of one kind of act, and the CPU that some process spent on all of them."""

    cpu_of: Callable[[], float]
    seconds: list[float] = field(default_factory=list)
    cpu_s: float = 0.0

    async def ten(self, act: Act) -> None:
        """Do it ten times, one after the other."""
        began_cpu = self.cpu_of()
        for _ in range(TALK):
            began = perf_counter()
            await act()
            self.seconds.append(perf_counter() - began)
        self.cpu_s += self.cpu_of() - began_cpu

    async def many(self, acts: Awaitable[Sequence[float]]) -> None:
        """Done elsewhere, where the wall times were taken."""
        began_cpu = self.cpu_of()
        self.seconds += await acts
        self.cpu_s += self.cpu_of() - began_cpu

    def forget(self) -> None:
        """What was measured so far was for warming up."""
        self.seconds.clear()
        self.cpu_s = 0.0

    @property
    def wall_ms(self) -> float:
        """The median."""
        return 1e3 * median(self.seconds)

    @property
    def cpu_ms(self) -> float:
        """The mean: ticks are too coarse for more."""
        return 1e3 * self.cpu_s / len(self.seconds)


async def trivial(world: World, rounds: int = 32) -> list[Figure]:
    """Raw calls, commits and turns by turns, ten of each, so that a noisy moment is everybody's."""
    store = await SqliteStore.open(world.new_place())
    numbers = count()
    try:
        async with (
            aiohttp.ClientSession() as http,
            world.daemon() as daemon,
            line(daemon.url, TOKEN) as talk,
        ):
            raw, commits = Timed(own_cpu_seconds), Timed(own_cpu_seconds)
            turns = Timed(lambda: cpu_seconds(daemon.process.pid))
            await _converse(Timed(lambda: 0.0), talk, "hello", 1)
            for _ in range(rounds):
                world.yardstick.measure()
                await raw.ten(lambda: raw_call(http, world.model_url))
                await commits.ten(lambda: _commit(store, numbers))
                await _converse(turns, talk, "hello", next(numbers))
    finally:
        await store.aclose()
    return [
        Figure("raw aiohttp call, wall p50", raw.wall_ms, "ms"),
        Figure("raw aiohttp call, CPU of the caller", raw.cpu_ms, "ms"),
        Figure(f"{COMMITS} durable commits, wall p50", commits.wall_ms, "ms"),
        Figure("trivial turn, wall p50", turns.wall_ms, "ms"),
        Figure(
            "trivial turn, wall / (raw call + commits)",
            turns.wall_ms / (raw.wall_ms + commits.wall_ms),
            "x",
            3,
        ),
        Figure(f"trivial turn, CPU ({len(turns.seconds)} turns)", turns.cpu_ms, "ms", 5),
    ]


async def tools(world: World, rounds: int = 30) -> list[Figure]:
    """Ten iterations with one READ tool each, which stays in the process or reads a file; ten READ calls in one reply."""
    async with world.daemon() as daemon, line(daemon.url, TOKEN) as talk:
        kinds = {
            word: Timed(lambda: cpu_seconds(daemon.process.pid))
            for word in ("looks", "files", "parallel")
        }
        await _alone(Timed(lambda: 0.0), talk, "files", "warm")
        for number in range(rounds):
            world.yardstick.measure()
            for word, timed in kinds.items():
                await _alone(timed, talk, word, f"{word}-{number}")
    looks, files, parallel = kinds.values()
    name = f"{STEPS}-tool turn"
    return [
        Figure(f"{name}, CPU ({len(looks.seconds)} turns), find_tools", looks.cpu_ms, "ms", 25),
        Figure(f"{name}, CPU, read_file (in a thread)", files.cpu_ms, "ms", 25),
        Figure(f"{name}, wall p50, find_tools", looks.wall_ms, "ms"),
        Figure(f"{name}, wall p50, read_file", files.wall_ms, "ms"),
        Figure(f"{STEPS} parallel read_file in one reply, CPU", parallel.cpu_ms, "ms"),
        Figure(f"{STEPS} parallel read_file in one reply, wall p50", parallel.wall_ms, "ms"),
    ]


async def _converse(timed: Timed, talk: Line, text: str, number: int) -> None:
    """A conversation of ten turns, the first of which makes the session."""
    await timed.ten(lambda: talk.ask(text, f"talk-{number}"))


async def _alone(timed: Timed, talk: Line, text: str, name: str) -> None:
    """Ten turns, each in a session of its own: what tools say stays in a conversation and would weigh on the next turn."""
    numbers = count()
    await timed.ten(lambda: talk.ask(text, f"{name}-{next(numbers)}"))


async def raw_call(http: aiohttp.ClientSession, base_url: str) -> None:
    """What the model alone takes."""
    body = {"model": "fake", "messages": [{"role": "user", "content": "hello"}]}
    async with http.post(f"{base_url}/chat/completions", json=body) as response:
        await response.json()


async def _commit(store: SqliteStore, numbers: "count[int]") -> None:
    for _ in range(COMMITS):
        name, now = str(next(numbers)), datetime.now(UTC)
        row = InboxRow(
            name, "web", "", name, "web:bench", "owner", "hello", Label.TRUSTED, name, now
        )
        await store.write(lambda tx, row=row: tx.accept_input(row))
