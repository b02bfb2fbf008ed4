"""What turns used up, in every journal: iterations that do not count, dearer days, why agents stopped (D6, E4, F2)."""

import random
from dataclasses import replace

import pytest

from daemon.core.events import (
    Alarm,
    BudgetRaised,
    Consulted,
    Consulting,
    IterationRefunded,
    Limits,
    ModelAsked,
    ModelFailed,
    Stop,
)
from daemon.core.messages import Usage
from daemon.core.rows import TurnRow
from daemon.store.journal import Store, Tx
from tests.contract.journal import (
    HOME,
    NOW,
    add,
    after,
    begin,
    begun,
    ended,
    message,
    recorded,
    replied,
    said,
    turn,
)

DAY = 86_400


async def test_an_iteration_of_housekeeping_is_given_back(store: Store) -> None:
    """E4: its cost is not."""
    epoch = await begun(store, said(), replied(calls=1), replied(calls=1))
    await add(store, epoch, IterationRefunded(("3.0",)), first=4)
    row = await store.read(lambda tx: tx.get_turn("t1"))
    assert row and (row.iterations, row.input_tokens, row.usd) == (1, 200, 0.5)


async def test_small_questions_beside_the_loop_cost_and_are_no_iterations(store: Store) -> None:
    """F2; E4: and one that never reached a model costs nothing."""
    asked = Consulted("summary", "short", Usage(7, 3, 2, 0.5), "prov", "small")
    await begun(
        store, said(), asked, replied(), Consulted("verdict", "", Usage(), "", "", error="no model")
    )
    row = await store.read(lambda tx: tx.get_turn("t1"))
    assert row == replace(
        turn("t1"), input_tokens=107, output_tokens=13, cached_tokens=42, usd=0.75
    )
    rows = await store.read(lambda tx: tx.sum_usage(NOW))
    assert [(row.model, row.calls, row.usd) for row in rows] == [("m", 1, 0.25), ("small", 1, 0.5)]


async def test_what_people_let_a_day_cost_adds_up_since_then(store: Store) -> None:
    """F2."""
    assert await store.read(lambda tx: tx.sum_day_raises(NOW)) == (0, 0.0)
    epoch = await begun(store, said(), BudgetRaised("budget.1", Limits(), 1000, 0.5))
    await add(
        store,
        epoch,
        BudgetRaised("budget.2", Limits(), 200),
        BudgetRaised("budget.3", Limits()),
        first=3,
        at=after(DAY),
    )
    await add(store, epoch, BudgetRaised("budget.4", Limits(), 0, 0.25), first=5, at=after(2 * DAY))
    sums = [
        await store.read(lambda tx, days=days: tx.sum_day_raises(after(days * DAY)))
        for days in range(4)
    ]
    assert sums == [(1200, 0.75), (200, 0.25), (0, 0.25), (0, 0.0)]


async def test_a_turn_remembers_which_agent_it_was(store: Store) -> None:
    """D6."""

    def work(tx: Tx) -> None:
        begin(tx)
        tx.accept_input(message("m2"))
        tx.begin_turn(replace(turn("t2"), agent="digger"), tx.claim_session(HOME, "me"))

    await store.write(work)
    assert await store.read(lambda tx: [row.agent for row in tx.list_all_turns(2)]) == [
        "digger",
        "default",
    ]


@pytest.mark.parametrize(
    ("agent", "limit", "stops"),
    [
        ("default", 9, [Stop.DEADLINE, Stop.DONE, Stop.FAILED]),
        ("default", 2, [Stop.DEADLINE, Stop.DONE]),
        ("digger", 9, [Stop.OVER_BUDGET]),
        ("nobody", 9, []),
    ],
)
async def test_the_latest_stops_of_an_agent_come_newest_first(
    store: Store, agent: str, limit: int, stops: list[Stop]
) -> None:
    """D6: by when they ended; neither what runs nor what was set aside is a stop."""

    def end(tx: Tx, name: str, agent: str, stop: Stop, at: float) -> None:
        tx.accept_input(message("m" + name[1:]))
        epoch = tx.claim_session(HOME, "me")
        tx.begin_turn(replace(turn(name), agent=agent), epoch)
        tx.append_events(HOME, epoch, name, recorded(ended(reason=stop), at=after(at)))

    def work(tx: Tx) -> None:
        end(tx, "t1", "default", Stop.DEADLINE, 9)
        end(tx, "t2", "default", Stop.FAILED, 5)
        end(tx, "t3", "digger", Stop.OVER_BUDGET, 7)
        end(tx, "t4", "default", Stop.DONE, 5)
        begin(tx, "t5")
        begin(tx, "t6")
        tx.quarantine("t6", after(30), "crashed three times")

    await store.write(work)
    assert await store.read(lambda tx: tx.list_recent_stops(agent, limit)) == stops


