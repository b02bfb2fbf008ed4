"""`aidaemon loop` as a real process: a failing pytest project made to pass, alone, beside a daemon, through kills (C3 C6 C8)."""

import asyncio
import importlib.util
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from tests.behaviour.test_shell import processes_with
from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import Daemon, Json, error_of, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, Step, by, calls, gate, hangs, says
from tests.fakes.openai import Json as Body

PYTEST = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py")
COMMAND = "/usr/bin/env PYTHONPATH=lib PYTHONDONTWRITEBYTECODE=1 python3 -m pytest -q -p no:cacheprovider test_sums.py"
TESTS = """
from sums import add, mean

def test_add():
    assert add(2, 3) == 5

def test_mean():
    assert mean([2, 4]) == 3
"""
HOLD = """
import pathlib, subprocess

def pytest_sessionstart(session):
    if pathlib.Path("held").exists():
        subprocess.run(["sleep", pathlib.Path("held").read_text()])
"""
WRONG = "def add(a, b):\n    return a - b\n\ndef mean(xs):\n    return sum(xs)\n"
HALF = WRONG.replace("a - b", "a + b")
WORSE = HALF.replace("sum(xs)", "sum(xs) / 3")
RIGHT = HALF.replace("sum(xs)", "sum(xs) / len(xs)")
TRIES = {1: HALF, 2: WORSE, 3: RIGHT}


def project(home: Path) -> Path:
    """A pytest project that really fails, with a pytest of its own beside it, since the sandbox sees nothing else."""
    workspace = home / "workspace"
    workspace.mkdir(parents=True)
    for name in PYTEST:
        found = importlib.util.find_spec(name)
        assert found and found.origin
        copy(Path(found.origin), workspace / "lib")
    (workspace / "test_sums.py").write_text(TESTS)
    (workspace / "sums.py").write_text(WRONG)
    (workspace / "conftest.py").write_text(HOLD)
    return workspace


def copy(origin: Path, where: Path) -> None:
    """A package, or a module that is one file."""
    if origin.name == "__init__.py":
        shutil.copytree(
            origin.parent, where / origin.parent.name, ignore=shutil.ignore_patterns("__pycache__")
        )
    else:
        shutil.copy(origin, where)


def looping(
    base_url: str, criterion: str = "test_pass", value: str = COMMAND, most: int = 5
) -> str:
    loop = f'[agent.loop]\nenabled = true\ncriterion = "{criterion}"\nvalue = "{value}"\nmax_iterations = {most}\n'
    return scripted(base_url, loop)


def attempt_of(body: Body) -> int:
    """Which attempt asks."""
    said = next(
        str(message["content"]) for message in body["messages"] if message["role"] == "user"
    )
    return int(said.rpartition("Iteration ")[2].split()[0]) if "## Progress Log" in said else 1


def worked(body: Body) -> bool:
    return body["messages"][-1]["role"] == "tool"


def programmer(body: Body) -> Step:
    """One edit per attempt, the third one right; asked again after a crash it does the same."""
    attempt = attempt_of(body)
    if worked(body):
        return says(f"I have edited sums.py, try {attempt}.")
    return calls(("write_file", {"path": "sums.py", "text": TRIES[attempt]}))


@dataclass(frozen=True, slots=True)
class World:
    """A home with a failing project in it, and a model that will get it right at the third attempt."""

    home: Path
    workspace: Path
    model: FakeOpenAI
    config: str


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with FakeOpenAI() as model:
        model.otherwise(by(programmer))
        home = tmp_path / "home"
        workspace = project(home)
        config = looping(model.base_url)
        (home / "config.toml").write_text(config)
        done = await asyncio.to_thread(aidaemon, "trust", ".", home=home)
        assert done.returncode == 0, done.stderr
        yield World(home, workspace, model, config)


async def command(world: World, *words: str, exits: int = 0) -> str:
    done = await asyncio.to_thread(aidaemon, "loop", *words, home=world.home)
    assert done.returncode == exits, done.stdout + done.stderr
    return done.stdout if exits == 0 else done.stderr


async def status(daemon: Daemon) -> Json:
    found = await daemon.get("/api/agents/default/loop/status")
    assert isinstance(found, dict)
    return found


