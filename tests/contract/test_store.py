"""What every journal promises: rows in and out, order, duplicates, fencing, atomic works (guarantees.md; B5)."""

from dataclasses import replace

import pytest

from daemon.core.errors import Conflict, Fenced, UnknownTurn
from daemon.core.events import Stop
from daemon.core.trust import Label
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
    session,
    turn,
)


async def test_a_session_is_kept_and_replaced_whole(store: Store) -> None:
    row = replace(
        session(),
        model="big",
        effort="high",
        paused=True,
        cleared_at=after(1),
        label=Label.UNTRUSTED,
        root="web:b",
    )
    await store.write(lambda tx: tx.put_session(session()))
    assert await store.read(lambda tx: tx.get_session(HOME)) == session()
    await store.write(lambda tx: tx.put_session(row))
    assert await store.read(lambda tx: tx.get_session(HOME)) == row
    assert await store.read(lambda tx: tx.get_session("nobody")) is None


async def test_sessions_come_newest_first_and_keep_their_place_when_replaced(store: Store) -> None:
    for name in ("terminal:a", "terminal:b", "terminal:a"):
        await store.write(lambda tx, name=name: tx.put_session(session(name)))
    assert [row.id for row in await store.read(lambda tx: tx.list_sessions())] == [
        "terminal:b",
        "terminal:a",
    ]


async def test_a_redelivered_message_changes_nothing_and_gives_the_first_row(store: Store) -> None:
    """K2."""
    first = await store.write(lambda tx: tx.accept_input(message("m1")))
    again = replace(message("m9"), external_id=first.external_id, body="other")
    assert await store.write(lambda tx: tx.accept_input(again)) == first == message("m1")
    assert await store.read(lambda tx: tx.get_input("m9")) is None
    assert await store.read(lambda tx: tx.list_waiting_inputs(HOME)) == [first]


async def test_the_same_external_id_of_another_account_is_another_message(store: Store) -> None:
    other = replace(message("m2"), external_id="x-m1", account="second")
    await store.write(lambda tx: (tx.accept_input(message("m1")), tx.accept_input(other)))
    assert await store.read(lambda tx: [row.id for row in tx.list_waiting_inputs(HOME)]) == [
        "m1",
        "m2",
    ]


async def test_another_message_of_a_known_id_is_a_conflict(store: Store) -> None:
    await store.write(lambda tx: tx.accept_input(message("m1")))
    with pytest.raises(Conflict):
        await store.write(
            lambda tx: tx.accept_input(replace(message("m1"), external_id="elsewhere"))
        )


async def test_messages_wait_in_order_of_acceptance_whatever_the_clock_says(store: Store) -> None:
    """K22."""
    late = replace(message("m1"), received_at=after(3600))
    await store.write(
        lambda tx: (
            tx.accept_input(late),
            tx.accept_input(message("m2", steers="t0")),
            tx.accept_input(message("m3", session="terminal:b")),
        )
    )
    assert await store.read(lambda tx: [row.id for row in tx.list_waiting_inputs(HOME)]) == [
        "m1",
        "m2",
    ]


async def test_a_message_is_found_by_its_id_and_by_its_turn(store: Store) -> None:
    await store.write(lambda tx: tx.accept_input(message("m1")))
    assert await store.read(lambda tx: (tx.get_input("m1"), tx.get_turn_input("t1"))) == (
        message("m1"),
        message("m1"),
    )
    assert await store.read(lambda tx: (tx.get_input("m2"), tx.get_turn_input("t2"))) == (
        None,
        None,
    )


async def test_a_settled_message_waits_no_more_and_a_renewed_one_steers_nothing(
    store: Store,
) -> None:
    await store.write(
        lambda tx: (
            tx.accept_input(message("m1", steers="t0")),
            tx.set_input_state("m1", "command"),
        )
    )
    assert await store.read(lambda tx: (tx.get_input("m1"), tx.list_waiting_inputs(HOME))) == (
        message("m1", steers="t0", state="command"),
        [],
    )
    await store.write(lambda tx: tx.set_input_state("m1", "new"))
    assert await store.read(lambda tx: tx.list_waiting_inputs(HOME)) == [message("m1")]


