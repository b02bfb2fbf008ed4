"""A fake Slack, the channel on it and a house of its own, for the tests of the channel."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from channels.message import Address
from channels.slack.channel import Slack
from channels.slack.config import SlackAccount, SlackTiming
from tests.channels.host import Ledger, running
from tests.fakes.slack import FakeSlack

QUICK = SlackTiming(
    ping_s=0.4,
    hello_s=2.0,
    settle_s=0.05,
    hold_s=5.0,
    save_s=0.0,
    answer_s=0.5,
    root_s=5.0,
    timeout_s=5.0,
    transfer_s=5.0,
    close_s=0.5,
    first_s=0.05,
    longest_s=0.2,
)


@dataclass(slots=True)
class Stage:
    """What a test plays with."""

    slack: FakeSlack
    channel: Slack
    house: Ledger
    task: asyncio.Task[None]

    @property
    def dm(self) -> Address:
        """Ann's chat with the bot."""
        return Address("slack", self.slack.private("ann"))


def channel_of(slack: FakeSlack, *, timing: SlackTiming = QUICK, **changed: object) -> Slack:
    """The channel, with the fake's own section of the config."""
    return Slack(SlackAccount.model_validate(slack.config() | changed), timing=timing)


@asynccontextmanager
async def fake(**parameters: object) -> AsyncIterator[FakeSlack]:
    """A Slack, listening."""
    slack = FakeSlack(**parameters)  # type: ignore[arg-type]
    await slack.start()
    try:
        yield slack
    finally:
        await slack.stop()


@asynccontextmanager
async def stage(
    slack: FakeSlack,
    house: Ledger | None = None,
    *,
    timing: SlackTiming = QUICK,
    listening: bool = True,
    **changed: object,
) -> AsyncIterator[Stage]:
    """The channel runs, and hears."""
    house = house or Ledger()
    channel = channel_of(slack, timing=timing, **changed)
    async with AsyncExitStack() as stack:
        before = slack.sockets.connected
        task = await stack.enter_async_context(running(channel, house))
        if listening:
            await slack.until(lambda: slack.sockets.connected > before)
            await _caught_up(slack)
        yield Stage(slack, channel, house, task)


async def _caught_up(slack: FakeSlack) -> None:
    """An event that nobody wants is acknowledged when all that was missed has been fetched."""
    mark = {"event_id": "Ev0", "event": {"type": "team_join"}}
    slack.sockets.acked.clear()
    slack.sockets.send("events_api", mark)
    await slack.until(lambda: any(payload is mark for payload, _ in slack.sockets.acked))
    slack.sockets.acked.clear()
    slack.sockets.attempts.clear()
