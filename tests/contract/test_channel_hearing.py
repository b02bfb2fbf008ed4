"""What comes in, on every channel alike (A13, A14, F1)."""

import asyncio

import pytest

from channels.message import Choice, InboundMessage, OutboundMessage
from tests.contract.channels import Stage, needs

BURST = 50
YES = (Choice("Allow", "approve:7:once"),)


def offered(stage: Stage) -> list[InboundMessage]:
    """Every message that the house was asked to take, taken or not."""
    return [
        arrival
        for offer in stage.host.offers
        for arrival in offer
        if isinstance(arrival, InboundMessage)
    ]


async def test_a13_a_message_says_who_wrote_it_and_where(stage: Stage):
    async with stage.listening():
        number = stage.platform.say("ann", stage.ann.chat, "hello")
        (said,) = await stage.heard("hello")
    assert (said.address, said.sender.id, said.message_id) == (
        stage.place(said),
        stage.platform.person("ann"),
        number,
    )
    assert (
        said.private is stage.kind.private
        and said.addressed
        and not (said.forwarded or said.edits or said.references or said.attachments)
    )
    assert said.external_id and said.sent_at is not None


async def test_a13_a_further_account_has_places_of_its_own(stage: Stage):
    work = stage.anew(f"work/{stage.kind.name}")
    async with work.listening():
        work.platform.say("ann", work.ann.chat, "hello")
        work.platform.poison()
        (said,) = await work.heard("hello")
        await work.host.until(lambda: bool(work.host.poison))
    assert (
        work.channel.name
        == said.address.channel
        == work.host.poison[0].channel
        == f"work/{stage.kind.name}"
    )


async def test_a13_a_stranger_is_heard_too_for_the_daemon_decides_who_is_let_in(stage: Stage):
    async with stage.listening():
        stage.platform.say("eve", stage.platform.private("eve"), "hello")
        (said,) = await stage.heard("hello")
    assert said.sender.id == stage.platform.person("eve")


async def test_text_comes_as_it_was_typed(stage: Stage):
    texts = [
        "a < b && c > d",
        "*not bold* _x_ `y`",
        "שלום עולם",
        "👩‍👩‍👧‍👦 ok",
        "two\nlines",
        "@everyone & #general",
    ]
    async with stage.listening():
        for text in texts:
            stage.platform.say("ann", stage.ann.chat, text)
        await stage.heard(*texts)


@needs("groups")
async def test_a14_in_a_group_a_message_is_for_the_assistant_when_it_is_named(stage: Stage):
    group = stage.platform.group("ann", "bob")
    async with stage.listening():
        stage.platform.say("bob", group, "just talking")
        stage.platform.say("ann", group, stage.platform.mention("what do you think?"))
        await stage.host.until(lambda: "what do you think?" in stage.host.texts)
    (asked,) = [message for message in stage.host.messages if message.text == "what do you think?"]
    others = [message for message in stage.host.messages if message is not asked]
    assert (
        asked.addressed
        and not asked.private
        and asked.address == stage.at(group, asked.address.thread)
    )
    assert not any(other.addressed for other in others)


async def test_a14_every_thread_is_a_place_of_its_own(stage: Stage):
    group = stage.platform.group("ann", "bob")
    openings = [stage.platform.say("ann", group, f"opening {number}") for number in range(2)]
    async with stage.listening():
        where = [
            (
                await stage.heard_from(
                    "ann", group, stage.platform.mention(f"in thread {number}"), opening
                )
            ).address
            for number, opening in enumerate(openings)
        ]
        where.append(
            (await stage.heard_from("ann", group, stage.platform.mention("outside"))).address
        )
    assert len({(address.chat, address.thread) for address in where}) == 3


async def test_f1_a_burst_is_taken_in_order_in_each_chat_and_once_each(stage: Stage):
    chats = [stage.platform.private(person) for person in ("ann", "bob", "carl")]
    async with stage.listening():
        for number in range(BURST):
            for person, chat in zip(("ann", "bob", "carl"), chats, strict=True):
                message = stage.platform.say(person, chat, f"{number}")
                if number % 7 == 0:
                    stage.platform.again(message)
        await stage.host.until(lambda: len(stage.host.texts) >= BURST * len(chats))
    for chat in chats:
        texts = [message.text for message in stage.host.messages if message.address.chat == chat]
        assert texts == [f"{number}" for number in range(BURST)]


