"""A day in some seconds, on a clock that is set (issue 12). All of it: `python -m tests.bench day`."""

import asyncio
from pathlib import Path

import pytest

from daemon.sessions.manager import MESSAGE_BYTES, WORKER_BYTES
from tests.bench.day import MOST, Size, live
from tests.bench.world import world
from tests.fakes.house import living
from tests.fakes.openai import FakeOpenAI

pytestmark = pytest.mark.slow


async def test_each_time_runs_once_each_mail_and_event_is_handled_and_the_brakes_hold(
    tmp_path: Path,
) -> None:
    size = Size(schedules=100, mails=20, events=200, burst=150)
    async with world(tmp_path) as it:
        day = await live(tmp_path / "home", it.model_url, size)
    assert (day.missed, day.twice, day.late, day.unfinished) == (0, 0, 0, 0)
    assert day.fired == day.expected
    assert len(day.mails) == sum(day.mails.values()) == size.mails
    assert len(day.events) == sum(day.events.values()) == size.events + size.burst
    assert day.growth < 0.2, day.memory
    assert size.burst - MOST <= day.refused <= size.burst and 0 < day.longest_wait <= 60


async def test_sessions_that_nobody_talks_in_are_let_go_and_come_back(tmp_path: Path) -> None:
    """However many conversations there are, as many are kept awake as memory is meant for."""
    most = 20
    async with FakeOpenAI() as model, living(tmp_path, model) as it:
        it.house.sessions.max_idle_bytes = most * (WORKER_BYTES + 2 * MESSAGE_BYTES)
        for number in range(most + 5):
            await it.ask(f"this is {number}", f"web:{number}")
        async with asyncio.timeout(10):
            while it.house.sessions.find_awake("web:0"):
                await asyncio.sleep(0.05)
        assert it.house.sessions.find_awake(f"web:{most + 4}")
        await it.ask("and again", "web:0")
    said = [str(message["content"]) for message in model.requests[-1].body["messages"]]
    assert any("this is 0" in text for text in said)


async def test_a_long_conversation_needs_the_memory_of_many_short_ones(tmp_path: Path) -> None:
    short = 20 * (WORKER_BYTES + 2 * MESSAGE_BYTES)
    async with FakeOpenAI() as model, living(tmp_path, model) as it:
        it.house.sessions.max_idle_bytes = short
        await it.ask("first", "web:first")
        await it.ask("so much " * (short // 8), "web:long")
        async with asyncio.timeout(10):
            while it.house.sessions.find_awake("web:first"):
                await asyncio.sleep(0.05)
