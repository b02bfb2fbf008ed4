"""Telegram, Slack and Discord: what they cost to have, and what a turn over them costs beside the same over HTTP."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import aiohttp
import tomli_w

from tests.bench.figures import Figure
from tests.bench.line import Line, line
from tests.bench.machine import cpu_seconds, own_cpu_seconds, rss_mb
from tests.bench.turns import Timed, raw_call
from tests.bench.world import World
from tests.fakes.command_line import ROOT
from tests.fakes.daemon_process import TOKEN
from tests.fakes.platforms import NAMES

LONGEST_S = 240.0
WARMING = 50  # people who have talked before, and then listen


@dataclass(frozen=True, slots=True)
class Crowd:
    """People at a fake platform in a process of its own. `config`: the section of config.toml that reaches it."""

    platform: str
    process: asyncio.subprocess.Process
    config: str

    async def talk(self, first: int, last: int, turns: int, *, at_once: bool) -> list[float]:
        """The seconds that each answer took."""
        assert self.process.stdin and self.process.stdout
        asked = {"people": [first, last], "turns": turns, "at_once": at_once}
        self.process.stdin.write(json.dumps(asked).encode() + b"\n")
        async with asyncio.timeout(LONGEST_S):
            return json.loads(await self.process.stdout.readline())


@asynccontextmanager
async def crowd(platform: str, people: int) -> AsyncGenerator[Crowd]:
    """A fake platform with so many people."""
    command = (sys.executable, "-m", "tests.bench.people", platform, str(people))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdin=pipe, stdout=pipe, limit=1 << 24
    )
    try:
        assert process.stdout
        async with asyncio.timeout(30):
            config = json.loads(await process.stdout.readline())
        yield Crowd(platform, process, tomli_w.dumps(config))
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def crowds(people: int, platforms: Sequence[str] = NAMES) -> AsyncGenerator[list[Crowd]]:
    """One at each platform."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(crowd(platform, people)) for platform in platforms]


async def have(world: World, times: int = 3) -> list[Figure]:
    """Start with all three channels, and what that weighs when nobody talks."""
    home, cpu, rss = world.new_place(), [], []
    async with crowds(1) as places:
        more = "".join(place.config for place in places)
        for _ in range(times):
            world.yardstick.measure()
            async with world.daemon(home, more=more) as daemon:
                cpu.append(cpu_seconds(daemon.process.pid))
                for place in places:
                    await place.talk(0, 1, 1, at_once=True)
                rss.append(rss_mb(daemon.process.pid))
                await daemon.terminate()
    return [
        Figure("daemon start with three channels to ready, CPU (median)", median(cpu), "s", 1.2),
        Figure(
            "idle memory with three channels (RSS), after a message on each", median(rss), "MB", 110
        ),
    ]


async def at_once(world: World, people: int = 200, turns: int = 3) -> list[Figure]:
    """So many people on one Telegram, each of whom says the next thing as soon as they were answered."""
    async with (
        crowds(people + WARMING, ["telegram"]) as (place,),
        world.daemon(more=place.config) as daemon,
    ):
        await place.talk(people, people + WARMING, 1, at_once=True)
        world.yardstick.measure()
        pids = (daemon.process.pid, world.model_pid, place.process.pid)
        before = [cpu_seconds(pid) for pid in pids]
        began = perf_counter()
        took = await place.talk(0, people, turns, at_once=True)
        seconds = perf_counter() - began
        ours, models, fakes = (
            1e3 * (cpu_seconds(pid) - was) / len(took)
            for pid, was in zip(pids, before, strict=True)
        )
    name = f"{people} chats at once on Telegram"
    return [
        Figure(f"{name} ({len(took)} turns)", len(took) / seconds, "turns/s", 100, at_least=True),
        Figure(f"{name}, daemon CPU per turn", ours, "ms"),
        Figure(f"{name}, model server and fake Telegram, CPU per turn", models + fakes, "ms"),
        Figure(f"{name}, wall p50 of an answer", 1e3 * median(took), "ms"),
    ]


async def each(world: World, rounds: int = 8, people: int = 5, turns: int = 2) -> list[Figure]:
    """One turn at a time over HTTP and over each channel, by turns; two of them in every session."""
    async with AsyncExitStack() as stack:
        places = await stack.enter_async_context(crowds(people * (rounds + 1)))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        daemon = await stack.enter_async_context(
            world.daemon(more="".join(place.config for place in places))
        )
        talk = await stack.enter_async_context(line(daemon.url, TOKEN))
        raw, by_http = Timed(own_cpu_seconds), Timed(lambda: cpu_seconds(daemon.process.pid))
        over = {place.platform: Timed(lambda: cpu_seconds(daemon.process.pid)) for place in places}
        for number in range(rounds + 1):
            world.yardstick.measure()
            await raw.ten(lambda: raw_call(http, world.model_url))
            await by_http.many(
                _over_http(talk, [f"each-{number}-{one}" for one in range(people)], turns)
            )
            for place in places:
                await over[place.platform].many(
                    place.talk(number * people, (number + 1) * people, turns, at_once=False)
                )
            for timed in (raw, by_http, *over.values()) if number == 0 else ():
                timed.forget()
    return _beside(raw, by_http, over)


async def _over_http(talk: Line, sessions: Sequence[str], turns: int) -> list[float]:
    took = []
    for session in sessions:
        for _ in range(turns):
            began = perf_counter()
            await talk.ask("hello", session)
            took.append(perf_counter() - began)
    return took


def _beside(raw: Timed, by_http: Timed, over: Mapping[str, Timed]) -> list[Figure]:
    """Every channel beside the raw call and the same over HTTP."""
    figures = [
        Figure("raw aiohttp call of the model, wall p50", raw.wall_ms, "ms"),
        Figure(
            f"a turn over HTTP, CPU of the daemon ({len(by_http.seconds)} turns)",
            by_http.cpu_ms,
            "ms",
        ),
        Figure("a turn over HTTP, wall p50 / raw call", by_http.wall_ms / raw.wall_ms, "x"),
    ]
    for name, timed in over.items():
        figures += [
            Figure(
                f"a turn over {name}, CPU of the daemon ({len(timed.seconds)} turns)",
                timed.cpu_ms,
                "ms",
            ),
            Figure(
                f"a turn over {name}, wall p50, from the person's message to the answer",
                timed.wall_ms,
                "ms",
            ),
            Figure(f"a turn over {name}, wall p50 / raw call", timed.wall_ms / raw.wall_ms, "x"),
        ]
    return figures
