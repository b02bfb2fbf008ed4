"""Discord: what people say reaches the house, and what the house says reaches them (A13, F1)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from channels.discord.channel import Discord
from channels.discord.config import DiscordAccount
from channels.discord.gateway import Patience
from channels.message import Address, Choice
from tests.channels.host import Ledger, running
from tests.fakes.discord import FakeDiscord

QUICK = Patience(ready=5, ack=0.3, close=0.5, calm=60, keep=0.0, call=5, invalid=(0.0, 0.0), pauses=(0.0, 0.05), retries=(0.05,))


async def test_a_private_message_is_taken_and_answered():
    fake = FakeDiscord()
    await fake.start()
    host = Ledger()
    channel = Discord(DiscordAccount(**fake.config()), patience=QUICK)
    async with running(channel, host):
        chat = fake.private("ann")
        await host.until(lambda: host.lives > 0)
        number = fake.say("ann", chat, "hello")
        await host.until(lambda: host.texts == ["hello"])
        said = host.messages[0]
        assert (said.address, said.sender.name, said.private, said.addressed) == (Address("discord", chat), "Ann", True, True)
        await channel.send(said.address, channel.render("**hi**")[0], "k1", choices=[Choice("Yes", "y")], reply_to=number)
    print(fake.shown(chat))
    await fake.stop()
