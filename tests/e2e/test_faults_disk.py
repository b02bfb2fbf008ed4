"""A disk that is full or fails: nothing is taken in, no tool runs, health says so; then all goes on by itself (K20, #21)."""

import asyncio
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web

from daemon.app.daemon import Overrides
from daemon.core.errors import StoreUnavailable
from daemon.core.events import Outcome, ToolFinished
from daemon.core.trust import Effect
from daemon.store.journal import Store
from daemon.store.sqlite import SqliteStore
from daemon.tools.base import Tool
from daemon.tools.signature import bind, tool
from tests.e2e.crash.journal import FaultyStore
from tests.fakes.daemon_process import Daemon, error_of, running_daemon, scripted
from tests.fakes.house import Living, living
from tests.fakes.openai import Exchange, FakeOpenAI, Step, calls, says

DISK = "4m"
MESSAGE = {"text": "are you well?", "client_id": "c1"}


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A disk of a few megabytes; where mounting is not permitted, a folder whose daemon may not write more than a byte."""

    place: Path
    mounted: bool

    def fill(self, daemon: Daemon) -> None:
        """Not a byte more fits."""
        if not self.mounted:
            resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
            return
        with (self.place / "ballast").open("wb", buffering=0) as ballast:
            for size in (65536, 4096, 1):
                with suppress(OSError):
                    while ballast.write(bytes(size)) == size:
                        pass

    def free(self, daemon: Daemon) -> None:
        """There is room again."""
        if self.mounted:
            (self.place / "ballast").unlink()
        else:
            resource.prlimit(
                daemon.process.pid,
                resource.RLIMIT_FSIZE,
                (resource.RLIM_INFINITY, resource.RLIM_INFINITY),
            )


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(place)]
    mounted = subprocess.run(command, capture_output=True).returncode == 0
    yield SmallDisk(place, mounted)
    if mounted:
        subprocess.run(["umount", str(place)], check=True)


def first(happens: Callable[[], object], then: Step) -> Step:
    """Something happens before the answer goes out."""

    async def step(x: Exchange) -> web.StreamResponse:
        happens()
        return await then(x)

    return step


async def health(daemon: Daemon) -> tuple[int, str]:
    async with daemon.http.get("/health") as response:
        return response.status, await response.text()


async def until_health(daemon: Daemon, status: int) -> str:
    async with asyncio.timeout(30):
        while (now := await health(daemon))[0] != status:
            await asyncio.sleep(0.02)
    return now[1]


async def test_a_disk_that_fills_up_between_reply_and_tool_stops_everything_until_there_is_room(
    tmp_path: Path, disk: SmallDisk
) -> None:
    """K20, through the real process. The workspace lies on a disk with room: the tool could have run."""
    workspace = tmp_path / "workspace"
    async with FakeOpenAI() as model:
        config = scripted(model.base_url, f'[tools]\nworkspace = "{workspace}"\n')
        async with running_daemon(disk.place / "home", config) as daemon:
            write = calls(("write_file", {"path": "done.txt", "text": "it ran"}))
            model.script(first(lambda: disk.fill(daemon), write), says("written"))
            turn = await daemon.begin("write it down")
            assert "journal" in await until_health(daemon, 503)
            async with daemon.http.post("/v1/messages", json=MESSAGE) as response:
                status, kind, message = await error_of(response)
            assert (status, kind) == (
                503,
                "unavailable",
            ) and "Nothing of this was acknowledged" in message
            assert not (workspace / "done.txt").exists()
            assert (await daemon.run(turn))["calls"] == [] and model.count == 1
            disk.free(daemon)
            await daemon.until(turn, "run.completed")
            assert (await health(daemon))[0] == 200
            run = await daemon.run(turn)
            assert (run["reply"], run["notices"]) == ("written", [])
            assert (workspace / "done.txt").read_text() == "it ran"
            assert (await daemon.post("/v1/messages?wait=1", **MESSAGE))["reply"] == "ok"
        assert model.count == 3


async def test_health_recovers_although_nothing_waits_to_be_written(disk: SmallDisk) -> None:
    """K20: whoever watches over the daemon must not take it for ill for ever."""
    async with (
        FakeOpenAI() as model,
        running_daemon(disk.place / "home", scripted(model.base_url)) as daemon,
    ):
        disk.fill(daemon)
        async with daemon.http.post("/v1/messages", json=MESSAGE) as response:
            assert response.status == 503
        assert (await health(daemon))[0] == 503
        disk.free(daemon)
        await until_health(daemon, 200)


class Trouble:
    """Fails writes: all while `on`, or those numbers."""

    def __init__(self, *numbers: int) -> None:
        self.on = False
        self.numbers = numbers
        self.count = 0

    def __call__(self) -> None:
        self.count += 1
        if self.on or self.count in self.numbers:
            raise StoreUnavailable("disk I/O error; nothing was written")


def parts(trouble: Trouble, done: list[str]) -> Overrides:
    @tool(effect=Effect.WRITE)
    async def note(text: str) -> str:
        """Note something down."""
        done.append(text)
        return "noted"

    async def open_store(path: Path) -> Store:
        return FaultyStore(await SqliteStore.open(path), trouble)

    tools: list[Tool] = bind([note], {})
    return Overrides(tools, open_store)


async def test_an_io_error_on_commit_starts_no_tool_and_the_turn_goes_on_when_it_has_passed(
    tmp_path: Path,
) -> None:
    """K20."""
    trouble, done = Trouble(), list[str]()

    async with FakeOpenAI() as model:
        model.script(
            first(lambda: setattr(trouble, "on", True), calls(("note", {"text": "x"}))),
            says("noted it"),
        )
        async with living(tmp_path, model, parts=parts(trouble, done)) as it:
            turn = await it.say("note x")
            while trouble.count < 6:
                await asyncio.sleep(0.01)
            view = await it.house.client.get_health()
            assert (view.ok, done) == (False, []) and "journal" in str(view.problems)
            with pytest.raises(StoreUnavailable):
                await it.house.client.send("web:other", "hello")
            trouble.on = False
            run = await it.settled(turn)
            assert (run.reply, run.notices, done) == ("noted it", [], ["x"])
            assert (await it.house.client.get_health()).ok


@pytest.mark.parametrize("number", range(1, 7))
async def test_one_failing_commit_wherever_it_is_costs_nothing_but_time(
    tmp_path: Path, number: int
) -> None:
    """K20: the n-th write fails, for every n of a turn with an effect; one result, one effect, nothing unknown."""
    trouble, done = Trouble(number), list[str]()
    async with FakeOpenAI() as model:
        model.script(calls(("current_time", {}), ("note", {"text": "x"})), says("noted it"))
        async with living(tmp_path, model, parts=parts(trouble, done), trusted=False) as it:
            turn = await persistently(it, "note x")
            run = await it.settled(turn)
            outcomes = [
                event.outcome for event in await it.events(turn) if isinstance(event, ToolFinished)
            ]
            assert (run.reply, run.notices, done) == ("noted it", [], ["x"])
            assert outcomes == [Outcome.OK, Outcome.OK]
            assert model.count == 2 and trouble.count > number


async def persistently(it: Living, text: str) -> str:
    """Send it again when it was not taken."""
    try:
        return (await it.house.client.send("web:test", text, "c1", stream=False)).turn
    except StoreUnavailable:
        return (await it.house.client.send("web:test", text, "c1", stream=False)).turn
