"""The machine's own wall clock jumps under a real process; its monotonic clock stays real (A16)."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, says

SOURCE = Path(__file__).parents[1] / "fakes" / "wall_clock.c"
NOON = datetime(2030, 3, 10, 12, tzinfo=UTC)
TASK = """[general]
timezone = "UTC"
[[scheduler.tasks]]
name = "task"
schedule = "{rule}"
prompt = "look around"
"""


class WallClock:
    """The wall clock of the processes that are given `env`."""

    def __init__(self, folder: Path) -> None:
        self.offset, library = folder / "offset", folder / "wall_clock.so"
        self.offset.write_bytes(bytes(8))
        subprocess.run(["cc", "-shared", "-fPIC", "-O", "-o", library, SOURCE], check=True)
        self.env = {"LD_PRELOAD": str(library), "WALL_CLOCK_OFFSET": str(self.offset)}

    def set(self, to: datetime) -> None:
        seconds = round((to - datetime.now(UTC)).total_seconds())
        with self.offset.open("r+b") as file:
            file.write(seconds.to_bytes(8, "little", signed=True))


@asynccontextmanager
async def serving(
    tmp_path: Path, clock: WallClock, rule: str
) -> AsyncIterator[tuple[Daemon, FakeOpenAI]]:
    async with FakeOpenAI() as model:
        model.otherwise(says("all is quiet"))
        config = scripted(model.base_url, TASK.format(rule=rule))
        async with running_daemon(tmp_path / "home", config, clock.env) as daemon:
            yield daemon, model


async def wait_for_due(daemon: Daemon, due: datetime) -> None:
    """Its next run is planned for the minute that begins there or the one before."""
    async with asyncio.timeout(20):
        while True:
            [shown] = await daemon.listed("/v1/schedules")
            if (
                timedelta()
                <= due - datetime.fromisoformat(str(shown["due"]))
                < timedelta(minutes=1)
            ):
                return
            await asyncio.sleep(0.05)


async def wait_for_runs(daemon: Daemon, number: int) -> None:
    async with asyncio.timeout(20):
        while True:
            runs = await daemon.listed("/v1/runs")
            if len(runs) >= number and all(run["state"] == "ended" for run in runs):
                assert len(runs) == number
                return
            await asyncio.sleep(0.05)


JUMPS = pytest.mark.parametrize(
    "jump", [timedelta(hours=1), timedelta(days=1)], ids=["hour", "day"]
)


@JUMPS
@pytest.mark.parametrize("rule", ["every 10m", "*/10 * * * *"])
@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
async def test_a_schedule_goes_on_when_the_machines_clock_is_set_back(
    tmp_path: Path, jump: timedelta, rule: str, *, killed: bool
) -> None:
    clock, back = WallClock(tmp_path), NOON - jump
    clock.set(NOON)
    async with serving(tmp_path, clock, rule) as (daemon, _):
        await wait_for_due(daemon, NOON + timedelta(minutes=10, seconds=50))
        if killed:
            daemon.process.kill()
            await daemon.process.wait()
        clock.set(back)
        if not killed:
            await wait_for_due(daemon, back + timedelta(minutes=10, seconds=50))
            clock.set(back + timedelta(minutes=10, seconds=50))
            await wait_for_runs(daemon, 1)
            clock.set(back + timedelta(minutes=20, seconds=50))
            await wait_for_runs(daemon, 2)
    if killed:
        async with serving(tmp_path, clock, rule) as (daemon, _):
            await wait_for_due(daemon, back + timedelta(minutes=10, seconds=50))
            clock.set(back + timedelta(minutes=10, seconds=50))
            await wait_for_runs(daemon, 1)


@JUMPS
@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
async def test_a_clock_that_is_set_forward_makes_one_run_of_those_that_passed(
    tmp_path: Path, jump: timedelta, *, killed: bool
) -> None:
    clock = WallClock(tmp_path)
    clock.set(NOON)
    async with AsyncExitStack() as stack:
        daemon, _ = await stack.enter_async_context(serving(tmp_path, clock, "every 10m"))
        await wait_for_due(daemon, NOON + timedelta(minutes=10, seconds=50))
        if killed:
            daemon.process.kill()
            await daemon.process.wait()
        clock.set(NOON + jump + timedelta(seconds=50))
        if killed:
            daemon, _ = await stack.enter_async_context(serving(tmp_path, clock, "every 10m"))
        await wait_for_runs(daemon, 1)
        await wait_for_due(daemon, NOON + jump + timedelta(minutes=10, seconds=50))
        clock.set(NOON + jump + timedelta(minutes=10, seconds=50))
        await wait_for_runs(daemon, 2)
