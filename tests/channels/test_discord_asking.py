"""Discord's buttons and its menu of commands (A14, E7): answered at once, by whoever pressed, also after a restart."""

import logging

import pytest

from channels.message import Choice, OutboundMessage
from tests.channels.discord_host import listening, serving, talking
from tests.channels.host import Ledger
from tests.fakes.discord.world import ELSEWHERE, GUILD
from tests.fakes.platform import Fault

CHOICES = [Choice("Once", "a1/once", "good"), Choice("Deny", "a1/deny", "bad")]


async def test_E7_a_button_is_pressed_and_its_answer_is_seen_by_who_pressed_it():
    async with talking() as scene:
        room = scene.fake.group("ann", "bob")
        number = await scene.channel.send(
            OutboundMessage(scene.at(room), scene.channel.render("May I?")[0], "k", choices=CHOICES)
        )
        scene.fake.press("bob", number, "a1/once")
        await scene.fake.until(lambda: scene.fake.pressed() == ["done"])
        (press,) = scene.host.presses
    assert (press.address, press.message_id, press.data) == (scene.at(room), number, "a1/once")
    assert (press.sender.id, press.sender.name) == (scene.fake.person("bob"), "Bob")
    assert scene.fake.calls.of("POST callback")[0]["type"] == 6
    assert scene.fake.calls.of("POST followup")[0]["flags"] == 64 | 4


async def test_E7_the_same_buttons_work_after_a_restart():
    async with serving() as fake:
        host = Ledger()
        async with listening(fake, host) as scene:
            chat = fake.private("ann")
            number = await scene.channel.send(
                OutboundMessage(
                    scene.at(chat), scene.channel.render("May I?")[0], "k", choices=CHOICES
                )
            )
        async with listening(fake, host):
            fake.press("ann", number, "a1/deny")
            await fake.until(lambda: fake.pressed() == ["done"])
        assert [press.data for press in host.presses] == ["a1/deny"]


async def test_E7_discord_is_answered_in_time_however_long_the_daemon_takes():
    async with talking() as scene:
        scene.fake.rest.answer_within_s = 0.5
        chat = scene.fake.private("ann")
        number = await scene.channel.send(
            OutboundMessage(scene.at(chat), scene.channel.render("May I?")[0], "k", choices=CHOICES)
        )
        scene.host.hold()
        scene.fake.press("ann", number, "a1/once")
        scene.fake.slash("ann", chat, "status")
        await scene.fake.until(lambda: len(scene.fake.calls.of("POST callback")) == 2)
        assert scene.fake.pressed() == []
        scene.host.release()
        await scene.fake.until(lambda: sorted(scene.fake.pressed()) == ["done", "ok"])


async def test_E7_a_press_that_could_not_be_written_is_tried_again_and_else_said():
    async with talking() as scene:
        chat = scene.fake.private("ann")
        number = await scene.channel.send(
            OutboundMessage(scene.at(chat), scene.channel.render("May I?")[0], "k", choices=CHOICES)
        )
        scene.host.refuse(2)
        scene.fake.press("ann", number, "a1/once")
        await scene.fake.until(lambda: scene.fake.pressed() == ["done"])
        scene.host.refuse(100)
        scene.fake.press("ann", number, "a1/once")
        await scene.fake.until(lambda: "could not be written" in scene.fake.pressed()[-1])
        assert len(scene.host.presses) == 1


async def test_a_press_that_discord_forgot_and_a_broken_one_disturb_nobody():
    async with talking() as scene:
        chat = scene.fake.private("ann")
        number = await scene.channel.send(
            OutboundMessage(scene.at(chat), scene.channel.render("May I?")[0], "k", choices=CHOICES)
        )
        scene.fake.fail("POST callback", Fault("status", 404), Fault("drop"))
        scene.fake.fail("POST followup", Fault("status", 404), Fault("drop"))
        for _ in range(2):
            scene.fake.press("ann", number, "a1/once")
        await scene.fake.until(lambda: len(scene.fake.calls.of("POST followup")) == 2)
        scene.fake.press("eve", number, "\u0000 anything" * 5)
        await scene.fake.until(lambda: scene.fake.pressed() == ["done"])
        assert len(scene.host.presses) == 3


