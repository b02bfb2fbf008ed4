"""What somebody passes on with words of their own is one message with these (A14)."""

from collections.abc import AsyncIterator

import pytest

from channels.message import InboundMessage
from tests.channels.host import Ledger, running
from tests.channels.test_telegram_albums import PICTURES, channel_of
from tests.fakes.telegram import FakeTelegram

NEWS = {"forward_origin": {"type": "channel", "chat": {"id": -1, "title": "News"}, "date": 1}}


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as fake:
        yield fake


@pytest.fixture
def house() -> Ledger:
    return Ledger()


def passed(message: InboundMessage) -> list[tuple[str, str, str]]:
    return [(one.kind, one.author, one.text) for one in message.references]


async def test_the_words_and_what_they_are_about_are_one_message(telegram: FakeTelegram, house: Ledger):
    ann = telegram.private("ann")
    async with running(channel_of(telegram), house):
        first = telegram.say("ann", ann, "is this true?")
        second = telegram.people.say("ann", ann, "Cheese is free.", more=NEWS)
        third = telegram.people.say("ann", ann, "Milk is not.", more=NEWS)
        telegram.say("ann", ann, "after")
        await house.until(lambda: "after" in house.texts)
    assert house.texts == ["is this true?", "after"]
    said = house.messages[0]
    assert passed(said) == [("passed", "News", "Cheese is free."), ("passed", "News", "Milk is not.")]
    assert (said.forwarded, said.external_id) == (False, f"{ann}/{first}+{second}+{third}")


async def test_several_that_are_passed_on_without_words_are_one_message(telegram: FakeTelegram, house: Ledger):
    ann = telegram.private("ann")
    async with running(channel_of(telegram), house):
        telegram.people.say("ann", ann, "Cheese is free.", more=NEWS)
        telegram.people.say("ann", ann, "", files=PICTURES[:1], more=NEWS)
        await house.until(lambda: bool(house.messages))
    (said,) = house.messages
    assert (said.text, said.forwarded, said.author) == ("Cheese is free.", True, "News")
    assert len(said.attachments) == 1 and said.references[0].text.startswith("[photo: ")


async def test_nothing_is_joined_across_people_chats_commands_and_seconds(telegram: FakeTelegram, house: Ledger):
    ann, bob = telegram.private("ann"), telegram.private("bob")
    async with running(channel_of(telegram), house):
        telegram.say("ann", ann, "/status")
        telegram.people.say("bob", bob, "one", more=NEWS)
        telegram.people.say("ann", ann, "two", more=NEWS)
        telegram.people.say("ann", ann, "three", more=NEWS | {"date": 2_000_000_000})
        telegram.say("ann", ann, "four")
        await house.until(lambda: "four" in house.texts)
    assert house.texts == ["/status", "one", "two", "three", "four"]
    assert not any(message.references for message in house.messages)
