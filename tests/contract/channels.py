"""Every channel at its own fake platform: what the contract tests of channels play with."""

import asyncio
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from channels import base
from channels.base import Capabilities, Channel, ChannelError, DeliveryUnknown, RetryLater
from channels.discord import channel as discord_channel
from channels.discord.channel import Discord
from channels.discord.config import DiscordAccount
from channels.email import channel as email_channel
from channels.email.channel import Email, EmailTiming
from channels.email.config import EmailAccount
from channels.email.imap import ImapTiming
from channels.message import Address, InboundMessage, MessagePart, OutboundMessage
from channels.slack import channel as slack_channel
from channels.slack.channel import Slack
from channels.slack.config import SlackAccount
from channels.telegram import channel as telegram_channel
from channels.telegram.channel import Telegram, TelegramTiming
from channels.telegram.config import TelegramAccount
from tests.channels import discord_host, slack_stage
from tests.channels.host import Ledger, running
from tests.fakes.discord import FakeDiscord
from tests.fakes.mail import reader
from tests.fakes.mail.platform import MailPlatform
from tests.fakes.platform import Fault, Platform, Shown
from tests.fakes.slack import FakeSlack
from tests.fakes.telegram import FakeTelegram

SOON = TelegramTiming(first_s=0.02, longest_s=0.1, poll_s=5, edit_s=0.0)
MAIL_SOON = EmailTiming(first_s=0.02, longest_s=0.1, imap=ImapTiming(call_s=5, idle_s=3))
TRIES = 4
READER = Path(reader.__file__)
SOURCE = str(Path(base.__file__).parent)


@dataclass(frozen=True, slots=True)
class Kind:
    """A platform and the channel that talks with it. `typing`, `seen`: what it calls these; `unknown`: its answer for what it
    does not know; `change(platform, person, message_id, text)`: a person edits a message. `can`: what the channel claims. `who`:
    how what it says of itself begins; `key`: what it calls what lets it in; `groups`, `private`: whether there are groups, and
    chats that nobody else reads; `apart`: each message is in a thread; `pause_s`: the least time between messages.
    """

    name: str
    serve: Callable[[], Platform]
    talk: Callable[[dict[str, object], str], Channel]
    change: Callable[[Any, str, str, str], None]
    typing: str
    seen: str
    unknown: Callable[[], Fault]
    can: Capabilities
    who: str = "@"
    key: str = "token"
    groups: bool = True
    private: bool = True
    apart: bool = False
    pause_s: float = 3.0


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
        telegram_channel.CAPABILITIES,
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
        slack_channel.CAPABILITIES,
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
        discord_channel.CAPABILITIES,
    ),
    "email": Kind(
        "email",
        MailPlatform,
        lambda config, name: Email(
            EmailAccount.model_validate(config), name=name, timing=MAIL_SOON, reader=READER
        ),
        lambda *_: None,
        "",
        "",
        lambda: Fault("status", 400),
        email_channel.CAPABILITIES,
        who="bot",
        key="password",
        groups=False,
        private=False,
        apart=True,
        pause_s=12.0,
    ),
}


def needs(*claims: str) -> pytest.MarkDecorator:
    """For a test of what not every channel can do: it runs over those that declare it, and groups where there are any. Whether
    the others refuse it is tried by test_a14_what_it_says_it_can_do_it_can_and_no_more.
    """
    fit = [
        name
        for name, kind in KINDS.items()
        if all(kind.groups if one == "groups" else getattr(kind.can, one) for one in claims)
    ]
    return pytest.mark.parametrize("stage", fit, indirect=True)


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

    def place(self, said: InboundMessage) -> Address:
        """Where ann is answered to this."""
        return replace(self.ann, thread=said.address.thread) if self.kind.apart else self.ann

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
        return [
            str(value)
            for key, value in self.platform.config().items()
            if "token" in key or key == "password"
        ]

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
    assert stage.channel.capabilities == kind.can
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
