"""`[store] keep_days`: what old turns said goes; what guards against repeats, and what somebody needs, stays."""

from dataclasses import replace

from daemon.core.events import Event, Outcome
from daemon.core.journal import Store, Tx
from daemon.store.pruning import prune
from tests.contract.journal import (
    HOME,
    NOW,
    after,
    begin,
    ended,
    finished,
    grant,
    message,
    recorded,
    replied,
    said,
)
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
    rows = await store.read(lambda tx: tx.list_turns(None, 9))
    assert [row.id for row in rows if row.state == "pruned"] == ["t7"]
    assert await store.write(lambda tx: tx.revoke_grant("g1"))
    assert await prune(store, SteadyClock(after(31 * DAY)), 30, ()) == 2
