"""Discord's gateway in trouble: what is cut goes on, what is over begins anew, what cannot be mended is told (E12, B5)."""

import asyncio
import threading

import pytest

from channels.base import RetryLater, Revoked
from channels.discord.config import DiscordTiming
from tests.channels.discord_host import bot, listening, serving, talking
from tests.channels.host import Ledger, running
from tests.fakes.platform import Fault


async def test_a_connection_that_is_reset_is_resumed_and_nothing_is_missing_or_double():
    async with talking() as scene:
        chat = scene.fake.private("ann")
        scene.fake.say("ann", chat, "before")
        await scene.heard("before")
        scene.fake.gateway.reset()
        scene.fake.say("ann", chat, "while away")
        await scene.heard("before", "while away")
        scene.fake.say("ann", chat, "after")
        await scene.heard("before", "while away", "after")
        assert (len(scene.fake.calls.of("op 6")), len(scene.fake.calls.of("op 2"))) == (1, 1)
        assert (scene.host.ailments, scene.fake.calls.of("GET messages")) == ([], [])


async def test_a_stream_that_breaks_is_left_and_resumed():
    async with talking() as scene:
        scene.fake.gateway.frame(b"no stream\x00\x00\xff\xff")
        scene.fake.gateway.frame("[" * 100_000)
        scene.fake.say("ann", scene.fake.private("ann"), "hello")
        await scene.heard("hello")
        await scene.host.until(lambda: len(scene.host.poison) == 1)
        assert len(scene.fake.calls.of("op 6")) == 1


async def test_asked_to_reconnect_it_resumes():
    async with talking() as scene:
        scene.fake.control(7)
        await scene.fake.until(lambda: len(scene.fake.calls.of("op 6")) == 1)
        scene.fake.say("ann", scene.fake.private("ann"), "hello")
        await scene.heard("hello")
        assert len(scene.fake.calls.of("op 2")) == 1


@pytest.mark.parametrize("how", ["told", "forgotten"])
async def test_a_session_that_is_over_begins_anew_and_what_was_missed_is_read_on(how: str):
    async with talking() as scene:
        chat, room = scene.fake.private("ann"), scene.fake.group("ann")
        scene.fake.say("ann", chat, "before")
        await scene.heard("before")
        scene.fake.gateway.sessions.clear()
        scene.fake.say("ann", chat, "away 1")
        scene.fake.say("ann", room, "away 2")
        if how == "told":
            scene.fake.control(9, False)
        else:
            scene.fake.gateway.reset()
        await scene.host.until(lambda: len(scene.host.texts) == 3)
        scene.fake.say("ann", chat, "after")
        await scene.host.until(lambda: len(scene.host.texts) == 4)
        assert sorted(scene.host.texts[1:3]) == ["away 1", "away 2"]
        assert len(scene.fake.calls.of("op 2")) == 2


async def test_a_gateway_that_answers_no_heartbeat_is_left_and_resumed():
    async with serving(heartbeat_ms=50) as fake, listening(fake, ack=0.15) as scene:
        await fake.until(lambda: len(fake.calls.of("op 1")) > 3)
        assert len(fake.calls.of("op 6")) == 0
        fake.gateway.acks = False
        await fake.until(lambda: len(fake.calls.of("op 6")) == 1)
        fake.gateway.acks = True
        fake.say("ann", fake.private("ann"), "hello")
        await scene.heard("hello")


async def test_a_quiet_gateway_with_a_slow_heartbeat_is_not_left():
    async with serving(heartbeat_ms=400) as fake, listening(fake, ack=0.05) as scene:
        await fake.until(lambda: len(fake.calls.of("op 1")) > 3)
        assert (len(fake.calls.of("op 2")), len(fake.calls.of("op 6"))) == (1, 0)
        assert scene.host.lives > 3


async def test_while_the_network_is_gone_it_says_so_and_comes_back_by_itself():
    async with talking() as scene:
        chat = scene.fake.private("ann")
        scene.fake.cut()
        await scene.host.until(lambda: len(scene.host.ailments) > 2)
        scene.fake.say("ann", chat, "are you there?")
        lives = scene.host.lives
        await scene.fake.mend()
        await scene.heard("are you there?")
        assert scene.host.lives > lives
        assert all("Discord" in ailment for ailment in scene.host.ailments)


async def test_while_discord_is_down_it_comes_back_by_itself():
    async with talking() as scene:
        await scene.fake.stop()
        await scene.host.until(
            lambda: any("cannot be reached" in ailment for ailment in scene.host.ailments)
        )
        await scene.fake.start()
        scene.fake.say("ann", scene.fake.private("ann"), "hello")
        await scene.heard("hello")


async def test_a_wrong_token_ends_it_with_what_to_do():
    async with serving() as fake:
        channel = bot(fake, bot_token="wrong.token")
        with pytest.raises(Revoked, match="bot_token") as refused:
            await channel.run(Ledger())
        with pytest.raises(Revoked):
            await channel.check()
        await channel.aclose()
    assert "wrong.token" not in str(refused.value)


