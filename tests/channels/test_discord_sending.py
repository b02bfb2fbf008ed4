"""What goes wrong on the way out to Discord: sent once all the same, or told as what can be done about it (K13, #14)."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from channels.base import ChannelError, DeliveryUnknown, Rejected, RetryLater
from channels.discord.config import DiscordTiming
from channels.message import Address, OutboundMessage
from tests.channels.discord_host import bot, serving, talking
from tests.fakes.platform import Fault


async def test_B5_13_an_answer_that_was_lost_is_asked_for_again_and_there_is_one_message():
    async with talking() as scene:
        chat, piece = scene.fake.private("ann"), scene.channel.render("once")[0]
        scene.fake.fail("POST messages", Fault("lost"))
        with pytest.raises(DeliveryUnknown):
            await scene.channel.send(OutboundMessage(scene.at(chat), piece, "key"))
        since = datetime.now(UTC) - timedelta(minutes=1)
        found = await scene.channel.find(OutboundMessage(scene.at(chat), piece, "key"), since)
        again = await scene.channel.send(OutboundMessage(scene.at(chat), piece, "key"))
        assert [shown.id for shown in scene.fake.shown(chat)] == [again]
        assert found == again
        assert (
            await scene.channel.send(OutboundMessage(scene.at(chat), piece, "other key")) != again
        )


async def test_B5_13_after_a_restart_the_same_key_is_the_same_message():
    async with serving() as fake:
        chat, first, second = fake.private("ann"), bot(fake), bot(fake)
        piece = first.render("once")[0]
        ids = [
            await channel.send(OutboundMessage(Address("discord", chat), piece, "turn/1/0"))
            for channel in (first, second)
        ]
        await first.aclose()
        await second.aclose()
        assert ids[0] == ids[1]
        assert len(fake.shown(chat)) == 1
        assert len(str(fake.calls.of("POST messages")[0]["nonce"])) <= 25


async def test_what_was_never_sent_is_not_found():
    async with talking() as scene:
        chat, piece = scene.fake.private("ann"), scene.channel.render("once")[0]
        at = datetime.now(UTC)
        scene.fake.say("ann", chat, "once")
        assert await scene.channel.find(OutboundMessage(scene.at(chat), piece, "key"), at) == ""
        await scene.channel.send(OutboundMessage(scene.at(chat), piece, "key"))
        assert (
            await scene.channel.find(
                OutboundMessage(scene.at(chat), piece, "key"), at + timedelta(minutes=5)
            )
            == ""
        )


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault("drop"), DeliveryUnknown),
        (Fault("garbage"), DeliveryUnknown),
        (Fault("status", 503), RetryLater),
        (Fault("status", 520), DeliveryUnknown),
        (Fault("status", 429, text="<html>Cloudflare: access denied</html>"), RetryLater),
        (Fault("retry", seconds=31), RetryLater),
        (Fault("status", 403), Rejected),
        (Fault("status", 400), Rejected),
    ],
    ids=lambda value: f"{value.kind}{value.status}" if isinstance(value, Fault) else value.__name__,
)
async def test_B5_14_what_goes_wrong_says_whether_it_may_be_tried_again(
    fault: Fault, error: type[ChannelError]
):
    async with talking() as scene:
        chat, piece = scene.fake.private("ann"), scene.channel.render("hello")[0]
        scene.fake.fail("POST messages", fault)
        with pytest.raises(error) as told:
            await scene.channel.send(OutboundMessage(scene.at(chat), piece, "key"))
        assert "Discord" in str(told.value)
        assert (
            not isinstance(told.value, RetryLater)
            or fault.kind != "retry"
            or told.value.after_s == 31
        )
        await scene.channel.send(OutboundMessage(scene.at(chat), piece, "key"))
        assert [shown.text for shown in scene.fake.shown(chat)] == ["hello"]


@pytest.mark.parametrize("where", ["", "global"])
async def test_B5_14_a_short_rate_limit_is_waited_for(where: str):
    async with talking() as scene:
        chat = scene.fake.private("ann")
        scene.fake.fail("POST messages", Fault("retry", seconds=0.05, times=2, text=where))
        await scene.channel.send(
            OutboundMessage(scene.at(chat), scene.channel.render("hello")[0], "key")
        )
        assert len(scene.fake.calls.of("POST messages")) == 3
        assert len(scene.fake.shown(chat)) == 1


async def test_B5_14_what_is_given_up_while_it_waits_holds_nothing_else_up():
    async with serving() as fake:
        channel = bot(fake, DiscordTiming(call_s=0.2))
        await channel.check()
        ann, bob = (Address("discord", fake.private(name)) for name in ("ann", "bob"))
        fake.fail("POST messages", Fault("retry", seconds=5, text="global"))
        with pytest.raises(RetryLater):
            await channel.send(OutboundMessage(ann, channel.render("hello")[0], "key"))
        await channel.send(OutboundMessage(bob, channel.render("hello")[0], "key 2"))
        await channel.aclose()


async def test_B5_14_the_limits_that_discord_states_are_kept_without_running_into_them():
    async with talking() as scene:
        scene.fake.rest.bucket = (2, 0.2)
        chat, piece = scene.at(scene.fake.private("ann")), scene.channel.render("hello")[0]
        for at in range(6):
            await scene.channel.send(OutboundMessage(chat, piece, f"key {at}"))
        assert len(scene.fake.shown(chat.chat)) == len(scene.fake.calls.of("POST messages")) == 6


async def test_B5_14_trouble_at_discord_is_tried_again_and_gives_one_message():
    async with talking() as scene:
        chat = scene.fake.private("ann")
        scene.fake.fail("POST messages", Fault("status", 500))
        await scene.channel.send(
            OutboundMessage(scene.at(chat), scene.channel.render("hello")[0], "key")
        )
        assert len(scene.fake.shown(chat)) == 1


async def test_B5_14_a_slow_answer_is_given_up_in_time():
    async with serving() as fake:
        channel = bot(fake, DiscordTiming(call_s=0.2))
        await channel.check()
        fake.fail("POST messages", Fault("slow", seconds=0.5))
        chat = Address("discord", fake.private("ann"))
        with pytest.raises(DeliveryUnknown, match="too long"):
            await channel.send(OutboundMessage(chat, channel.render("hello")[0], "key"))
        await fake.until(lambda: len(fake.shown(chat.chat)) == 1)
        await channel.send(OutboundMessage(chat, channel.render("hello")[0], "key"))
        await channel.aclose()
        assert len(fake.shown(chat.chat)) == 1


async def test_a_server_that_cannot_be_reached_got_nothing():
    async with serving() as fake:
        channel = bot(fake)
        await channel.check()
        chat = Address("discord", fake.private("ann"))
        await fake.stop()
        with pytest.raises(ChannelError):  # by the connection that was open
            await channel.send(OutboundMessage(chat, channel.render("hello")[0], "key"))
        with pytest.raises(RetryLater, match="cannot be reached"):
            await channel.send(OutboundMessage(chat, channel.render("hello")[0], "key"))
        await channel.aclose()


@pytest.mark.parametrize(
    ("deny", "hint"),
    [(50001, "View Channel"), (50013, "Send Messages"), (50007, "direct messages")],
)
async def test_what_discord_forbids_says_what_to_do(deny: int, hint: str):
    async with talking() as scene:
        chat = scene.fake.private("ann")
        scene.fake.world.places[chat].deny = deny
        with pytest.raises(Rejected, match=hint):
            await scene.channel.send(
                OutboundMessage(scene.at(chat), scene.channel.render("hello")[0], "key")
            )


async def test_what_is_gone_is_refused():
    async with talking() as scene:
        piece = scene.channel.render("hello")[0]
        with pytest.raises(Rejected, match="channel is gone"):
            await scene.channel.send(OutboundMessage(scene.at("123"), piece, "key"))
        with pytest.raises(Rejected, match="message is gone"):
            await scene.channel.edit(
                "123", OutboundMessage(scene.at(scene.fake.private("ann")), piece)
            )


async def test_what_is_only_nice_to_have_may_be_lacking():
    async with talking() as scene:
        chat = scene.fake.private("ann")
        for method in ("POST typing", "PUT reactions", "GET messages"):
            scene.fake.fail(method, Fault("status", 404, times=2))
        for _ in range(2):
            await scene.channel.show_typing(scene.at(chat))
            await scene.channel.mark_seen(scene.at(chat), "1")
            found = await scene.channel.find(
                OutboundMessage(scene.at(chat), scene.channel.render("x")[0], "k"),
                datetime.now(UTC),
            )
            assert found == ""


async def test_two_bots_have_an_api_each():
    async with serving() as one, serving() as two:
        first, second = bot(one), bot(two)
        for fake, channel in ((one, first), (two, second), (one, first)):
            chat = Address("discord", fake.private("ann"))
            await channel.send(
                OutboundMessage(
                    chat, channel.render("hello")[0], f"key {len(fake.shown(chat.chat))}"
                )
            )
        await first.aclose()
        await second.aclose()
        assert [len(fake.shown(fake.private("ann"))) for fake in (one, two)] == [2, 1]


async def test_where_it_may_not_read_history_a_reply_goes_out_without_pointing_at_what_it_answers():
    async with talking() as scene:
        room = scene.fake.group("ann")
        number = scene.fake.say("ann", room, scene.fake.mention("hi"))
        scene.fake.world.places[room].blind = True
        sent = await scene.channel.send(
            OutboundMessage(
                scene.at(room), scene.channel.render("hello")[0], "key", reply_to=number
            )
        )
        assert [(shown.id, shown.text) for shown in scene.fake.shown(room) if shown.by_bot] == [
            (sent, "hello")
        ]


async def test_a_large_file_has_the_time_that_it_takes(tmp_path: Path):
    async with serving() as fake:
        channel = bot(fake, DiscordTiming(call_s=0.2))
        await channel.check()
        chat = Address("discord", fake.private("ann"))
        (tmp_path / "film").write_bytes(b"frames")
        fake.fail("POST messages", Fault("slow", seconds=0.5))
        await channel.send(
            OutboundMessage(
                chat, channel.render("look")[0], "key", file=tmp_path / "film", name="film.mp4"
            )
        )
        await channel.aclose()
        assert [shown.files for shown in fake.shown(chat.chat)] == [(("film.mp4", b"frames"),)]
