"""Which chats of Discord are read on, and from where, when they come and go while the daemon runs (A13, K1)."""

from datetime import UTC, datetime, timedelta

from channels.base import NotAccepted
from channels.discord import api
from channels.message import Address
from tests.channels.discord_host import listening, serving, talking
from tests.channels.host import Ledger
from tests.fakes.discord import GUILD, FakeDiscord
from tests.fakes.discord.world import ELSEWHERE
from tests.fakes.platform import Fault


def ago(minutes: float) -> str:
    """The id of a message of then."""
    return str(api.snowflake_at(datetime.now(UTC) - timedelta(minutes=minutes)))


def read_in(fake: FakeDiscord, chat: str) -> int:
    return len([asked for asked in fake.calls.of("GET messages") if asked["channel"] == chat])


async def test_with_a_guild_of_its_own_what_was_missed_in_another_one_is_nobodys_private_message():
    async with serving() as fake:
        elsewhere, host = fake.room("ann", guild=ELSEWHERE), Ledger()
        host.kept, host.known = ago(5), [Address("discord", elsewhere)]
        fake.say("ann", elsewhere, "not for you")
        async with listening(fake, host, guild_id=GUILD) as scene:
            fake.say("ann", fake.private("ann"), "hello")
            await fake.until(lambda: host.texts != [] and int(host.kept) > int(ago(1)))
            assert [said.text for said in scene.host.messages] == ["hello"]


async def test_B5_1_a_known_chat_of_somebody_whom_no_config_names_is_read_on_at_every_new_session():
    async with serving() as fake:
        cara, host = fake.private("cara"), Ledger()
        host.kept, host.known = ago(5), [Address("discord", cara)]
        fake.say("cara", cara, "one")
        async with listening(fake, host) as scene:
            await scene.heard("one")
            fake.cut()
            fake.gateway.sessions.clear()
            fake.say("cara", cara, "two")
            await fake.mend()
            await scene.heard("one", "two")


async def test_B5_1_who_wrote_for_the_first_time_while_it_was_down_is_heard_also_where_discord_has_trouble_then():
    async with serving() as fake:
        host = Ledger()
        mark = host.kept = ago(5)
        for name in ("ann", "bob"):
            fake.say(name, fake.private(name), f"hello from {name}")
        fake.fail("POST users/@me/channels", Fault("status", 503, times=3))
        async with listening(fake, host):
            fake.say("ann", fake.group("ann"), "meanwhile")
            await host.until(lambda: "meanwhile" in host.texts)
            assert host.kept == mark
            await host.until(
                lambda: sorted(host.texts) == ["hello from ann", "hello from bob", "meanwhile"]
            )


async def test_chats_that_the_daemon_cannot_name_just_now_are_asked_for_again():
    class Busy(Ledger):
        asked_for = 0

        async def list_conversations(self) -> list[Address]:
            self.asked_for += 1
            if self.asked_for < 3:
                raise NotAccepted("the disk is full")
            return list(self.known)

    async with serving() as fake:
        cara, host = fake.private("cara"), Busy()
        host.kept, host.known = ago(5), [Address("discord", cara)]
        fake.say("cara", cara, "while away")
        async with listening(fake, host) as scene:
            await scene.heard("while away")
            assert len(fake.calls.of("op 2")) == 1


async def test_people_who_are_looked_up_hold_up_nobody():
    async with serving() as fake:
        host = Ledger()
        fake.fail("POST users/@me/channels", Fault("slow", seconds=0.4, times=4))
        async with listening(fake, host, allowed_user_ids=list(range(1, 5))) as scene:
            fake.say("ann", fake.group("ann"), "hello")
            await scene.heard("hello")
            assert len(fake.calls.of("POST users/@me/channels")) < 5


async def test_a_guild_that_was_away_for_a_moment_is_read_on_from_then_not_from_when_the_session_began():
    async with serving() as fake:
        room, host = fake.group("ann"), Ledger()
        host.kept, fake.world.places[room].last = ago(60), "1"
        async with listening(fake, host) as scene:
            fake.say("ann", room, "half an hour ago", id=ago(30))
            fake.say("ann", fake.private("ann"), "now")
            await scene.heard("half an hour ago", "now")
            fake.gateway.emit("GUILD_DELETE", {"id": GUILD, "unavailable": True})
            fake.gateway.emit("GUILD_CREATE", fake.world.guild(GUILD))
            fake.say("ann", room, "again")
            await scene.heard("half an hour ago", "now", "again")
            assert read_in(fake, room) == 0


