"""Questions that nobody began wait for the owner's attention: none is lost, none is put twice (DESIGN 6)."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from daemon.core.events import Answer
from daemon.core.rows import ApprovalRow, OutboxRow
from daemon.store.crowds import (
    MAX_OF_CHANNEL,
    MAX_OF_SOURCE,
    MAX_OPEN,
    MAX_WAITING,
    choose_next,
    find_source,
)
from tests.behaviour.test_budgets import clock
from tests.behaviour.test_grants_outside import (
    allowed,
    event,
    home,
    is_put,
    open_ones,
    until,
    waits_or_ends,
)
from tests.fakes.house import Living

__all__ = ["clock"]
SOURCES = [f"email/{name}:1" for name in "abcdef"] + ["event_1", "schedule_1", "goal_1"]


async def flood(alive: Living, count: int, begin: int = 0) -> list[str]:
    """So many events, all at once; their turns, in the order in which they were taken."""
    turns = [await event(alive, f"{begin + number}") for number in range(count)]
    for turn in turns:
        await waits_or_ends(alive, turn)
    return turns


async def sent(alive: Living, kind: str) -> list[OutboxRow]:
    """What was posted in the owner's chat."""
    rows = [
        row
        for state in ("new", "sent")
        for row in await alive.house.store.read(lambda tx, state=state: tx.list_outbox(state))
    ]
    return [row for row in rows if row.kind == kind]


async def lines(alive: Living) -> list[str]:
    return [row.body for row in await sent(alive, "notice") if "more question" in row.body]


async def told(alive: Living) -> bool:
    return bool(await lines(alive))


async def rows_of(alive: Living, state: str) -> list[ApprovalRow]:
    return await alive.house.store.read(lambda tx: tx.list_approvals(state))


async def test_of_45_events_that_ask_five_stand_forty_wait_and_one_line_says_so(
    tmp_path: Path,
) -> None:
    """An answer puts the oldest that waits, once, over a restart, too."""
    async with home(tmp_path) as (alive, done):
        turns = await flood(alive, 45)
        await until(lambda: told(alive))
        asked, later = await open_ones(alive), await open_ones(alive, "waiting")
        assert (len(asked), len(later)) == (5, 40) and {*asked, *later} == {*turns}
        assert "40 to be asked when those are answered" in await alive.command("/status")
        await allowed(alive, asked[0], Answer.ONCE)
        await until(lambda: is_put(alive, later[0]))
    async with home(tmp_path) as (alive, done):
        assert await open_ones(alive) == [*asked[1:], later[0]]
        assert await open_ones(alive, "waiting") == later[1:]
        await allowed(alive, later[0], Answer.ONCE)
        await until(lambda: is_put(alive, later[1]))
        posted = Counter(row.turn for row in await sent(alive, "approval"))
        assert posted == Counter([*asked, *later[:2]])
        assert len(await lines(alive)) == 1 and done == ["outside"]


async def test_the_line_comes_again_when_none_waited_in_between(tmp_path: Path) -> None:
    async with home(tmp_path) as (alive, _):
        await flood(alive, 6)
        await until(lambda: told(alive))
        assert (await lines(alive))[0].startswith("1 more question waits")
        asked, [later] = await open_ones(alive), await open_ones(alive, "waiting")
        await allowed(alive, asked[0], Answer.DENY)
        await until(lambda: is_put(alive, later))
        await flood(alive, 3, 6)

        async def is_told_again() -> bool:
            return len(await lines(alive)) == 2

        await until(is_told_again)


async def test_deny_all_denies_those_that_wait_and_their_turns_end(tmp_path: Path) -> None:
    async with home(tmp_path) as (alive, done):
        turns = await flood(alive, 9)
        said = await alive.command("/deny all")
        assert said.count("Denied: wipe") == 9
        ended = await asyncio.gather(*(alive.settled(turn) for turn in turns))
        assert {view.reply for view in ended} == {"So be it."} and done == []
        assert await open_ones(alive) == await open_ones(alive, "waiting") == []
        assert len(await sent(alive, "approval")) == 5


async def test_the_time_to_answer_begins_when_a_question_is_put(
    tmp_path: Path, clock: Callable[[timedelta], None]
) -> None:
    """Those that nobody answers lapse, and the next are put."""
    async with home(tmp_path / "home") as (alive, _):
        await flood(alive, 7)
        asked, later = await rows_of(alive, "pending"), await open_ones(alive, "waiting")
        clock(timedelta(hours=25))
        await until(lambda: is_put(alive, later[1]))
        for row in asked:
            view = await alive.settled(row.turn)
            assert "nobody answered in time" in str(view.calls[0].result)
        put = await rows_of(alive, "pending")
        assert [row.turn for row in put] == later
        assert timedelta(hours=25) <= put[0].expires - asked[0].expires < timedelta(hours=26)


async def test_a_turn_that_is_stopped_leaves_the_queue(tmp_path: Path) -> None:
    async with home(tmp_path) as (alive, _):
        await flood(alive, 7)
        first, second = await open_ones(alive, "waiting")
        await alive.house.client.cancel_run(first)
        await alive.settled(first)
        assert await open_ones(alive, "waiting") == [second]


async def test_at_most_200_wait_and_more_are_refused_with_the_reason(tmp_path: Path) -> None:
    """Their turns hold no worker's task: the owner is answered meanwhile."""
    async with home(tmp_path) as (alive, done):
        turns = await flood(alive, MAX_OF_SOURCE + MAX_WAITING)
        refused = await alive.settled(await event(alive, "one more"))
        assert "200 questions wait for the owner already" in str(refused.calls[0].result)
        assert len(await open_ones(alive, "waiting")) == MAX_WAITING == len(turns) - 5
        assert await waits_or_ends(alive, await alive.say("wipe it")) == "run.suspended"
        assert done == []


@given(st.lists(st.sampled_from(SOURCES), max_size=120), st.lists(st.integers(0, 39)))
def test_no_source_starves_another_and_none_goes_over_a_limit(
    waiting: list[str], answered: list[int]
) -> None:
    """Whatever is answered: the oldest of a source first, and a source without a question before one that has some."""
    rows = [(at, find_source(name)) for at, name in enumerate(waiting)]
    asked: list[tuple[int, tuple[str, str]]] = []
    for gone in [*answered, -1]:
        while (at := choose_next([one for _, one in rows], [one for _, one in asked])) is not None:
            number, source = rows.pop(at)
            held = Counter(one for _, one in asked)
            assert all(other > number for other, one in rows if one == source)
            for _, other in rows:
                full = sum(one[1] == other[1] for _, one in asked) >= MAX_OF_CHANNEL
                assert full or held[other] >= held[source]
            asked.append((number, source))
        counts = Counter(one for _, one in asked)
        assert len(asked) <= MAX_OPEN and all(one <= MAX_OF_SOURCE for one in counts.values())
        assert all(counts[one] == MAX_OF_SOURCE for _, one in rows if one[1] != "email")
        if 0 <= gone < len(asked):
            asked.pop(gone)
