"""An answer that Telegram refuses for good: who is told, and who is not told that it arrived (F1)."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest_asyncio

from tests.e2e.channels.stage import by_bot, config, said_last
from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import Daemon, running_daemon
from tests.fakes.openai import FakeOpenAI, by, says
from tests.fakes.platform import OTHER, OWNER
from tests.fakes.telegram import FakeTelegram

WHY = "Forbidden: bot was blocked by the user"


@dataclass(slots=True)
class Refused:
    """A daemon on Telegram, whose clock is in a file."""

    daemon: Daemon
    telegram: FakeTelegram
    model: FakeOpenAI
    clock: Path

    def told(self, chat: str) -> list[str]:
        return [one.text for one in by_bot(self.telegram, chat)]

    async def health(self) -> tuple[int, list[str]]:
        async with self.daemon.http.get("/health") as response:
            return response.status, (await response.json())["problems"]

    async def says(self, *beginnings: str) -> None:
        """Wait until the problems that /health shows begin so."""
        async with asyncio.timeout(20):
            while not _begin(shown := (await self.health())[1], beginnings):
                await asyncio.sleep(0.05)
        assert all(WHY in line for line in shown)

    async def fails(self, chat: str, text: str) -> None:
        """Said in a chat from which the bot is kept out by the time of the answer."""
        self.telegram.world.blocked.add(int(chat))
        self.telegram.say(OWNER, chat, text)
        await self.says("1 message was not delivered")

    async def latest_run(self) -> str:
        [latest, *_] = await self.daemon.listed("/v1/runs")
        return str(latest["turn"])


def _begin(shown: list[str], beginnings: tuple[str, ...]) -> bool:
    return len(shown) == len(beginnings) and all(map(str.startswith, shown, beginnings))


@pytest_asyncio.fixture
async def it(tmp_path: Path) -> AsyncIterator[Refused]:
    clock = tmp_path / "clock"
    clock.write_text(datetime.now(UTC).isoformat())
    async with FakeOpenAI() as model, FakeTelegram() as telegram:
        model.otherwise(by(lambda body: says("re: " + said_last(body).split()[-1])))
        env = {"AIDAEMON_TEST_CLOCK": str(clock)}
        async with running_daemon(tmp_path / "home", config(model, telegram), env) as daemon:
            yield Refused(daemon, telegram, model, clock)


async def test_an_answer_that_a_group_refuses_is_told_in_the_owners_own_chat(it: Refused) -> None:
    own, group = it.telegram.private(OWNER), it.telegram.group(OWNER, OTHER)
    it.telegram.say(OWNER, own, "hello")
    await it.telegram.until(lambda: it.told(own) == ["re: hello"])
    await it.fails(group, it.telegram.mention("one"))
    await it.telegram.until(lambda: len(it.told(own)) == 2)
    assert f"could not deliver a reply to {group}" in it.told(own)[1] and WHY in it.told(own)[1]
    assert it.told(group) == []


async def test_the_run_and_the_models_history_say_that_the_answer_was_not_delivered(
    it: Refused,
) -> None:
    group = it.telegram.group(OWNER, OTHER)
    await it.fails(group, it.telegram.mention("one"))
    turn = await it.latest_run()
    [line] = (await it.daemon.run(turn))["outgoing"]  # type: ignore[misc]
    assert line.startswith(f"reply to {group}: not sent: ") and WHY in line
    shown = await asyncio.to_thread(aidaemon, "show", turn, home=it.daemon.home)
    assert "not sent" in shown.stdout and WHY in shown.stdout.replace("\n", " ")
    it.telegram.world.blocked.clear()
    for number, text in enumerate(("two", "three"), 1):
        it.telegram.say(OWNER, group, it.telegram.mention(text))
        await it.telegram.until(lambda n=number: len(it.told(group)) == n)
    first, second = (str(request["messages"]) for request in it.model.requests[-2:])
    assert first.count("nobody may have read it") == 1
    assert second.count("nobody may have read it") <= 1, "told once"
    assert WHY not in first, "a server's words are not the model's"


async def test_where_the_owners_only_chat_refuses_health_status_and_the_terminal_say_it(
    it: Refused,
) -> None:
    own = it.telegram.private(OWNER)
    await it.fails(own, "one")
    status, [line] = await it.health()
    assert status == 200
    assert own not in line, "everybody may ask for this page"
    [waiting] = await it.daemon.listed("/v1/sessions/terminal:main/undelivered")
    assert WHY in str(waiting["body"])
    told = await it.daemon.post("/v1/messages", session="default", text="/status")
    assert f"reply to {own} on telegram: Telegram rejected" in str(told["reply"])
    assert await it.health() == (200, []), "the owner has seen it"
    told = await it.daemon.post("/v1/messages", session="default", text="/status")
    assert "not delivered" not in str(told["reply"])


async def test_a_failed_delivery_is_counted_for_a_day(it: Refused) -> None:
    own = it.telegram.private(OWNER)
    await it.fails(own, "one")
    it.telegram.say(OWNER, own, "two")
    await it.says("2 messages were not delivered")
    it.clock.write_text((datetime.now(UTC) + timedelta(hours=25)).isoformat())
    await it.says()
