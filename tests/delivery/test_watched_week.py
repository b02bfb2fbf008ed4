"""A simulated week of outages: each of five minutes or more is told once, in time, and no other (H6)."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from daemon.outbox.channel_supervisor import LOOK_EVERY_S, TELL_AFTER_S, ChannelState
from daemon.outbox.health_alarm import LONGEST_LOOK_S, HealthAlarm, Outage
from tests.fakes.channel import FakeChannel

WEEK, FIVE_MINUTES, POLL_S = 7 * 86_400, 300, 25
SHORT, LONG = (5, 200), (420, 14_400)


@dataclass(slots=True)
class Week:
    """A clock, and the outages of a week: (from, to) in seconds, short and long ones, hours apart."""

    outages: Sequence[tuple[int, int]]
    at: float = 0.0
    told: list[float] = field(default_factory=list)
    over: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=self.at)

    def monotonic(self) -> float:
        return self.at

    def is_out(self) -> bool:
        return any(begin <= self.at < end for begin, end in self.outages)

    def check(self) -> None:
        """Each long outage was told in its fifth minute, and that it is over; nothing else was told."""
        long = [(begin, end) for begin, end in self.outages if end - begin >= FIVE_MINUTES]
        assert len(long) > 10 and len(self.told) == len(self.over) == len(long)
        for (begin, end), told, over in zip(long, self.told, self.over, strict=True):
            assert FIVE_MINUTES / 2 < told - begin <= FIVE_MINUTES + POLL_S
            assert end <= over <= end + FIVE_MINUTES


def plan_week(seed: int) -> Week:
    chance, outages, at = random.Random(seed), list[tuple[int, int]](), 3_600
    while at < WEEK - 30_000:
        lasts = chance.randint(*chance.choice((SHORT, LONG)))
        outages.append((at, at + lasts))
        at += lasts + chance.randint(3_600, 14_400)
    return Week(outages)


@pytest.mark.parametrize("seed", range(3))
async def test_h6_a_week_of_a_server_and_a_model(seed: int) -> None:
    week = plan_week(seed)

    async def tell(text: str) -> bool:
        (week.over if "works again" in text else week.told).append(week.at)
        return True

    def find_outages() -> dict[str, Outage | None]:
        return {"The model": Outage("it does not answer") if week.is_out() else None}

    alarm = HealthAlarm(find_outages, tell, week, TELL_AFTER_S, measure=lambda: week.at)
    for at in range(0, WEEK, int(LONGEST_LOOK_S)):
        week.at = at
        await alarm.look()
    week.check()


@pytest.mark.parametrize("seed", range(3))
def test_h6_a_week_of_a_channel_that_is_connected_and_deaf(seed: int) -> None:
    """It is polled as ever; while it is deaf no answer comes, but the connection stands."""
    week, is_told = plan_week(seed), False
    state = ChannelState(FakeChannel(), week)
    state.mark_alive()
    for at in range(0, WEEK, int(LOOK_EVERY_S)):
        week.at = at
        if at % POLL_S == 0 and not week.is_out():
            state.mark_alive()
        if state.is_lost and not is_told:
            is_told = True
            week.told.append(at)
        elif is_told and state.is_steady:
            is_told = False
            week.over.append(at)
    week.check()


async def test_h6_in_a_week_a_clock_that_only_runs_a_little_wrong_is_told_to_nobody() -> None:
    """Half a second an hour is put right by the machine, as ever; summer time is no setting of it."""
    week, told = Week(()), list[str]()

    async def tell(text: str) -> bool:
        told.append(text)
        return True

    alarm = HealthAlarm(dict, tell, week, TELL_AFTER_S, measure=lambda: week.at * 1.00014)
    for at in range(0, WEEK, int(LONGEST_LOOK_S)):
        week.at = at
        await alarm.look()
    assert told == []
