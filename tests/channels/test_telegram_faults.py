"""What goes wrong between Telegram and the channel: the reference's table row by row, over real sockets (K1, #2, #13)."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from channels.base import DeliveryUnknown, Gone, Moved, Rejected, RetryLater, Revoked
from channels.message import Address, ChatMoved, MessagePart, OutboundMessage
from channels.telegram.channel import Telegram, TelegramTiming
from channels.telegram.config import TelegramAccount
from tests.channels.host import Ledger, running
from tests.fakes.platform import Fault
from tests.fakes.telegram import FakeTelegram

SOON = TelegramTiming(first_s=0.02, longest_s=0.1, poll_s=5)
HELLO = MessagePart("<b>hello</b>", "hello")


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as fake:
        yield fake


@pytest.fixture
async def channel(telegram: FakeTelegram) -> AsyncIterator[Telegram]:
    made = Telegram(TelegramAccount.model_validate(telegram.config()), timing=SOON)
    yield made
    await made.aclose()


@pytest.fixture
def house() -> Ledger:
    return Ledger()


def at(telegram: FakeTelegram, person: str = "ann") -> Address:
    return Address("telegram", telegram.private(person))


def polls(telegram: FakeTelegram) -> int:
    return len(telegram.calls.of("getUpdates"))


FAULTS = {
    "409": Fault("status", 409, text="Conflict: terminated by other getUpdates request"),
    "500": Fault("status", 500),
    "502 of a gateway": Fault("status", 502, text="<html>"),
    "html instead of an answer": Fault("garbage"),
    "an answer without a result": Fault("garbage", text='{"ok": true}'),
    "an answer of another kind": Fault("garbage", text="[1]"),
    "a result of another kind": Fault("garbage", text='{"ok": true, "result": {}}'),
    "drop": Fault("drop"),
    "answer lost": Fault("lost"),
    "three times in a row": Fault("status", 503, times=3),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_a_poll_that_fails_is_tried_again_and_nothing_is_lost(
    telegram: FakeTelegram, channel: Telegram, house: Ledger, fault: Fault
):
    async with running(channel, house):
        telegram.fail("getUpdates", fault)
        telegram.say("ann", telegram.private("ann"), "one")
        await house.until(lambda: house.texts == ["one"])
        telegram.say("ann", telegram.private("ann"), "two")
        await house.until(lambda: house.texts == ["one", "two"])
    assert house.ailments
    assert house.lives


async def test_a_poll_waits_as_long_as_it_is_told(
    telegram: FakeTelegram, channel: Telegram, house: Ledger
):
    clock = asyncio.get_running_loop().time
    telegram.fail("getUpdates", Fault("retry", seconds=1))
    async with running(channel, house):
        await house.until(lambda: bool(house.ailments))
        told = clock()
        await house.until(lambda: house.lives > 0)
    assert clock() - told >= 0.95


async def test_a_server_that_holds_no_poll_open_is_neither_hurried_nor_left_alone(
    telegram: FakeTelegram, house: Ledger
):
    telegram.fail("getUpdates", Fault("garbage", text='{"ok": true, "result": []}', times=20))
    channel = Telegram(
        TelegramAccount.model_validate(telegram.config()),
        timing=TelegramTiming(first_s=0.02, longest_s=60.0, poll_s=5),
    )
    began = asyncio.get_running_loop().time()
    async with running(channel, house):
        telegram.say("ann", telegram.private("ann"), "hello")
        await house.until(lambda: house.texts == ["hello"], seconds=10)
    assert asyncio.get_running_loop().time() - began > 19 * 0.02


async def test_another_poller_is_named_and_it_goes_on_when_that_one_is_gone(
    telegram: FakeTelegram, channel: Telegram, house: Ledger
):
    rival = Telegram(TelegramAccount.model_validate(telegram.config()), timing=SOON)
    async with running(channel, house):
        await house.until(lambda: house.lives > 0)
        async with running(rival, Ledger()):
            await house.until(lambda: any("another program polls" in why for why in house.ailments))
        telegram.say("ann", telegram.private("ann"), "still here?")
        await house.until(lambda: house.texts == ["still here?"])


async def test_the_server_may_be_away_for_long(
    telegram: FakeTelegram, channel: Telegram, house: Ledger
):
    async with running(channel, house):
        await house.until(lambda: house.lives > 0)
        await telegram.stop()
        await house.until(lambda: len(house.ailments) >= 5)
        telegram.say("ann", telegram.private("ann"), "meanwhile")
        await telegram.start()
        await house.until(lambda: house.texts == ["meanwhile"])


async def test_a_cut_network_is_noticed_and_mended(
    telegram: FakeTelegram, channel: Telegram, house: Ledger
):
    async with running(channel, house):
        await house.until(lambda: house.lives > 0)
        telegram.cut()
        await house.until(lambda: len(house.ailments) >= 3)
        telegram.say("ann", telegram.private("ann"), "meanwhile")
        lives = house.lives
        await telegram.mend()
        await house.until(lambda: house.texts == ["meanwhile"] and house.lives > lives)


async def test_a_platform_that_is_down_at_start_is_waited_for(
    telegram: FakeTelegram, channel: Telegram, house: Ledger
):
    await telegram.stop()
    async with running(channel, house):
        await house.until(lambda: len(house.ailments) >= 3)
        await telegram.start()
        await house.until(lambda: house.lives > 0)


async def test_a_token_that_is_wrong_at_start_ends_it_with_what_to_do(
    telegram: FakeTelegram, channel: Telegram, house: Ledger
):
    telegram.revoke()
    with pytest.raises(Revoked, match="BotFather") as raised:
        await channel.check()
    assert telegram.token not in str(raised.value)
    with pytest.raises(Revoked):
        await asyncio.wait_for(channel.run(house), 10)


async def test_a_token_revoked_while_running_ends_it(
    telegram: FakeTelegram, channel: Telegram, house: Ledger
):
    async with running(channel, house) as task:
        await house.until(lambda: house.lives > 0)
        telegram.revoke()
        with pytest.raises(Revoked, match="wait there for a day"):
            await asyncio.wait_for(asyncio.shield(task), 10)
    with pytest.raises(Revoked):
        await channel.send(OutboundMessage(at(telegram), HELLO, "key"))


async def test_B5_1_no_update_is_acknowledged_before_the_daemon_has_it(
    telegram: FakeTelegram, channel: Telegram, house: Ledger
):
    house.hold()
    async with running(channel, house):
        telegram.say("ann", telegram.private("ann"), "one")
        await house.until(lambda: bool(house.offers))
        assert [update.content for update in telegram.world.pending] != []
    assert telegram.world.pending, "cancelled before it was written down: it is still Telegram's"
    house.release()
    again = Telegram(TelegramAccount.model_validate(telegram.config()), timing=SOON)
    async with running(again, house):
        await telegram.until(lambda: not telegram.world.pending)
    assert house.texts == ["one"]


async def test_B5_1_what_the_daemon_could_not_write_is_asked_for_again(
    telegram: FakeTelegram, channel: Telegram, house: Ledger
):
    house.refuse(3)
    for text in ("one", "two"):
        telegram.say("ann", telegram.private("ann"), text)
    async with running(channel, house):
        await telegram.until(lambda: not telegram.world.pending)
    assert house.texts == ["one", "two"]
    assert len(house.offers) == 4


async def test_B5_2_what_comes_again_has_the_same_name(
    telegram: FakeTelegram, channel: Telegram, house: Ledger
):
    async with running(channel, house):
        said = telegram.say("ann", telegram.private("ann"), "one")
        await telegram.until(lambda: not telegram.world.pending)
        telegram.again(said)
        await house.until(lambda: len(house.offers) == 2)
        telegram.say("ann", telegram.private("ann"), "two")
        await house.until(lambda: house.texts == ["one", "two"])
    first, second = house.offers[0][0], house.offers[1][0]
    assert first == second


async def test_every_sort_of_poison_is_set_aside_and_what_stands_behind_it_arrives(
    telegram: FakeTelegram, channel: Telegram, house: Ledger
):
    async with running(channel, house):
        for number in range(10):
            telegram.poison()
            telegram.say("ann", telegram.private("ann"), str(number))
        await house.until(lambda: len(house.texts) == 10)
        await telegram.until(lambda: not telegram.world.pending)
    assert house.texts == [str(number) for number in range(10)]
    assert len(house.poison) == 10
    assert all(
        poison.external_id.startswith("update/") and poison.reason for poison in house.poison
    )


async def test_what_has_no_number_is_not_asked_for_without_end(
    telegram: FakeTelegram, channel: Telegram, house: Ledger
):
    telegram.say("ann", telegram.private("ann"), "one")
    async with running(channel, house):
        await telegram.until(lambda: not telegram.world.pending)
        telegram.world.push("not an object")
        await telegram.until(lambda: not telegram.world.pending)
        before = polls(telegram)
        telegram.say("ann", telegram.private("ann"), "two")
        await house.until(lambda: house.texts == ["one", "two"])
        assert polls(telegram) <= before + 2


async def test_a_webhook_that_somebody_set_is_taken_away(
    telegram: FakeTelegram, channel: Telegram, house: Ledger
):
    telegram.world.webhook = "https://example.com/hook"
    async with running(channel, house):
        await house.until(lambda: house.lives > 0)
        telegram.world.webhook = "https://example.com/again"
        telegram.say("ann", telegram.private("ann"), "one")
        await house.until(lambda: house.texts == ["one"])
    assert telegram.world.webhook == ""


async def test_sending_too_fast_says_how_long_to_wait(telegram: FakeTelegram, channel: Telegram):
    telegram.fail("sendMessage", Fault("retry", seconds=7))
    with pytest.raises(RetryLater) as raised:
        await channel.send(OutboundMessage(at(telegram), HELLO, "key"))
    assert raised.value.after_s == 7
    assert telegram.shown(telegram.private("ann")) == []


async def test_B5_13_an_answer_that_was_lost_is_not_taken_for_a_failure(
    telegram: FakeTelegram, channel: Telegram
):
    telegram.fail("sendMessage", Fault("lost"))
    with pytest.raises(DeliveryUnknown):
        await channel.send(OutboundMessage(at(telegram), HELLO, "key"))
    assert [message.text for message in telegram.shown(telegram.private("ann"))] == ["hello"]


@pytest.mark.parametrize("answer", ["<html>", '{"ok": true}', "[1]", "{"])
async def test_an_answer_that_cannot_be_read_is_unclear_too(
    telegram: FakeTelegram, channel: Telegram, answer: str
):
    telegram.fail("sendMessage", Fault("garbage", text=answer))
    with pytest.raises(DeliveryUnknown):
        await channel.send(OutboundMessage(at(telegram), HELLO, "key"))


async def test_where_there_was_no_connection_nothing_was_sent(
    telegram: FakeTelegram, channel: Telegram
):
    where = at(telegram)
    await telegram.stop()
    with pytest.raises(RetryLater) as raised:
        await channel.send(OutboundMessage(where, HELLO, "key"))
    assert telegram.token not in str(raised.value)
    assert raised.value.after_s == 0, (
        "nobody has complained: the house tries again when the channel is back"
    )


async def test_a_server_that_is_out_of_order_is_tried_later(
    telegram: FakeTelegram, channel: Telegram
):
    telegram.fail("sendMessage", Fault("status", 500))
    with pytest.raises(RetryLater, check=lambda error: error.after_s == 0):
        await channel.send(OutboundMessage(at(telegram), HELLO, "key"))


async def test_who_blocked_the_bot_gets_nothing_now_or_later(
    telegram: FakeTelegram, channel: Telegram
):
    where = at(telegram)
    telegram.world.blocked.add(int(where.chat))
    with pytest.raises(Rejected, match="blocked"):
        await channel.send(OutboundMessage(where, HELLO, "key"))
    with pytest.raises(Rejected, match="chat not found"):
        await channel.send(OutboundMessage(Address("telegram", "99"), HELLO, "key"))


async def test_a_group_that_became_a_supergroup_says_where_it_is_now(
    telegram: FakeTelegram, channel: Telegram, house: Ledger
):
    group = telegram.group("ann", "bob")
    async with running(channel, house):
        new = telegram.people.upgrade(group)
        await telegram.until(lambda: not telegram.world.pending)
    assert set(house.entries) == {ChatMoved("telegram", group, new)}
    with pytest.raises(Moved, match=new, check=lambda error: error.chat == new):
        await channel.send(OutboundMessage(Address("telegram", group), HELLO, "key"))


async def test_what_a_person_writes_or_answers_to_moves_no_chat(
    telegram: FakeTelegram, channel: Telegram, house: Ledger
):
    group = telegram.group("ann", "bob")
    head = telegram.world.new_message(
        telegram.world.chats[int(group)], telegram.world.person("ann")
    )
    async with running(channel, house):
        telegram.people.say(
            "ann",
            group,
            telegram.mention('{"migrate_to_chat_id": -5}'),
            more={"reply_to_message": head | {"migrate_to_chat_id": -5}},
        )
        await house.until(lambda: len(house.entries) == 1)
    assert house.messages[0].address.chat == group


async def test_an_edit_that_changes_nothing_is_done(telegram: FakeTelegram, channel: Telegram):
    where = at(telegram)
    sent = await channel.send(OutboundMessage(where, HELLO, "key"))
    await channel.edit(sent, OutboundMessage(where, HELLO))
    assert telegram.shown(where.chat)[0].edits == 0
    with pytest.raises(Rejected, match="not found"):
        await channel.edit("4711", OutboundMessage(where, HELLO))


async def test_markup_that_telegram_cannot_parse_goes_out_plain(
    telegram: FakeTelegram, channel: Telegram
):
    where = at(telegram)
    sent = await channel.send(OutboundMessage(where, MessagePart("<p>hello", "hello"), "key"))
    await channel.edit(sent, OutboundMessage(where, MessagePart("<b>bye", "bye <b>")))
    assert telegram.shown(where.chat)[0].text == "bye <b>"


async def test_a_message_that_is_too_long_is_refused_and_a_rendered_one_never_is(
    telegram: FakeTelegram, channel: Telegram
):
    where = at(telegram)
    with pytest.raises(Rejected, match="too long"):
        await channel.send(OutboundMessage(where, MessagePart("x" * 4097, "x" * 4097), "key"))
    text = (
        "# Title\n\n"
        + "**bold** & <i> " * 600
        + "\n```python\n"
        + "print('👩‍👩‍👧')\n" * 500
        + "```\n"
    )
    pieces = channel.render(text)
    for number, piece in enumerate(pieces):
        await channel.send(OutboundMessage(where, piece, str(number)))
    assert [message.markup for message in telegram.shown(where.chat)] == [
        piece.text for piece in pieces
    ]
    assert len(pieces) > 2


@pytest.mark.parametrize(
    "refusal", ["message thread not found", "TOPIC_CLOSED", "TOPIC_DELETED", "anything else"]
)
@pytest.mark.parametrize("with_file", [False, True])
async def test_what_a_topic_refuses_for_good_arrives_in_its_chat(
    telegram: FakeTelegram, channel: Telegram, tmp_path: Path, refusal: str, with_file: bool
):
    chat = telegram.private("ann")
    telegram.world.closed_topics.add((int(chat), "77"))
    telegram.world.topic_refusal = refusal
    notes = tmp_path / "notes.txt"
    notes.write_text("a bird")
    message = OutboundMessage(Address("telegram", chat, "77"), HELLO, "key")
    if with_file:
        message = replace(message, file=notes, name="notes.txt")
    number = await channel.send(message)
    [shown] = telegram.shown(chat)
    assert (shown.id, shown.thread) == (number, "")
    assert "hello" in shown.text


async def test_a_draft_for_a_topic_that_is_gone_is_shown_in_its_chat_and_drafts_go_on(
    telegram: FakeTelegram, channel: Telegram
):
    chat = telegram.private("ann")
    telegram.world.closed_topics.add((int(chat), "77"))
    telegram.world.topic_refusal = "TOPIC_DELETED"
    await channel.show_draft(Address("telegram", chat, "77"), "key", "hel", "")
    await channel.show_draft(Address("telegram", chat), "other", "hello", "")
    assert len(telegram.calls.of("sendMessageDraft")) == 3


async def test_what_the_chat_refuses_too_is_refused(telegram: FakeTelegram, channel: Telegram):
    chat = telegram.private("ann")
    telegram.world.blocked.add(int(chat))
    with pytest.raises(Gone, match="blocked by the user"):
        await channel.send(OutboundMessage(Address("telegram", chat, "77"), HELLO, "key"))
    assert telegram.shown(chat) == []


@pytest.mark.parametrize("why", ["ENTITY_TEXTURL_INVALID", "message is too long", "wrong HTTP URL"])
async def test_an_answer_whose_markup_is_refused_for_any_reason_goes_out_plain(
    telegram: FakeTelegram, channel: Telegram, why: str
):
    chat = telegram.private("ann")
    refusal = f'{{"ok": false, "error_code": 400, "description": "Bad Request: {why}"}}'
    telegram.fail("sendMessage", Fault("status", 400, text=refusal))
    part = MessagePart('<a href="https://a.example">here</a>', "here (https://a.example)")
    await channel.send(OutboundMessage(Address("telegram", chat), part, "key"))
    [shown] = telegram.shown(chat)
    assert shown.text == part.plain
