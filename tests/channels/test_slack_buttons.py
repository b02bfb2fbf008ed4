"""Buttons, slash commands and shortcuts (A14, A15)."""

from dataclasses import replace

from channels.message import Address, Choice, OutboundMessage
from tests.channels.host import Ledger
from tests.channels.slack_stage import QUICK, fake, stage
from tests.fakes.platform import Button, Fault

CHOICES = (Choice("Once", "a:once", "good"), Choice("Deny", "a:deny", "bad"))


async def test_A15_a_pressed_button_reaches_the_daemon_and_its_answer_is_seen_by_who_pressed():
    async with fake() as slack, stage(slack, Ledger(toast="Allowed once")) as on:
        message = await on.channel.send(
            OutboundMessage(on.dm, on.channel.render("May I?")[0], "k1", choices=CHOICES)
        )
        [shown] = slack.shown(on.dm.chat)
        assert (shown.text, shown.buttons) == (
            "May I?",
            (Button("Once", "a:once"), Button("Deny", "a:deny")),
        )
        slack.press("ann", message, "a:once")
        await slack.until(lambda: slack.pressed() == ["Allowed once"])
        [press] = on.house.presses
        assert (press.data, press.message_id, press.sender.id, press.address) == (
            "a:once",
            message,
            slack.person("ann"),
            on.dm,
        )


async def test_A15_a_press_is_acknowledged_at_once_and_when_it_cannot_be_written_down_that_is_said():
    async with fake() as slack, stage(slack) as on:
        message = await on.channel.send(
            OutboundMessage(on.dm, on.channel.render("May I?")[0], "k1", choices=CHOICES)
        )
        await slack.until(lambda: len(slack.sockets.acked) == 1)
        on.house.hold()
        on.house.refuse()
        slack.press("ann", message, "a:once")
        await slack.until(lambda: len(slack.sockets.acked) == 2)
        assert not on.house.presses
        on.house.release()
        await slack.until(lambda: bool(slack.pressed()))
        assert "nothing was done" in slack.pressed()[0]


async def test_A15_a_press_in_a_thread_is_answered_there_and_presses_do_not_wait_for_messages():
    async with fake() as slack, stage(slack) as on:
        chat = slack.group("ann", "bob")
        thread = slack.say("ann", chat, slack.mention("do it"))
        await on.house.until(lambda: bool(on.house.messages))
        address = on.house.messages[0].address
        message = await on.channel.send(
            OutboundMessage(address, on.channel.render("May I?")[0], "k1", choices=CHOICES)
        )
        slack.press("bob", message, "a:deny")
        await slack.until(lambda: bool(slack.pressed()))
        assert on.house.presses[0].address == Address("slack", chat, thread)
        assert slack.calls.of("chat.postEphemeral")[0]["thread_ts"] == thread


async def test_A15_buttons_go_when_the_message_is_edited_without_them():
    async with fake() as slack, stage(slack) as on:
        message = await on.channel.send(
            OutboundMessage(on.dm, on.channel.render("May I?")[0], "k1", choices=CHOICES)
        )
        await on.channel.edit(message, OutboundMessage(on.dm, on.channel.render("Allowed")[0]))
        [shown] = slack.shown(on.dm.chat)
        assert (shown.text, shown.buttons) == ("Allowed", ())


async def test_A15_a_long_text_with_buttons_is_seen_whole():
    async with fake() as slack, stage(slack) as on:
        text = "\n".join(f"line {number} of a long plan" for number in range(140))
        piece = on.channel.render(text)[0]
        assert len(piece.text) > 3000
        await on.channel.send(OutboundMessage(on.dm, piece, "k1", choices=CHOICES))
        assert slack.shown(on.dm.chat)[0].text.split() == piece.plain.split()