async def until(daemon: Daemon, holds: Callable[[Json], bool]) -> Json:
    async with asyncio.timeout(60):
        while not holds(view := await status(daemon)):
            await asyncio.sleep(0.05)
    return view


async def over(daemon: Daemon) -> Json:
    return await until(daemon, lambda view: not view["active"])


@contextmanager
def held(workspace: Path) -> Iterator[asyncio.Event]:
    """Test runs in this workspace wait for ever, and say so by the event."""
    mark, waiting = f"93{os.getpid()}.1", asyncio.Event()
    (workspace / "held").write_text(mark)

    async def watch() -> None:
        while not processes_with(f"sleep\0{mark}"):
            await asyncio.sleep(0.02)
        waiting.set()

    watching = asyncio.create_task(watch())
    try:
        yield waiting
    finally:
        watching.cancel()
        (workspace / "held").unlink()


async def kill(daemon: Daemon) -> None:
    os.killpg(daemon.process.pid, signal.SIGKILL)
    await daemon.process.wait()


async def check_three_attempts(world: World, daemon: Daemon, view: Json) -> None:
    """It passes; there were three attempts, each in one turn, which wrote once."""
    assert (view["status"], view["iteration"], view["error"]) == ("completed", 3, None)
    assert view["finalOutput"] == "I have edited sums.py, try 3."
    assert (world.workspace / "sums.py").read_text() == RIGHT
    runs = await daemon.listed("/v1/runs", session=f"loop:{view['loopId']}")
    assert [run["turn"] for run in runs] == [f"{view['loopId']}-{number}" for number in (3, 2, 1)]
    for run in runs:
        assert [call["tool"] for call in await daemon.calls_of(str(run["turn"]))] == ["write_file"]