async def test_f1_what_comes_again_has_the_same_name(stage: Stage):
    async with stage.listening():
        number = stage.platform.say("ann", stage.ann.chat, "hello")
        await stage.heard("hello")
        stage.platform.again(number)
        stage.platform.say("ann", stage.ann.chat, "bye")
        await stage.heard("hello", "bye")


async def test_f1_what_the_daemon_could_not_take_comes_again_under_the_same_name(stage: Stage):
    async with stage.listening():
        stage.platform.say("ann", stage.ann.chat, "before")
        await stage.heard("before")
        stage.host.refuse(4)
        for text in ("one", "two", "three"):
            stage.platform.say("ann", stage.ann.chat, text)
        await stage.heard("before", "one", "two", "three")
    names = [arrival.external_id for arrival in offered(stage) if arrival.text == "one"]
    assert len(names) > 1 and len(set(names)) == 1


async def test_f1_what_was_not_taken_when_the_process_died_is_there_for_the_next(stage: Stage):
    async with stage.listening():
        stage.platform.say("ann", stage.ann.chat, "before")
        await stage.heard("before")
        stage.host.refuse(1000)
        stage.platform.say("ann", stage.ann.chat, "while it died")
        await stage.host.until(
            lambda: any(arrival.text == "while it died" for arrival in offered(stage))
        )
    stage.platform.say("ann", stage.ann.chat, "while it was away")
    stage.host.refuse(0)
    stage.host.known = [stage.ann]
    async with stage.anew().listening():
        await stage.heard("before", "while it died", "while it was away")


async def test_nothing_is_taken_twice_by_a_restart(stage: Stage):
    async with stage.listening():
        stage.platform.say("ann", stage.ann.chat, "one")
        await stage.heard("one")
    stage.host.known = [stage.ann]
    async with stage.anew().listening():
        stage.platform.say("ann", stage.ann.chat, "two")
        await stage.heard("one", "two")


async def test_it_ends_soon_although_the_daemon_hangs(stage: Stage):
    async with stage.listening() as task:
        stage.platform.say("ann", stage.ann.chat, "one")
        await stage.heard("one")
        stage.host.hold()
        stage.platform.say("ann", stage.ann.chat, "two")
        await stage.host.until(lambda: len(stage.host.offers) > 1 or stage.kind.name != "telegram")
        task.cancel()
        await asyncio.wait([task], timeout=10)
        assert task.done()


async def test_a_slow_daemon_holds_nothing_up_for_ever(stage: Stage):
    async with stage.listening():
        stage.host.hold()
        stage.platform.say("ann", stage.ann.chat, "one")
        await stage.host.until(lambda: bool(stage.host.offers))
        stage.platform.say("ann", stage.ann.chat, "two")
        stage.host.release()
        await stage.heard("one", "two")


async def test_poison_is_set_aside_and_holds_up_nothing(stage: Stage):
    async with stage.listening():
        for number in range(9):
            stage.platform.say("ann", stage.ann.chat, f"{number}")
            stage.platform.poison()
        stage.platform.say("ann", stage.ann.chat, "the last")
        await stage.heard(*map(str, range(9)), "the last")
        await stage.host.until(lambda: len(stage.host.poison) >= 9)
    assert all(
        one.raw and one.reason and one.channel == stage.channel.name for one in stage.host.poison
    )
    assert len({one.external_id for one in stage.host.poison}) == len(stage.host.poison)


@needs("edits")
async def test_a14_an_edited_message_says_which_it_replaces(stage: Stage):
    async with stage.listening():
        number = stage.platform.say("ann", stage.ann.chat, "helo")
        await stage.heard("helo")
        stage.kind.change(stage.platform, "ann", number, "hello")
        said, edited = await stage.heard("helo", "hello")
    assert edited.edits == said.external_id != edited.external_id
    assert (edited.message_id, edited.address, edited.sender) == (number, stage.ann, said.sender)


