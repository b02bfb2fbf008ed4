"""Tools that misbehave, through the whole house: one result each, and the loop goes on (B7; K10 of what they start)."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from daemon.app.daemon import Overrides
from daemon.core.events import Outcome, ToolFinished
from daemon.core.trust import Effect
from daemon.tools.base import ToolError
from daemon.tools.signature import bind, tool
from tests.fakes.daemon_process import Daemon, Json, running_daemon, scripted
from tests.fakes.house import living
from tests.fakes.openai import FakeOpenAI, calls, says
from tests.fakes.wordy_model import Script

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHELL = "[tools.shell]\ntimeout_s = 20\nmax_output_chars = 2000\n"
MB = 1024 * 1024
ROOM = 40 * MB


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daemon(home: Path, model: FakeOpenAI) -> AsyncIterator[Daemon]:
    async with running_daemon(home, scripted(model.base_url, SHELL)) as daemon:
        yield daemon


def peak(daemon: Daemon) -> int:
    """The most memory that the process has ever had, in bytes."""
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


async def run_with_a_yes(daemon: Daemon, word: str) -> Json:
    """Say it, say yes to every question, and wait for the end."""
    turn = await daemon.begin(word, word)
    async for sent in daemon.stream(turn):
        if sent.name == "approval.asked":
            await daemon.post(f"/v1/runs/{turn}/approve", call_id=sent.data["call_id"])
    return await daemon.run(turn)


def results(run: Json) -> list[Json]:
    assert isinstance(run["calls"], list)
    return run["calls"]


async def test_100_mb_and_binary_from_the_shell_leave_the_daemon_small_and_well(
    daemon: Daemon, script: Script
) -> None:
    await daemon.ask(script.on("warm", calls(("current_time", {})), says("warm")), "warm")
    before = peak(daemon)
    flood = calls(
        ("shell", {"command": "yes | head -c 100000000"}),
        ("shell", {"command": "head -c 100000 /dev/urandom"}),
    )
    run = await run_with_a_yes(daemon, script.on("flood", flood, says("dry again")))
    assert (run["reply"], run["stop_reason"]) == ("dry again", "done")
    yes, noise = (str(call["result"]) for call in results(run))
    assert "bytes left out" in yes and yes.startswith("exit_code: 0\ny\ny\n") and len(yes) < 2500
    assert noise.startswith("exit_code: 0") and len(noise) < 2500 and noise.isprintable() is False
    assert all(sign == "\n" or sign == "\t" or ord(sign) >= 32 for sign in noise)
    assert peak(daemon) - before < ROOM
    journal = sum(path.stat().st_size for path in daemon.home.glob("journal.db*"))
    assert journal < 8 * MB
    assert await daemon.get("/health")


async def test_what_cannot_be_run_gets_one_result_each_and_the_loop_goes_on(
    daemon: Daemon, script: Script
) -> None:
    faulty = calls(
        ("read_file", "{not json"),
        ("read_file", '["a list"]'),
        ("read_fil", {"path": "x"}),
        ("read_file", {"path": "no-such-file"}),
        ("shell", {"command": "exit 7"}),
        ("shell", {"command": "kill -9 $$"}),
        ("current_time", {}),
    )
    run = await run_with_a_yes(daemon, script.on("faulty", faulty, says("carried on")))
    assert (run["reply"], run["iterations"]) == ("carried on", 1)
    told = [str(call["result"]) for call in results(run)]
    assert [call["is_error"] for call in results(run)] == [True] * 6 + [False]
    for words, result in zip(
        ("JSON", "object", "read_file", "no-such-file", "exit_code: 7", "exit_code: 137"),
        told,
        strict=False,
    ):
        assert words in result, result
    seen = script.model.requests[-1]["messages"]
    shown = [message["content"] for message in seen if message["role"] == "tool"]
    marked = [json.dumps({"error": one}, ensure_ascii=False) for one in told]  # B7
    assert all(one in pair for one, *pair in zip(shown, told, marked, strict=True))
    assert shown[0] == marked[0]


async def test_a_command_that_hangs_is_ended_in_its_time_and_told(
    home: Path, model: FakeOpenAI, script: Script
) -> None:
    config = scripted(model.base_url, SHELL.replace("timeout_s = 20", "timeout_s = 1"))
    async with running_daemon(home.with_name("hang"), config) as daemon:
        run = await run_with_a_yes(
            daemon, script.on("hang", calls(("shell", {"command": "sleep 300"})), says("awake"))
        )
    (call,) = results(run)
    assert run["reply"] == "awake"
    assert call["is_error"] and str(call["result"]).startswith(
        "exit_code: 124 (timed out after 1 s"
    )


async def test_a_tool_that_raises_hangs_or_prints_without_end_gives_one_result(
    tmp_path: Path,
) -> None:
    @tool(effect=Effect.READ)
    async def raises() -> str:
        """Raise."""
        raise ZeroDivisionError("of course")

    @tool(effect=Effect.READ)
    async def refuses() -> str:
        """Refuse."""
        raise ToolError("not today")

    @tool(effect=Effect.READ, timeout_s=0.1)
    async def hangs() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return "never"

    @tool(effect=Effect.READ)
    async def floods() -> str:
        """Give back 100 MB."""
        return "all " * 25_000_000

    @tool(effect=Effect.READ)
    async def garbles() -> str:
        """Give back what is no text."""
        return "\x00\x1b[31mred\ud800" + "".join(map(chr, range(32)))

    tools = bind([raises, refuses, hangs, floods, garbles], {})
    async with FakeOpenAI() as model, living(tmp_path, model, parts=Overrides(tools)) as it:
        model.script(calls(*((one.name, {}) for one in tools)), says("carried on"))
        turn = await it.say("do it all")
        run = await it.settled(turn)
        outcomes = [event for event in await it.events(turn) if isinstance(event, ToolFinished)]
    told = [str(call.result) for call in run.calls]
    assert (run.reply, len(outcomes), [event.outcome for event in outcomes]) == (
        "carried on", 5, [Outcome.ERROR, Outcome.ERROR, Outcome.ERROR, Outcome.OK, Outcome.OK],
    )  # fmt: skip
    assert told[:3] == ["ZeroDivisionError: of course", "not today", "timed out after 0.1 s"]
    assert len(told[3]) <= 4000 and "left out" in told[3]
    assert "red" in told[4] and "\x1b" not in told[4] and "\x00" not in told[4]
