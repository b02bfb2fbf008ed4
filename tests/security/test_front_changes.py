"""Who somebody is, is asked anew each time: on every platform for itself, and however things stood when a question was put."""

from pathlib import Path
from typing import cast

import pytest

from tests.delivery.stage import Journal
from tests.fakes.discord import FakeDiscord
from tests.fakes.openai import says
from tests.fakes.platform import OTHER, OWNER
from tests.fakes.telegram import FakeTelegram
from tests.fakes.wordy_model import shell
from tests.security.fronts import PLATFORMS, Front, Tables, alone, button, front_of, opened


def without_bob(front: Front) -> Tables:
    """The config, bob no longer in it."""
    section = dict(front.platform.config())
    section["allowed_user_ids"] = list(cast(list[object], section["owner_ids"]))
    return {front.platform.name: section}


async def test_A13_an_id_that_is_known_on_one_platform_is_a_strangers_on_another(
    tmp_path: Path,
) -> None:
    telegram = FakeTelegram()
    await telegram.start()
    async with front_of("discord", tmp_path / "home", telegram) as front:
        discord = cast(FakeDiscord, front.platform)
        owner = telegram.person(OWNER)
        discord.world.users["twin"] = {**discord.world.person(OWNER), "id": owner}
        asked = await front.question(discord.private(OWNER), "do")
        for letter in "osad":
            told = await front.pressed(
                "twin", asked.id, f"ask:{letter}:{button(asked).data.rpartition(':')[2]}"
            )
            assert told == "You may not answer this."
        discord.say("twin", discord.private("twin"), "/approve all")
        discord.say("twin", discord.private("twin"), "it is me")
        await front.answered()
        assert (
            not [one for one in front.inputs() if owner in one.sender]
            and len(await front.waiting()) == 1
        )
    await telegram.stop()


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_A6_whoever_was_taken_off_the_list_has_no_say_in_what_was_asked_before(
    platform: str, tmp_path: Path
) -> None:
    async with alone(platform, tmp_path / "home") as front:
        there = front.platform
        group = there.group(OWNER, OTHER)
        async with opened(front):
            asked = await front.question(group, there.mention("do"), who=OTHER)
            token = (await front.waiting())[0].token_hash[:32]
        async with opened(front, config=without_bob(front)):
            for letter in "osad":
                assert await front.pressed(OTHER, asked.id, f"ask:{letter}:{token}") in (
                    "You may not answer this.",
                    "",
                )
            for command in ("/approve", "/deny all", "/stop"):
                there.say(OTHER, group, there.mention(command), thread=asked.thread)
            there.say(OTHER, group, there.mention("no, leave it"), thread=asked.thread)
            await front.answered()
            assert len(await front.waiting()) == 1
            assert await front.pressed(OWNER, asked.id, f"ask:d:{token}") == "Denied."


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_A15_a_button_from_before_a_restart_works_once(platform: str, tmp_path: Path) -> None:
    async with alone(platform, tmp_path / "home") as front:
        async with opened(front):
            asked = await front.question(front.platform.private(OWNER), "do")
            [row] = await front.waiting()
        async with opened(front):
            assert await front.pressed(OWNER, asked.id, button(asked).data) == "Approved, once."
            await front.ended(row.turn)
        async with opened(front):
            assert (await front.pressed(OWNER, asked.id, button(asked).data)).startswith(
                "Approved already"
            )
            assert len(front.hits()) == 1


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_A15_a_press_that_cannot_be_written_down_allows_nothing(
    platform: str, tmp_path: Path
) -> None:
    journal = Journal()
    async with alone(platform, tmp_path / "home") as front, opened(front, parts=journal.parts()):
        home = front.platform.private(OWNER)
        front.script.on("go", shell("echo ran >> hit-full; rm -f x"), says("ok"))
        front.platform.say(OWNER, home, "go")
        await front.platform.until(lambda: any(one.buttons for one in front.shown(home)))
        asked = next(one for one in front.shown(home) if one.buttons)
        [row] = await front.waiting()
        journal.full = True
        told = front.platform.pressed()
        front.platform.press(OWNER, asked.id, button(asked).data)
        if platform == "slack":  # it does not come again, so the person is told
            await front.platform.until(lambda: len(front.platform.pressed()) > len(told))
            assert "nothing was done" in front.platform.pressed()[-1]
        assert len(await front.waiting()) == 1 and not front.hits()
        journal.full = False
        if platform == "slack":
            assert await front.pressed(OWNER, asked.id, button(asked).data) == "Approved, once."
        await front.ended(row.turn)
        assert (front.home / "workspace" / "hit-full").read_text().split() == ["ran"]


async def test_A6_a_bot_presses_no_button_at_telegram(tmp_path: Path) -> None:
    async with front_of("telegram", tmp_path / "home") as front:
        world, home = cast(FakeTelegram, front.platform).world, front.platform.private(OWNER)
        asked = await front.question(home, "do")
        message = world.messages[int(asked.id)].json
        sender = {**world.person(OWNER), "is_bot": True}
        query = {
            "id": "77",
            "from": sender,
            "chat_instance": "1",
            "message": message,
            "data": button(asked).data,
        }
        world.queries["77"] = query
        world.push({"callback_query": query})
        await front.answered()
        assert len(await front.waiting()) == 1


async def test_A6_a_bot_presses_no_button_at_discord(tmp_path: Path) -> None:
    async with front_of("discord", tmp_path / "home") as front:
        discord = cast(FakeDiscord, front.platform)
        asked = await front.question(discord.private(OWNER), "do")
        discord.world.users["robot"] = {**discord.world.person(OWNER), "bot": True}
        discord.press("robot", asked.id, button(asked).data)
        await front.answered()
        assert len(await front.waiting()) == 1


async def test_A13_a_command_in_a_chat_of_others_is_not_where_the_owner_is_told_things(
    tmp_path: Path,
) -> None:
    """Discord lets people use the bot's commands in chats that the bot is not in."""
    async with front_of("discord", tmp_path / "home") as front:
        discord = cast(FakeDiscord, front.platform)
        place = discord.world.places[discord.private("zoe")]
        used = discord._interaction(
            OWNER, place, 2, {"id": "1", "name": "status", "type": 1, "options": []}, None
        )
        discord._emit("INTERACTION_CREATE", {**used, "context": 2}, guild=False)
        await discord.until(lambda: bool(discord.pressed()))
        assert front.house
        assert (
            await front.house.store.read(
                lambda tx: [chat.session for chat in tx.list_owner_chats()]
            )
            == []
        )
        discord.say(OWNER, discord.private(OWNER), "/status")
        await front.answered()
        assert await front.house.store.read(
            lambda tx: [chat.session for chat in tx.list_owner_chats()]
        ) == [f"discord:{discord.private(OWNER)}"]
