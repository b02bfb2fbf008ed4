"""Crowds at the front door cost little, and the owner is answered in their midst (trust.md, issue 5)."""

from pathlib import Path
from time import perf_counter

import pytest

from channels.slack.content import strip_mention as strip_slack_mention
from channels.telegram.updates import strip_mention
from daemon.gateway.admission import MAX_GROUP_NOTICES, MAX_STRANGERS, STRANGER_NOTICE, WRONG_CODE
from tests.fakes.openai import says
from tests.fakes.platform import OTHER, OWNER
from tests.security.fronts import PLATFORMS, Front, front_of

CROWD, GUESSERS, EDITS = 400, 100, 500
MOST_JOURNAL = 6 << 20
WITHIN_S = 30.0
LONGEST = 40_000
TOO_MANY = 12


async def is_answered(front: Front, chat: str, text: str) -> float:
    """How long the owner waits, in seconds."""
    front.script.on(text, says(f"answer to {text}"))
    began = perf_counter()
    worded = text if chat == front.platform.private(OWNER) else front.platform.mention(text)
    front.platform.say(OWNER, chat, worded)
    await front.platform.until(
        lambda: any(f"answer to {text}" in one.text for one in front.shown(chat)), 2 * WITHIN_S
    )
    return perf_counter() - began


@pytest.mark.timeout(120)
@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_crowd_of_strangers_neither_fills_the_journal_nor_keeps_the_owner_waiting(
    platform: str, tmp_path: Path
) -> None:
    async with front_of(platform, tmp_path / "home") as front:
        there = front.platform
        for number in range(CROWD):
            there.say(f"s{number}", there.private(f"s{number}"), "hello " + "x" * 2000)
        assert await is_answered(front, there.private(OWNER), "quickly") < WITHIN_S
        lines = [
            one
            for row in range(CROWD)
            for one in front.shown(there.private(f"s{row}"))
            if one.by_bot
        ]
        assert len(lines) <= MAX_STRANGERS
        assert sum(file.stat().st_size for file in front.home.glob("journal.db*")) < MOST_JOURNAL
        assert front.inputs()[0].body == "quickly" and len(front.inputs()) == 1


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_strangers_in_a_group_leave_room_for_the_owner_there(
    platform: str, tmp_path: Path
) -> None:
    """A group takes twenty messages a minute at Telegram: what is said to strangers there must not use them up."""
    async with front_of(platform, tmp_path / "home") as front:
        there = front.platform
        crowd = [f"s{number}" for number in range(GUESSERS)]
        group = there.group(OWNER, *crowd)
        for person in crowd:
            there.say(person, group, there.mention("hello"))
            there.say(person, group, there.mention("/pair AAAA-AAAA"))
        assert await is_answered(front, group, "here") < WITHIN_S
        said = [
            one.text for one in front.shown(group) if one.by_bot and one.text != "answer to here"
        ]
        assert 0 < len(said) <= MAX_GROUP_NOTICES and set(said) <= {STRANGER_NOTICE, WRONG_CODE}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_member_who_reacts_and_presses_without_end_does_not_keep_the_owner_waiting(
    platform: str, tmp_path: Path
) -> None:
    async with front_of(platform, tmp_path / "home") as front:
        there = front.platform
        group = there.group(OWNER, OTHER)
        asked = await front.question(group, there.mention("do"))
        for number in range(EDITS):
            there.react(OTHER, asked.id, "👍" if number % 2 else "❤️")
            there.press(OTHER, asked.id, f"ask:o:{number:032x}")
        assert await is_answered(front, there.private(OWNER), "still") < WITHIN_S
        assert len(await front.waiting()) == 1


def test_nobody_holds_up_the_daemon_with_spaces() -> None:
    """What is looked for before a mention is looked for once, however long the run."""
    run = f"a{' ' * LONGEST}b @house_bot <@U0BOT> c"
    began = perf_counter()
    assert strip_mention(run, "house_bot")[1]
    assert "<@U0BOT>" not in strip_slack_mention(run, "U0BOT")
    assert perf_counter() - began < 1.0


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_member_who_sends_too_much_is_told_so_once_and_the_owner_goes_on(
    platform: str, tmp_path: Path
) -> None:
    """What was taken is answered; what was not is refused with one line (issue 11, class K)."""
    async with front_of(
        platform, tmp_path / "home", config={"limits": {"messages_per_minute": 8}}
    ) as front:
        there = front.platform
        for number in range(TOO_MANY):
            there.say(OTHER, there.private(OTHER), f"line {number}")
        assert await is_answered(front, there.private(OWNER), "meanwhile") < WITHIN_S

        def slowed() -> list[str]:
            shown = front.shown(there.private(OTHER))
            return [one.text for one in shown if one.by_bot and "Slowly, please" in one.text]

        await there.until(lambda: bool(slowed()), WITHIN_S)
        assert len(slowed()) == 1
        assert len([one for one in front.inputs() if one.body.startswith("line ")]) == 8