async def test_what_was_said_in_a_guild_while_that_was_away_is_read_on():
    async with talking() as scene:
        room = scene.fake.group("ann")
        scene.fake.say("ann", room, "before")
        await scene.heard("before")
        scene.fake.gateway.emit("GUILD_DELETE", {"id": GUILD, "unavailable": True})
        scene.fake.world.write(
            scene.fake.world.places[room], scene.fake.world.person("ann"), "meanwhile"
        )
        scene.fake.gateway.emit("GUILD_CREATE", scene.fake.world.guild(GUILD))
        await scene.heard("before", "meanwhile")


async def test_a_guild_that_it_is_invited_to_has_nothing_that_was_missed():
    async with serving() as fake:
        room, host = fake.room("ann", guild=ELSEWHERE), Ledger()
        host.kept = ago(60)
        async with listening(fake, host) as scene:
            fake.say("ann", fake.private("ann"), "come to us")
            await scene.heard("come to us")
            fake.world.write(fake.world.places[room], fake.world.person("ann"), "before it came")
            fake.gateway.emit("GUILD_CREATE", fake.world.guild(ELSEWHERE))
            fake.say("ann", room, "hello")
            await scene.heard("come to us", "hello")
            assert read_in(fake, room) == 0


async def test_B5_1_a_session_that_ends_while_the_last_page_is_written_down_costs_nothing():
    async with serving() as fake:
        room, host = fake.group("ann"), Ledger()
        host.kept = ago(5)
        fake.say("ann", room, "one")
        host.hold()
        async with listening(fake, host) as scene:
            await host.until(lambda: bool(host.offers))
            fake.cut()
            fake.gateway.sessions.clear()
            fake.say("ann", room, "two")
            lives = host.lives
            await fake.mend()
            await host.until(lambda: host.lives >= lives + 2)
            host.release()
            await scene.heard("one", "two")


async def test_an_edit_that_was_read_with_its_message_is_not_told_again():
    async with serving() as fake:
        cara, host = fake.private("cara"), Ledger()
        host.kept, host.known = ago(5), [Address("discord", cara)]
        fake.fail("GET channels", Fault("status", 503, times=3))
        async with listening(fake, host) as scene:
            first = fake.say("cara", cara, "helo")
            fake.edit(first, "hello")
            second = fake.say("cara", cara, "one")
            await host.until(lambda: "one" in host.texts)
            fake.edit(second, "two")
            await scene.heard("hello", "one", "two")


async def test_a_guild_that_is_named_while_it_is_away_is_read_on_when_it_is_there():
    async with serving() as fake:
        room, host = fake.room("ann", guild=ELSEWHERE), Ledger()
        mark = host.kept = ago(5)
        fake.gateway.guilds, fake.gateway.absent = (GUILD, ELSEWHERE), (ELSEWHERE,)
        fake.say("ann", room, "missed")
        async with listening(fake, host) as scene:
            fake.gateway.emit("GUILD_CREATE", {"id": ELSEWHERE, "unavailable": True})
            fake.say("ann", fake.private("ann"), "meanwhile")
            await scene.heard("meanwhile")
            assert host.kept == mark
            fake.gateway.emit("GUILD_CREATE", fake.world.guild(ELSEWHERE))
            await scene.heard("meanwhile", "missed")


async def test_a_chat_with_much_to_read_on_lets_the_others_have_their_turn():
    async with serving() as fake:
        room, host = fake.group("ann"), Ledger()
        host.kept = ago(5)
        for number in range(450):
            fake.say("ann", room, str(number))
        fake.say("bob", fake.private("bob"), "hello")
        async with listening(fake, host):
            await host.until(lambda: len(host.texts) == 451)
        assert host.texts.index("hello") <= 100
        assert [text for text in host.texts if text != "hello"] == [
            str(number) for number in range(450)
        ]
