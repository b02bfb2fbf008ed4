"""What follows from each kind of event in the other tables, in the event's own transaction (store/journal.py)."""

import json
from dataclasses import replace

import pytest

from daemon.core.events import (
    Answer,
    BudgetExtended,
    Coached,
    Event,
    ModelFailed,
    Stop,
    Suspended,
    TurnResumed,
)
from daemon.core.rows import OutboxRow
from daemon.core.trust import Label
from daemon.store.journal import Store, Tx
from tests.contract.journal import (
    HOME,
    NOW,
    add,
    after,
    answered,
    asked,
    begin,
    begun,
    ended,
    finished,
    message,
    notice,
    recorded,
    replied,
    said,
    steered,
    turn,
)


@pytest.mark.parametrize(
    "taint",
    [said(label=Label.UNTRUSTED), steered("m2", Label.UNTRUSTED), finished(Label.UNTRUSTED)],
)
async def test_a_turn_that_has_read_something_untrusted_stays_untrusted(
    store: Store, taint: Event
) -> None:
    """trust.md: joins go downwards only."""
    epoch = await begun(store, taint)
    await add(store, epoch, steered("m3"), finished(), first=2)
    row = await store.read(lambda tx: tx.get_turn("t1"))
    assert row and row.label is Label.UNTRUSTED


async def test_trusted_events_leave_a_turn_as_it_is(store: Store) -> None:
    await begun(
        store,
        said(),
        steered("m3"),
        replace(finished(), public=True),
        Coached("nudge", "go on"),
        ModelFailed("auth", "no"),
        BudgetExtended("2.0", "why", 20),
    )
    assert await store.read(lambda tx: tx.get_turn("t1")) == turn("t1")
    assert await store.read(lambda tx: tx.get_input("m1")) == message("m1", state="taken")


async def test_what_of_the_owners_was_shown_is_in_the_turns_row_with_the_event(
    store: Store,
) -> None:
    epoch = await begun(store, replace(said(), private=("mail",)), finished())
    row = await store.read(lambda tx: tx.get_turn("t1"))
    assert row and row.private == ("mail", "shell")
    await add(store, epoch, TurnResumed("restart", private=("recall",)), first=3)
    row = await store.read(lambda tx: tx.get_turn("t1"))
    assert row and row.private == ("mail", "recall", "shell")


async def test_a_steering_message_ends_as_part_of_the_turn(store: Store) -> None:
    """E7: and stays so after the turn's end."""
    await store.write(lambda tx: tx.accept_input(message("m2", steers="t1")))
    epoch = await begun(store, said(), steered("m2"))
    assert await store.read(lambda tx: (tx.get_input("m2"), tx.list_waiting_inputs(HOME))) == (
        message("m2", steers="t1", state="steered:t1"),
        [],
    )
    await add(store, epoch, ended(), first=3)
    assert await store.read(lambda tx: tx.get_input("m2")) == message(
        "m2", steers="t1", state="steered:t1"
    )


async def test_a_steering_message_that_came_too_late_becomes_a_turn_of_its_own(
    store: Store,
) -> None:
    """architecture.md: one outcome per accepted message."""
    epoch = await begun(store, said())
    await store.write(
        lambda tx: (
            tx.accept_input(message("m2", steers="t1")),
            tx.accept_input(message("m3", steers="t0")),
        )
    )
    await add(store, epoch, ended(), first=2)
    assert await store.read(lambda tx: tx.list_waiting_inputs(HOME)) == [
        message("m2"),
        message("m3", steers="t0"),
    ]
    assert await store.read(lambda tx: tx.list_unfinished_sessions()) == [HOME]


async def test_replies_of_the_model_add_up_in_their_turn(store: Store) -> None:
    epoch = await begun(store, said(), replied(calls=2), replied())
    expected = replace(
        turn("t1"), iterations=1, input_tokens=200, output_tokens=20, cached_tokens=80, usd=0.5
    )
    assert await store.read(lambda tx: tx.get_turn("t1")) == expected
    await add(store, epoch, replied(usd=None), replied(), first=4)
    row = await store.read(lambda tx: tx.get_turn("t1"))
    assert row and (row.usd, row.input_tokens) == (None, 400)


async def test_a_turn_is_suspended_and_resumed(store: Store) -> None:
    epoch = await begun(store, said(), Suspended(("2.0",)))
    assert await store.read(lambda tx: [row.state for row in tx.list_unfinished_turns(HOME)]) == [
        "suspended"
    ]
    await add(store, epoch, TurnResumed("answered"), first=3)
    assert await store.read(lambda tx: [row.state for row in tx.list_unfinished_turns(HOME)]) == [
        "running"
    ]


