"""A reminder that was set in a chat comes there at its time, over kill -9 (E3)."""

import asyncio
from pathlib import Path

import pytest

from tests.e2e.channels.stage import by_bot, stage
from tests.fakes.openai import calls, says
from tests.fakes.platform import OTHER, OWNER

BY_TOOL = {"when": "in 5 seconds", "prompt": "call Ann", "remind": True}
QUIET = {"notify": {"quiet_hours": "00:00-23:59"}}


@pytest.mark.parametrize(("name", "prefix"), [("telegram", "/"), ("slack", "!"), ("discord", "/")])
async def test_a_reminder_comes_once_in_its_chat_over_kill_9_and_in_quiet_hours_e3(
    tmp_path: Path, name: str, prefix: str
) -> None:
    async with stage(name, tmp_path, lambda _: QUIET) as it:
        chat, platform = it.platform.private(OWNER), it.platform
        it.model.script(calls(("schedule", BY_TOOL)), says("I will remind you."))
        await it.listening()
        platform.say(OWNER, chat, "remind me in 5 seconds to call Ann")
        await platform.until(
            lambda: "I will remind you." in [x.text for x in by_bot(platform, chat)]
        )
        platform.say(OWNER, chat, f"{prefix}remind in 4 seconds: tea is ready")
        await platform.until(lambda: "Scheduled as tea-is-ready" in by_bot(platform, chat)[-1].text)
        it.fate.kill()
        await it.fate.buried()
        wanted = ["call Ann", "tea is ready"]

        def list_told() -> list[str]:
            """Without what was on its way before, which Telegram may get twice."""
            return sorted(one.text for one in by_bot(platform, chat) if one.text in wanted)

        await it.listening()
        await platform.until(lambda: list_told() == wanted)
        assert it.model.count == 2
        async with asyncio.timeout(20):
            while it.table("SELECT count(*) FROM schedules WHERE state = 'active'") != [(0,)]:
                await asyncio.sleep(0.01)
        assert list_told() == wanted


async def test_in_a_group_nobody_changes_by_the_tool_what_somebody_else_has_scheduled_e3(
    tmp_path: Path,
) -> None:
    """A changed task would run with the rights of who set it."""
    async with stage("telegram", tmp_path) as it:
        platform = it.platform
        group = platform.group(OWNER, OTHER)
        await it.listening()
        platform.say(OWNER, group, "/schedule@house_bot every day 08:00: sum up the news")
        await platform.until(
            lambda: "Scheduled as" in str([x.text for x in by_bot(platform, group)])
        )
        change = {"action": "cancel", "name": "sum-up-the-news"}
        it.model.script(calls(("schedule", change)), says("I cannot do that."))
        platform.say(OTHER, group, platform.mention("cancel the schedule sum-up-the-news"))
        await platform.until(lambda: by_bot(platform, group)[-1].text == "I cannot do that.")
        assert it.table("SELECT state FROM schedules") == [("active",)]
        assert "there is no schedule 'sum-up-the-news' here" in it.model.requests[1].raw.decode()