@needs("reactions")
async def test_a14_a_reaction_to_an_answer_is_heard(stage: Stage):
    async with stage.listening():
        answer = await stage.send("the answer")
        stage.platform.react("ann", answer, "👍")
        await stage.host.until(lambda: bool(stage.host.reactions))
    (reaction,) = stage.host.reactions
    assert (reaction.message_id, reaction.emoji, reaction.sender.id) == (
        answer,
        "👍",
        stage.platform.person("ann"),
    )
    assert reaction.address.chat == stage.ann.chat


@needs("buttons")
async def test_a15_a_press_is_told_and_who_pressed_is_shown_the_answer(stage: Stage):
    async with stage.listening():
        asked = await stage.channel.send(
            OutboundMessage(stage.ann, stage.piece("May I?"), "k1", choices=YES)
        )
        stage.platform.press("ann", asked, YES[0].data)
        await stage.platform.until(lambda: bool(stage.platform.pressed()))
    (press,) = stage.host.presses
    assert (press.data, press.message_id, press.address) == (YES[0].data, asked, stage.ann)
    assert press.sender.id == stage.platform.person("ann")
    assert stage.platform.pressed() == [stage.host.toast]


@needs("buttons")
async def test_a15_whoever_presses_in_a_group_is_named(stage: Stage):
    group = stage.group
    async with stage.listening():
        asked = await stage.channel.send(
            OutboundMessage(group, stage.piece("May I?"), "k1", choices=YES)
        )
        stage.platform.press("bob", asked, YES[0].data)
        await stage.host.until(lambda: bool(stage.host.presses))
    assert stage.host.presses[0].sender.id == stage.platform.person("bob")


@needs("buttons")
@pytest.mark.parametrize("data", ["approve:999:always", "x" * 64, "💥\x00\n'; --", "{"])
async def test_a15_forged_data_comes_as_it_is_and_breaks_nothing(stage: Stage, data: str):
    async with stage.listening():
        asked = await stage.channel.send(
            OutboundMessage(stage.ann, stage.piece("May I?"), "k1", choices=YES)
        )
        stage.platform.press("bob", asked, data)
        stage.platform.press("ann", asked, YES[0].data)
        await stage.host.until(
            lambda: any(press.data == YES[0].data for press in stage.host.presses)
        )
        stage.platform.say("ann", stage.ann.chat, "still there")
        await stage.heard("still there")
    assert {press.data for press in stage.host.presses} <= {data, YES[0].data}


@needs("buttons")
async def test_a15_a_press_that_could_not_be_written_down_is_told_or_tried_again(stage: Stage):
    async with stage.listening():
        asked = await stage.channel.send(
            OutboundMessage(stage.ann, stage.piece("May I?"), "k1", choices=YES)
        )
        stage.host.refuse(1)
        stage.platform.press("ann", asked, YES[0].data)
        await stage.platform.until(lambda: any(stage.platform.pressed()))
    assert len(stage.host.presses) <= 1
    assert stage.host.presses or stage.platform.pressed() != [stage.host.toast]


async def test_its_own_messages_are_not_heard(stage: Stage):
    group = stage.group
    async with stage.listening():
        await stage.send("mine")
        await stage.send(stage.platform.mention("mine"), "k2", group)
        stage.platform.say("ann", stage.ann.chat, "yours")
        await stage.heard("yours")


@needs("buttons")
async def test_nobody_waits_for_a_press_that_takes_long(stage: Stage):
    """E7: /stop is heard while a button's press is worked on."""
    async with stage.listening():
        asked = await stage.channel.send(
            OutboundMessage(stage.ann, stage.piece("May I?"), "k1", choices=YES)
        )
        stage.platform.press("ann", asked, YES[0].data)
        stage.platform.say("ann", stage.ann.chat, "/stop")
        async with asyncio.timeout(5):
            await stage.heard("/stop")
