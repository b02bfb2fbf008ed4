"""Deliveries and standing permissions in every journal."""

from dataclasses import replace

import pytest

from daemon.store.protocol import Conflict, Store, Tx
from tests.contract.journal import HOME, grant, notice


async def test_grants_hold_in_their_session_or_everywhere_until_revoked(store: Store) -> None:
    rows = [grant("g1"), grant("g2", session=""), grant("g3", session="terminal:b")]
    await store.write(lambda tx: [tx.add_grant(row) for row in rows])
    assert await store.read(lambda tx: tx.grants(HOME)) == rows[:2]
    assert await store.read(lambda tx: tx.grants("*")) == rows
    assert await store.write(lambda tx: (tx.revoke_grant("g1"), tx.revoke_grant("g1"))) == (True, False)
    assert await store.read(lambda tx: tx.grants(HOME)) == rows[1:2]


async def test_deliveries_keep_order_and_number_themselves(store: Store) -> None:
    await store.write(
        lambda tx: [tx.post(notice("t1")), tx.post(notice("t2", part=7)), tx.post(notice("t1")), tx.post(notice("t2"))]
    )
    rows = await store.read(lambda tx: tx.outbox("new"))
    assert [(row.turn, row.part) for row in rows] == [("t1", 1), ("t2", 7), ("t1", 2), ("t2", 8)]
    assert rows[0] == notice("t1", part=1)
    with pytest.raises(Conflict):
        await store.write(lambda tx: tx.post(notice("t1", part=1)))


async def test_deliveries_are_filtered_by_channel_and_session(store: Store) -> None:
    other = replace(notice("t2", part=1, channel="slack"), session="slack:C1")
    await store.write(lambda tx: (tx.post(notice("t1", part=1)), tx.post(other)))
    assert await store.read(lambda tx: tx.outbox("new", channel="slack")) == [other]
    assert await store.read(lambda tx: tx.outbox("new", session="slack:C1")) == [other]
    assert await store.read(lambda tx: tx.outbox("new", channel="slack", session=HOME)) == []
    assert await store.read(lambda tx: tx.outbox("sent")) == []


async def test_each_try_to_send_counts_and_the_platforms_id_stays(store: Store) -> None:
    def work(tx: Tx) -> None:
        tx.post(notice("t1", part=1))
        tx.mark_outbox("t1", 1, "sending")
        tx.mark_outbox("t1", 1, "uncertain", "platform-5")
        tx.mark_outbox("t1", 1, "sending")
        tx.mark_outbox("t1", 1, "sent")

    await store.write(work)
    sent = await store.read(lambda tx: tx.outbox("sent"))
    assert sent == [replace(notice("t1", part=1), state="sent", platform_message_id="platform-5", attempts=2)]
