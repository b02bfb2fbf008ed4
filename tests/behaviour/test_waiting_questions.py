"""Questions that nobody began wait for the owner's attention: none is lost, none is put twice (DESIGN 6)."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from daemon.app.adapters import TOO_MANY
from daemon.core.events import Answer
from daemon.core.rows import ApprovalRow, OutboxRow
from daemon.store.posting import (
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
from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.house import Living
from tests.fakes.openai import FakeOpenAI, Json, Step, by, calls, says
from tests.security.flood import BELL, post

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
    return [row.body for row in await sent(alive, "notice") if "More questions wait" in row.body]


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
        assert (await lines(alive))[0].startswith("More questions wait (1)")
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
        assert TOO_MANY in str(refused.calls[0].result)
        assert len(await open_ones(alive, "waiting")) == MAX_WAITING == len(turns) - 5
        assert await waits_or_ends(alive, await alive.say("wipe it")) == "run.suspended"
        assert done == []


async def test_a_parent_is_not_kept_at_work_by_an_agent_whose_question_would_wait(
    tmp_path: Path,
) -> None:
    """It is refused as before: its parent's turn would hold a place all the while."""

    def choose(body: Json) -> Step:
        texts = [str(one["content"]) for one in body["messages"] if one["role"] == "user"]
        if body["messages"][-1]["role"] == "tool":
            return says("So be it.")
        return calls(("spawn_agent", {"task": "child"}) if "child" not in texts else ("wipe", {}))

    async with home(tmp_path) as (alive, done):
        await flood(alive, MAX_OF_SOURCE)
        alive.model.otherwise(by(choose))
        parent = await alive.settled(await event(alive, "parent"))
        [child] = [await alive.settled(one) for one in parent.children]
        assert TOO_MANY in str(child.calls[0].result)
        assert await open_ones(alive, "waiting") == [] == done


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


FLOODED = (
    '[events]\nenabled = true\nnotify = "web:default"\n[events.tokens]\nbell = "{bell}"\n'
    "[limits]\nevents_per_minute = 0\n"
)


async def is_settled(daemon: Daemon, count: int) -> bool:
    """So many questions stand or wait."""
    states = ("pending", "waiting")
    found = [await daemon.listed("/v1/approvals", state=state) for state in states]
    return sum(map(len, found)) == count and len(found[0]) == min(count, MAX_OF_SOURCE)


async def test_whenever_it_is_killed_no_question_is_lost_and_none_is_put_twice(
    tmp_path: Path,
) -> None:
    """Kill -9 while events ask, and between an answer and the next question."""
    moments = Random(7)
    config = FLOODED.format(bell=BELL)
    asks = calls(("shell", {"argv": ["true"], "command": "true"}))
    async with FakeOpenAI() as model:
        model.otherwise(
            by(lambda body: says("ok") if body["messages"][-1]["role"] == "tool" else asks)
        )
        left, answered = 12, set[str]()
        async with running_daemon(tmp_path, scripted(model.base_url, config)) as daemon:
            taken = [await post(daemon, "/v1/events/bell", BELL, {"n": n}) for n in range(left)]
            assert {status for status, _, _ in taken} == {202}
        while left:
            async with running_daemon(tmp_path, None) as daemon:
                async with asyncio.timeout(20):
                    while not await is_settled(daemon, left):
                        await asyncio.sleep(0.05)
                asked = await daemon.listed("/v1/approvals", state="pending")
                first = asked[0]
                path = f"/v1/runs/{first['turn']}/reject"
                await daemon.post(path, call_id=str(first["call_id"]))
                answered.add(str(first["turn"]))
                left -= 1
                await asyncio.sleep(moments.random() * 0.8)
        assert len(answered) == len(taken)
    with closing(sqlite3.connect(tmp_path / "journal.db")) as db:
        put = db.execute("SELECT turn, COUNT(*) FROM outbox WHERE kind = 'approval' GROUP BY turn")
        assert dict(put.fetchall()) == dict.fromkeys(answered, 1)
        told = db.execute("SELECT COUNT(*) FROM outbox WHERE body LIKE 'More questions wait%'")
        assert told.fetchone() == (1,)
