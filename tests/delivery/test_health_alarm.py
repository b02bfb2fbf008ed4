"""The owner is told of a server, a model or a clock that does not work while the daemon runs (H6)."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon.app.channels import ChannelTimeouts
from daemon.app.daemon import Daemon, Overrides
from daemon.outbox.channel_supervisor import TELL_AFTER_S
from daemon.outbox.health_alarm import LONGEST_LOOK_S, HealthAlarm, Outage
from tests.delivery.scripts import echo
from tests.delivery.stage import at_home
from tests.fakes.channel import FakeChannel
from tests.fakes.mcp import Script
from tests.fakes.openai import FakeOpenAI, fails, says

FIVE_MINUTES = 300
SOON = ChannelTimeouts(tell_after_s=0.4, flush_s=0.0)
TOOL = {"name": "look", "description": "Look at something"}


@dataclass
class SetClock:
    """Clocks that a test sets on; both go on by themselves, too."""

    wall: float = 0.0
    stopwatch: float = 0.0
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.wall)

    def monotonic(self) -> float:
        return time.monotonic() + self.stopwatch


@asynccontextmanager
async def with_broken_server(
    tmp_path: Path,
    model: FakeOpenAI,
    channel: FakeChannel,
    times: ChannelTimeouts | None = None,
    parts: Overrides | None = None,
) -> AsyncIterator[tuple[Daemon, Script]]:
    """A daemon whose only MCP server dies whenever its tools are listed."""
    echo(model)
    script, home = Script(tmp_path / "server"), tmp_path / "home"
    script.write([TOOL], crash_at="list")
    more = {"mcp": {"desk": script.table()}}
    async with at_home(home, model, channel, more=more, times=times, parts=parts) as house:
        yield house, script


async def test_h6_an_mcp_server_that_is_gone_is_told_once_and_once_when_it_works_again(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    async with with_broken_server(tmp_path, model, channel, times=SOON) as (house, script):
        await channel.say("hello")
        await channel.until(lambda: len(channel.texts()) == 2)
        told = next(text for text in channel.texts() if "desk" in text)
        assert told.startswith("The MCP server desk does not work: /mcp says why")
        assert "doctor" in told
        script.write([TOOL])
        await channel.until(lambda: any("desk works again" in one for one in channel.texts()))
        await house.wait_for_servers(20)
        assert len(channel.texts()) == 3


async def test_h6_a_model_that_does_not_answer_is_told_once_and_once_when_it_does(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    model.script(fails(402), fails(402), says("It is as you see."))
    async with at_home(tmp_path, model, channel, times=SOON):
        for text in ("one", "two"):
            await channel.say(text)
        await channel.until(
            lambda: any("The model does not work" in one for one in channel.texts())
        )
        await channel.say("three")
        await channel.until(lambda: any("The model works again" in one for one in channel.texts()))
        assert sum("The model" in one for one in channel.texts()) == 2


async def test_h6_a_request_that_is_wrong_says_nothing_of_the_model(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    model.otherwise(fails(422))
    async with at_home(tmp_path, model, channel, times=SOON) as house:
        for text in ("one", "two"):
            await channel.say(text)
        await channel.until(lambda: len(channel.texts()) == 2)
        assert house.routes.failures == 0


@pytest.mark.parametrize(
    ("by", "told"), [(-3600, "back by 60 minutes"), (7200, "on by 120 minutes")]
)
async def test_h6_a_clock_that_is_set_is_told_for_schedules_go_by_it(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel, by: float, told: str
) -> None:
    clock = SetClock()
    echo(model)
    parts = Overrides(make_clock=lambda: clock)
    async with at_home(tmp_path, model, channel, times=SOON, parts=parts):
        await channel.say("hello")
        await channel.until(lambda: len(channel.texts()) == 1)
        clock.wall = by
        await channel.until(lambda: len(channel.texts()) == 2)
        assert f"The machine's clock was set {told}: it is " in channel.texts()[1]


async def test_h6_with_the_usual_times_it_is_told_within_five_minutes(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    """By the daemon's own clock; not before half of that has gone by."""
    clock = SetClock()
    parts = Overrides(make_clock=lambda: clock)
    async with with_broken_server(tmp_path, model, channel, parts=parts) as (house, _):
        await channel.say("hello")
        await channel.until(lambda: len(channel.texts()) == 1)
        await house.wait_for_servers(20)
        clock.stopwatch = FIVE_MINUTES - LONGEST_LOOK_S
        await channel.until(lambda: any("desk does not work" in one for one in channel.texts()))


async def list_told(outages: dict[int, bool], seconds: int = 1200) -> list[tuple[int, str]]:
    """What is told when: out from the second of an entry with True on, well from one with False on."""
    clock, told = SetClock(), list[tuple[int, str]]()
    at, out = [0], [False]

    async def tell(text: str) -> bool:
        told.append((at[0], text.partition(":")[0]))
        return True

    class Still:
        now = clock.now

        def monotonic(self) -> float:
            return at[0]

    alarm = HealthAlarm(
        lambda: {"It": Outage("gone") if out[0] else None}, tell, Still(), TELL_AFTER_S
    )
    for second in range(1, seconds):
        at[0], out[0] = second, outages.get(second, out[0])
        if second % LONGEST_LOOK_S == 0:
            await alarm.look()
    return told


async def test_h6_an_outage_is_told_in_the_fifth_minute_and_a_short_one_never() -> None:
    [(first, down), (after, well)] = await list_told({20: True, 600: False})
    assert FIVE_MINUTES / 2 < first - 20 <= FIVE_MINUTES and down == "It does not work"
    assert 600 < after <= 660 and well == "It works again."
    assert await list_told({20: True, 200: False}) == []


async def test_h6_what_works_for_a_moment_now_and_then_is_out_all_the_same() -> None:
    flapping = {n: n % 40 == 20 for n in range(20, 1200, 20)}
    [(first, _)] = await list_told(flapping)
    assert first - 20 <= FIVE_MINUTES


async def test_h6_what_is_removed_while_it_is_out_does_not_work_again(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    """A server whose section is gone after /reload."""
    async with with_broken_server(tmp_path, model, channel, times=SOON) as (house, script):
        await channel.say("hello")
        await channel.until(lambda: any("desk does not work" in one for one in channel.texts()))
        house.servers.configure({})
        await channel.say("and now?")
        await channel.until(lambda: "re: and now?" in channel.texts())
        script.write([TOOL])
        house.servers.configure({"desk": house.config.mcp["desk"]})
        await house.wait_for_servers(20)
        await channel.say("again?")
        await channel.until(lambda: "re: again?" in channel.texts())
        assert not any("works again" in one for one in channel.texts())