async def test_the_end_of_a_turn_settles_everything_at_once(store: Store) -> None:
    """K11: reply, outbox and inbox in one commit."""
    epoch = await begun(
        store, said(), replied(calls=2), asked("2.0"), asked("2.1"), channel="telegram"
    )
    await store.write(lambda tx: tx.answer_approval("t1", "2.1", Answer.ONCE, "ann", "", NOW))
    await add(store, epoch, ended("bye", Stop.CANCELLED), first=5, at=after(5))
    row = await store.read(lambda tx: tx.get_turn("t1"))
    assert row and (row.state, row.stop_reason, row.detail, row.reply, row.ended_at) == (
        "ended",
        Stop.CANCELLED,
        "in words",
        "bye",
        after(5),
    )
    assert await store.read(lambda tx: tx.get_input("m1")) == message("m1", state="done")
    assert await store.read(lambda tx: [question.state for question in tx.list_approvals()]) == [
        "void",
        "void",
    ]
    reply = OutboxRow("t1", 3, HOME, "telegram", "chat-1", "reply", "bye", after(5))
    assert await store.read(lambda tx: tx.list_outbox("new")[-1]) == reply
    assert await store.read(lambda tx: tx.list_unfinished_sessions()) == []


async def test_an_empty_reply_is_not_delivered(store: Store) -> None:
    await begun(store, said(), ended(""), channel="telegram")
    assert await store.read(lambda tx: (tx.list_outbox("new"), tx.list_outbox("sent"))) == ([], [])


async def test_a_session_that_nobody_listens_to_gets_no_deliveries(store: Store) -> None:
    """A sub-agent's session has no channel: its reply is the result of a call."""
    await begun(store, said(), ended(), channel="")
    assert await store.read(lambda tx: (tx.list_outbox("new"), tx.list_outbox("sent"))) == ([], [])


@pytest.mark.parametrize(
    ("channel", "approval", "reply", "told"),
    [
        ("telegram", "new", "new", "new"),
        ("terminal", "sent", "new", "new"),
        ("web", "sent", "sent", "sent"),
    ],
)
async def test_what_a_client_reads_by_itself_is_born_sent(
    store: Store, channel: str, approval: str, reply: str, told: str
) -> None:
    await begun(store, said(), replied(calls=1), asked(), ended(), channel=channel)
    await store.write(lambda tx: tx.post_delivery(notice("t1", channel=channel)))
    rows = await store.read(lambda tx: tx.list_outbox("new") + tx.list_outbox("sent"))
    assert {row.kind: (row.state, row.part) for row in rows} == {
        "approval": (approval, 1),
        "reply": (reply, 2),
        "notice": (told, 3),
    }


async def test_a_question_is_a_row_and_a_delivery(store: Store) -> None:
    """K15: with the label of what the turn had read when it asked."""
    await begun(store, said(label=Label.UNTRUSTED), replied(calls=1), asked(), channel="slack")
    row = await store.read(lambda tx: tx.get_approval("t1", "2.0"))
    assert row and (row.session, row.label, row.state, row.asked_at, row.expires) == (
        HOME,
        Label.UNTRUSTED,
        "pending",
        NOW,
        after(60),
    )
    assert (row.tool, row.arguments, row.args_hash, row.effect, row.token_hash) == (
        "shell",
        '{"command":"rm ä"}',
        "hash",
        "destructive",
        "token",
    )
    [delivery] = await store.read(lambda tx: tx.list_outbox("new", "slack"))
    question = {
        "call_id": "2.0",
        "tool": "shell",
        "arguments": '{"command":"rm ä"}',
        "effect": "destructive",
        "expires": after(60).isoformat(),
        "preview": "",
    }
    assert (delivery.kind, json.loads(delivery.body)) == ("approval", question)


@pytest.mark.parametrize(
    ("answer", "state"),
    [(Answer.ONCE, "consumed"), (Answer.DENY, "consumed"), (Answer.EXPIRED, "expired")],
)
async def test_an_answer_taken_in_by_the_turn_is_consumed(
    store: Store, answer: Answer, state: str
) -> None:
    """K16."""
    await begun(store, said(), replied(calls=1), asked(), answered(answer))
    row = await store.read(lambda tx: tx.get_approval("t1", "2.0"))
    assert row and (row.state, row.answer, row.answered_by, row.reason) == (
        state,
        answer,
        "ann",
        "because",
    )


