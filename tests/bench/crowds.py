"""Many sessions at once."""

import asyncio
from contextlib import AsyncExitStack
from time import perf_counter

from tests.bench.figures import Figure
from tests.bench.line import Line, line
from tests.bench.machine import cpu_seconds, own_cpu_seconds
from tests.bench.world import SLOW_S, World
from tests.fakes.daemon_process import TOKEN, Daemon

OPENING = 50  # connections that are opened at the same time


async def fifty(world: World, sessions: int = 50, turns: int = 12) -> list[Figure]:
    """So many sessions, each of which says the next thing as soon as it was answered."""
    async with world.daemon() as daemon, AsyncExitStack() as stack:
        talks = await open_lines(stack, daemon, sessions)
        await asyncio.gather(
            *(talk_on(talk, "hello", f"warm-{number}", 1) for number, talk in enumerate(talks))
        )
        world.yardstick.measure()
        pids = (daemon.process.pid, world.model_pid)
        cpu = [*map(cpu_seconds, pids), own_cpu_seconds()]
        began = perf_counter()
        await asyncio.gather(
            *(talk_on(talk, "hello", f"crowd-{number}", turns) for number, talk in enumerate(talks))
        )
        took = perf_counter() - began
        spent = [
            after - before
            for before, after in zip(cpu, [*map(cpu_seconds, pids), own_cpu_seconds()], strict=True)
        ]
    world.yardstick.measure()
    total = sessions * turns
    ours, models, clients = (1e3 * seconds / total for seconds in spent)
    return [
        Figure(
            f"{sessions} sessions at once ({total} turns)",
            total / took,
            "turns/s",
            200,
            at_least=True,
        ),
        Figure(f"{sessions} sessions at once, daemon CPU per turn", ours, "ms"),
        Figure(
            f"{sessions} sessions at once, model server and client CPU per turn",
            models + clients,
            "ms",
        ),
    ]


async def thousand(world: World, sessions: int = 1000) -> list[Figure]:
    """All at once, on a model that takes its time; from the first connection to the last answer."""
    async with world.daemon() as daemon, AsyncExitStack() as stack:
        before, began = cpu_seconds(daemon.process.pid), perf_counter()
        talks = await open_lines(stack, daemon, sessions)
        opened = perf_counter() - began
        await asyncio.gather(
            *(talk_on(talk, "slow", f"slow-{number}", 1) for number, talk in enumerate(talks))
        )
        took = perf_counter() - began
        cpu = cpu_seconds(daemon.process.pid) - before
    name = f"{sessions} sessions in flight on a {SLOW_S:g} s model"
    return [
        Figure(name, took, "s", 7),
        Figure(f"{name}: of it connecting", opened, "s"),
        Figure(f"{name}: daemon CPU", cpu, "s"),
    ]


async def talk_on(talk: Line, text: str, session: str, turns: int) -> None:
    for _ in range(turns):
        await talk.ask(text, session)


async def open_lines(stack: AsyncExitStack, daemon: Daemon, number: int) -> list[Line]:
    talks: list[Line] = []
    while len(talks) < number:
        many = min(OPENING, number - len(talks))
        talks += await asyncio.gather(
            *(stack.enter_async_context(line(daemon.url, TOKEN)) for _ in range(many))
        )
    return talks
