"""Every channel at its own fake platform: what the contract tests of channels play with."""

import asyncio
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from channels import base
from channels.base import Channel, ChannelError, DeliveryUnknown, RetryLater
from channels.discord.channel import Discord
from channels.discord.config import DiscordAccount
from channels.message import Address, InboundMessage, MessagePart, OutboundMessage
from channels.slack.channel import Slack
from channels.slack.config import SlackAccount
from channels.telegram.channel import Telegram, TelegramTiming
from channels.telegram.config import TelegramAccount
from tests.channels import discord_host, slack_stage
from tests.channels.host import Ledger, running
from tests.fakes.discord import FakeDiscord
from tests.fakes.platform import Fault, Platform, Shown
from tests.fakes.slack import FakeSlack
from tests.fakes.telegram import FakeTelegram

SOON = TelegramTiming(first_s=0.02, longest_s=0.1, poll_s=5, edit_s=0.0)
TRIES = 4
SOURCE = str(Path(base.__file__).parent)


@dataclass(frozen=True, slots=True)
class Kind:
    """A platform and the channel that talks with it. `typing`, `seen`: what it calls these; `unknown`: its answer for what it
    does not know; `change(platform, person, message_id, text)`: a person edits a message.
    """

    name: str
    serve: Callable[[], Platform]
    talk: Callable[[dict[str, object], str], Channel]
    change: Callable[[Any, str, str, str], None]
    typing: str
    seen: str
    unknown: Callable[[], Fault]


KINDS = {
    "telegram": Kind(
        "telegram",
        FakeTelegram,
        lambda config, name: Telegram(
            TelegramAccount.model_validate(config), name=name, timing=SOON
        ),
        lambda fake, person, message_id, text: fake.people.edit(message_id, text),
        "sendChatAction",
        "setMessageReaction",
        lambda: Fault("status", 404),
    ),
    "slack": Kind(
        "slack",
        FakeSlack,
        lambda config, name: Slack(
            SlackAccount.model_validate(config), name=name, timing=slack_stage.QUICK
        ),
        lambda fake, person, message_id, text: fake.edit(person, message_id, text),
        "assistant.threads.setStatus",
        "reactions.add",
        lambda: Fault("status", 200, text="unknown_method"),
    ),
    "discord": Kind(
        "discord",
        FakeDiscord,
        lambda config, name: Discord(
            DiscordAccount.model_validate(config), name=name, timing=discord_host.QUICK
        ),
        lambda fake, person, message_id, text: fake.edit(message_id, text),
        "POST typing",
        "PUT reactions",
        lambda: Fault("status", 404),
    ),
}


@dataclass(slots=True)
class Stage:
    """A platform with a channel at it, and a house behind it."""

    kind: Kind
    platform: Platform
    channel: Channel
    host: Ledger

    @property
    def ann(self) -> Address:
        """The owner's private chat."""
        return self.at(self.platform.private("ann"))

    def at(self, chat: str, thread: str = "") -> Address:
        """A place at the platform."""
        return Address(self.channel.name, chat, thread)

    @property
    def group(self) -> Address:
        """A group of ann's and bob's."""
        return self.at(self.platform.group("ann", "bob"))

    async def thread(self) -> Address:
        """A thread in that group, as a message from it says where it is."""
        opening = self.platform.say("ann", self.group.chat, "the opening")
        async with self.listening():
            return (
                await self.heard_from(
                    "ann", self.group.chat, self.platform.mention("in the thread"), opening
                )
            ).address

    def ours(self, address: Address) -> list[Shown]:
        """What the bot's messages there are now."""
        return [
            one for one in self.platform.shown(address.chat) if one.by_bot and _is_in(one, address)
        ]

    def stand(self, address: Address) -> list[Shown]:
        """The same without what goes away by itself."""
        return [one for one in self.ours(address) if not one.draft]

    def piece(self, text: str) -> MessagePart:
        """A short text, as the channel writes it."""
        (piece,) = self.channel.render(text)
        return piece

    async def send(self, text: str, key: str = "k1", address: Address | None = None) -> str:
        """Send it, to ann if nobody is named."""
        return await self.channel.send(OutboundMessage(address or self.ann, self.piece(text), key))

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[asyncio.Task[None]]:
        """The channel runs, and the platform has answered."""
        lives = self.host.lives
        async with running(self.channel, self.host) as task:
            await self.host.until(lambda: self.host.lives > lives or task.done())
            yield task

    async def heard(self, *texts: str) -> list[InboundMessage]:
        """These came in, in this order, and nothing else."""
        await self.host.until(lambda: len(self.host.texts) >= len(texts))
        assert self.host.texts == list(texts)
        return self.host.messages

    async def heard_from(
        self, person: str, chat: str, text: str, thread: str = ""
    ) -> InboundMessage:
        """A person says it, and it is taken; the one message with these words."""
        self.platform.say(person, chat, text, thread=thread)
        await self.host.until(
            lambda: any(text.endswith(message.text) for message in self.host.messages)
        )
        (said,) = [message for message in self.host.messages if text.endswith(message.text)]
        return said

    def anew(self, name: str = "") -> "Stage":
        """The same platform and house with another channel: as after a restart."""
        return replace(self, channel=self.kind.talk(self.platform.config(), name or self.kind.name))

    def secrets(self) -> list[str]:
        """What must never be told."""
        return [str(value) for key, value in self.platform.config().items() if "token" in key]

    def tells_nothing(self, error: BaseException) -> None:
        """No token in the text of the error, nor in the trace that a log would have."""
        told = "".join(traceback.format_exception(error))
        assert not [secret for secret in self.secrets() if secret in told], told


def _is_in(shown: Shown, address: Address) -> bool:
    return not address.thread or shown.thread == address.thread


@asynccontextmanager
async def stage_of(name: str) -> AsyncIterator[Stage]:
    """Everything of one kind, let go of at the end."""
    kind = KINDS[name]
    platform = kind.serve()
    await platform.start()
    stage = Stage(kind, platform, kind.talk(platform.config(), name), Ledger())
    try:
        yield stage
    finally:
        await stage.channel.aclose()
        await platform.stop()


def left_behind() -> list[str]:
    """Tasks of channels that are still there."""
    codes = [getattr(task.get_coro(), "cr_code", None) for task in asyncio.all_tasks()]
    return [code.co_qualname for code in codes if code and code.co_filename.startswith(SOURCE)]


async def ended(doing: Awaitable[object]) -> object:
    """What it came to: the result, or the ChannelError."""
    try:
        return await doing
    except ChannelError as error:
        return error


async def delivered(stage: Stage, text: str, key: str) -> None:
    """Send as the house does, though without its patience: again after Later; after Unclear look for it, or trust the key, or
    leave it.
    """
    since = datetime.now(UTC)
    piece, can = stage.piece(text), stage.channel.capabilities
    for _ in range(TRIES):
        outcome = await ended(stage.channel.send(OutboundMessage(stage.ann, piece, key)))
        match outcome:
            case str():
                return
            case DeliveryUnknown() if can.idempotent:
                continue
            case DeliveryUnknown() if not can.can_find or await stage.channel.find(
                OutboundMessage(stage.ann, piece, key), since
            ):
                return
            case RetryLater() | DeliveryUnknown():
                continue
            case _:
                raise AssertionError(f"not delivered: {outcome!r}")
    raise AssertionError(f"not delivered after {TRIES} tries")