async def test_an_approval_is_answered_once(store: Store) -> None:
    """K15."""
    await begun(store, said(), replied(calls=1), asked())
    first = await store.write(
        lambda tx: tx.answer_approval("t1", "2.0", Answer.ALWAYS, "ann", "fine", after(59))
    )
    again = await store.write(
        lambda tx: tx.answer_approval("t1", "2.0", Answer.DENY, "bob", "", after(59))
    )
    assert first and (first.state, first.answer, first.answered_by, first.reason) == (
        "answered",
        Answer.ALWAYS,
        "ann",
        "fine",
    )
    assert again is None
    assert await store.read(lambda tx: tx.get_approval("t1", "2.0")) == first


async def test_an_approval_is_not_answered_after_its_time(store: Store) -> None:
    await begun(store, said(), replied(calls=1), asked())
    assert (
        await store.write(
            lambda tx: tx.answer_approval("t1", "2.0", Answer.ONCE, "ann", "", after(60))
        )
        is None
    )
    assert await store.read(lambda tx: [row.state for row in tx.list_approvals()]) == ["expired"]
    assert (
        await store.write(lambda tx: tx.answer_approval("t1", "2.0", Answer.ONCE, "ann", "", NOW))
        is None
    )


async def test_a_question_nobody_asked_has_no_answer(store: Store) -> None:
    assert (
        await store.write(lambda tx: tx.answer_approval("t1", "2.0", Answer.ONCE, "ann", "", NOW))
        is None
    )
    assert await store.read(lambda tx: tx.get_approval("t1", "2.0")) is None


async def test_questions_come_oldest_first_filtered_by_state_and_session(store: Store) -> None:
    def work(tx: Tx) -> None:
        for name, where in (("t1", HOME), ("t2", "terminal:b"), ("t3", HOME)):
            tx.append_events(where, begin(tx, name, where=where), name, recorded(asked()))
        tx.answer_approval("t1", "2.0", Answer.ONCE, "ann", "", NOW)

    await store.write(work)
    assert await store.read(lambda tx: [row.turn for row in tx.list_approvals()]) == [
        "t1",
        "t2",
        "t3",
    ]
    assert await store.read(lambda tx: [row.turn for row in tx.list_approvals("pending")]) == [
        "t2",
        "t3",
    ]
    assert await store.read(lambda tx: [row.turn for row in tx.list_approvals(session=HOME)]) == [
        "t1",
        "t3",
    ]
    assert await store.read(
        lambda tx: [row.turn for row in tx.list_approvals("pending", HOME)]
    ) == ["t3"]


async def test_a_poisonous_turn_is_set_aside_and_its_session_told(store: Store) -> None:
    """K25."""
    await begun(store, said(), replied(calls=1), asked(), channel="telegram")
    await store.write(lambda tx: tx.accept_input(message("m2", steers="t1")))
    await store.write(lambda tx: tx.quarantine("t1", after(9), "crashed three times"))
    row = await store.read(lambda tx: tx.get_turn("t1"))
    assert row and (row.state, row.ended_at, row.detail, row.stop_reason) == (
        "quarantined",
        after(9),
        "crashed three times",
        None,
    )
    assert await store.read(lambda tx: tx.get_input("m1")) == message("m1", state="quarantined")
    assert await store.read(lambda tx: [question.state for question in tx.list_approvals()]) == [
        "void"
    ]
    told = OutboxRow("t1", 2, HOME, "telegram", "chat-1", "notice", "crashed three times", after(9))
    assert await store.read(lambda tx: tx.list_outbox("new")[-1]) == told
    assert await store.read(lambda tx: tx.list_waiting_inputs(HOME)) == [message("m2")]


async def test_a_message_whose_turn_never_began_can_be_set_aside_too(store: Store) -> None:
    """K25."""
    await store.write(begin)
    await store.write(lambda tx: tx.accept_input(message("m2")))
    await store.write(lambda tx: tx.quarantine("t2", NOW, "crashed"))
    assert await store.read(lambda tx: (tx.get_input("m2"), tx.list_waiting_inputs(HOME))) == (
        message("m2", state="quarantined"),
        [],
    )
    assert await store.read(lambda tx: [(row.turn, row.body) for row in tx.list_outbox("new")]) == [
        ("t2", "crashed")
    ]
    await store.write(lambda tx: tx.quarantine("t9", NOW, "nobody knows it"))
    assert await store.read(lambda tx: len(tx.list_outbox("new"))) == 1
