"""Works on a journal are atomic, alone and together; and what is written comes back as it was."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from daemon.core.errors import StoreUnavailable
from daemon.store.journal import Store, Tx
from tests.contract.journal import HOME, begin, grant, message, notice


async def test_a_work_that_raises_is_undone_whole(store: Store) -> None:
    def work(tx: Tx) -> None:
        begin(tx, "t2")
        tx.set_input_state("m1", "done")
        tx.mark_delivery("t1", 1, "sent")
        tx.revoke_grant("g1")
        raise KeyError("midway")

    await store.write(
        lambda tx: (
            begin(tx),
            tx.post_delivery(notice("t1")),
            tx.add_grant(grant("g1")),
            tx.add_grant(grant("g2")),
        )
    )
    with pytest.raises(KeyError, match="midway"):
        await store.write(work)
    assert await store.read(
        lambda tx: (tx.get_turn("t2"), tx.get_input("m2"), tx.get_input("m1"))
    ) == (
        None,
        None,
        message("m1", state="taken"),
    )
    assert await store.read(
        lambda tx: ([row.id for row in tx.list_grants("*")], len(tx.list_outbox("new")))
    ) == (["g1", "g2"], 1)
    assert await store.write(lambda tx: tx.claim_session(HOME, "me")) == 2
    assert not store.problem


async def test_works_together_fail_alone_and_run_in_the_order_given(store: Store) -> None:
    def post(index: int) -> Callable[[Tx], int]:
        def work(tx: Tx) -> int:
            tx.post_delivery(notice(f"t{index}"))
            if index % 3 == 0:
                raise ValueError(index)
            return index

        return work

    outcomes = await asyncio.gather(
        *(store.write(post(index)) for index in range(100)), return_exceptions=True
    )
    assert [isinstance(outcome, ValueError) for outcome in outcomes] == [
        index % 3 == 0 for index in range(100)
    ]
    kept = await store.read(lambda tx: [row.turn for row in tx.list_outbox("new")])
    assert kept == [f"t{index}" for index in range(100) if index % 3]


async def test_what_a_look_raises_reaches_who_looked(store: Store) -> None:
    with pytest.raises(ZeroDivisionError):
        await store.read(lambda tx: 1 // len(tx.list_sessions()))
    assert await store.read(lambda tx: tx.list_sessions()) == []


async def test_instants_come_back_aware_and_exact_from_any_zone(store: Store) -> None:
    at = datetime(2026, 7, 1, 12, 0, 0, 1, timezone(timedelta(hours=5, minutes=45)))
    await store.write(lambda tx: tx.accept_input(replace(message("m1"), received_at=at)))
    kept = await store.read(lambda tx: tx.get_input("m1"))
    assert kept and kept.received_at == at
    assert kept.received_at.tzinfo is not None


async def test_any_text_comes_back_as_it_was(store: Store) -> None:
    body = "zero\0 quote' emoji 🙂 line\u2028 rtl \u202e end" * 1000
    await store.write(lambda tx: tx.accept_input(replace(message("m1"), body=body)))
    assert await store.read(lambda tx: [row.body for row in tx.list_waiting_inputs(HOME)]) == [body]


async def test_a_closed_journal_says_so(store: Store) -> None:
    await store.aclose()
    with pytest.raises(StoreUnavailable):
        await store.write(begin)
    with pytest.raises(StoreUnavailable):
        await store.read(lambda tx: tx.list_sessions())
    await store.aclose()
