"""What it costs to be there: start, memory, the command's start, the words every call carries."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

from tests.bench.figures import Figure
from tests.bench.line import line
from tests.bench.machine import cpu_seconds, rss_mb
from tests.bench.world import World
from tests.fakes.command_line import ROOT
from tests.fakes.daemon_process import TOKEN
from tests.fakes.openai import FakeOpenAI


async def start(world: World, times: int = 7) -> list[Figure]:
    """From `aidaemon run` to `ready`: on an empty HOME first, then on the same one again and again."""
    home = world.new_place()
    cpu: list[float] = []
    wall: list[float] = []
    for _ in range(times):
        world.yardstick.measure()
        began = perf_counter()
        async with world.daemon(home) as daemon:
            wall.append(perf_counter() - began)
            cpu.append(cpu_seconds(daemon.process.pid))
            await daemon.terminate()
    return [
        Figure("daemon start to ready, CPU (median)", median(cpu), "s", 0.6),
        Figure(f"daemon start to ready, CPU, best of {times}", min(cpu), "s"),
        Figure("daemon start to ready, CPU, empty HOME", cpu[0], "s"),
        Figure("daemon start to ready, wall (median)", median(wall), "s"),
    ]


async def memory(world: World, turns: int = 1000, conversation: int = 10) -> list[Figure]:
    """Resident memory of a daemon that has nothing to do, and of one that has worked."""
    async with world.daemon() as daemon, line(daemon.url, TOKEN) as talk:
        await daemon.get("/health")
        idle = rss_mb(daemon.process.pid)
        for number in range(turns):
            await talk.ask("hello", f"talk-{number // conversation}")
        worked = rss_mb(daemon.process.pid)
    return [
        Figure("idle memory (RSS)", idle, "MB", 65),
        Figure(f"memory after {turns} turns (RSS)", worked, "MB"),
    ]


async def version(world: World, times: int = 15) -> list[Figure]:
    """`aidaemon --version`, CPU of the child."""
    script = Path(sys.executable).with_name("aidaemon")
    command = [str(script)] if script.exists() else [sys.executable, "-m", "daemon"]
    spent: list[float] = []
    for _ in range(times):
        world.yardstick.measure()
        spent.append(await asyncio.to_thread(_child_cpu_ms, [*command, "--version"]))
    how = "installed" if script.exists() else "python -m daemon"
    return [
        Figure(f"--version, CPU, median of {times} ({how})", median(spent), "ms", 60),
        Figure(f"--version, CPU, best of {times}", min(spent), "ms"),
    ]


async def prompt(world: World) -> list[Figure]:
    """What the model receives with a bare "hi", as it came over the wire."""
    async with FakeOpenAI() as model, world.daemon(base_url=model.base_url) as daemon:
        await daemon.ask("hi")
        received = (await model.asked(1)).raw
    text = received.decode()
    system = sum(
        len(message["content"])
        for message in json.loads(text)["messages"]
        if message["role"] == "system"
    )
    begin = text.index('"tools":') + len('"tools":')
    tools = json.JSONDecoder().raw_decode(text, begin)[1] - begin
    return [
        Figure('bare "hi": system prompt and tools', (system + tools) / 4, "tokens", 640),
        Figure('bare "hi": system prompt', system, "chars"),
        Figure('bare "hi": tools', tools, "chars"),
        Figure('bare "hi": the whole request', len(received), "bytes"),
    ]


def _child_cpu_ms(command: list[str]) -> float:
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {child.returncode}")
    return 1e3 * (used.ru_utime + used.ru_stime)