async def test_each_claim_raises_the_epoch_of_its_session_alone(store: Store) -> None:
    assert [await store.write(lambda tx: tx.claim_session(HOME, "me")) for _ in range(3)] == [
        1,
        2,
        3,
    ]
    assert await store.write(lambda tx: tx.claim_session("terminal:b", "me")) == 1


async def test_a_former_owner_is_fenced_and_writes_nothing(store: Store) -> None:
    """K19."""
    old = await begun(store, said())
    new = await store.write(lambda tx: tx.claim_session(HOME, "another"))
    with pytest.raises(Fenced):
        await add(store, old, ended(), first=2)
    with pytest.raises(Fenced):
        await store.write(lambda tx: tx.begin_turn(turn("t2"), old))
    await add(store, new, replied(), first=2)
    assert await store.read(lambda tx: len(tx.list_events("t1"))) == 2
    assert await store.read(lambda tx: tx.get_turn("t2")) is None


async def test_nobody_writes_for_a_session_that_was_never_claimed(store: Store) -> None:
    with pytest.raises(Fenced):
        await store.write(lambda tx: tx.begin_turn(turn("t1"), 0))


async def test_events_need_a_turn_of_their_session(store: Store) -> None:
    await begun(store, said())
    other = await store.write(lambda tx: tx.claim_session("terminal:b", "me"))
    with pytest.raises(UnknownTurn):
        await store.write(
            lambda tx: tx.append_events("terminal:b", other, "t1", recorded(replied(), first=2))
        )


async def test_events_come_back_as_they_were_written_from_any_point(store: Store) -> None:
    events = recorded(said(), replied(calls=2), ended())
    await begun(store, said(), replied(calls=2), ended())
    assert await store.read(lambda tx: tx.list_events("t1")) == events
    assert await store.read(lambda tx: tx.list_events("t1", after=2)) == events[2:]
    assert await store.read(lambda tx: tx.list_events("t2")) == []


async def test_an_event_of_a_known_place_is_a_conflict_and_the_first_stands(store: Store) -> None:
    epoch = await begun(store, said(), replied())
    with pytest.raises(Conflict):
        await add(store, epoch, ended(), first=2)
    assert await store.read(lambda tx: tx.list_events("t1")) == recorded(said(), replied())
    assert await store.read(lambda tx: [row.state for row in tx.list_all_turns(5)]) == ["running"]


async def test_a_turn_begins_once_and_takes_its_message(store: Store) -> None:
    epoch = await store.write(begin)
    assert await store.read(lambda tx: (tx.get_turn("t1"), tx.list_waiting_inputs(HOME))) == (
        turn("t1"),
        [],
    )
    assert await store.read(lambda tx: tx.get_input("m1")) == message("m1", state="taken")
    with pytest.raises(Conflict):
        await store.write(lambda tx: tx.begin_turn(turn("t1"), epoch))


async def test_turns_come_newest_first_and_unfinished_ones_oldest_first(store: Store) -> None:
    await store.write(lambda tx: [begin(tx, name) for name in ("t1", "t2", "t3")])
    await store.write(lambda tx: begin(tx, "t4", where="terminal:b"))
    await add(store, 3, ended(), first=1, name="t2")
    assert await store.read(lambda tx: [row.id for row in tx.list_all_turns(3)]) == [
        "t4",
        "t3",
        "t2",
    ]
    assert await store.read(lambda tx: [row.id for row in tx.list_turns(HOME, 9)]) == [
        "t3",
        "t2",
        "t1",
    ]
    assert await store.read(lambda tx: [row.id for row in tx.list_unfinished_turns(HOME)]) == [
        "t1",
        "t3",
    ]


async def test_a_start_takes_up_what_waits_runs_or_is_suspended_and_nothing_else(
    store: Store,
) -> None:
    def work(tx: Tx) -> None:
        tx.accept_input(message("m7", session="waits"))
        tx.accept_input(message("m8", session="was-command", state="command"))
        begin(tx, "t1", where="runs")
        epoch = begin(tx, "t2", where="over")
        tx.append_events("over", epoch, "t2", recorded(said("m2"), ended()))
        begin(tx, "t3", where="bad")
        tx.quarantine("t3", NOW, "crashed three times")

    await store.write(work)
    assert await store.read(lambda tx: tx.list_unfinished_sessions()) == ["runs", "waits"]


