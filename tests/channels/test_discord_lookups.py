"""What a message of Discord points at comes with it: the message that it answers, the first one of its thread (A14)."""

import asyncio

from channels.message import InboundMessage, OutboundMessage
from tests.channels.discord_host import Scene, talking
from tests.channels.test_discord_content import CARD, EMBED
from tests.fakes.discord import FakeDiscord
from tests.fakes.platform import Fault

SLOW = "[it could not be read: Discord does not answer at the moment]"
GONE = "[it could not be read: it is gone, or not for the assistant]"
ONE = "GET message"


def alert(fake: FakeDiscord, chat: str) -> str:
    """Another bot writes a card."""
    fake.world.person("watcher")["bot"] = True
    return fake.say("watcher", chat, "", embeds=[EMBED])


async def asked(
    on: Scene, chat: str, text: str = "what is this?", **more: object
) -> InboundMessage:
    """Ann asks the bot there."""
    count = len(on.host.messages)
    on.fake.say("ann", chat, on.fake.mention(text), **more)  # type: ignore[arg-type]
    await on.host.until(lambda: len(on.host.messages) > count)
    return on.host.messages[-1]


def pointed(said: InboundMessage) -> list[tuple[str, str, str, str]]:
    return [(one.kind, one.text, one.by, one.author) for one in said.references]


def begun(on: Scene, chat: str, starter: str) -> str:
    """A thread made from this message; it has its id."""
    return on.fake.thread(starter, chat, by="ann")


async def test_a_reply_to_a_card_of_another_bot_comes_with_the_card():
    async with talking() as on:
        room = on.fake.group("ann")
        number = alert(on.fake, room)
        said = await asked(on, room, reply_to=number)
    assert pointed(said) == [("reply", CARD, "other", "Watcher")]
    assert (said.text, said.references[0].message_id) == ("what is this?", number)


async def test_a_reply_to_the_assistant_names_its_message_and_has_all_of_its_text():
    async with talking() as on:
        room = on.fake.group("ann")
        part = on.channel.render("the answer " * 100)[0]
        ours = await on.channel.send(OutboundMessage(on.at(room), part, "k"))
        on.fake.say("ann", room, "is that so?", reply_to=ours)
        await on.host.until(lambda: bool(on.host.messages))
    (said,) = on.host.messages
    (reply,) = said.references
    assert (said.addressed, reply.by, reply.message_id) == (True, "assistant", ours)
    assert reply.text == ("the answer " * 100).strip()


async def test_a_reply_that_discord_has_not_looked_up_is_looked_up_once():
    async with talking() as on:
        room = on.fake.group("ann", "bob")
        number = alert(on.fake, room)
        where = {"message_id": number, "channel_id": room}
        for text in ("one", "two"):
            said = await asked(on, room, text, type=19, message_reference=where)
            assert pointed(said) == [("reply", CARD, "other", "Watcher")]
        assert len(on.fake.calls.of(ONE)) == 1
        ours = await on.channel.send(OutboundMessage(on.at(room), on.channel.render("hi")[0], "k"))
        where = {"message_id": ours, "channel_id": room}
        on.fake.say("bob", room, "thanks", type=19, message_reference=where)
        await on.host.until(lambda: len(on.host.messages) == 3)
    assert on.host.messages[-1].addressed and pointed(on.host.messages[-1])[0][2] == "assistant"


async def test_of_a_reply_to_what_is_gone_the_model_is_told_so():
    async with talking() as on:
        room = on.fake.group("ann")
        where = {"message_id": "17", "channel_id": room}
        gone = await asked(on, room, type=19, message_reference=where, referenced_message=None)
        on.fake.fail(ONE, Fault("status", 503, times=9))
        where = {"message_id": "18", "channel_id": room}
        down = await asked(on, room, type=19, message_reference=where, referenced_message=None)
    assert pointed(gone) == [("reply", GONE, "other", "")]
    assert pointed(down) == [("reply", SLOW, "other", "")]


