"""`aidaemon chat` outlives the daemon that it talks to: it waits, connects again, and goes on."""

import asyncio
import os
import signal
from pathlib import Path

from tests.e2e.test_chat_window import CTRL_D, PROMPT, Desk
from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, gate, hangs, says

GONE = "the daemon is gone; waiting for it to come back"


async def kill(daemon: Daemon) -> None:
    """kill -9."""
    daemon.process.kill()
    await daemon.process.wait()


async def test_what_is_typed_while_the_daemon_is_away_is_sent_in_the_same_conversation(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    async with FakeOpenAI() as model:
        model.script(says("Noted."), says("Rex."), says("Bye."))
        async with (
            running_daemon(home, scripted(model.base_url)) as daemon,
            Desk(home, model).chat() as shown,
        ):
            await shown.sees(PROMPT)
            shown.types("my dog is called Rex\r")
            await shown.sees("Noted.")
            await daemon.terminate()
            await shown.sees(GONE)
            shown.types("what is it called?\r")
            shown.types("bye\r")
            await shown.sees("sent once the daemon is back: bye")
            assert "Traceback" not in shown.raw
            async with running_daemon(home, None):
                screen = await shown.sees("connected again", "Rex.", "Bye.")
                assert screen.count(GONE) == screen.count("connected again") == 1
                asked = [str(one.last("user")["content"]) for one in model.requests]
                assert asked == ["my dog is called Rex", "what is it called?", "bye"]
                assert "my dog is called Rex" in str(model.requests[1].body)
                shown.types(CTRL_D)
                assert await shown.ends() == 0


async def test_a_run_that_was_at_work_is_followed_on_to_its_answer(tmp_path: Path) -> None:
    home, end = tmp_path / "home", asyncio.Event()
    async with FakeOpenAI() as model:
        model.script(hangs(), gate(end, says("At last.")))
        async with (
            running_daemon(home, scripted(model.base_url)) as daemon,
            Desk(home, model).chat() as shown,
        ):
            await shown.sees(PROMPT)
            shown.types("a hard question\r")
            await model.hanging.wait()
            await kill(daemon)
            await shown.sees(GONE)
            async with running_daemon(home, None):
                await shown.sees("connected again", "thinking")
                end.set()
                screen = await shown.sees("At last.")
                assert screen.count("a hard question") == screen.count("At last.") == 1


async def test_a_message_that_nobody_acknowledged_is_sent_again_and_counts_once(
    tmp_path: Path,
) -> None:
    """The daemon stands still with the message before it, and dies."""
    home = tmp_path / "home"
    async with FakeOpenAI() as model:
        model.script(says("Once."))
        async with (
            running_daemon(home, scripted(model.base_url)) as daemon,
            Desk(home, model).chat() as shown,
        ):
            await shown.sees(PROMPT)
            os.kill(daemon.process.pid, signal.SIGSTOP)
            shown.types("say it once\r")
            await shown.sees("› say it once")
            await kill(daemon)
            await shown.sees(GONE)
            async with running_daemon(home, None) as after:
                await shown.sees("Once.")
                [run] = await after.listed("/v1/runs")
                assert run["text"] == "say it once" and len(model.requests) == 1


async def test_leaving_while_the_daemon_is_away_says_what_was_not_sent(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with (
        FakeOpenAI() as model,
        running_daemon(home, scripted(model.base_url)) as daemon,
        Desk(home, model).chat() as shown,
    ):
        await shown.sees(PROMPT)
        await daemon.terminate()
        await shown.sees(GONE)
        shown.types("one\r")
        await shown.sees("› one")
        shown.types("two\r")
        await shown.sees("sent once the daemon is back: two")
        shown.types("/quit\r")
        await shown.sees("the daemon did not say whether it has this: one", "not sent: two")
        assert await shown.ends() == 0
        assert "\x1b[?2004l" in shown.raw and "Traceback" not in shown.raw
