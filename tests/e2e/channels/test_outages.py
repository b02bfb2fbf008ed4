"""Networks that are gone, platforms in trouble, tokens revoked, clocks that jump: what was said meanwhile is answered."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.channels.stage import said_last
from tests.e2e.channels.whole import PATIENCE_S, Whole, whole
from tests.fakes.discord import FakeDiscord
from tests.fakes.openai import by, gate, says
from tests.fakes.platform import Fault, Platform
from tests.fakes.platforms import NAMES, SEND
from tests.fakes.slack import FakeSlack
from tests.fakes.telegram import FakeTelegram

pytestmark = pytest.mark.timeout(300)
OUTAGE_S = 20.0
READING = {
    "telegram": ("getUpdates", "getMe", "getWebhookInfo"),
    "slack": ("apps.connections.open", "auth.test", "conversations.history", "users.conversations"),
    "discord": ("GET users/@me", "GET messages", "POST users/@me/channels"),
}
DAY = timedelta(days=1)


@pytest_asyncio.fixture
async def it(tmp_path: Path) -> AsyncIterator[Whole]:
    clock = tmp_path / "clock"
    clock.write_text(datetime.now(UTC).isoformat())
    async with whole(
        tmp_path, {"agent": {"while_busy": "queue"}}, {"AIDAEMON_TEST_CLOCK": str(clock)}
    ) as it:
        it.model.otherwise(by(lambda body: says("re: " + said_last(body).split()[-1])))
        it.say("one")
        await it.answered("re: one")
        assert (await it.health())[0] == 200
        yield it


async def red(it: Whole, *names: str) -> str:
    """Health is red and names them; what it says."""
    status, told = await it.health()
    async with asyncio.timeout(PATIENCE_S):
        while any(f"{name}: " not in told for name in names):
            await asyncio.sleep(0.2)
            status, told = await it.health()
    assert status == 503 and told.count("since") >= len(names), told
    return told


async def green(it: Whole) -> None:
    """All is well again."""
    async with asyncio.timeout(PATIENCE_S):
        while (await it.health())[0] != 200:
            await asyncio.sleep(0.2)
    for name in NAMES:
        assert f"{name}: connected" in await it.status()


def mended(platform: Platform) -> None:
    """Nothing goes wrong any more."""
    match platform:
        case FakeTelegram():
            platform._faults.clear()
        case FakeSlack():
            platform.server.faults.clear()
        case FakeDiscord():
            platform.rest.faults.clear()


async def test_what_is_said_while_the_network_is_gone_is_answered_once_it_is_back(
    it: Whole,
) -> None:
    over = asyncio.create_task(asyncio.sleep(OUTAGE_S))
    for platform in it.platforms.values():
        platform.cut()
    it.say("two")
    told = await red(it, *NAMES)
    down = await it.status()
    assert all(f"down: {name}" in down for name in NAMES), down
    it.say("three")
    await over
    for platform in it.platforms.values():
        await platform.mend()
    await it.answered("re: one", "re: two", "re: three")
    await green(it)
    assert "token" not in told


async def test_what_is_said_while_the_platforms_are_in_trouble_is_answered_afterwards(
    it: Whole,
) -> None:
    """K14. Discord's gateway still brings what is said; Telegram and Slack are asked in vain."""
    over = asyncio.create_task(asyncio.sleep(OUTAGE_S))
    for name, platform in it.platforms.items():
        for method in (*READING[name], "*"):
            platform.fail(method, Fault("status", 503, times=100_000))
        if isinstance(platform, FakeSlack):
            platform.server.abort()
    it.say("two")
    await red(it, "telegram", "slack")
    it.say("three")
    await over
    for platform in it.platforms.values():
        mended(platform)
    await it.answered("re: one", "re: two", "re: three")
    await green(it)


@pytest.mark.parametrize("revoked", [("telegram", "discord"), ("slack",)], ids=" ".join)
async def test_a_revoked_token_is_told_of_elsewhere_and_all_goes_on_when_it_is_good_again(
    it: Whole, revoked: tuple[str, ...]
) -> None:
    ready = asyncio.Event()
    it.model.script(*(gate(ready, says("re: two")) for _ in revoked))
    it.say("two", *revoked)
    await it.model.asked(len(NAMES) + len(revoked))
    for name in revoked:
        it.platforms[name].revoke()
    ready.set()
    told = await red(it, *revoked)
    it.say("three", *revoked)
    working = [name for name in NAMES if name not in revoked]
    async with asyncio.timeout(PATIENCE_S):
        while any(
            f"A channel is down. {name}" not in "".join(map("".join, map(it.told, working)))
            for name in revoked
        ):
            await asyncio.sleep(0.2)
    status = await it.status()
    assert all(f"down: {name}" in status for name in revoked) and not any(
        name in told for name in working
    )
    for name in revoked:
        it.platforms[name].admit()
    await it.answered("re: one", "re: two", "re: three", on=revoked)
    await green(it)


async def test_messages_flow_while_the_clock_jumps_by_days(it: Whole, tmp_path: Path) -> None:
    """K22. Lost answers, too: the same key is the same message, whatever day it is."""
    answers = ["re: one"]
    for number, jump in enumerate((DAY, -DAY, DAY, 2 * DAY, -3 * DAY)):
        (tmp_path / "clock").write_text((datetime.now(UTC) + jump).isoformat())
        for name in ("slack", "discord"):
            it.platforms[name].fail(SEND[name], Fault("lost"))
        it.say(f"again {number}")
        answers.append(f"re: {number}")
        await it.answered(*answers)
        assert (await it.health())[0] == 200, await it.health()
