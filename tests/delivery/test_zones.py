"""Each person on a channel has a time zone of their own, if they like (G5)."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from daemon.app.daemon import Daemon
from daemon.core.events import Answer, ToolFinished
from tests.delivery.stage import at_home
from tests.delivery.test_left_undone import let_in
from tests.fakes.channel import STRANGER, FakeChannel
from tests.fakes.openai import FakeOpenAI, calls, says

HOME = {"general": {"timezone": "Europe/Berlin"}}
LISBON, AUCKLAND = "Europe/Lisbon", "Pacific/Auckland"
NINE = calls(("schedule", {"when": "tomorrow at 9:00", "prompt": "stretch", "remind": True}))


async def told(channel: FakeChannel, text: str, person: str = STRANGER) -> str:
    """What this person is told when they say this."""
    before = len(channel.texts(person))
    await channel.say(text, person)
    await channel.until(lambda: len(channel.texts(person)) > before)
    return channel.texts(person)[before].replace("\\", "")


async def find_due(house: Daemon) -> list[tuple[str, int]]:
    """Zone of each schedule, and at which hour there it is due."""
    rows = await house.schedules.list_all()
    return [(row.zone, row.due.astimezone(ZoneInfo(row.zone)).hour) for row in rows if row.due]


async def find_results(house: Daemon, tool: str) -> list[str]:
    turns = await house.store.read(lambda tx: tx.list_all_turns(9))
    found = []
    for turn in turns:
        events = await house.store.read(lambda tx, turn=turn: tx.list_events(turn.id))
        results = [one.event for one in events if isinstance(one.event, ToolFinished)]
        found += [one.text for one in results if one.tool == tool]
    return found


async def test_g5_a_person_sets_their_zone_and_the_assistant_goes_by_it_for_them(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    """The time that it is, and what they want at a time; over a restart, too."""
    async with at_home(tmp_path, model, channel, more=HOME) as house:
        await let_in(house, channel)
        assert "the owner's" in await told(channel, "/timezone")
        assert f"Your time zone is {AUCKLAND}: it is " in await told(channel, "/timezone auckland")
        model.script(calls(("current_time", {})), says("So late."), NINE, says("I shall."))
        await told(channel, "what time is it?")
        [now] = await find_results(house, "current_time")
        assert AUCKLAND in now
        await told(channel, "remind me tomorrow at nine to stretch")
        assert await find_due(house) == [(AUCKLAND, 9)]
        await told(channel, "/remind tomorrow at 8:00: call Ann")
        assert (AUCKLAND, 8) in await find_due(house)
    model.script(calls(("current_time", {})), says("So late."))
    async with at_home(tmp_path, model, channel, more=HOME) as house:
        await told(channel, "and now?")
        assert sum(AUCKLAND in one for one in await find_results(house, "current_time")) == 2
        assert "the owner's" in await told(channel, "/timezone owner")


async def test_g5_the_owner_and_others_keep_the_owners_zone(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    async with at_home(tmp_path, model, channel, more=HOME) as house:
        await let_in(house, channel)
        await told(channel, f"/timezone {LISBON}")
        model.script(calls(("current_time", {})), says("So late."), NINE, says("I shall."))
        await channel.say("what time is it?")
        await channel.until(lambda: len(channel.texts()) == 1)
        await channel.say("remind me tomorrow at nine to stretch")
        await channel.until(lambda: len(channel.texts()) == 2)
        [now] = await find_results(house, "current_time")
        assert "CET" in now or "CEST" in now
        assert await find_due(house) == [("Europe/Berlin", 9)]
        await channel.say("/timezone Lisbon")
        await channel.until(lambda: len(channel.texts()) == 3)
        assert "general.timezone" in channel.texts()[2].replace("\\", "")


async def test_g5_a_question_shows_the_times_of_who_asked_for_them(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    model.script(calls(("schedule", {"when": "every day 09:00", "prompt": "sum up"})), says("So."))
    async with at_home(tmp_path, model, channel, more=HOME) as house:
        await let_in(house, channel)
        await told(channel, f"/timezone {LISBON}")
        await channel.say("sum up each day at nine", STRANGER)
        await channel.until(lambda: any("09:00" in text for text in channel.texts(STRANGER)))
        asked = channel.texts(STRANGER)[-1].replace("\\", "")
        assert f"09:00 {datetime.now(UTC).astimezone(ZoneInfo(LISBON)).tzname()}" in asked
        assert f"({LISBON})" in asked


async def test_g5_a_time_of_theirs_that_has_passed_where_the_owner_is_can_be_set_and_changed(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    zone = "America/Los_Angeles"
    soon = datetime.now(UTC).astimezone(ZoneInfo(zone)) + timedelta(hours=1)
    at = {"when": f"{soon:%Y-%m-%d %H:%M}", "prompt": "stretch", "remind": True}
    async with at_home(tmp_path, model, channel, more=HOME) as house:
        await let_in(house, channel)
        await told(channel, f"/timezone {zone}")
        model.script(calls(("schedule", at)), says("I shall."))
        await told(channel, "remind me in an hour to stretch")
        assert await find_due(house) == [(zone, soon.hour)]
        [row] = await house.schedules.list_all()
        change = {"action": "change", "name": row.name, "when": "tomorrow at 9:00"}
        model.script(calls(("schedule", change)), says("I shall."), says("So it is."))
        await channel.say("make it tomorrow at nine", STRANGER)
        await channel.until(lambda: len(channel.texts(STRANGER)) > 3)
        for waiting in await house.client.list_approvals():
            await house.client.answer_approval(waiting.turn, waiting.call_id, Answer.ONCE)
        await channel.until(lambda: any("shall" in one for one in channel.texts(STRANGER)[3:]))
        assert await find_due(house) == [(zone, 9)]


@pytest.mark.parametrize("word", ["Atlantis", "Europe/Berlim", "../../etc/passwd"])
async def test_g5_a_zone_that_is_none_changes_nothing(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel, word: str
) -> None:
    async with at_home(tmp_path, model, channel, more=HOME) as house:
        await let_in(house, channel)
        answer = await told(channel, f"/timezone {word}")
        assert "Nothing was changed" in answer
        assert "the owner's" in await told(channel, "/timezone")
