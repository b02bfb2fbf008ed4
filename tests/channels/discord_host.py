"""A Discord on loopback, the channel at it, and a house behind it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from channels.base import Channel
from channels.discord.channel import Discord
from channels.discord.config import DiscordAccount, DiscordTiming
from channels.message import Address
from tests.channels.host import Ledger, running
from tests.fakes.discord import GENERAL, FakeDiscord

QUICK = DiscordTiming(
    ready_s=5,
    ack_s=0.2,
    close_s=0.5,
    save_s=0,
    call_s=8,
    lookup_s=3.0,
    invalid_s=(0, 0),
    first_s=0.02,
    longest_s=0.02,
    retry_s=0.02,
    longest_retry_s=0.02,
)


@dataclass(frozen=True, slots=True)
class Scene:
    """What a test has to do with."""

    fake: FakeDiscord
    channel: Channel
    host: Ledger

    def at(self, chat: str) -> Address:
        return Address("discord", chat)

    async def heard(self, *texts: str) -> None:
        """These came in, in this order, and nothing else."""
        await self.host.until(lambda: len(self.host.texts) >= len(texts))
        assert self.host.texts == list(texts)


def bot(fake: FakeDiscord, timing: DiscordTiming = QUICK, **config: object) -> Discord:
    """The channel, with the fake's own section of config.toml."""
    return Discord(DiscordAccount.model_validate({**fake.config(), **config}), timing=timing)


@asynccontextmanager
async def serving(*, heartbeat_ms: int = 5000) -> AsyncIterator[FakeDiscord]:
    """The fake alone."""
    fake = FakeDiscord(heartbeat_ms=heartbeat_ms)
    for chat in (GENERAL, fake.private("ann"), fake.private("bob")):
        fake.world.places[chat].last = "1"
    await fake.start()
    try:
        yield fake
    finally:
        await fake.stop()


@asynccontextmanager
async def listening(
    fake: FakeDiscord, host: Ledger | None = None, *, ack: float = QUICK.ack_s, **config: object
) -> AsyncIterator[Scene]:
    """The channel at the fake; it is let in, and has looked who wrote meanwhile, when this begins."""
    scene = Scene(fake, bot(fake, replace(QUICK, ack_s=ack), **config), host or Ledger())
    lives, looked = scene.host.lives, len(fake.calls.of("POST users/@me/channels"))
    async with running(scene.channel, scene.host):
        await scene.host.until(lambda: scene.host.lives > lives)
        await fake.until(lambda: len(fake.calls.of("POST users/@me/channels")) >= looked + 2)
        yield scene


@asynccontextmanager
async def talking(*, guild_id: int | str = "") -> AsyncIterator[Scene]:
    """Both."""
    async with serving() as fake, listening(fake, guild_id=guild_id) as scene:
        yield scene
