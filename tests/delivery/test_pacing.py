"""Never faster than a platform allows, by hypothesis (A13, B5 #14)."""

import asyncio
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from channels.base import Rate
from channels.message import Address
from daemon.delivery.pacing import MOST_WINDOWS, SLOW, SLOWED_FOR_S, Pacing

HERE, THERE = Address("telegram", "1"), Address("telegram", "2")
RATES = st.builds(Rate, st.integers(1, 25), st.sampled_from([0.5, 1.0, 3.0, 60.0]))
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


def paced(rate: Rate) -> tuple[Pacing, Hand]:
    hand = Hand()
    return Pacing(lambda address: rate, hand.monotonic, hand.sleep), hand


@given(RATES, STEPS)
def test_b5_14_no_stretch_of_time_ever_holds_more_than_the_rate(rate: Rate, steps: list[tuple[str, float]]) -> None:
    pacing, hand = paced(rate)
    went: list[float] = []
    for what, seconds in steps:
        if what == "p":
            hand.now += seconds
        elif what == "t":
            asyncio.run(pacing.turn(HERE))
            went.append(hand.now)
        elif pacing.spare(HERE):
            went.append(hand.now)
    for first, last in zip(went, went[rate.count :], strict=False):
        assert last - first >= rate.seconds


@given(RATES, st.lists(st.floats(0, 5), max_size=60))
def test_what_may_be_left_out_never_takes_the_last_place(rate: Rate, pauses: list[float]) -> None:
    pacing, hand = paced(rate)
    for pause in pauses:
        hand.now += pause
        pacing.spare(HERE)
        asyncio.run(pacing.turn(HERE))
    naps = len(hand.naps)
    hand.now += rate.seconds
    while pacing.spare(HERE):
        pass
    asyncio.run(pacing.turn(HERE))
    assert len(hand.naps) == naps, "what has to go goes at once, however much was shown before"


async def test_b5_14_a_complaint_holds_that_conversation_and_slows_the_rest() -> None:
    pacing, hand = paced(Rate(100, 1.0))
    pacing.complained(HERE, 7.0)
    await pacing.turn(THERE)
    assert hand.now == 0.0 and not pacing.spare(THERE)
    await pacing.turn(HERE)
    assert hand.now >= 7.0
    began = hand.now
    for _ in range(SLOW.count * 3):
        await pacing.turn(THERE)
    assert hand.now - began >= 2 * SLOW.seconds
    hand.now += SLOWED_FOR_S + 7
    assert pacing.spare(THERE)


async def test_threads_of_one_chat_share_its_rate() -> None:
    pacing, hand = paced(Rate(1, 60.0))
    await pacing.turn(Address("telegram", "-7", "1"))
    await pacing.turn(Address("telegram", "-7", "2"))
    assert hand.now >= 60.0


async def test_what_is_known_of_conversations_does_not_grow_for_ever() -> None:
    pacing, hand = paced(Rate(5, 5.0))
    for number in range(3 * MOST_WINDOWS):
        hand.now += 0.01
        await pacing.turn(Address("telegram", str(number)))
    assert len(pacing._windows) <= MOST_WINDOWS
