"""A day in some seconds, on a clock that is set (issue 12). All of it: `python -m tests.bench day`."""

import asyncio
from pathlib import Path

import pytest

from daemon.sessions.manager import MAX_IDLE_WORKERS
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
    """However many conversations there are, so many are kept awake."""
    async with FakeOpenAI() as model, living(tmp_path, model) as it:
        for number in range(MAX_IDLE_WORKERS + 20):
            await it.ask(f"this is {number}", f"web:{number}")
        async with asyncio.timeout(10):
            while it.house.sessions.find_awake("web:0"):
                await asyncio.sleep(0.05)
        assert it.house.sessions.find_awake(f"web:{MAX_IDLE_WORKERS + 19}")
        await it.ask("and again", "web:0")
    said = [str(message["content"]) for message in model.requests[-1].body["messages"]]
    assert any("this is 0" in text for text in said)
