"""Agents that work for others, in every journal: born once, stopped with their parent, heard of when they end (A17)."""

from dataclasses import replace

import pytest

from daemon.core.errors import Conflict
from daemon.core.events import Alarm, Answer, ChildReturned, ChildSpawned, HistoryCompressed, Stop
from daemon.core.rows import NO_ROOT, ChildRow, InboxRow, OutboxRow, SessionRow
from daemon.core.trust import Label
from daemon.store.journal import Store, Tx
from tests.contract.journal import (
    CHILD,
    HOME,
    LIMITS,
    NOW,
    add,
    after,
    asked,
    begin,
    begin_child,
    begun,
    ended,
    finished,
    message,
    recorded,
    replied,
    said,
    session,
    spawned,
    turn,
)

GRANDCHILD = "sub-2-g"
BORN = ChildRow("t2", "t1", "2.0", CHILD, HOME, "digger", "dig here", 1, LIMITS, 20, "")


async def test_a_child_is_born_with_the_event_that_says_so(store: Store) -> None:
    """A17: its session, the message that begins its turn, and its row. An untrusted parent's people are never its people."""
    parent = replace(session(), model="big", effort="high", label=Label.UNTRUSTED, paused=True)
    await store.write(lambda tx: tx.put_session(parent))
    epoch = await begun(store, said(), replied(calls=1))
    await add(store, epoch, spawned(label=Label.UNTRUSTED), first=3, at=after(5))
    own = SessionRow(
        CHILD,
        "terminal",
        "chat-1",
        Label.UNTRUSTED,
        after(5),
        "digger",
        "big",
        "high",
        paused=True,
        root=NO_ROOT,
    )
    task = InboxRow(
        "m2", "agent", "", "t1/2.0", CHILD, "ann", "dig here", Label.UNTRUSTED, "t2", after(5),
        composed=True,
    )  # fmt: skip
    assert await store.read(lambda tx: (tx.get_session(CHILD), tx.get_turn_input("t2"))) == (
        own,
        task,
    )
    assert await store.read(
        lambda tx: (tx.get_child("t2"), tx.list_children("t1"), tx.list_running_children(HOME))
    ) == (BORN, [BORN], [BORN])
    assert await store.read(
        lambda tx: (tx.get_child("t1"), tx.list_children("t2"), tx.list_running_children(CHILD))
    ) == (None, [], [])


async def test_a_child_and_its_report_are_of_who_stands_behind_them(store: Store) -> None:
    """A17: the child of an editor's turn is no owner's, nor is its child, nor what is told of it afterwards."""

    def work(tx: Tx) -> None:
        tx.put_session(session())
        tx.accept_input(replace(message("m1"), role="editor"))
        began = tx.claim_session(HOME, "me")
        tx.begin_turn(turn("t1"), began)
        tx.append_events(HOME, began, "t1", recorded(said(), spawned(report="r1")))
        born = begin_child(tx)
        tx.append_events(
            CHILD, born, "t2", recorded(said("m2"), spawned("t3", where=GRANDCHILD), ended())
        )

    await store.write(work)
    rows = await store.read(lambda tx: [tx.get_turn_input(name) for name in ("t2", "t3", "r1")])
    assert [row.role for row in rows if row] == ["editor"] * 3


async def test_all_below_work_for_the_conversation_at_the_root(store: Store) -> None:
    """A17: a grandchild's people are the grandparent's."""
    await begun(store, spawned())

    def work(tx: Tx) -> None:
        tx.append_events(CHILD, begin_child(tx), "t2", recorded(spawned("t3", where=GRANDCHILD)))

    await store.write(work)
    rows = await store.read(lambda tx: [tx.get_session(name) for name in (HOME, CHILD, GRANDCHILD)])
    assert [row.root for row in rows if row] == ["", HOME, HOME]
    assert await store.read(lambda tx: [row.turn for row in tx.list_running_children(CHILD)]) == [
        "t3"
    ]


async def test_a_child_in_a_session_that_there_is_leaves_it_as_it_is(store: Store) -> None:
    """A17."""
    kept = replace(session(CHILD), agent="other", effort="low", root="terminal:b")
    await store.write(lambda tx: tx.put_session(kept))
    await begun(store, spawned())
    assert await store.read(lambda tx: tx.get_session(CHILD)) == kept


def traces(tx: Tx) -> tuple[object, ...]:
    return (
        tx.list_events("t1"),
        tx.get_child("t2"),
        tx.list_children("t1"),
        tx.get_session(CHILD),
        tx.get_input("m2"),
        tx.list_unfinished_sessions(),
    )