async def test_A14_a_slash_command_is_answered_to_who_typed_it():
    async with (
        fake() as slack,
        stage(slack, Ledger(reply="all is <well>", commands=[("status", "how it is")])) as on,
    ):
        slack.slash("ann", on.dm.chat, "status")
        slack.slash("ann", slack.group("ann"), "now", command="/status")
        slack.slash("ann", on.dm.chat, "")
        await slack.until(lambda: len(slack.pressed()) == 3)
        assert slack.pressed() == ["all is <well>"] * 3
        assert sorted(asked.text for asked in on.house.asked) == ["/help", "/status", "/status now"]
        assert {asked.private for asked in on.house.asked} == {True, False}
        assert len({asked.external_id for asked in on.house.asked}) == 3
        assert len(slack.calls.of("chat.postEphemeral")) == 3


async def test_A14_a_slash_command_of_a_server_that_tells_little_is_answered_each_time():
    async with fake() as slack, stage(slack) as on:
        for _ in range(2):
            slack.sockets.send(
                "slash_commands",
                {"command": "/status", "user_id": slack.person("ann"), "channel_id": on.dm.chat},
            )
        await on.house.until(lambda: len(on.house.asked) == 2)
        assert len({asked.external_id for asked in on.house.asked}) == 2
        assert not on.house.poison


async def test_A14_a_slash_command_that_takes_long_is_acknowledged_and_answered_later():
    async with fake() as slack, stage(slack, Ledger(reply="done")) as on:
        on.house.hold()
        slack.slash("ann", on.dm.chat, "status")
        await slack.until(lambda: len(slack.sockets.acked) == 1, 3)
        on.house.release()
        await slack.until(lambda: slack.pressed() == ["done"])


async def test_A14_a_slash_command_that_cannot_be_written_down_says_so():
    async with fake() as slack, stage(slack) as on:
        on.house.refuse()
        slack.slash("ann", on.dm.chat, "stop")
        await slack.until(lambda: bool(slack.pressed()))
        assert "nothing was done" in slack.pressed()[0]


async def test_A14_a_shortcut_in_the_menu_of_a_message_is_a_command_about_its_conversation():
    async with fake() as slack, stage(slack, Ledger(reply="stopped")) as on:
        chat = slack.group("ann", "bob")
        thread = slack.say("ann", chat, slack.mention("work"))
        answer = await on.channel.send(
            OutboundMessage(Address("slack", chat, thread), on.channel.render("working")[0], "k1")
        )
        slack.shortcut("ann", answer, "stop")
        slack.shortcut("ann", thread, "stop")
        await slack.until(lambda: slack.pressed() == ["stopped", "stopped"])
        assert {(asked.text, asked.address) for asked in on.house.asked} == {
            ("/stop", Address("slack", chat, thread))
        }


async def test_A15_that_the_answer_to_a_press_is_not_shown_stops_nothing():
    async with fake() as slack, stage(slack) as on:
        message = await on.channel.send(
            OutboundMessage(on.dm, on.channel.render("May I?")[0], "k1", choices=CHOICES)
        )
        slack.fail(
            "chat.postEphemeral",
            Fault("status", 500),
            Fault("status", 200, text="user_not_in_channel"),
        )
        for _ in range(3):
            slack.press("ann", message, "a:once")
        await slack.until(lambda: slack.pressed() == ["done"])
        assert len(on.house.presses) == 3


async def test_A14_a_shortcut_where_no_thread_has_begun_is_answered_where_that_can_be_seen():
    async with fake() as slack, stage(slack, Ledger(reply="stopped")):
        chat = slack.group("ann", "bob")
        slack.shortcut("ann", slack.say("ann", chat, "work"), "stop")
        await slack.until(lambda: slack.pressed() == ["stopped"])


async def test_A14_the_reply_to_a_slash_command_is_shown_although_its_connection_has_ended():
    async with (
        fake() as slack,
        stage(slack, Ledger(reply="done"), timing=replace(QUICK, answer_s=5.0)) as on,
    ):
        on.house.hold()
        slack.slash("ann", slack.group("ann"), "stop")
        await slack.until(lambda: slack.sockets.unacknowledged == 1)
        slack.refresh()
        await slack.until(lambda: slack.sockets.connected == 2 and len(slack.sockets.open) == 1)
        on.house.release()
        await slack.until(lambda: slack.pressed() == ["done"], 5)
        assert len(on.house.asked) == 1
