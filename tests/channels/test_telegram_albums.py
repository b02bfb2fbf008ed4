"""Albums: several pictures that somebody sends at once are one message of theirs (A14); and edits that change no word."""

from collections.abc import AsyncIterator

import pytest

from channels.message import Address, Attachment
from channels.telegram.channel import Telegram, TelegramTiming
from channels.telegram.config import TelegramAccount
from tests.channels.host import Ledger, running
from tests.fakes.platform import Fault
from tests.fakes.telegram import FakeTelegram

SOON = TelegramTiming(first_s=0.02, longest_s=0.1, poll_s=5, album_s=0.02)
PICTURES = [("a.jpg", b"one"), ("b.jpg", b"two"), ("c.jpg", b"three")]


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as fake:
        yield fake


@pytest.fixture
def house() -> Ledger:
    return Ledger()


def channel_of(telegram: FakeTelegram) -> Telegram:
    return Telegram(TelegramAccount.model_validate(telegram.config()), timing=SOON)


def sizes(attachments: tuple[Attachment, ...]) -> list[int]:
    return [file.size for file in attachments]


async def test_A14_an_album_is_one_message_with_all_its_pictures(
    telegram: FakeTelegram, house: Ledger
):
    ann = telegram.private("ann")
    async with running(channel_of(telegram), house):
        telegram.say("ann", ann, "before")
        first = telegram.say("ann", ann, "look", files=PICTURES)
        telegram.say("ann", ann, "after")
        await house.until(lambda: "after" in house.texts)
    assert house.texts == ["before", "look", "after"]
    album = house.messages[1]
    assert (album.address, album.message_id, album.external_id) == (
        Address("telegram", ann),
        first,
        f"{ann}/{first}",
    )
    assert sizes(album.attachments) == [3, 3, 5]


async def test_A14_the_caption_may_stand_under_any_picture(telegram: FakeTelegram, house: Ledger):
    ann = telegram.private("ann")
    async with running(channel_of(telegram), house):
        telegram.people.album(
            "ann", ann, [("", PICTURES[0]), ("what is this?", PICTURES[1]), ("", PICTURES[2])]
        )
        await house.until(lambda: bool(house.messages))
    assert [(message.text, len(message.attachments)) for message in house.messages] == [
        ("what is this?", 3)
    ]


async def test_A14_captions_of_an_album_all_arrive_in_order_and_what_two_say_once(
    telegram: FakeTelegram, house: Ledger
):
    ann = telegram.private("ann")
    said = ["the front", "", "the back", "the front", "its label,\nclose"]
    pictures = [(caption, PICTURES[number % 3]) for number, caption in enumerate(said)]
    async with running(channel_of(telegram), house):
        telegram.people.album("ann", ann, pictures)
        await house.until(lambda: bool(house.messages))
    (album,) = house.messages
    assert album.text == "the front\nthe back\nits label,\nclose"
    assert sizes(album.attachments) == [3, 3, 5, 3, 3]


async def test_A14_in_a_group_one_mention_is_for_the_whole_album(
    telegram: FakeTelegram, house: Ledger
):
    telegram.world.nosy = True
    group = telegram.group("ann", "bob")
    async with running(channel_of(telegram), house):
        telegram.people.album(
            "ann", group, [("", PICTURES[0]), (telegram.mention("what is this?"), PICTURES[1])]
        )
        telegram.say("bob", group, "no idea")
        telegram.people.album("bob", group, [("", PICTURES[1]), ("mine", PICTURES[2])])
        await house.until(lambda: "mine" in house.texts)
    told = [
        (message.text, len(message.attachments), message.addressed) for message in house.messages
    ]
    assert told == [("what is this?", 2, True), ("no idea", 0, False), ("mine", 2, False)]


async def test_A14_what_comes_between_the_pictures_breaks_no_album(
    telegram: FakeTelegram, house: Ledger
):
    ann, bob, more = telegram.private("ann"), telegram.private("bob"), {"media_group_id": "1"}
    async with running(channel_of(telegram), house):
        for number, name in enumerate(("ann", "bob", "ann", "bob")):
            chat = ann if name == "ann" else bob
            telegram.people.say(
                name, chat, f"{name} {number}", files=PICTURES[number % 3 :][:1], more=more
            )
            telegram.poison()
        telegram.say("ann", ann, "after")
        await house.until(lambda: "after" in house.texts and len(house.poison) == 4)
    assert [(message.text, sizes(message.attachments)) for message in house.messages] == [
        ("ann 0\nann 2", [3, 5]),
        ("bob 1\nbob 3", [3, 3]),
        ("after", []),
    ]


async def test_A14_an_album_that_a_poll_cuts_in_two_is_one_message(
    telegram: FakeTelegram, house: Ledger
):
    ann = telegram.private("ann")
    telegram.world.cuts = [2]
    telegram.say("ann", ann, "look", files=PICTURES)
    async with running(channel_of(telegram), house):
        await house.until(lambda: bool(house.messages))
        telegram.say("ann", ann, "after")
        await house.until(lambda: "after" in house.texts)
    assert [(message.text, len(message.attachments)) for message in house.messages] == [
        ("look", 3),
        ("after", 0),
    ]