async def test_a_token_revoked_while_it_runs_ends_it_and_it_can_begin_again():
    async with talking() as scene:
        host = Ledger()
        scene.fake.say("ann", scene.fake.private("ann"), "before")
        await scene.heard("before")
        host.kept = scene.host.kept
        async with running(bot(scene.fake), host) as task:
            await host.until(lambda: host.lives > 0)
            scene.fake.revoke()
            with pytest.raises(Revoked, match="Reset Token"):
                await task
            with pytest.raises(Revoked):
                await scene.channel.show_typing(scene.at(scene.fake.private("ann")))
        scene.fake.admit()
        scene.fake.say("ann", scene.fake.private("ann"), "again")
        async with running(bot(scene.fake), host):
            await host.until(lambda: host.texts[-1:] == ["again"])


async def test_without_the_message_content_intent_it_says_which_switch_to_set():
    async with serving() as fake:
        fake.gateway.granted = False
        channel = bot(fake)
        with pytest.raises(Revoked, match="Message Content Intent"):
            await channel.run(Ledger())
        await channel.aclose()


async def test_a_gateway_that_lets_nobody_in_is_left_and_tried_again():
    async with serving() as fake:
        fake.gateway.guilds = ()
        fake.gateway.mute = True
        host = Ledger()
        channel = bot(fake, DiscordTiming(ready_s=0.1, close_s=0.2, first_s=0.02, invalid_s=(0, 0)))
        async with running(channel, host):
            await fake.until(lambda: len(fake.calls.of("op 2")) > 1)
            await host.until(lambda: "Discord's gateway does not answer any more" in host.ailments)
            fake.gateway.mute = False
            await host.until(lambda: host.lives > 0)


async def test_it_resumes_only_where_the_token_may_go():
    async with serving() as foreign, serving() as fake:
        fake.gateway.address = lambda: f"ws://localhost:{foreign.port}"
        async with listening(fake) as scene:
            fake.gateway.reset()
            fake.say("ann", fake.private("ann"), "hello")
            await scene.heard("hello")
            assert len(fake.calls.of("op 6")) == 1
        assert foreign.calls.made == []


async def test_a_dead_address_to_resume_at_is_not_tried_for_ever():
    async with serving() as fake:
        fake.gateway.address = lambda: f"ws://127.0.0.1:{fake.port}/nowhere"
        async with listening(fake) as scene:
            fake.gateway.reset()
            fake.say("ann", fake.private("ann"), "hello")
            await scene.heard("hello")
            assert len(fake.calls.of("op 6")) == 1


async def test_the_gateway_of_another_api_is_asked_for():
    async with serving() as fake, listening(fake, gateway_url="") as scene:
        assert len(scene.fake.calls.of("GET gateway")) == 1
        assert await scene.channel.check() == "@aidaemon"


@pytest.mark.parametrize(
    "fault", [Fault("status", 404), Fault("garbage"), Fault("status", 403), Fault("status", 503)]
)
async def test_a_server_that_knows_no_gateway_has_it_at_its_root(fault: Fault):
    async with serving() as fake:
        fake.fail("GET gateway", fault)
        async with listening(fake, gateway_url=""):
            assert len(fake.calls.of("op 2")) == 1


async def test_events_are_taken_in_the_order_in_which_they_came():
    async with talking() as scene:
        chats = [scene.fake.private(name) for name in ("ann", "bob", "cara")]
        scene.host.hold()
        for number in range(200):
            scene.fake.say(("ann", "bob", "cara")[number % 3], chats[number % 3], str(number))
        await scene.host.until(lambda: bool(scene.host.offers))
        scene.host.release()
        await scene.host.until(lambda: len(scene.host.texts) >= 200)
        for at, chat in enumerate(chats):
            texts = [said.text for said in scene.host.messages if said.address.chat == chat]
            assert texts == [str(number) for number in range(at, 200, 3)]
        assert max(len(offer) for offer in scene.host.offers) > 10


async def test_when_it_ends_nothing_is_left_running():
    async with serving() as fake:
        before, threads = asyncio.all_tasks(), set(threading.enumerate())
        async with listening(fake):
            assert len(asyncio.all_tasks()) > len(before)
        await fake.until(lambda: not fake.gateway.open)
        for thread in set(threading.enumerate()) - threads:
            await asyncio.to_thread(thread.join, 5)
            assert "keep-alive" not in thread.name or not thread.is_alive()


async def test_discord_in_trouble_at_the_start_is_waited_for():
    async with serving() as fake:
        fake.cut()
        host = Ledger()
        channel = bot(fake)
        with pytest.raises(RetryLater):
            await channel.check()
        async with running(channel, host):
            await host.until(lambda: bool(host.ailments))
            await fake.mend()
            await host.until(lambda: host.lives > 0)
