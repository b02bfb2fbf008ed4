"""It asks by itself how it was, where the owner wants that: in their chat, in the evening, without a model (H5)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.e2e.channels.stage import brisk, by_bot, config
from tests.fakes.daemon_process import Daemon, running_daemon
from tests.fakes.memory import count
from tests.fakes.openai import FakeOpenAI, by, says
from tests.fakes.platform import OWNER, Platform

SAID = "I have a job interview tomorrow at the bakery"
ASK = "How did the interview go?"
CHOICE = '{"line": 1, "ask": "How did the interview go?", "day": "2026-11-24"}'
BEGIN = datetime(2026, 11, 23, 10, tzinfo=UTC)
WANTED = "of which a friend would ask how it was"


@dataclass
class Stage:
    daemon: Daemon
    telegram: Platform
    model: FakeOpenAI
    clock: Path
    chat: str

    def set_clock(self, now: datetime) -> None:
        self.clock.write_text(now.isoformat())

    @property
    def said(self) -> list[str]:
        return [one.text for one in by_bot(self.telegram, self.chat)]

    async def say(self, text: str) -> None:
        before = len(self.said)
        self.telegram.say(OWNER, self.chat, text)
        await self.telegram.until(lambda: len(self.said) > before)

    async def notice(self, text: str, *replies: str, indexed: int) -> str:
        """The owner says it, and has it looked through; what the model was asked."""
        await self.say(text)
        async with asyncio.timeout(20):
            while await asyncio.to_thread(count, self.daemon.home) < indexed:
                await asyncio.sleep(0.02)
        self.model.script(says("\n".join(replies)))
        await self.say("/memory consolidate")
        return str(self.model.requests[-1].body["messages"])

    async def scheduled(self) -> list[dict[str, object]]:
        return await self.daemon.listed("/v1/schedules")


@asynccontextmanager
async def follow_ups(tmp_path: Path, per_day: int, quiet: str = "") -> AsyncIterator[Stage]:
    telegram, clock = brisk("telegram"), tmp_path / "clock"
    await telegram.start()
    clock.write_text(BEGIN.isoformat())
    tables = {
        "memory": {"follow_ups": per_day} if per_day else {},
        "general": {"timezone": "Europe/Berlin"},
        "notify": {"quiet_hours": quiet},
    }
    async with FakeOpenAI() as model:
        model.otherwise(by(lambda body: says("As you say.")))
        env = {"AIDAEMON_TEST_CLOCK": str(clock)}
        async with running_daemon(
            tmp_path / "home", config(model, telegram, more=tables), env
        ) as daemon:
            yield Stage(daemon, telegram, model, clock, telegram.private(OWNER))
    await telegram.stop()


async def test_h5_it_asks_on_the_evening_of_the_day_where_it_was_said_and_calls_no_model(
    tmp_path: Path,
) -> None:
    async with follow_ups(tmp_path, 1) as it:
        assert WANTED in await it.notice(SAID, CHOICE, indexed=2)
        [row] = await it.scheduled()
        assert row["origin"] == "follow-up" and str(row["due"]).startswith("2026-11-24T18:00")
        asked = it.model.count
        it.set_clock(datetime(2026, 11, 24, 17, 59, tzinfo=UTC))
        it.set_clock(datetime(2026, 11, 24, 18, 1, tzinfo=UTC))
        await it.telegram.until(lambda: ASK in it.said)
        assert it.model.count == asked
        await it.say("It went well, thanks")
        told = str(it.model.requests[-1].last("user")["content"])
        assert told.startswith("It went well, thanks") and ASK in told
        assert it.said.count(ASK) == 1


async def test_h5_it_is_off_by_default(tmp_path: Path) -> None:
    async with follow_ups(tmp_path, 0) as it:
        assert WANTED not in await it.notice(SAID, CHOICE, indexed=2)
        assert await it.scheduled() == []


async def test_h5_no_more_than_the_days_number_and_no_day_that_is_over(tmp_path: Path) -> None:
    async with follow_ups(tmp_path, 1) as it:
        await it.notice(SAID, CHOICE.replace("24", "22"), indexed=2)
        assert await it.scheduled() == []
        await it.notice("I see the dentist tomorrow", CHOICE, CHOICE, indexed=4)
        await it.notice("Ann comes tomorrow for dinner", CHOICE, indexed=6)
        assert len(await it.scheduled()) == 1


async def test_h5_what_was_removed_is_not_asked(tmp_path: Path) -> None:
    async with follow_ups(tmp_path, 3) as it:
        await it.notice(SAID, CHOICE, indexed=2)
        [row] = await it.scheduled()
        await it.say(f"/schedule remove {row['name']}")
        it.set_clock(datetime(2026, 11, 24, 18, 1, tzinfo=UTC))
        await it.say("good evening")
        assert ASK not in it.said


async def test_h5_quiet_hours_hold_it_back(tmp_path: Path) -> None:
    async with follow_ups(tmp_path, 1, quiet="18:30-07:00") as it:
        await it.notice(SAID, CHOICE, indexed=2)
        it.set_clock(datetime(2026, 11, 24, 18, 1, tzinfo=UTC))
        async with asyncio.timeout(20):
            while (await it.scheduled())[0]["state"] != "over":
                await asyncio.sleep(0.02)
        await it.say("good evening")
        assert ASK not in it.said
        it.set_clock(datetime(2026, 11, 25, 6, 1, tzinfo=UTC))
        await it.telegram.until(lambda: ASK in it.said)