async def test_without_a_daemon_a_failing_project_is_made_to_pass_over_three_attempts_c3(
    world: World,
) -> None:
    done = await asyncio.to_thread(
        aidaemon, "loop", "start", "default", "Make the tests pass.", home=world.home
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "I have edited sums.py, try 3.\n"
    assert [f"attempt {number} of 5" in done.stderr for number in (1, 2, 3, 4)] == [
        True,
        True,
        True,
        False,
    ]
    assert (world.workspace / "sums.py").read_text() == RIGHT
    view = json.loads(await command(world, "status", "--json"))
    assert (view["status"], view["iteration"], view["maxIterations"]) == ("completed", 3, 5)
    assert view["criteria"] == {"type": "test_pass", "value": COMMAND}
    assert [attempt["output"] for attempt in view["attempts"]] == [
        f"I have edited sums.py, try {n}." for n in (1, 2, 3)
    ]
    assert view["progressLog"] == [f"I have edited sums.py, try {n}." for n in (1, 2, 3)]


async def test_beside_a_daemon_the_command_is_its_client_c8(world: World) -> None:
    async with running_daemon(world.home, world.config) as daemon:
        begun = json.loads(
            await command(world, "start", "default", "Make the tests pass.", "--json")
        )
        assert (begun["status"], begun["iteration"]) == ("running", 1)
        view = await over(daemon)
        await check_three_attempts(world, daemon, view)
        assert "completed" in await command(world, "status", begun["loopId"])
        assert (
            json.loads(await command(world, "status", "--json"))["finalOutput"]
            == view["finalOutput"]
        )
        assert "no loop" in await command(world, "stop", exits=1)


async def test_a_daemon_killed_between_attempts_goes_on_as_if_nothing_had_been_c6(
    world: World,
) -> None:
    with held(world.workspace) as waiting:
        async with running_daemon(world.home, world.config) as daemon:
            await daemon.post("/api/agents/default/loop/start", 202, message="Make the tests pass.")
            await asyncio.wait_for(waiting.wait(), 30)
            await kill(daemon)
    async with running_daemon(world.home, world.config) as daemon:
        await check_three_attempts(world, daemon, await over(daemon))
    assert world.model.count == 6


@pytest.mark.parametrize("dies_at", ["before its edit", "after its edit"])
async def test_a_daemon_killed_in_the_middle_of_an_attempt_goes_on_with_it_c6(
    world: World, dies_at: str
) -> None:
    reached = asyncio.Event()

    def once(body: Body) -> Step:
        at = worked(body) == (dies_at == "after its edit")
        if attempt_of(body) != 2 or not at or reached.is_set():
            return programmer(body)
        reached.set()
        return hangs()

    world.model.otherwise(by(once))
    async with running_daemon(world.home, world.config) as daemon:
        await daemon.post("/api/agents/default/loop/start", 202, message="Make the tests pass.")
        await asyncio.wait_for(world.model.hanging.wait(), 30)
        await kill(daemon)
    async with running_daemon(world.home, world.config) as daemon:
        await check_three_attempts(world, daemon, await over(daemon))


async def test_sigterm_fails_a_loop_with_shutdown_and_the_next_start_leaves_it_so_c6(
    world: World,
) -> None:
    world.model.otherwise(hangs())
    async with running_daemon(world.home, world.config) as daemon:
        await daemon.post("/api/agents/default/loop/start", 202, message="Make the tests pass.")
        await world.model.hanging.wait()
        assert await daemon.terminate() == 0
    async with running_daemon(world.home, world.config) as daemon:
        view = await status(daemon)
        assert (view["active"], view["status"], view["error"]) == (False, "failed", "shutdown")
        (attempt,) = await daemon.listed("/v1/runs", session=f"loop:{view['loopId']}")
        assert attempt["stop_reason"] == "cancelled"


async def test_http_starts_shows_pauses_resumes_and_stops_c8(world: World) -> None:
    released = asyncio.Event()
    world.model.script(gate(released, says("one")))
    world.model.otherwise(hangs())
    where = "/api/agents/default/loop"
    async with running_daemon(
        world.home, looping(world.model.base_url, "regex", "done", 2)
    ) as daemon:
        assert await status(daemon) == {"active": False, "agent": "default"}
        begun = await daemon.post(f"{where}/start", 202, message="go", session="desk")
        assert (begun["session"], begun["criteria"]) == (
            "web:desk",
            {"type": "regex", "value": "done"},
        )
        async with daemon.http.post(f"{where}/start", json={"message": "go"}) as response:
            assert (await error_of(response))[:2] == (409, "refused")
        assert (await daemon.post(f"{where}/pause"))["status"] == "paused"
        released.set()
        paused = await until(daemon, lambda view: view["iteration"] == 2)
        assert (paused["active"], paused["status"], paused["progressLog"]) == (
            True,
            "paused",
            ["one"],
        )
        assert (await daemon.post(f"{where}/resume"))["status"] == "running"
        await world.model.hanging.wait()
        stopped = await daemon.post(f"{where}/stop")
        assert (stopped["status"], stopped["error"]) == ("failed", "stopped by the owner")
        for verb in ("stop", "pause", "resume"):
            async with daemon.http.post(f"{where}/{verb}") as response:
                assert (await error_of(response))[:2] == (409, "no_loop")


REVIEWS = [(True, ("completed", None)), (False, ("failed", "Manual approval was rejected by user"))]


@pytest.mark.parametrize(("approved", "ends"), REVIEWS)
async def test_http_reviews_a_manual_loop_once_c8(
    world: World, approved: bool, ends: tuple[str, str | None]
) -> None:
    world.model.otherwise(says("look at this"))
    where = "/api/agents/default/loop"
    async with running_daemon(world.home, looping(world.model.base_url, "manual", "")) as daemon:
        loop = (await daemon.post(f"{where}/start", 202, message="go"))["loopId"]
        waiting = await until(daemon, lambda view: view["review"] is not None)
        assert waiting["status"] == "paused"
        async with daemon.http.post(
            f"{where}/approve", json={"loopId": "nosuch", "approved": True}
        ) as response:
            assert (await error_of(response))[:2] == (404, "not_found")
        done = await daemon.post(f"{where}/approve", loopId=loop, approved=approved)
        assert (done["status"], done["error"]) == ends
        async with daemon.http.post(
            f"{where}/approve", json={"loopId": loop, "approved": True}
        ) as response:
            assert (await error_of(response))[:2] == (409, "not_now")


async def test_http_refuses_what_cannot_be_meant_c8(world: World) -> None:
    async with running_daemon(world.home, scripted(world.model.base_url)) as daemon:
        for agent, body, expected in (
            ("default", {"message": "go"}, (409, "not_enabled")),
            ("nobody", {"message": "go"}, (404, "no_agent")),
            ("default", {"message": " "}, (400, "invalid")),
            ("default", {"message": "go", "session": "telegram:1"}, (400, "invalid")),
            ("default", {"message": "go", "criterion": "magic"}, (400, "invalid")),
        ):
            async with daemon.http.post(f"/api/agents/{agent}/loop/start", json=body) as response:
                assert (await error_of(response))[:2] == expected
        async with daemon.http.post(
            "/api/agents/default/loop/stop", headers={"Authorization": "Bearer wrong"}
        ) as response:
            assert response.status == 401


async def test_reviews_are_answered_by_command_c3(world: World) -> None:
    world.model.otherwise(says("look at this"))
    async with running_daemon(world.home, looping(world.model.base_url, "manual", "")) as daemon:
        for verb, ends in (("approve", "completed"), ("reject", "failed"), ("stop", "failed")):
            await command(world, "start", "default", "go")
            await until(daemon, lambda view: view["review"] is not None)
            assert "is not paused" in await command(world, "resume", exits=1)
            assert ends in await command(world, verb)
            assert "no loop is active" in await command(world, verb, exits=1)


async def test_a_loop_that_fails_exits_1_and_says_why_c6(world: World) -> None:
    (world.home / "config.toml").write_text(looping(world.model.base_url, "manual", ""))
    world.model.otherwise(says("look at this"))
    said = await command(world, "start", "default", "go", "--deny-all", exits=1)
    assert "Manual approval was rejected by user" in said
    assert await command(world, "start", "default", "go", "--yes") == "look at this\n"
    said = await command(world, "start", "default", "go", exits=1)
    assert "Manual approval was rejected by user" in said


async def test_a_loop_that_is_not_enabled_or_not_meant_exits_2_c7(world: World) -> None:
    (world.home / "config.toml").write_text(scripted(world.model.base_url))
    assert "enabled = true" in await command(world, "start", "default", "go", exits=2)
    assert "no agent 'nobody'" in await command(world, "start", "nobody", "go", exits=2)
    assert "--session" in await command(
        world, "start", "default", "go", "--session", "a/b", exits=2
    )
    assert "no loops yet" in await command(world, "status")
    assert await command(world, "status", "--json") == "null\n"
    assert "no loop 'x'" in await command(world, "status", "x", exits=1)


async def test_what_cannot_be_meant_exits_2_beside_a_daemon_too_c8(world: World) -> None:
    async with running_daemon(world.home, scripted(world.model.base_url)):
        assert "enabled = true" in await command(world, "start", "default", "go", exits=2)
        assert "no agent 'nobody'" in await command(world, "start", "nobody", "go", exits=2)
    async with running_daemon(world.home, looping(world.model.base_url, "max_iterations", "")):
        assert "max_iterations" in await command(
            world, "start", "default", "go", "--max-iterations", "101", exits=2
        )
        odd = os.fsdecode(b"\xff")
        assert "has started" in await command(
            world, "start", "default", odd, "--criterion", "regex", "--value", odd
        )


async def test_ctrl_c_stops_a_loop_of_this_process_in_good_order_and_a_crashed_one_can_be_resumed_c6(
    world: World,
) -> None:
    async def begin(sign: int) -> int:
        words = (
            "-m",
            "daemon",
            "loop",
            "start",
            "default",
            "Make the tests pass.",
            "--home",
            str(world.home),
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await asyncio.wait_for(world.model.hanging.wait(), 30)
        world.model.hanging.clear()
        process.send_signal(sign)
        return await asyncio.wait_for(process.wait(), 30)

    world.model.otherwise(hangs())
    assert await begin(signal.SIGINT) == 130
    assert json.loads(await command(world, "status", "--json"))["error"] == "stopped by the owner"
    assert await begin(signal.SIGKILL) == -signal.SIGKILL
    assert "stopped by the owner" in await command(world, "stop")
    assert await begin(signal.SIGKILL) == -signal.SIGKILL
    assert "running" in await command(world, "status")
    assert "resume" in await command(world, "start", "default", "another", exits=1)
    world.model.otherwise(by(programmer))
    assert await command(world, "resume") == "I have edited sums.py, try 3.\n"
