"""Never faster than a platform allows, by hypothesis (A13, K14)."""

import asyncio
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from channels.base import RateLimit, RetryLater
from channels.message import Address
from daemon.outbox.channel_supervisor import MOST_WINDOWS, SLOW, SLOWED_FOR_S, RateLimiter

HERE, THERE = Address("telegram", "1"), Address("telegram", "2")
RATES = st.builds(RateLimit, st.integers(1, 25), st.sampled_from([0.5, 1.0, 3.0, 60.0]))
STEPS = st.lists(st.tuples(st.sampled_from("tsp"), st.floats(0, 20)), max_size=80)


@dataclass
class Hand:
    """Time that passes when somebody sleeps."""

    now: float = 0.0
    naps: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += max(seconds, 1e-9)


def paced(rate: RateLimit) -> tuple[RateLimiter, Hand]:
    hand = Hand()
    return RateLimiter(lambda address: rate, hand.monotonic, hand.sleep), hand


@given(RATES, STEPS)
def test_b5_14_no_stretch_of_time_ever_holds_more_than_the_rate(
    rate: RateLimit, steps: list[tuple[str, float]]
) -> None:
    pacing, hand = paced(rate)
    went: list[float] = []
    for what, seconds in steps:
        if what == "p":
            hand.now += seconds
        elif what == "t":
            asyncio.run(pacing.acquire(HERE))
            went.append(hand.now)
        elif pacing.try_acquire(HERE):
            went.append(hand.now)
    for first, last in zip(went, went[rate.count :], strict=False):
        assert last - first >= rate.seconds


@given(RATES, st.lists(st.floats(0, 5), max_size=60))
def test_what_may_be_left_out_never_takes_the_last_place(
    rate: RateLimit, pauses: list[float]
) -> None:
    pacing, hand = paced(rate)
    for pause in pauses:
        hand.now += pause
        pacing.try_acquire(HERE)
        asyncio.run(pacing.acquire(HERE))
    naps = len(hand.naps)
    hand.now += rate.seconds
    while pacing.try_acquire(HERE):
        pass
    asyncio.run(pacing.acquire(HERE))
    assert len(hand.naps) == naps, "what has to go goes at once, however much was shown before"


async def test_b5_14_a_complaint_holds_that_conversation_and_slows_the_rest() -> None:
    pacing, hand = paced(RateLimit(100, 1.0))
    pacing.on_error(HERE, RetryLater("too many requests", 7.0))
    await pacing.acquire(THERE)
    assert hand.now == 0.0 and not pacing.try_acquire(THERE)
    await pacing.acquire(HERE)
    assert hand.now >= 7.0
    began = hand.now
    for _ in range(SLOW.count * 3):
        await pacing.acquire(THERE)
    assert hand.now - began >= 2 * SLOW.seconds
    hand.now += SLOWED_FOR_S + 7
    assert pacing.try_acquire(THERE)


async def test_threads_of_one_chat_share_its_rate() -> None:
    pacing, hand = paced(RateLimit(1, 60.0))
    await pacing.acquire(Address("telegram", "-7", "1"))
    await pacing.acquire(Address("telegram", "-7", "2"))
    assert hand.now >= 60.0


async def test_what_is_known_of_conversations_does_not_grow_for_ever() -> None:
    pacing, hand = paced(RateLimit(5, 5.0))
    for number in range(3 * MOST_WINDOWS):
        hand.now += 0.01
        await pacing.acquire(Address("telegram", str(number)))
    assert len(pacing._windows) <= MOST_WINDOWS