async def test_attempts_count_only_without_progress(store: Store) -> None:
    """K25."""
    await store.write(begin)  # the first attempt
    assert await store.read(lambda tx: tx.count_attempts("t1")) == 1
    counts = [
        await store.write(lambda tx, at=at: tx.add_attempt("t1", at)) for at in (0, 4, 4, 4, 2)
    ]
    assert counts == [2, 1, 2, 3, 1]
    await store.write(lambda tx: tx.reset_attempts("t1"))
    assert await store.write(lambda tx: tx.add_attempt("t1", 2)) == 1


async def test_b5_25_of_a_crash_with_others_an_attempt_counts_only_its_share(store: Store) -> None:
    await store.write(lambda tx: tx.accept_input(message("m1")))
    assert await store.read(lambda tx: tx.count_attempts("t1")) == 0
    counts = [
        await store.write(lambda tx, at=at: tx.add_attempt("t1", at, 0.25)) for at in (0, 0, 0, 3)
    ]
    assert counts == [1, 1.25, 1.5, 1]
    assert await store.read(lambda tx: tx.count_attempts("t1")) == 1


async def test_attempts_at_a_turn_that_has_not_begun_count_too(store: Store) -> None:
    """K25."""
    await store.write(lambda tx: tx.accept_input(message("m1")))
    assert [await store.write(lambda tx: tx.add_attempt("t1", 0)) for _ in range(3)] == [1, 2, 3]


async def test_a_stop_stands_until_its_turn_ends_or_is_set_aside(store: Store) -> None:
    """E7."""
    epoch = await begun(store, said())
    await store.write(lambda tx: (tx.accept_input(message("m2")), tx.accept_input(message("m3"))))
    for why in ("first", "second"):
        await store.write(
            lambda tx, why=why: [tx.request_cancel(name, why) for name in ("t1", "t2", "t3")]
        )
    assert await store.read(
        lambda tx: [tx.get_cancel_reason(name) for name in ("t1", "t2", "t3", "t4")]
    ) == ["first"] * 3 + [""]
    await add(store, epoch, ended(), first=2)
    await store.write(lambda tx: tx.quarantine("t2", NOW, "crashed three times"))
    assert await store.read(
        lambda tx: [tx.get_cancel_reason(name) for name in ("t1", "t2", "t3")]
    ) == ["", "", "first"]


async def test_usage_sums_by_model_and_an_unknown_price_makes_the_sum_unknown(store: Store) -> None:
    epoch = await begun(
        store, replied(), replied(), replied(model="odd", usd=None), replied(model="odd")
    )
    await add(store, epoch, replied(model="late"), first=5, at=after(86_400))
    rows = await store.read(lambda tx: tx.sum_usage(NOW))
    assert [
        (row.model, row.calls, row.input_tokens, row.output_tokens, row.cached_tokens, row.usd)
        for row in rows
    ] == [
        ("late", 1, 100, 10, 40, 0.25),
        ("m", 2, 200, 20, 80, 0.5),
        ("odd", 2, 200, 20, 80, None),
    ]
    assert [
        row.model for row in await store.read(lambda tx: tx.sum_usage(after(86_400), HOME))
    ] == ["late"]
    assert await store.read(lambda tx: tx.sum_usage(NOW, "terminal:b")) == []


async def test_stops_are_counted_by_reason_since_then(store: Store) -> None:
    """D6."""

    def work(tx: Tx) -> None:
        for name, stop, at in (
            ("t1", Stop.DONE, NOW),
            ("t2", Stop.DONE, after(9)),
            ("t3", Stop.FAILED, after(9)),
            ("t4", Stop.DONE, after(9)),
        ):
            tx.append_events(HOME, begin(tx, name), name, recorded(ended(reason=stop), at=at))
        begin(tx, "t5")

    await store.write(work)
    assert await store.read(lambda tx: tx.count_stops(after(1))) == {"done": 2, "failed": 1}