async def test_A14_an_album_is_waited_for_once_and_nothing_is_acknowledged_meanwhile(
    telegram: FakeTelegram, house: Ledger
):
    ann = telegram.private("ann")
    telegram.world.cuts = [1, 2]
    telegram.say("ann", ann, "look", files=PICTURES)
    async with running(channel_of(telegram), house):
        await house.until(lambda: len(house.messages) == 2)
    assert [len(message.attachments) for message in house.messages] == [2, 1]
    first, second, third = [call.get("offset") for call in telegram.calls.of("getUpdates")][:3]
    assert first == second is None
    assert third is not None


async def test_A14_an_album_at_the_end_of_a_full_poll_is_left_to_the_next(
    telegram: FakeTelegram, house: Ledger
):
    ann = telegram.private("ann")
    for number in range(98):
        telegram.say("ann", ann, str(number))
    telegram.say("ann", ann, "look", files=PICTURES)
    async with running(channel_of(telegram), house):
        await house.until(lambda: "look" in house.texts)
    assert [len(offer) for offer in house.offers] == [98, 1]
    assert len(house.messages[-1].attachments) == 3


async def test_A14_when_the_rest_cannot_be_asked_for_what_is_there_is_taken(
    telegram: FakeTelegram, house: Ledger
):
    ann = telegram.private("ann")
    telegram.fail("getUpdates", Fault("slow"), Fault("status", 500))
    telegram.say("ann", ann, "look", files=PICTURES)
    async with running(channel_of(telegram), house):
        await house.until(lambda: bool(house.messages))
    assert [(message.text, len(message.attachments)) for message in house.messages] == [("look", 3)]
    assert not house.ailments


async def test_B5_2_an_album_that_comes_again_after_a_crash_has_the_same_name(
    telegram: FakeTelegram, house: Ledger
):
    ann = telegram.private("ann")
    telegram.world.cuts = [2]
    telegram.say("ann", ann, "look", files=PICTURES)
    house.hold()
    async with running(channel_of(telegram), house):
        await house.until(lambda: bool(house.offers))
    house.release()
    async with running(channel_of(telegram), house):
        await house.until(lambda: bool(house.messages))
        telegram.say("ann", ann, "after")
        await house.until(lambda: "after" in house.texts)
    assert house.offers[0] == house.offers[1]
    assert house.texts == ["look", "after"]


async def test_A14_a_caption_that_is_edited_is_an_edit_of_its_picture(
    telegram: FakeTelegram, house: Ledger
):
    ann = telegram.private("ann")
    async with running(channel_of(telegram), house):
        first = telegram.say("ann", ann, "look", files=PICTURES)
        await house.until(lambda: len(house.messages) == 1)
        telegram.people.edit(first, "look here")
        await house.until(lambda: len(house.messages) == 2)
    edited = house.messages[1]
    assert (edited.text, edited.edits, len(edited.attachments)) == (
        "look here",
        f"{ann}/{first}",
        1,
    )


async def test_A14_an_edit_that_changes_no_word_is_none(telegram: FakeTelegram, house: Ledger):
    ann = telegram.private("ann")
    async with running(channel_of(telegram), house):
        said = telegram.say("ann", ann, "see https://example.org")
        telegram.people.edit(said, "see https://example.org")
        await house.until(lambda: len(house.messages) == 1)
        for text in (
            "see https://example.org",
            "see https://example.com",
            "see https://example.com",
            "see https://example.org",
        ):
            telegram.people.edit(said, text)
        telegram.say("ann", ann, "after")
        await house.until(lambda: "after" in house.texts)
    assert house.texts == [
        "see https://example.org",
        "see https://example.com",
        "see https://example.org",
        "after",
    ]


async def test_A14_an_edit_that_addresses_the_assistant_is_heard_and_so_is_one_of_the_unknown(
    telegram: FakeTelegram, house: Ledger
):
    telegram.world.nosy = True
    group = telegram.group("ann", "bob")
    old = telegram.say("ann", group, "old")
    async with running(channel_of(telegram), house):
        await house.until(lambda: len(house.messages) == 1)
        telegram.people.edit(old, telegram.mention("old"))
        await house.until(lambda: len(house.messages) == 2)
        assert house.messages[1].addressed
    later = Ledger()
    async with running(channel_of(telegram), later):
        telegram.people.edit(old, telegram.mention("old"))
        await later.until(lambda: len(later.messages) == 1)


async def test_B5_1_an_edit_that_could_not_be_written_down_is_heard_when_it_comes_again(
    telegram: FakeTelegram, house: Ledger
):
    ann = telegram.private("ann")
    async with running(channel_of(telegram), house):
        said = telegram.say("ann", ann, "helo")
        await house.until(lambda: len(house.messages) == 1)
        house.refuse(2)
        telegram.people.edit(said, "hello")
        await house.until(lambda: len(house.messages) == 2)
    assert house.texts == ["helo", "hello"]