async def test_a_write_that_fails_after_a_spawn_leaves_neither_event_nor_child(
    store: Store,
) -> None:
    """A17: a crash between the two can not be."""
    epoch = await begun(store, said())

    def work(tx: Tx) -> None:
        tx.append_events(HOME, epoch, "t1", recorded(spawned(), first=2))
        assert tx.get_child("t2") and tx.get_session(CHILD) and tx.get_input("m2")
        raise KeyError("midway")

    with pytest.raises(KeyError, match="midway"):
        await store.write(work)
    assert await store.read(traces) == (recorded(said()), None, [], None, None, [HOME])


@pytest.mark.parametrize("again", [spawned("t9", where="sub-1-z"), spawned("t2", key="2.1")])
async def test_one_call_sets_one_agent_to_work(store: Store, again: ChildSpawned) -> None:
    """A17: and one turn is the child of one call. The journal refuses a second and the first stands."""
    epoch = await begun(store, spawned())
    before = await store.read(traces)
    with pytest.raises(Conflict):
        await store.write(lambda tx: tx.append_events(HOME, epoch, "t1", recorded(again, first=2)))
    assert await store.read(traces) == before
    assert await store.read(lambda tx: (tx.get_session("sub-1-z"), tx.get_input("m9"))) == (
        None,
        None,
    )


async def test_children_come_oldest_first(store: Store) -> None:
    """A17."""
    names = ["t9", "t3", "t5"]
    await begun(
        store,
        *(
            spawned(name, key=f"2.{9 - index}", where=f"sub-{name}")
            for index, name in enumerate(names)
        ),
    )
    assert await store.read(lambda tx: [row.turn for row in tx.list_children("t1")]) == names
    assert (
        await store.read(lambda tx: [row.turn for row in tx.list_running_children(HOME)]) == names
    )


async def test_a_start_takes_up_a_child_wherever_it_was_left(store: Store) -> None:
    """A17: before it began, while it ran; not after."""
    epoch = await begun(store, spawned(), ended())
    assert await store.read(
        lambda tx: (tx.list_unfinished_sessions(), tx.list_waiting_inputs(CHILD)[0].id)
    ) == ([CHILD], "m2")
    epoch = await store.write(begin_child)
    assert await store.read(
        lambda tx: (tx.list_unfinished_sessions(), tx.list_waiting_inputs(CHILD))
    ) == ([CHILD], [])
    await store.write(lambda tx: tx.append_events(CHILD, epoch, "t2", recorded(ended())))
    assert await store.read(lambda tx: tx.list_unfinished_sessions()) == []
    assert await store.read(lambda tx: (tx.get_child("t2"), tx.list_running_children(HOME))) == (
        replace(BORN, done=True),
        [],
    )


def with_children(tx: Tx) -> int:
    """t1 has set to work: t2, which it waits for; t3, in the background; t4, which has ended."""
    epoch = begin(tx)
    born = [
        spawned(),
        spawned("t3", key="2.1", where="sub-b", report="t8"),
        spawned("t4", key="2.2", where="sub-d"),
    ]
    tx.append_events(HOME, epoch, "t1", recorded(*born))
    tx.append_events("sub-d", begin_child(tx, "t4", "sub-d"), "t4", recorded(ended()))
    return epoch


def stops(tx: Tx) -> list[str]:
    return [tx.get_cancel_reason(name) for name in ("t2", "t3", "t4")]


@pytest.mark.parametrize("reason", [reason for reason in Stop if reason is not Stop.CANCELLED])
async def test_the_end_of_a_parent_stops_whom_it_waited_for_and_lets_the_background_go_on(
    store: Store, reason: Stop
) -> None:
    """A17."""
    epoch = await store.write(with_children)
    await add(store, epoch, ended(reason=reason), first=4)
    assert await store.read(stops) == [f"its parent has ended: {reason.value}", "", ""]


async def test_a_stop_of_the_parent_stops_all_that_are_at_work(store: Store) -> None:
    """A17: background ones too."""
    epoch = await store.write(with_children)
    await store.write(lambda tx: tx.request_cancel("t3", "by hand"))
    await add(store, epoch, ended(reason=Stop.CANCELLED), first=4)
    assert await store.read(stops) == ["its parent has ended: cancelled", "by hand", ""]


async def test_a_parent_that_is_set_aside_takes_all_with_it(store: Store) -> None:
    """A17; K25."""
    await store.write(with_children)
    await store.write(lambda tx: tx.quarantine("t1", NOW, "crashed three times"))
    assert await store.read(stops) == ["its parent has ended: quarantined"] * 2 + [""]


