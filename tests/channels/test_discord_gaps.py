"""What was said at Discord while nobody listened is read on: after a gap, after a restart, in order, once (K1, #2)."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from channels.discord import api
from channels.discord.channel import Discord
from channels.discord.config import DiscordAccount
from channels.message import Address
from tests.channels.discord_host import QUICK, listening, serving, talking
from tests.channels.host import Ledger, running
from tests.fakes.discord import GUILD, FakeDiscord
from tests.fakes.discord.world import ELSEWHERE
from tests.fakes.platform import Fault


def numbered(fake: FakeDiscord, chat: str, count: int, start: int = 0) -> Iterator[str]:
    for number in range(start, start + count):
        fake.say("ann", chat, str(number))
        yield str(number)


async def test_B5_1_what_came_while_it_was_down_is_taken_at_the_next_start_in_order():
    async with serving() as fake:
        room, host = fake.group("ann"), Ledger()
        thread = fake.thread("t", room)
        async with listening(fake, host):
            fake.say("ann", fake.private("ann"), "hello")
            await fake.until(
                lambda: host.texts == ["hello"] and host.kept == host.messages[0].external_id
            )
        fake.gateway.sessions.clear()
        expected = {
            chat: list(numbered(fake, chat, 250)) for chat in (room, thread, fake.private("ann"))
        }
        async with listening(fake, host):
            fake.say("ann", room, "after")
            await host.until(lambda: len(host.texts) == 752)
        for chat, texts in expected.items():
            tail = ["after"] if chat == room else []
            assert [
                said.text for said in host.messages[1:] if said.address.chat == chat
            ] == texts + tail
        assert all(
            said.private == (said.address.chat == fake.private("ann")) for said in host.messages
        )
        assert all(said.addressed for said in host.messages if said.address.chat == thread)


async def test_B5_1_the_first_start_reads_nothing_of_before():
    async with serving() as fake:
        fake.world.last_id = 1 << 40
        fake.say("ann", fake.private("ann"), "old", id="1000000000000000000")
        fake.world.places[fake.private("ann")].last = "1000000000000000000"
        async with listening(fake) as scene:
            fake.say("ann", fake.private("ann"), "new")
            await scene.heard("new")
            assert int(scene.host.kept) > 1 << 60


async def test_B5_1_an_id_that_cannot_be_does_not_make_it_miss_anything():
    async with serving() as fake:
        chat, host = fake.private("ann"), Ledger()
        async with listening(fake, host):
            fake.say("ann", chat, "odd", id=str((1 << 63) - 1))
            fake.say("ann", chat, "hello")
            await fake.until(
                lambda: host.texts == ["odd", "hello"] and host.kept == host.messages[1].external_id
            )
            fake.cut()
            fake.gateway.sessions.clear()
            fake.say("ann", chat, "missed")
            await fake.mend()
            await host.until(lambda: host.texts[2:] == ["missed"])


async def test_a_chat_that_is_known_but_not_listed_is_read_on():
    async with serving() as fake:
        cara, host = fake.private("cara"), Ledger()
        host.kept = fake.world.snowflake()
        host.known = [
            Address("discord", cara),
            Address("discord", "12345"),
            Address("discord", "odd"),
        ]
        fake.say("cara", cara, "while away")
        async with listening(fake, host) as scene:
            await scene.heard("while away")
            assert host.messages[0].private


async def test_a_server_that_names_no_newest_messages_is_read_on_all_the_same():
    async with serving() as fake:
        room, host = fake.group("ann"), Ledger()
        host.kept = fake.world.snowflake()
        for chat in (room, fake.private("ann")):
            fake.say("ann", chat, "while away")
            fake.world.places[chat].last = None
        async with listening(fake, host):
            await host.until(lambda: len(host.texts) == 2)


async def test_B5_1_what_the_daemon_could_not_write_is_neither_lost_nor_overtaken():
    async with talking() as scene:
        chat = scene.fake.private("ann")
        scene.host.refuse(3)
        texts = list(numbered(scene.fake, chat, 5))
        await scene.heard(*texts)
        assert len(scene.host.offers) >= 4


async def test_B5_1_the_mark_is_never_ahead_of_what_was_written():
    async with serving() as fake:
        host = Ledger()
        async with listening(fake, host):
            fake.say("ann", fake.private("ann"), "one")
            await fake.until(
                lambda: host.texts == ["one"] and host.kept == host.messages[0].external_id
            )
            mark = host.kept
            host.hold()
            fake.say("ann", fake.private("ann"), "two")
            await host.until(lambda: len(host.offers) == 2)
            assert host.kept == mark
        host.release()
        fake.gateway.sessions.clear()
        async with listening(fake, host) as scene:
            await scene.heard("one", "two")


async def test_B5_1_while_something_may_be_missing_the_mark_stands_still_and_what_is_new_waits_behind_it():
    async with serving() as fake:
        room, host = fake.group("ann"), Ledger()
        mark = host.kept = fake.world.snowflake()
        fake.say("ann", room, "missed")
        fake.fail("GET messages", Fault("status", 503, times=4))
        async with listening(fake, host) as scene:
            fake.say("bob", fake.private("bob"), "elsewhere")
            fake.say("ann", room, "new")
            await host.until(lambda: "elsewhere" in host.texts)
            await fake.until(lambda: len(fake.calls.of("GET messages")) == 3)
            assert "new" not in host.texts
            assert host.kept == mark
            await host.until(lambda: len(host.texts) == 3)
            assert [text for text in host.texts if text != "elsewhere"] == ["missed", "new"]
            await host.until(lambda: bool(host.ailments))
            await scene.fake.until(
                lambda: host.kept == max(said.external_id for said in host.messages)
            )


async def test_a_channel_that_may_not_be_read_holds_up_nothing():
    async with serving() as fake:
        room, host = fake.group("ann"), Ledger()
        host.kept = fake.world.snowflake()
        fake.say("ann", room, "missed")
        fake.world.places[room].deny = 50001
        async with listening(fake, host) as scene:
            fake.say("ann", fake.private("ann"), "hello")
            fake.say("ann", room, "new")
            await host.until(lambda: len(host.texts) == 2)
            await scene.fake.until(
                lambda: host.kept == max(said.external_id for said in host.messages)
            )


async def test_what_comes_twice_is_taken_once():
    async with talking() as scene:
        chat = scene.fake.private("ann")
        number = scene.fake.say("ann", chat, "one")
        scene.fake.again(number)
        scene.fake.say("ann", chat, "two")
        await scene.heard("one", "two")


async def test_poison_in_the_history_holds_up_nothing():
    async with serving() as fake:
        room, host = fake.group("ann"), Ledger()
        host.kept = fake.world.snowflake()
        broken = fake.say("ann", room, "broken")
        fake.world.messages[broken]["author"] = None
        fake.say("ann", room, "whole")
        async with listening(fake, host) as scene:
            await scene.heard("whole")
            assert len(host.poison) == 1


async def test_a_clock_that_was_ahead_at_the_first_start_costs_nothing():
    async with serving() as fake:
        host = Ledger()
        ahead = datetime.now(UTC) + timedelta(hours=3)
        channel = Discord(
            DiscordAccount.model_validate(fake.config()), timing=QUICK, now=lambda: ahead
        )
        async with running(channel, host):
            await host.until(lambda: host.lives > 0)
            fake.say("ann", fake.private("ann"), "one")
            await host.until(lambda: host.texts == ["one"])
            await fake.until(lambda: host.kept == host.messages[0].external_id)
        fake.gateway.sessions.clear()
        fake.say("ann", fake.private("ann"), "two")
        async with listening(fake, host) as scene:
            await scene.heard("one", "two")


async def test_a_mark_from_the_future_is_not_believed():
    async with serving() as fake:
        host = Ledger()
        host.kept = str(api.snowflake_at(datetime.now(UTC) + timedelta(hours=3)))
        fake.say("ann", fake.private("ann"), "while away")
        async with listening(fake, host) as scene:
            await scene.heard("while away")


@pytest.mark.parametrize("first", [True, False])
async def test_a_clock_that_is_set_only_after_the_start_digs_up_nothing_old(first: bool):
    async with serving() as fake:
        host, month = Ledger(), timedelta(days=30)
        host.kept = "" if first else str(api.snowflake_at(datetime.now(UTC) - timedelta(minutes=5)))
        fake.say(
            "ann",
            fake.private("ann"),
            "long ago",
            id=str(api.snowflake_at(datetime.now(UTC) - month)),
        )
        if not first:
            fake.say("ann", fake.private("ann"), "while away")

        def now() -> datetime:
            return datetime.now(UTC) if fake.calls.of("op 2") else datetime(2016, 1, 1, tzinfo=UTC)

        channel = Discord(DiscordAccount.model_validate(fake.config()), timing=QUICK, now=now)
        async with running(channel, host):
            await fake.until(
                lambda: (
                    int(host.kept or 0) > api.snowflake_at(datetime.now(UTC) - timedelta(days=2))
                )
            )
            fake.say("bob", fake.private("bob"), "hello")
            await host.until(lambda: "hello" in host.texts)
            await fake.until(lambda: host.kept == max(said.external_id for said in host.messages))
        assert sorted(host.texts) == (["hello"] if first else ["hello", "while away"])


async def test_a_thread_that_it_talked_in_is_still_its_own_after_a_restart():
    async with serving() as fake:
        host, room = Ledger(), fake.group("ann")
        thread = fake.thread("t", room, by="ann")
        host.known = [Address("discord", thread)]
        async with listening(fake, host) as scene:
            fake.say("ann", thread, "go on")
            await scene.heard("go on")
            assert host.messages[0].addressed


async def test_a_guild_that_comes_late_is_read_on_from_the_same_mark():
    async with serving() as fake:
        host, room = Ledger(), fake.room("ann", guild=ELSEWHERE)
        mark = host.kept = fake.world.snowflake()
        fake.gateway.guilds, fake.gateway.absent = (GUILD, ELSEWHERE), (ELSEWHERE,)
        fake.say("ann", room, "missed")
        async with listening(fake, host) as scene:
            fake.say("ann", fake.private("ann"), "meanwhile")
            await scene.heard("meanwhile")
            assert host.kept == mark
            fake.gateway.emit("GUILD_CREATE", fake.world.guild(ELSEWHERE))
            await scene.heard("meanwhile", "missed")
            await fake.until(lambda: host.kept == host.messages[0].external_id)


async def test_a_thread_that_wakes_up_again_is_still_its_own():
    async with serving() as fake:
        host, room, thread = Ledger(), fake.group("ann"), "600000000000000123"
        host.known = [Address("discord", thread)]
        async with listening(fake, host) as scene:
            await fake.until(lambda: thread in str(fake.calls.of("GET channels")))
            fake.thread(thread, room, by="ann")
            fake.say("ann", thread, "go on")
            await scene.heard("go on")
            assert host.messages[0].addressed
