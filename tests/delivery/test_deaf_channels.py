"""A channel that is connected and deaf is found within five minutes, and told on another channel (H6)."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from channels.base import Channel
from channels.email.channel import Email, EmailTiming
from channels.email.config import EmailAccount
from channels.email.imap import ImapTiming
from channels.telegram.channel import Telegram, TelegramTiming
from channels.telegram.config import TelegramAccount
from daemon.app.channels import ChannelTimeouts
from daemon.outbox.channel_supervisor import ChannelState
from tests.channels import discord_host, slack_stage
from tests.delivery.scripts import echo
from tests.delivery.stage import at_home
from tests.fakes.channel import FakeChannel
from tests.fakes.mail.server import mail_server
from tests.fakes.openai import FakeOpenAI
from tests.fakes.platform import Fault
from tests.fakes.telegram import FakeTelegram

FIVE_MINUTES, LOOK_S = 300, 5
Switch = Callable[[bool], None]


@dataclass(slots=True)
class Stopwatch:
    """A clock that stands still until it is set on."""

    at: float = 0.0

    def now(self) -> datetime:
        return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=self.at)

    def monotonic(self) -> float:
        return self.at


def found_after(live: Callable[[ChannelState, float], None], seconds: int = 1200) -> float | None:
    """When the owner is told, by looks every few seconds, of a channel that worked at 0 and lives so from then on."""
    clock = Stopwatch()
    state = ChannelState(FakeChannel(), clock)
    state.mark_alive()
    for second in range(1, seconds):
        clock.at = second
        live(state, second)
        if second % LOOK_S == 0 and state.is_lost:
            return clock.at
    return None


@pytest.mark.parametrize("every", [15, 40, 75, 120])
def test_a_channel_that_connects_and_falls_silent_again_is_found_in_five_minutes(
    every: int,
) -> None:
    def live(state: ChannelState, second: float) -> None:
        if second % every == 0:
            state.mark_failing("no pong")
        if second % every == 2:
            state.mark_alive()

    found = found_after(live)
    assert found and FIVE_MINUTES / 2 < found <= FIVE_MINUTES


def test_a_channel_that_never_says_a_word_is_found_in_five_minutes() -> None:
    found = found_after(lambda state, second: None)
    assert found and FIVE_MINUTES / 2 < found <= FIVE_MINUTES


@pytest.mark.parametrize("lasts", [10, 200, 260])
def test_one_outage_of_less_is_told_to_nobody(lasts: int) -> None:
    def live(state: ChannelState, second: float) -> None:
        if second <= lasts:
            state.mark_failing("the network is gone")
        elif second % 30 == 0:
            state.mark_alive()

    assert found_after(live) is None


def test_a_short_cut_now_and_then_is_told_to_nobody() -> None:
    def live(state: ChannelState, second: float) -> None:
        if second % 100 == 0:
            state.mark_failing("a cut")
        elif second % 30 == 2:
            state.mark_alive()

    assert found_after(live) is None


# each platform answers when it is connected to, and then no more


@asynccontextmanager
async def slack() -> AsyncIterator[tuple[Channel, Switch]]:
    async with slack_stage.fake() as fake:

        def switch(deaf: bool) -> None:
            fake.sockets.forgets = deaf
            if deaf:
                fake.sockets.go_deaf()

        timing = replace(slack_stage.QUICK, ping_s=0.1)
        yield slack_stage.channel_of(fake, timing=timing), switch


@asynccontextmanager
async def discord() -> AsyncIterator[tuple[Channel, Switch]]:
    async with discord_host.serving(heartbeat_ms=50) as fake:

        def switch(deaf: bool) -> None:
            fake.gateway.acks = not deaf

        yield discord_host.bot(fake), switch


@asynccontextmanager
async def telegram() -> AsyncIterator[tuple[Channel, Switch]]:
    async with FakeTelegram() as fake:

        def switch(deaf: bool) -> None:
            fake._faults.clear()
            if deaf:
                fake.fail("getUpdates", Fault("drop", times=100_000))

        account = TelegramAccount.model_validate(fake.config())
        timing = TelegramTiming(first_s=0.05, longest_s=0.1, poll_s=1)
        yield Telegram(account, timing=timing), switch


@asynccontextmanager
async def email() -> AsyncIterator[tuple[Channel, Switch]]:
    async with mail_server() as server:

        def switch(deaf: bool) -> None:
            server.proxy.forgets = b"IDLE" if deaf else b""

        account = EmailAccount.model_validate(server.config())
        yield Email(account, timing=EmailTiming(0.05, 0.1, ImapTiming(0.2, 0.2, 2.0))), switch


@pytest.mark.parametrize("platform", [slack, discord, telegram, email], ids=lambda it: it.__name__)
async def test_the_owner_is_told_once_on_another_channel_and_once_when_it_works_again(
    tmp_path: Path,
    model: FakeOpenAI,
    platform: Callable[[], AbstractAsyncContextManager[tuple[Channel, Switch]]],
) -> None:
    echo(model)
    other = FakeChannel("work/telegram")
    times = ChannelTimeouts(silent_s=1.6, ailing_s=0.2, tell_after_s=2.5, flush_s=0.0)
    async with (
        platform() as (channel, switch),
        at_home(tmp_path, model, channel, other, times=times) as house,
    ):
        state = house.channel_states[channel.name]
        await other.say("hello")
        await other.until(lambda: other.texts() == ["re: hello"] and state.is_steady)
        switch(True)
        await other.until(lambda: len(other.texts()) == 2)
        assert channel.name in other.texts()[1] and "is down" in other.texts()[1]
        await other.until(lambda: any(channel.name in line for line in house.client.overview.problems()))
        switch(False)
        await other.until(lambda: len(other.texts()) == 3)
        assert other.texts()[2].startswith(f"{channel.name} works again")
        assert not list(house.client.overview.problems())