async def test_the_word_that_stopped_a_child_is_dropped_when_it_ends(store: Store) -> None:
    """A17: whether or not it had begun."""
    epoch = await store.write(with_children)
    await add(store, epoch, ended(reason=Stop.CANCELLED), first=4)
    await store.write(
        lambda tx: tx.append_events(
            CHILD, begin_child(tx), "t2", recorded(ended(reason=Stop.CANCELLED))
        )
    )
    await store.write(lambda tx: tx.quarantine("t3", NOW, "crashed three times"))
    assert await store.read(stops) == ["", "", ""]
    assert await store.read(lambda tx: tx.list_running_children(HOME)) == []


async def test_a_background_result_is_a_message_to_the_parent_with_the_childs_end(
    store: Store,
) -> None:
    """A17: durable, with the sender whose role the child had, and what the child had read."""
    await begun(store, spawned(report="t8"), ended())
    epoch = await store.write(begin_child)
    await store.write(
        lambda tx: tx.append_events(
            CHILD, epoch, "t2", recorded(finished(Label.UNTRUSTED), ended("gold"), at=after(9))
        )
    )
    told = await store.read(lambda tx: tx.get_turn_input("t8"))
    text = "The background sub-agent digger (sub-1-c) has ended (done: in words).\nIts task was: dig here\n\ngold"
    assert told == InboxRow(
        "t8.report", "agent", "", "t2/report", HOME, "ann", text, Label.UNTRUSTED, "t8", after(9),
        private=("shell",), composed=True,
    )  # fmt: skip
    assert await store.read(
        lambda tx: (tx.list_waiting_inputs(HOME), tx.list_unfinished_sessions())
    ) == ([told], [HOME])


async def test_an_end_that_fails_midway_tells_nobody_and_leaves_the_child_at_work(
    store: Store,
) -> None:
    """A17: the result is durable with the end, or neither is."""
    await begun(store, spawned(report="t8"))
    epoch = await store.write(begin_child)

    def work(tx: Tx) -> None:
        tx.append_events(CHILD, epoch, "t2", recorded(ended()))
        assert tx.get_turn_input("t8")
        raise KeyError("midway")

    with pytest.raises(KeyError, match="midway"):
        await store.write(work)
    assert await store.read(lambda tx: (tx.get_turn_input("t8"), tx.list_events("t2"))) == (
        None,
        [],
    )
    assert await store.read(lambda tx: [row.turn for row in tx.list_running_children(HOME)]) == [
        "t2"
    ]


@pytest.mark.parametrize("task", [Label.TRUSTED, Label.UNTRUSTED])
async def test_a_report_is_as_tainted_as_the_task_it_answers(store: Store, task: Label) -> None:
    """A17: the label is inherited, both ways."""
    await begun(store, spawned(report="t8", label=task))
    await store.write(lambda tx: tx.append_events(CHILD, begin_child(tx), "t2", recorded(ended())))
    told = await store.read(lambda tx: tx.get_turn_input("t8"))
    assert told and told.label is task


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        ("x" * 20, "x" * 20),
        ("x" * 19 + "yz", "x" * 19 + "y\n[cut here: 1 more characters]"),
        ("", "It gave no answer."),
    ],
)
async def test_a_report_shows_at_most_what_was_agreed_and_says_what_is_cut(
    store: Store, reply: str, shown: str
) -> None:
    """A17: the answer's size limit."""
    await begun(store, spawned(report="t8"))
    await store.write(
        lambda tx: tx.append_events(
            CHILD, begin_child(tx), "t2", recorded(ended(reply, Stop.DEADLINE))
        )
    )
    told = await store.read(lambda tx: tx.get_turn_input("t8"))
    assert told and told.body.partition("\n\n")[2] == shown
    assert "(deadline: in words)" in told.body


async def test_a_background_child_that_is_set_aside_is_reported_once(store: Store) -> None:
    """A17; K25: even when it never began."""
    await begun(store, spawned(report="t8"))
    for why in ("crashed three times", "and again"):
        await store.write(lambda tx, why=why: tx.quarantine("t2", NOW, why))
    reports = await store.read(lambda tx: [row.body for row in tx.list_waiting_inputs(HOME)])
    assert len(reports) == 1
    assert "(quarantined: crashed three times)" in reports[0] and "It gave no answer." in reports[0]
    assert await store.read(lambda tx: tx.get_child("t2")) == replace(BORN, report="t8", done=True)


async def test_what_a_parent_waits_for_comes_without_a_message(store: Store) -> None:
    """A17: it is the result of the parent's call."""
    await begun(store, spawned(), channel="telegram")
    await store.write(
        lambda tx: tx.append_events(CHILD, begin_child(tx), "t2", recorded(ended("gold")))
    )
    assert await store.read(
        lambda tx: (tx.list_waiting_inputs(HOME), tx.list_outbox("new"), tx.list_outbox("sent"))
    ) == ([], [], [])