def asked_model(tokens: int, usd: float | None) -> ModelAsked:
    return ModelAsked(1, "prov", "m", "p", "t", (), (), NOW, 7, tokens, usd)


async def test_what_was_set_aside_for_calls_that_were_cut_off_is_known(store: Store) -> None:
    """F2: those that were answered, or refused, settled it; the others count on the day on which they were given up."""
    cut, small = asked_model(100, 0.5), Consulting("intent", "prov", "small", 10, 0.25)
    answered = Consulted("intent", "complex", Usage(7, 3, 2, 0.5), "prov", "small")
    epoch = await begun(store, said(), cut, small, answered, cut, cut, replied(), small)
    assert await store.read(lambda tx: tx.sum_unsettled(NOW)) == (210, 1.25)
    failed = ModelFailed("auth", "no such key")
    await add(store, epoch, cut, failed, asked_model(1, None), first=9, at=after(DAY))
    assert await store.read(lambda tx: tx.sum_unsettled(after(DAY))) == (11, 0.25)
    await add(store, epoch, ended(), first=12, at=after(2 * DAY))
    assert await store.read(lambda tx: tx.sum_unsettled(NOW)) == (211, 1.25)
    assert await store.read(lambda tx: tx.sum_unsettled(after(2 * DAY))) == (1, 0.0)


async def test_what_was_refused_costs_nothing_and_what_nobody_answered_may_have(
    store: Store,
) -> None:
    """F2."""
    cut = asked_model(100, 0.5)
    await begun(
        store,
        said(),
        cut,
        ModelFailed("rate_limit", "slow down"),
        cut,
        ModelFailed("timeout", "no answer"),
        ended(),
    )
    assert await store.read(lambda tx: tx.sum_unsettled(NOW)) == (100, 0.5)


@pytest.mark.parametrize("seed", range(60))
async def test_calls_cost_the_same_in_one_commit_and_in_one_each(store: Store, seed: int) -> None:
    """F2."""
    chosen = random.Random(seed)
    kinds = [
        asked_model(100, 0.5), asked_model(7, None), Consulting("intent", "prov", "small", 10, 0.25),
        replied(), replied(calls=1), Consulted("intent", "", Usage(7, 3, 2, 0.5), "prov", "small"),
        Consulted("intent", "", Usage(7, 3, 2, None), "prov", "free"),
        Consulted("verdict", "", Usage(), "", "", error="no model"),
        ModelFailed("rate_limit", "slow down"), ModelFailed("timeout", "no answer"),
        IterationRefunded(("3.0",)), said(),
    ]  # fmt: skip
    events = [chosen.choice(kinds) for _ in range(9)] + [ended()] * (seed % 2)

    def work(tx: Tx) -> list[tuple[TurnRow | None, tuple[int, float]]]:
        found = []
        for name, where, size in (("t1", HOME, len(events)), ("t2", "other", 1)):
            epoch = begin(tx, name, where=where)
            for first in range(0, len(events), size):
                part = recorded(*events[first : first + size], first=first + 1)
                tx.append_events(where, epoch, name, part)
            found.append((tx.get_turn(name), tx.sum_unsettled(NOW)))
        return found

    (whole, lost), (pieces, both) = await store.write(work)
    assert whole and pieces == replace(whole, id="t2", session="other", input_id="m2")
    assert both == (2 * lost[0], 2 * lost[1])


async def test_stops_are_told_back_to_the_one_that_raised_an_alarm(store: Store) -> None:
    """D6: what led to one alarm leads to no other."""

    def work(tx: Tx) -> None:
        begin(tx)
        alarm = Alarm("budget_exhausted", "look")
        tx.append_events(
            HOME,
            tx.claim_session(HOME, "me"),
            "t1",
            recorded(ended(reason=Stop.OVER_BUDGET), at=after(1)),
        )
        for name, events in (
            ("t2", [alarm, ended(reason=Stop.DEADLINE)]),
            ("t3", [ended(reason=Stop.OVER_BUDGET)]),
        ):
            tx.accept_input(message("m" + name[1:]))
            epoch = tx.claim_session(HOME, "me")
            tx.begin_turn(turn(name), epoch)
            tx.append_events(HOME, epoch, name, recorded(*events, at=after(int(name[1:]))))

    await store.write(work)
    assert await store.read(lambda tx: tx.list_recent_stops("default", 10)) == [Stop.OVER_BUDGET]
