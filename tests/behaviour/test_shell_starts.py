"""A sandbox takes milliseconds to build. Whoever stops, or dies, just then leaves no command running (E7; K10)."""

import asyncio
import os
import sys
from pathlib import Path

from daemon.tools.shell.process import run_process
from daemon.tools.shell.sandbox import Sandbox
from tests.behaviour.shell_child import processes_with

STOPS, KILLS = 60, 40
ROOT = Path(__file__).parents[2]


async def stopped_after(workspace: Path, mark: str, seconds: float) -> None:
    sandbox = Sandbox(workspace, "bubblewrap")
    running = run_process(
        sandbox.wrap(["/bin/sh", "-c", f"sleep {mark}"]), cwd=workspace, env=sandbox.env, timeout_s=60, max_chars=100,
        on_output=lambda text: None,
    )  # fmt: skip
    try:
        async with asyncio.timeout(seconds):
            await running
    except TimeoutError:
        return


async def test_a_stop_while_the_sandbox_is_built_leaves_nothing_running(tmp_path: Path) -> None:
    mark = f"94{os.getpid()}"
    for stop in range(STOPS):
        await stopped_after(tmp_path, f"{mark}.{stop}", 0.001 + 0.02 * stop / STOPS)
    async with asyncio.timeout(2):
        while processes_with(mark):
            await asyncio.sleep(0.01)


async def test_b5_10_a_daemon_killed_while_the_sandbox_is_built_leaves_nothing_running(
    tmp_path: Path,
) -> None:
    script = str(ROOT / "tests/behaviour/shell_child.py")
    lives = await asyncio.create_subprocess_exec(
        sys.executable,
        script,
        str(tmp_path),
        str(KILLS),
        stdout=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT)},
    )
    told, _ = await asyncio.wait_for(lives.communicate(), 60)
    assert (lives.returncode, told.decode()) == (0, "")
