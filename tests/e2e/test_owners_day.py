"""The day of the budget is the owner's, over restarts and the change of the clocks (G5, A19)."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.e2e.test_goals import say
from tests.e2e.test_schedules import house
from tests.fakes.openai import says, tokens

LIMITS = '[general]\ntimezone = "{zone}"\n[budget]\ndaily_tokens = 10000\n[agent]\non_budget = "stop"\n'
DEAR = says("It is as you see.", usage=tokens(9_990, 5))
USED_UP = "(9,995 of 10,000, until midnight)"


@pytest.mark.parametrize(
    ("zone", "before", "after"),
    [
        ("Asia/Kolkata", datetime(2026, 5, 4, 18, 25, tzinfo=UTC), datetime(2026, 5, 4, 18, 31, tzinfo=UTC)),
        ("America/New_York", datetime(2026, 5, 5, 3, 55, tzinfo=UTC), datetime(2026, 5, 5, 4, 1, tzinfo=UTC)),
        ("Europe/Berlin", datetime(2026, 3, 29, 21, 55, tzinfo=UTC), datetime(2026, 3, 29, 22, 1, tzinfo=UTC)),
    ],
    ids=["ahead", "behind", "23 hours long"],
)  # fmt: skip
async def test_g5_the_budget_begins_anew_at_the_owners_midnight_and_not_before(
    tmp_path: Path, zone: str, before: datetime, after: datetime
) -> None:
    async with house(tmp_path, LIMITS.format(zone=zone)) as it:
        it.at(before)
        async with it.up() as daemon:
            it.model.script(DEAR)
            await say(daemon, "one")
            assert USED_UP in await say(daemon, "two")
            assert "Today:\n  fake: 1 calls" in await say(daemon, "/cost")
            await daemon.terminate()
        async with it.up() as daemon:
            assert USED_UP in await say(daemon, "and after a restart?")
            it.at(after)
            async with asyncio.timeout(10):  # the file of its clock is read now and then
                while "Today:\n  nothing" not in await say(daemon, "/cost"):
                    await asyncio.sleep(0.05)
            it.model.script(says("A new day."))
            assert await say(daemon, "three") == "A new day."
            assert len(it.model.requests) == 2
            assert "Today:\n  fake: 1 calls, 10 in" in await say(daemon, "/cost")