async def test_A14_the_commands_are_in_discords_menu_and_are_written_only_when_they_changed():
    async with serving() as fake:
        host = Ledger(
            commands=[
                ("status", "how it is going"),
                ("Stop", "x" * 200),
                ("no good", "?"),
                ("bare", ""),
            ]
        )
        for times in (1, 2):
            async with listening(fake, host) as scene:
                await fake.until(
                    lambda times=times: (
                        bool(fake.rest.commands) and len(fake.calls.of("GET commands")) == times
                    )
                )
                chat = scene.at(fake.private("ann"))
                await scene.channel.send(
                    OutboundMessage(chat, scene.channel.render("hello")[0], f"{times}")
                )  # a second write would be there now
        menu = fake.rest.commands[""]
        assert [command["name"] for command in menu] == ["status", "stop", "bare"]
        assert (menu[0]["description"], len(menu[1]["description"]), menu[2]["description"]) == (
            "how it is going",
            100,
            "bare",
        )
        assert len(fake.calls.of("PUT commands")) == 1


async def test_A14_with_a_guild_of_its_own_the_menu_is_there_at_once():
    async with talking(guild_id=int(GUILD)) as scene:
        await scene.fake.until(lambda: GUILD in scene.fake.rest.commands)
        assert list(scene.fake.rest.commands) == [GUILD]
        elsewhere = scene.fake.room("ann", guild=ELSEWHERE)
        scene.fake.slash("ann", elsewhere, "stop")
        scene.fake.slash("ann", scene.fake.group("ann"), "status")
        await scene.fake.until(lambda: scene.fake.pressed() == ["ok"])
        assert [asked.text for asked in scene.host.asked] == ["/status"]


async def test_A14_a_command_of_the_menu_is_answered_for_that_person_only():
    async with talking() as scene:
        room = scene.fake.group("ann")
        scene.host.reply = "word " * 1000
        scene.fake.slash("ann", room, "model", "fast one")
        await scene.fake.until(lambda: len(scene.fake.pressed()) == 3)
        (asked,) = scene.host.asked
        assert (asked.text, asked.address, asked.sender.name) == (
            "/model fast one",
            scene.at(room),
            "Ann",
        )
        assert (asked.private, asked.addressed) == (False, True)
        assert scene.fake.calls.of("POST callback")[0] | {"interaction": "", "token": ""} == {
            "type": 5,
            "data": {"flags": 64},
            "interaction": "",
            "token": "",
        }


async def test_A14_a_command_without_an_answer_leaves_nothing_waiting():
    async with talking() as scene:
        scene.host.reply = ""
        scene.fake.slash("ann", scene.fake.private("ann"), "stop")
        await scene.fake.until(lambda: len(scene.fake.calls.of("DELETE followup")) == 1)
        assert scene.host.asked[0].private


async def test_without_a_menu_commands_are_still_typed():
    async with serving() as fake:
        fake.fail("GET commands", Fault("status", 404))
        async with listening(fake) as scene:
            await fake.until(lambda: len(fake.calls.of("GET commands")) == 1)
            fake.say("ann", fake.group("ann"), fake.mention("/status"))
            await scene.heard("/status")
            assert fake.calls.of("PUT commands") == []


async def test_E7_an_answer_that_comes_too_late_for_discord_says_nothing_against_the_bots_token(
    caplog: pytest.LogCaptureFixture,
):
    async with talking() as scene:
        chat = scene.fake.private("ann")
        number = await scene.channel.send(
            OutboundMessage(scene.at(chat), scene.channel.render("May I?")[0], "k", choices=CHOICES)
        )
        scene.fake.rest.lives_s = 0.0
        scene.fake.press("ann", number, "a1/once")
        await scene.fake.until(lambda: "to a button" in caplog.text)
        assert [press.data for press in scene.host.presses] == ["a1/once"]
    assert "15 minutes" in caplog.text
    assert "bot_token" not in caplog.text


async def test_A6_no_token_of_a_button_is_in_a_log_where_discord_asks_us_to_write_less(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.DEBUG)
    async with talking() as scene:
        chat = scene.fake.private("ann")
        for method in ("POST callback", "POST followup", "DELETE followup"):
            scene.fake.fail(method, Fault("retry", seconds=0.01), Fault("retry", seconds=31))
        for toast in ("done", "done", ""):
            scene.host.reply = toast
            scene.fake.slash("ann", chat, "status")
        await scene.fake.until(lambda: caplog.text.count("button or command") >= 2)
    assert "429" in caplog.text
    assert "itok-" not in caplog.text
