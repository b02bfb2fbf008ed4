"""`aidaemon sessions` and `aidaemon chat --resume` as real processes."""

import asyncio
import json
from pathlib import Path

from tests.fakes.chatting import write_config
from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, says
from tests.fakes.screen import window


async def run(*words: str, home: Path) -> str:
    """What the command printed; it may ask a server of this process."""
    done = await asyncio.to_thread(aidaemon, *words, home=home)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_sessions_lists_the_last_used_first_with_its_runs_and_last_words(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    async with FakeOpenAI() as model, running_daemon(home, scripted(model.base_url)) as daemon:
        model.script(says("One."), says("Two."), says("Three."))
        await daemon.ask("plan the garden", "garden")
        await daemon.ask("hello", "other")
        await daemon.ask("and the\nroses?", "garden")
        live = await run("sessions", "--json", home=home)
        table = await run("sessions", home=home)
        assert await daemon.terminate() == 0
    assert live == await run("sessions", "--json", home=home)
    rows = [(row["id"], row["turns"], row["text"]) for row in json.loads(live)]
    assert rows == [("web:garden", 2, "and the roses?"), ("web:other", 1, "hello")]
    head, first, second = table.splitlines()
    assert head.split() == ["session", "last", "used", "runs", "last", "message"]
    assert first.startswith("web:garden") and first.endswith("and the roses?")
    assert second.startswith("web:other")
    assert len(json.loads(await run("sessions", "--json", "--limit", "1", home=home))) == 1


async def test_sessions_fit_a_narrow_terminal(tmp_path: Path) -> None:
    async with FakeOpenAI() as model:
        model.script(says("Fine."))
        write_config(tmp_path, scripted(model.base_url))
        name, words = "a-rather-long-name-of-a-session", "words that go on " * 9
        await run("chat", "--session", name, "--once", words, home=tmp_path)
        async with window("sessions", "--home", str(tmp_path), columns=60) as shown:
            screen = await shown.sees(name, "words that go on")
            assert await shown.ends() == 0
            assert max(map(len, screen.split("\n"))) <= 60


async def test_resume_goes_on_with_the_last_used_conversation_or_the_named_one(
    tmp_path: Path,
) -> None:
    async with FakeOpenAI() as model:
        model.script(says("Noted."), says("Roses, then."), says("Yes, red ones."))
        write_config(tmp_path, scripted(model.base_url))
        await run("chat", "--session", "dog", "--once", "my dog is Rex", home=tmp_path)
        await run("chat", "--session", "garden", "--once", "what to plant?", home=tmp_path)
        async with window("chat", "--resume", "--home", str(tmp_path)) as shown:
            await shown.sees("session garden", "› what to plant?", "Roses, then.")
            shown.types("red?\r")
            await shown.sees("Yes, red ones.")
            assert "what to plant?" in str(model.requests[-1].body)
        for name in ("dog", "terminal:dog"):
            async with window("chat", "--resume", name, "--home", str(tmp_path)) as shown:
                await shown.sees("session dog", "› my dog is Rex", "Noted.")


def test_resume_of_nothing_says_what_there_is(tmp_path: Path) -> None:
    home = tmp_path / "home"
    done = aidaemon("chat", "--resume", "--once", "hi", home=home)
    assert (done.returncode, "aidaemon chat" in done.stderr) == (1, True)
    both = aidaemon("chat", "--resume", "a", "--session", "b", home=home)
    assert (both.returncode, "--resume" in both.stderr) == (2, True)
    assert aidaemon("sessions", "--json", home=home).stdout == "[]\n"


async def test_resume_of_an_unknown_conversation_names_those_there_are(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with FakeOpenAI() as model:
        model.script(says("Noted."))
        write_config(home, scripted(model.base_url))
        await run("chat", "--session", "dog", "--once", "my dog is Rex", home=home)
    done = aidaemon("chat", "--resume", "cat", home=home)
    assert (done.returncode, "'cat'" in done.stderr, "dog" in done.stderr) == (1, True, True)
