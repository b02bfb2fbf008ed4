"""One daemon, one config.toml, every door at the same time: three platforms, HTTP and a terminal (issue 5, done means 4)."""

import asyncio
import re
from asyncio import to_thread
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest
import pytest_asyncio

from tests.e2e.channels.stage import by_bot, said_last
from tests.e2e.channels.whole import Whole, whole
from tests.fakes.command_line import aidaemon
from tests.fakes.openai import Json, Step, by, calls, gate, says
from tests.fakes.platform import OWNER, STRANGER, Shown
from tests.fakes.platforms import NAMES

pytestmark = pytest.mark.timeout(120)
DOORS = (*NAMES, "http", "terminal")
NOTED = "echo {} >> hits; rm -f nothing"
TICKS = "while :; do date +%s%N > tick.{}; sleep 0.05; done"
MOST_S = 1.0


@pytest_asyncio.fixture
async def it(tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole(tmp_path) as it:
        yield it


def words(body: Json) -> list[str]:
    """What people have said in the conversation that the model is asked about."""
    return [str(message["content"]) for message in body["messages"] if message["role"] == "user"]


def last_word(body: Json) -> str:
    """The last word of a person."""
    return said_last(body).split()[-1]


def works(command: str) -> Step:
    """Whoever says something has this command run; {} is the last word of what they said."""

    def choose(body: Json) -> Step:
        name = last_word(body)
        done = body["messages"][-1]["role"] == "tool"
        return (
            says(f"did it on {name}")
            if done
            else calls(("shell", {"command": command.format(name)}))
        )

    return by(choose)


async def terminal(it: Whole, text: str) -> str:
    """What a terminal shows that says it."""
    done = await to_thread(aidaemon, "chat", "--once", text, home=it.daemon.home)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


async def http(it: Whole, text: str) -> str:
    """What the HTTP door answers."""
    return str((await it.daemon.ask(text))["reply"])


async def code(it: Whole, *words: str) -> str:
    """A pairing code, from the real command beside the daemon."""
    done = await to_thread(aidaemon, "pair", *words, home=it.daemon.home)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def stranger(it: Whole, name: str) -> list[str]:
    """What a stranger was told there."""
    platform = it.platforms[name]
    return [one.text for one in by_bot(platform, platform.private(STRANGER))]


async def hears(it: Whole, name: str, text: str, *told: str) -> None:
    """A stranger says it there, and is told this next (each a part of it)."""
    platform = it.platforms[name]
    before = len(stranger(it, name))
    platform.say(STRANGER, platform.private(STRANGER), text)
    await platform.until(lambda: len(stranger(it, name)) > before)
    assert all(part in stranger(it, name)[before] for part in told), stranger(it, name)[before:]


async def question(it: Whole, name: str) -> Shown:
    """The question with buttons that stands in the owner's chat."""
    platform, chat = it.platforms[name], it.chat(name)
    await platform.until(lambda: any(one.buttons for one in platform.shown(chat)))
    (asked,) = (one for one in platform.shown(chat) if one.buttons)
    return asked


async def approve(it: Whole, name: str) -> Shown:
    """The owner presses "Once"; the question."""
    asked = await question(it, name)
    once = next(button.data for button in asked.buttons if button.label == "Once")
    it.platforms[name].press(OWNER, asked.id, once)
    return asked


def workspace(it: Whole, name: str) -> str:
    """What stands in a file that a command wrote, on its layer or merged; "" while there is none."""
    home = it.daemon.home
    for file in (*(home / "layers").glob(f"*/upper/{name}"), home / "workspace" / name):
        with suppress(FileNotFoundError):
            return file.read_text()
    return ""


async def ticked(it: Whole, name: str, times: int = 1) -> None:
    """Wait until the command of this conversation has shown that it runs, so many times."""
    async with asyncio.timeout(20):
        for _ in range(times):
            before = workspace(it, f"tick.{name}")
            while workspace(it, f"tick.{name}") in ("", before):
                await asyncio.sleep(0.01)


async def test_five_conversations_at_once_are_each_answered_in_their_own_place(it: Whole) -> None:
    """No answer comes before all five have asked; and nobody's model call holds what somebody else said."""
    ready = asyncio.Event()
    it.model.otherwise(by(lambda body: gate(ready, says("re: " + last_word(body)))))
    for round_, text in enumerate(("hello from {0}1", "and again {0}2"), 1):
        ready.clear()
        for name in NAMES:
            it.say(text.format(name), name)
        spoken = asyncio.gather(
            http(it, text.format("http")), terminal(it, text.format("terminal"))
        )
        await it.model.asked(round_ * len(DOORS))
        ready.set()
        assert await spoken == [f"re: http{round_}", f"re: terminal{round_}"]
        for name in NAMES:
            await it.answered(*(f"re: {name}{n}" for n in range(1, round_ + 1)), on=(name,))
    heard = [words(asked.body) for asked in it.model.requests[len(DOORS) :]]
    marks = [re.findall(r"(\w+)[12]\b", " ".join(said)) for said in heard]
    assert sorted(marks) == sorted([name, name] for name in DOORS)
    assert [len(it.told(name)) for name in NAMES] == [2, 2, 2]


async def test_a_stranger_with_a_code_from_the_terminal_works_in_telegram(it: Whole) -> None:
    """A13, trust.md: strangers hear one polite line; the code of `aidaemon pair` makes one of them an editor, once."""
    await hears(it, "telegram", "do it", "I only talk to people I know")
    given = await code(it)
    await hears(it, "telegram", f"/pair {given}", "Welcome", "editor")
    assert it.model.count == 0
    it.model.otherwise(by(lambda body: says("re: " + last_word(body))))
    await hears(it, "telegram", "what about one", "re: one")
    await hears(it, "discord", f"/pair {given}", "does not open anything")
    it.say("what about two", "telegram")
    await it.answered("re: two", on=("telegram",))
    assert it.model.count == 2 and "re: two" not in stranger(it, "telegram")


async def test_the_owner_approves_by_button_on_each_platform_at_once(it: Whole) -> None:
    """A15: three questions stand at the same time; each button answers its own, once."""
    it.model.otherwise(works(NOTED))
    for name in NAMES:
        it.say(f"please do it on {name}", name)
    for name in NAMES:
        await question(it, name)
    assert workspace(it, "hits") == ""
    for number, name in enumerate(NAMES, 1):
        asked = await approve(it, name)
        platform = it.platforms[name]
        await platform.until(lambda name=name: it.told(name)[-1].startswith(f"did it on {name}"))
        assert workspace(it, "hits").split() == list(NAMES[:number])
        platform.press(OWNER, asked.id, asked.buttons[0].data)
        await platform.until(
            lambda platform=platform: any("settled" in text for text in platform.pressed())
        )
    assert workspace(it, "hits").split() == list(NAMES)


async def test_E7_stop_ends_a_running_command_within_a_second_and_touches_no_other(
    it: Whole,
) -> None:
    it.model.otherwise(works(TICKS))
    for name in NAMES:
        it.say(f"please tick on {name}", name)
    turn = await it.daemon.begin("please tick on http")
    for name in NAMES:
        await approve(it, name)
    await it.daemon.until(turn, "approval.asked")
    await it.daemon.post("/v1/messages", session="default", text="/approve")
    for name in (*NAMES, "http"):
        await ticked(it, name)
    for number, name in enumerate(NAMES):
        began = monotonic()
        it.say("/stop", name)
        await it.platforms[name].until(lambda name=name: "Stopping 1 task." in it.told(name))
        told_s, stands = monotonic() - began, workspace(it, f"tick.{name}")
        while monotonic() - began < MOST_S:
            await ticked(it, "http")
            stands = workspace(it, f"tick.{name}") if monotonic() - began < MOST_S else stands
        for other in (*NAMES[number + 1 :], "http"):
            await ticked(it, other, 3)
        assert told_s < MOST_S and workspace(it, f"tick.{name}") == stands, (name, told_s)
    assert not any("did it" in text for name in NAMES for text in it.told(name))


async def test_viewers_look_and_get_no_work_done(it: Whole) -> None:
    """C9: /status is answered, anything else is not; the model is never asked, and what others do goes on."""
    given = [await code(it, "--role", "viewer", "--channel", name) for name in NAMES]
    for name, one in zip(NAMES, given, strict=True):
        await hears(it, name, f"/pair {one}", "Welcome", "viewer")
        await hears(it, name, "/status", "Model: fake")
        await hears(it, name, "do something for me", "You may look here", "for others")
        await hears(it, name, "/stop", "You may not use")
    assert it.model.count == 0 and await it.daemon.listed("/v1/runs") == []
    it.say("hello")
    for name in NAMES:
        await it.platforms[name].until(lambda name=name: it.told(name) == ["ok"])
    assert it.model.count == len(NAMES)


async def test_the_owner_is_told_on_slack_that_telegrams_token_is_revoked(it: Whole) -> None:
    """They wrote last on Telegram, which cannot tell; before that on Slack, so Slack it is, and nowhere else."""
    for name in ("discord", "slack", "telegram"):
        it.say("hello", name)
        await it.platforms[name].until(lambda name=name: it.told(name) == ["ok"])
    it.platforms["telegram"].revoke()
    await it.platforms["slack"].until(lambda: len(it.told("slack")) > 1)
    assert (
        it.told("slack")[1].startswith("A channel is down. telegram")
        and "aidaemon" in it.told("slack")[1]
    )
    assert it.told("telegram") == it.told("discord") == ["ok"]
    assert (await it.health())[0] == 503 and "down: telegram" in await it.status()
    for name in ("slack", "discord"):
        it.say("still there?", name)
        await it.platforms[name].until(
            lambda name=name: it.told(name)[-1] == "ok" and it.told(name).count("ok") == 2
        )