async def test_in_a_thread_made_from_a_message_the_model_sees_that_message():
    async with talking() as on:
        room = on.fake.group("ann", "bob")
        starter = alert(on.fake, room)
        thread = begun(on, room, starter)
        on.fake.say("bob", thread, "not again")
        said = await asked(on, thread)
        other = await asked(on, thread, "and now?")
        fetched = len(on.fake.calls.of(ONE))
        on.host.known.append(on.at(thread))
        later = await asked(on, thread, "still?")
    assert starter == thread
    assert pointed(said) == pointed(other) == [("root", CARD, "other", "Watcher")]
    assert (on.host.messages[0].references, later.references, fetched) == ((), (), 1)


async def test_the_first_message_of_a_thread_may_be_the_assistants_or_the_senders_own():
    async with talking() as on:
        room = on.fake.group("ann")
        ours = await on.channel.send(
            OutboundMessage(on.at(room), on.channel.render("done")[0], "k")
        )
        said = await asked(on, begun(on, room, ours))
        assert pointed(said) == [("root", "done", "assistant", "aidaemon")]
        said = await asked(on, begun(on, room, on.fake.say("ann", room, "my plan")))
        assert pointed(said) == [("root", "my plan", "sender", "Ann")]
        first = on.fake.say("ann", room, "my plan", files=[("pay.pdf", b"x")])
        said = await asked(on, begun(on, room, first))
        assert pointed(said) == [("root", "my plan", "sender", "Ann")]
        assert "pay.pdf" in said.references[0].beside


async def test_the_note_at_the_beginning_of_a_thread_holds_its_first_message():
    async with talking() as on:
        room = on.fake.group("ann")
        starter = alert(on.fake, room)
        thread = begun(on, room, starter)
        where = {"channel_id": room, "message_id": starter}
        message = on.fake.world.messages.pop(starter)
        on.fake.say("ann", thread, "", type=21, message_reference=where, referenced_message=message)
        said = await asked(on, thread)
    assert pointed(said) == [("root", CARD, "other", "Watcher")]
    assert on.fake.calls.of(ONE) == []


async def test_a_thread_without_such_a_message_begins_with_its_own_first_one():
    async with talking() as on:
        room = on.fake.group("ann", "bob")
        post = on.fake.thread("a post in a forum", room, by="bob")
        on.fake.say("bob", post, "Which database?")
        said = await asked(on, post)
        assert pointed(said) == [("root", "Which database?", "other", "Bob")]
        alone = await asked(on, on.fake.thread("just begun", room, by="ann"))
    assert alone.references == ()


async def test_of_a_thread_whose_first_message_is_gone_the_model_is_told_so():
    async with talking() as on:
        room = on.fake.group("ann")
        starter = alert(on.fake, room)
        thread = begun(on, room, starter)
        del on.fake.world.messages[starter]
        place = on.fake.world.places[thread]
        ann = on.fake.world.person("ann")
        on.fake.world.write(place, ann, "", type=21, referenced_message=None)
        said = await asked(on, thread)
    assert pointed(said) == [("root", GONE, "other", "")]


async def test_a_discord_that_is_slow_holds_messages_up_for_a_while_only_and_none_overtakes():
    async with talking() as on:
        room = on.fake.group("ann")
        thread = begun(on, room, alert(on.fake, room))
        on.fake.fail(ONE, Fault("slow", seconds=30, times=5))
        for text in ("one", "two"):
            on.fake.say("ann", thread, on.fake.mention(text))
        on.fake.say("ann", on.fake.private("ann"), "three")
        async with asyncio.timeout(20):
            await on.heard("one", "two", "three")
    assert [pointed(one) for one in on.host.messages[:2]] == [[("root", SLOW, "other", "")]] * 2
    assert len(on.fake.calls.of(ONE)) == 1


async def test_what_was_asked_while_nobody_listened_comes_with_what_it_points_at():
    async with talking() as on:
        room = on.fake.group("ann")
        thread = begun(on, room, alert(on.fake, room))
        on.fake.cut()
        on.fake.gateway.sessions.clear()
        on.fake.say("ann", thread, on.fake.mention("missed?"))
        await on.fake.mend()
        await on.heard("missed?")
    assert pointed(on.host.messages[0]) == [("root", CARD, "other", "Watcher")]