async def test_a_childs_questions_and_notices_reach_the_people_at_the_root(store: Store) -> None:
    """A17: its reply does not; the parent tells. A notice says where it comes from."""
    await begun(store, spawned(), channel="telegram")
    epoch = await store.write(begin_child)
    await store.write(
        lambda tx: tx.append_events(
            CHILD, epoch, "t2", recorded(asked(), Alarm("budget", "look"), ended("gold"))
        )
    )
    await store.write(lambda tx: tx.quarantine("t2", NOW, "crashed three times"))
    rows = await store.read(lambda tx: tx.list_outbox("new"))
    assert [(row.turn, row.part, row.kind) for row in rows] == [
        ("t2", 1, "approval"),
        ("t2", 2, "notice"),
        ("t2", 3, "notice"),
    ]
    assert rows[0].body.startswith("{")
    assert rows[1] == OutboxRow(
        "t2", 2, HOME, "telegram", "chat-1", "notice", "[sub-1-c] look", NOW
    )
    assert rows[2].body == "[sub-1-c] crashed three times"


@pytest.mark.parametrize("root", ["web:gone", "sub-deaf"])
async def test_with_nobody_at_the_root_there_are_no_deliveries(store: Store, root: str) -> None:
    """A17."""
    await store.write(
        lambda tx: [
            tx.put_session(session("sub-deaf", "")),
            tx.put_session(replace(session(CHILD), root=root)),
        ]
    )
    await begun(store, said(), asked(), Alarm("budget", "look"), ended(), where=CHILD)
    assert await store.read(lambda tx: (tx.list_outbox("new"), tx.list_outbox("sent"))) == ([], [])


async def test_the_questions_of_a_conversation_include_those_of_its_agents(store: Store) -> None:
    """A17."""

    def work(tx: Tx) -> None:
        tx.append_events(HOME, begin(tx), "t1", recorded(spawned(), asked()))
        tx.append_events(
            CHILD, begin_child(tx), "t2", recorded(spawned("t3", where=GRANDCHILD), asked())
        )
        tx.append_events(GRANDCHILD, begin_child(tx, "t3", GRANDCHILD), "t3", recorded(asked()))
        tx.append_events("terminal:b", begin(tx, "t4", where="terminal:b"), "t4", recorded(asked()))
        tx.answer_approval("t1", "2.0", Answer.ONCE, "ann", "", NOW)

    await store.write(work)
    assert await store.read(lambda tx: [row.turn for row in tx.list_approvals(session=HOME)]) == [
        "t1",
        "t2",
        "t3",
    ]
    assert await store.read(
        lambda tx: [row.turn for row in tx.list_approvals("pending", HOME)]
    ) == ["t2", "t3"]
    assert await store.read(
        lambda tx: [row.turn for row in tx.list_approvals("pending", CHILD)]
    ) == ["t2"]
    assert await store.read(lambda tx: [row.turn for row in tx.list_approvals("pending")]) == [
        "t2",
        "t3",
        "t4",
    ]
    assert await store.read(lambda tx: tx.list_approvals(session="")) == []


@pytest.mark.parametrize(
    "read",
    [
        ChildReturned("step 1", "t2", "done", "gold", Label.UNTRUSTED),
        HistoryCompressed("rolling-window", 900, 300, 2, label=Label.UNTRUSTED),
    ],
)
async def test_what_a_child_or_a_summary_brings_taints_the_turn(
    store: Store, read: ChildReturned | HistoryCompressed
) -> None:
    """A17; B4; trust.md."""
    epoch = await begun(store, said(), replace(read, label=Label.TRUSTED))
    first = await store.read(lambda tx: tx.get_turn("t1"))
    await add(store, epoch, read, first=3)
    second = await store.read(lambda tx: tx.get_turn("t1"))
    assert first and second and (first.label, second.label) == (Label.TRUSTED, Label.UNTRUSTED)


async def test_a_message_of_somebody_else_in_the_childs_session_is_no_childs(store: Store) -> None:
    """A17: only the turn that was set to work has a parent."""
    await begun(store, spawned())
    await store.write(lambda tx: tx.accept_input(message("m7", session=CHILD)))
    await store.write(
        lambda tx: tx.append_events(CHILD, begin_child(tx, "t7"), "t7", recorded(ended()))
    )
    assert await store.read(lambda tx: (tx.get_child("t7"), tx.get_child("t2"))) == (None, BORN)
