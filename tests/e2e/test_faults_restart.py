"""Stopped in every way there is, and started again: kill -9, SIGTERM, a second daemon (guarantees.md; K4, #24, #26)."""

import asyncio
from pathlib import Path
from time import monotonic

from daemon.app.daemon import Overrides
from daemon.store.journal import Store
from daemon.store.sqlite import SqliteStore
from tests.e2e.crash.journal import FaultyStore
from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.house import living
from tests.fakes.openai import FakeOpenAI, calls, gate, hangs, says

QUEUE = {"agent": {"while_busy": "queue", "drain_seconds": 0}}
START_S = 5.0


def drain(model: FakeOpenAI, seconds: float) -> str:
    return scripted(model.base_url, f"[agent]\ndrain_seconds = {seconds}\n")


async def until_told(daemon: Daemon, words: str) -> None:
    """Until it stands in the log."""
    async with asyncio.timeout(30):
        while not any(words in line for line in daemon.log):
            await asyncio.sleep(0.01)


async def finished(daemon: Daemon, turn: str) -> dict[str, object]:
    """The run once it is over, without anybody typing anything."""
    await daemon.until(turn, "run.completed")
    return await daemon.run(turn)


async def test_kill_9_during_the_model_call_and_the_answer_comes_after_the_next_start(
    tmp_path: Path,
) -> None:
    """K4."""
    async with FakeOpenAI() as model:
        model.script(hangs(), says("here I am again"))
        async with running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon:
            turn = await daemon.begin("are you there?")
            await model.asked(1)
            daemon.process.kill()
            await daemon.process.wait()
        async with running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon:
            run = await finished(daemon, turn)
        assert (run["state"], run["reply"], model.count) == ("ended", "here I am again", 2)
        assert model.requests[0]["messages"] == model.requests[1]["messages"]


async def test_sigterm_lets_a_turn_that_ends_in_time_end(tmp_path: Path) -> None:
    """K24."""
    answered = asyncio.Event()
    async with FakeOpenAI() as model:
        model.script(gate(answered, says("just in time")))
        async with running_daemon(tmp_path / "home", drain(model, 30)) as daemon:
            turn = await daemon.begin("be quick")
            await model.asked(1)
            stopping = asyncio.create_task(daemon.terminate())
            await until_told(daemon, "stopping")
            answered.set()
            assert await stopping == 0
        async with running_daemon(tmp_path / "home", drain(model, 30)) as daemon:
            run = await daemon.run(turn)
        assert (run["state"], run["reply"], model.count) == ("ended", "just in time", 1)


async def test_sigterm_cuts_a_turn_that_takes_longer_and_the_next_start_goes_on_with_it(
    tmp_path: Path,
) -> None:
    """K24."""
    async with FakeOpenAI() as model:
        model.script(calls(("current_time", {})), hangs(), says("where were we"))
        async with running_daemon(tmp_path / "home", drain(model, 0.5)) as daemon:
            turn = await daemon.begin("take your time")
            await model.asked(2)
            began = monotonic()
            assert await daemon.terminate() == 0
            assert 0.5 <= monotonic() - began < 0.5 + START_S
        async with running_daemon(tmp_path / "home", drain(model, 0.5)) as daemon:
            run = await finished(daemon, turn)
        assert (run["reply"], run["iterations"], model.count) == ("where were we", 1, 3)


async def test_a_stop_in_good_order_counts_as_no_attempt(tmp_path: Path) -> None:
    """K25: however often the daemon is stopped while it works on a message, that is not the message's fault."""
    async with FakeOpenAI() as model:
        model.script(*(hangs() for _ in range(7)), says("at last"))
        turn = ""
        for stop in range(1, 8):
            async with living(tmp_path, model, QUEUE) as it:
                turn = turn or await it.say("patience")
                await model.asked(stop)
        async with living(tmp_path, model, QUEUE) as it:
            assert (await it.settled(turn)).reply == "at last"


async def test_what_waited_before_the_restart_comes_before_what_is_said_after_it(
    tmp_path: Path,
) -> None:
    """architecture.md: in order, also when the new message comes before the old ones have been read back."""
    opened: list[FaultyStore] = []

    async def open_store(path: Path) -> Store:
        opened.append(FaultyStore(await SqliteStore.open(path)))
        return opened[-1]

    async with FakeOpenAI() as model:
        model.script(hangs())
        async with living(tmp_path, model, QUEUE) as it:
            before = [await it.say("one"), await it.say("two")]
            await model.asked(1)
        async with living(tmp_path, model, QUEUE, Overrides(open_store=open_store)) as it:
            opened[0].open.clear()
            third = await it.say("three")
            opened[0].open.set()
            for turn in (*before, third):
                await it.settled(turn)
        said = [request.last("user")["content"] for request in model.requests]
        assert said == ["one", "one", "two", "three"]


async def test_a_second_daemon_on_the_same_home_refuses_and_names_the_first(tmp_path: Path) -> None:
    """K26."""
    async with (
        FakeOpenAI() as model,
        running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon,
    ):
        second = await asyncio.to_thread(aidaemon, "run", home=tmp_path / "home")
        assert second.returncode == 1
        assert str(daemon.process.pid) in second.stderr and "in use" in second.stderr
        assert "Traceback" not in second.stderr
        assert (await daemon.ask("still there?"))["reply"] == "ok"
