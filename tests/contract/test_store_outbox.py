"""Deliveries and standing permissions in every journal."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from daemon.core.errors import AidaemonError, Conflict
from daemon.store.journal import Store, Tx
from tests.contract.journal import HOME, NOW, after, grant, message, notice


async def test_grants_hold_in_their_session_or_everywhere_until_revoked(store: Store) -> None:
    rows = [grant("g1"), grant("g2", session=""), grant("g3", session="terminal:b")]
    await store.write(lambda tx: [tx.add_grant(row) for row in rows])
    assert await store.read(lambda tx: tx.list_grants(HOME)) == rows[:2]
    assert await store.read(lambda tx: tx.list_grants("*")) == rows
    assert await store.write(lambda tx: (tx.revoke_grant("g1"), tx.revoke_grant("g1"))) == (
        True,
        False,
    )
    assert await store.read(lambda tx: tx.list_grants(HOME)) == rows[1:2]


async def test_deliveries_keep_order_and_number_themselves(store: Store) -> None:
    await store.write(
        lambda tx: [
            tx.post_delivery(notice("t1")),
            tx.post_delivery(notice("t2", part=7)),
            tx.post_delivery(notice("t1")),
            tx.post_delivery(notice("t2")),
        ]
    )
    rows = await store.read(lambda tx: tx.list_outbox("new"))
    assert [(row.turn, row.part) for row in rows] == [("t1", 1), ("t2", 7), ("t1", 2), ("t2", 8)]
    assert rows[0] == notice("t1", part=1)
    with pytest.raises(Conflict):
        await store.write(lambda tx: tx.post_delivery(notice("t1", part=1)))


async def test_f8_of_a_withdrawal_and_a_release_exactly_one_happens(store: Store) -> None:
    """K27: however they meet, and whoever marks it afterwards."""
    rows = [replace(notice(f"t{n}", part=1), state="held", due=after(30)) for n in range(40)]
    await store.write(lambda tx: [tx.post_delivery(row) for row in rows])
    assert await store.read(lambda tx: tx.get_held_times()) == (after(30), NOW)
    await store.write(lambda tx: tx.release_held(after(29)))
    tries = [store.write(lambda tx, n=n: tx.withdraw("/undo x", f"t{n}", 1)) for n in range(40)]
    tries.insert(20, store.write(lambda tx: tx.release_held(after(30)) or False))
    won = await asyncio.gather(*tries)
    assert won == [True] * 20 + [False] * 21
    await store.write(lambda tx: [tx.mark_delivery(f"t{n}", 1, "sent") for n in range(40)])
    assert len(await store.read(lambda tx: tx.list_outbox("withdrawn"))) == 20
    assert len(await store.read(lambda tx: tx.list_outbox("sent"))) == 20
    assert await store.read(lambda tx: tx.get_held_times()) is None


async def test_deliveries_are_filtered_by_channel_and_session(store: Store) -> None:
    other = replace(notice("t2", part=1, channel="slack"), session="slack:C1")
    await store.write(lambda tx: (tx.post_delivery(notice("t1", part=1)), tx.post_delivery(other)))
    assert await store.read(lambda tx: tx.list_outbox("new", channel="slack")) == [other]
    assert await store.read(lambda tx: tx.list_outbox("new", session="slack:C1")) == [other]
    assert await store.read(lambda tx: tx.list_outbox("new", channel="slack", session=HOME)) == []
    assert await store.read(lambda tx: tx.list_outbox("sent")) == []


async def test_each_try_to_send_counts_and_the_platforms_id_stays(store: Store) -> None:
    def work(tx: Tx) -> None:
        tx.post_delivery(notice("t1", part=1))
        tx.mark_delivery("t1", 1, "sending")
        tx.mark_delivery("t1", 1, "uncertain", "platform-5")
        tx.mark_delivery("t1", 1, "sending")
        tx.mark_delivery("t1", 1, "sent")

    await store.write(work)
    sent = await store.read(lambda tx: tx.list_outbox("sent"))
    assert sent == [
        replace(notice("t1", part=1), state="sent", platform_message_id="platform-5", attempts=2)
    ]


async def test_why_a_delivery_failed_is_kept_until_it_goes_well(store: Store) -> None:
    failed = replace(notice("t1", part=1), state="failed", error="the chat is gone")
    await store.write(
        lambda tx: (
            tx.post_delivery(notice("t1", part=1)),
            tx.mark_delivery("t1", 1, "failed", error="the chat is gone"),
        )
    )
    assert await store.read(lambda tx: tx.get_delivery("t1", 1)) == failed
    await store.write(lambda tx: tx.mark_delivery("t1", 1, "sent"))
    assert await store.read(lambda tx: tx.get_delivery("t1", 1)) == replace(
        failed, state="sent", error=""
    )
    await store.write(lambda tx: tx.post_delivery(replace(failed, part=2)))
    assert await store.read(lambda tx: tx.get_delivery("t1", 2)) == replace(failed, part=2)


async def test_the_deliveries_of_a_turn_come_in_order_of_part(store: Store) -> None:
    parts = [notice("t1", part=3), notice("t2", part=1), notice("t1", part=1)]
    await store.write(lambda tx: [tx.post_delivery(row) for row in parts])
    assert await store.read(lambda tx: tx.list_turn_outbox("t1")) == [parts[2], parts[0]]
    assert await store.read(lambda tx: (tx.list_turn_outbox("t3"), tx.get_delivery("t1", 2))) == (
        [],
        None,
    )


async def test_a_channel_takes_up_what_it_has_not_surely_sent(store: Store) -> None:
    """K7-9."""
    states = ["sent", "uncertain", "failed", "new", "sending"]
    rows = [replace(notice("t1", part=9 - n), state=state) for n, state in enumerate(states)]
    await store.write(
        lambda tx: [tx.post_delivery(row) for row in [*rows, notice("t2", part=1, channel="slack")]]
    )
    assert await store.read(lambda tx: tx.list_unsent("telegram")) == [rows[1], rows[3], rows[4]]


async def test_a_platforms_message_is_found_as_the_delivery_that_became_it(store: Store) -> None:
    one = replace(notice("t1", part=1), state="sent", platform_message_id="7 18")
    later = replace(notice("t2", part=1), state="sent", platform_message_id="18")
    await store.write(
        lambda tx: (
            tx.post_delivery(one),
            tx.post_delivery(replace(later, chat="chat-2")),
            tx.post_delivery(replace(later, turn="t3")),
        )
    )

    def found(chat: str, name: str, channel: str = "telegram") -> Callable[[Tx], str]:
        return lambda tx: row.turn if (row := tx.find_delivery(channel, chat, name)) else ""

    asked = [
        ("chat-1", "7"),
        ("chat-1", "18"),
        ("chat-2", "18"),
        ("chat-2", "7"),
        ("chat-1", "8"),
        ("chat-1", ""),
        ("chat-1", "7 18"),
    ]
    assert [await store.read(found(*one)) for one in asked] == ["t1", "t3", "t2", "", "", "", ""]
    assert await store.read(found("chat-1", "7", "slack")) == ""


async def test_a_platforms_message_is_found_in_the_threads_of_its_chat(store: Store) -> None:
    """A14: a reaction in a thread says only in which chat it is."""
    threads = ("chat-1:9", "chat-12:9", "chat-1;9")
    rows = [
        replace(notice(f"t{n}", part=1), chat=chat, platform_message_id=f"m{n}")
        for n, chat in enumerate(threads)
    ]
    await store.write(lambda tx: [tx.post_delivery(row) for row in rows])
    found = await store.read(
        lambda tx: [tx.find_delivery("telegram", "chat-1", f"m{n}") for n in range(3)]
    )
    assert [row.turn if row else "" for row in found] == ["t0", "", ""]
    assert await store.read(lambda tx: tx.find_delivery("telegram", "chat-1:9", "m0"))
    assert not await store.read(lambda tx: tx.find_delivery("telegram", "chat-1:8", "m0"))


async def test_who_watches_is_told_after_each_commit_with_something_new_to_deliver(
    store: Store,
) -> None:
    """F1: and of nothing else: not of what was undone, of what needs no delivery, or of what a delivery came to."""
    told: list[int] = []
    ring = asyncio.Event()

    def on_it() -> None:
        told.append(1)
        ring.set()

    async def rings() -> bool:
        for _ in range(5):
            await asyncio.sleep(0)
        return ring.is_set()

    def undone(tx: Tx) -> None:
        tx.post_delivery(notice("t9"))
        raise AidaemonError("midway")

    end = store.watch_outbox(on_it)
    await store.write(lambda tx: tx.accept_input(message("m1")))
    with pytest.raises(AidaemonError, match="midway"):
        await store.write(undone)
    await asyncio.gather(
        store.write(undone),
        store.write(lambda tx: tx.claim_session(HOME, "me")),
        return_exceptions=True,
    )
    await store.write(lambda tx: tx.post_delivery(notice("t1", channel="web")))
    await store.write(lambda tx: tx.post_delivery(replace(notice("t1"), state="sent")))
    assert not await rings()
    await store.write(lambda tx: tx.post_delivery(notice("t2", part=1)))
    assert await rings() and len(told) == 1
    ring.clear()
    await store.write(lambda tx: tx.mark_delivery("t2", 1, "sending"))
    assert not await rings()
    end()
    await store.write(lambda tx: tx.post_delivery(notice("t3")))
    assert not await rings()
    end()


async def test_who_watches_sees_what_it_is_told_of_and_harms_nobody_when_it_fails(
    store: Store,
) -> None:
    seen: asyncio.Queue[int] = asyncio.Queue()
    trouble: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: trouble.put_nowait(str(context["exception"])))

    def stumble() -> None:
        raise RuntimeError("nobody foresaw this")

    async def look() -> None:
        seen.put_nowait(await store.read(lambda tx: len(tx.list_outbox("new"))))

    looks: set[asyncio.Task[None]] = set()
    store.watch_outbox(stumble)
    store.watch_outbox(lambda: looks.add(loop.create_task(look())))
    await asyncio.gather(
        *(store.write(lambda tx, n=n: tx.post_delivery(notice(f"t{n}"))) for n in range(20))
    )
    async with asyncio.timeout(10):
        while await seen.get() < 20:
            pass
    assert await trouble.get() == "nobody foresaw this"
    await store.write(lambda tx: tx.post_delivery(notice("more")))
    await asyncio.gather(*looks)


async def test_exactly_those_that_the_model_was_told_of_are_not_told_again(store: Store) -> None:
    rows = [replace(notice(f"notice/{n}", part=1), session=HOME) for n in range(3)]

    def work(tx: Tx) -> None:
        for row in rows:
            tx.post_delivery(row)
            tx.tell_model(HOME, row.turn, 1, "owner")
        tx.mark_delivery("notice/1", 1, "sending")
        tx.mark_delivery("notice/2", 1, "sent", at=after(30))

    await store.write(work)
    listed = await store.read(lambda tx: tx.list_outcomes(HOME))
    assert [one.row.turn for one in listed] == ["notice/1", "notice/2"]
    assert listed[1].shown_at == after(30) > NOW == listed[0].shown_at
    await store.write(lambda tx: tx.mark_delivery("notice/0", 1, "sent"))
    await store.write(lambda tx: tx.note_outcomes([f"{one.row.turn}/1" for one in listed]))
    left = await store.read(lambda tx: tx.list_outcomes(HOME))
    assert [one.row.turn for one in left] == ["notice/0"]


async def test_no_more_than_the_latest_twenty_wait_to_be_told(store: Store) -> None:
    def work(tx: Tx) -> None:
        for n in range(30):
            tx.post_delivery(replace(notice(f"notice/{n}", part=1), session=HOME))
            tx.mark_delivery(f"notice/{n}", 1, "sent")
            tx.tell_model(HOME, f"notice/{n}", 1, "owner")

    await store.write(work)
    listed = await store.read(lambda tx: tx.list_outcomes(HOME))
    assert [one.row.turn for one in listed] == [f"notice/{n}" for n in range(10, 30)]
