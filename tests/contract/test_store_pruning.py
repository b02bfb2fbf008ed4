"""`[store] keep_days`: what old turns said goes; what guards against repeats, and what somebody needs, stays."""

import asyncio
import sqlite3
from contextlib import suppress
from dataclasses import replace

from daemon.core.events import Event, Outcome
from daemon.core.rows import LoopStage
from daemon.store.journal import Store, Tx
from daemon.store.pruning import keep_pruning, prune
from daemon.store.tables.schedules import GoalRow
from tests.contract.journal import (
    CHILD,
    HOME,
    NOW,
    after,
    begin,
    begin_child,
    ended,
    finished,
    grant,
    message,
    recorded,
    replied,
    said,
    spawned,
    steered,
)
from tests.contract.test_store_loops import LOOP
from tests.fakes.tools import SteadyClock

DAY = 86_400


def end(tx: Tx, name: str, *events: Event, at: float = 0) -> None:
    epoch = begin(tx, name, channel="slack")
    tx.append_events(
        HOME, epoch, name, recorded(said("m" + name[1:]), *events, ended(), at=after(at))
    )
    tx.mark_delivery(name, 1, "sent", "p1")


async def test_a_pruned_message_that_comes_again_is_still_known(store: Store) -> None:
    await store.write(lambda tx: end(tx, "t1", replied()))
    clock = SteadyClock(after(31 * DAY))
    assert await prune(store, clock, 30, ()) == 1
    assert await prune(store, clock, 30, ()) == 0
    again = await store.write(lambda tx: tx.accept_input(message("m1")))
    assert (again.turn, again.state, again.body) == ("t1", "done", "")
    assert await store.read(lambda tx: tx.list_unfinished_sessions()) == []
    row = await store.read(lambda tx: tx.get_turn("t1"))
    assert row and (row.state, row.reply, row.input_tokens) == ("pruned", "", 100)
    assert await store.read(lambda tx: tx.list_events("t1")) == []
    [delivery] = await store.read(lambda tx: tx.list_turn_outbox("t1"))
    assert (delivery.state, delivery.platform_message_id, delivery.body) == ("sent", "p1", "")
    assert (await store.read(lambda tx: tx.sum_usage(NOW)))[0].calls == 1


async def test_what_somebody_needs_is_not_pruned(store: Store) -> None:
    unknown = replace(finished(), outcome=Outcome.UNKNOWN)

    def work(tx: Tx) -> None:
        end(tx, "t1", unknown)
        end(tx, "t2")
        end(tx, "t3")
        tx.add_grant(grant("g1"))
        tx.use_grant("g1", "t3/2.0", NOW)
        end(tx, "t4", at=5 * DAY)
        begin(tx, "t5", channel="slack")
        end(tx, "t6")
        tx.mark_delivery("t6", 1, "uncertain")
        end(tx, "t7")

    await store.write(work)
    assert await prune(store, SteadyClock(after(31 * DAY)), 30, {"t2"}) == 1
    rows = await store.read(lambda tx: tx.list_all_turns(9))
    assert [row.id for row in rows if row.state == "pruned"] == ["t7"]
    assert await store.write(lambda tx: tx.revoke_grant("g1"))
    assert await prune(store, SteadyClock(after(31 * DAY)), 30, ()) == 2


async def test_what_an_open_turn_or_loop_has_yet_to_read_is_not_pruned(store: Store) -> None:
    """A parent takes its child's reply, and a loop its attempt's, at a later start perhaps."""

    def work(tx: Tx) -> None:
        epoch = begin(tx, "t1", channel="slack")
        tx.append_events(HOME, epoch, "t1", recorded(said(), replied(calls=1), spawned()))
        child = begin_child(tx)
        tx.append_events(CHILD, child, "t2", recorded(said("m2"), ended("found it")))
        paused = replace(LOOP, stage=LoopStage.PAUSED)
        tx.put_loop(paused)
        attempt = begin(tx, "t3", where=paused.session)
        tx.append_events(paused.session, attempt, "t3", recorded(said("m3"), ended("passes")))
        tx.mark_delivery("t3", 1, "sent")

    await store.write(work)
    clock = SteadyClock(after(31 * DAY))
    assert await prune(store, clock, 30, ()) == 0
    over = replace(LOOP, stage=LoopStage.FAILED, ended_at=NOW)
    await store.write(lambda tx: tx.put_loop(over))
    assert await prune(store, clock, 30, ()) == 1


async def test_what_a_goal_at_work_has_done_is_not_pruned(store: Store) -> None:
    """Its next run takes up the list of the one before, however long ago that was (G6)."""
    goal = GoalRow("1", HOME, "terminal:main", "find a bike", 5.0, NOW)
    await store.write(lambda tx: (tx.put_goal(goal), end(tx, "t1")))
    clock = SteadyClock(after(31 * DAY))
    assert await prune(store, clock, 30, ()) == 0
    await store.write(lambda tx: tx.halt_goal(goal, "done"))
    assert await prune(store, clock, 30, ()) == 1


async def test_a_text_that_joined_a_turn_goes_with_it(store: Store) -> None:
    await store.write(lambda tx: tx.accept_input(message("m9")))
    await store.write(lambda tx: end(tx, "t1", steered("m9")))
    assert await prune(store, SteadyClock(after(31 * DAY)), 30, ()) == 1
    row = await store.read(lambda tx: tx.get_input("m9"))
    assert row and (row.state, row.body) == ("steered:t1", "")


async def test_a_vacuum_that_fails_does_not_end_pruning(store: Store) -> None:
    looks: list[int] = []

    async def list_cited() -> tuple[str, ...]:
        looks.append(1)
        raise sqlite3.OperationalError("database or disk is full")

    with suppress(TimeoutError):
        pruning = keep_pruning(store, SteadyClock(NOW), 30, list_cited, every_s=0)
        await asyncio.wait_for(pruning, 0.05)
    assert len(looks) > 1
