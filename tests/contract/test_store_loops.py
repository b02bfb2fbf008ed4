"""Loops, in every journal: one per agent at a time, and questions that stand when their turn has ended."""

from dataclasses import replace

import pytest

from daemon.core.errors import Conflict, UnknownTurn
from daemon.core.events import Answer
from daemon.core.rows import LoopRow, LoopStage
from daemon.core.trust import Label
from daemon.store.journal import Store
from tests.contract.journal import HOME, NOW, after, asked, begun, ended, said

LOOP = LoopRow(
    "l1", "tester", HOME, "ann", Label.TRUSTED, "make ä pass", "test_pass", "pytest -q", 5, NOW
)


async def test_a_loop_is_read_back_as_it_was_written_and_brought_up(store: Store) -> None:
    later = replace(
        LOOP, attempt=3, learned=("one ä", "two"), stage=LoopStage.PAUSED, label=Label.UNTRUSTED
    )
    await store.write(lambda tx: tx.put_loop(LOOP))
    assert await store.read(lambda tx: (tx.get_loop("l1"), tx.get_loop("l2"))) == (LOOP, None)
    await store.write(lambda tx: tx.put_loop(later))
    assert await store.read(lambda tx: (tx.get_loop("l1"), tx.list_running_loops())) == (
        later,
        [later],
    )
    over = replace(
        later, stage=LoopStage.COMPLETED, final_output="two", error="none", ended_at=after(60)
    )
    await store.write(lambda tx: tx.put_loop(over))
    assert await store.read(lambda tx: (tx.list_loops(), tx.list_running_loops("tester"))) == (
        [over],
        [],
    )


async def test_a_loop_stays_whose_it_is(store: Store) -> None:
    await store.write(lambda tx: tx.put_loop(replace(LOOP, role="editor")))
    await store.write(lambda tx: tx.put_loop(replace(LOOP, role="editor", attempt=2)))
    assert await store.read(lambda tx: tx.get_loop("l1")) == replace(LOOP, role="editor", attempt=2)


async def test_an_agent_is_at_one_loop_at_a_time_c7(store: Store) -> None:
    await store.write(lambda tx: tx.put_loop(LOOP))
    with pytest.raises(Conflict):
        await store.write(lambda tx: tx.put_loop(replace(LOOP, id="l2")))
    await store.write(lambda tx: tx.put_loop(replace(LOOP, id="l3", agent="other")))
    await store.write(
        lambda tx: tx.put_loop(replace(LOOP, stage=LoopStage.FAILED, ended_at=after(1)))
    )
    await store.write(lambda tx: tx.put_loop(replace(LOOP, id="l4")))
    found = await store.read(
        lambda tx: (
            tx.list_loops("tester"),
            tx.list_loops(None, 2),
            tx.list_running_loops("tester"),
        )
    )
    assert [[row.id for row in rows] for rows in found] == [["l4", "l1"], ["l4", "l3"], ["l4"]]


async def test_a_question_about_a_turn_that_has_ended_is_put_to_its_people(store: Store) -> None:
    await begun(store, said(), ended(""), channel="telegram")
    await store.write(lambda tx: tx.open_question("t1", asked("review", after(3600)), after(1)))
    (said_of_it,) = await store.read(lambda tx: tx.list_outbox("new"))
    assert (said_of_it.kind, said_of_it.session, '"review"' in said_of_it.body) == (
        "approval",
        HOME,
        True,
    )
    with pytest.raises(UnknownTurn):
        await store.write(lambda tx: tx.open_question("t2", asked("review", after(3600)), after(1)))


async def test_a_question_that_no_event_asks_outlives_its_turn_and_is_answered_once_c3(
    store: Store,
) -> None:
    await begun(store, said(), ended())
    await store.write(lambda tx: tx.open_question("t1", asked("review", after(3600)), after(1)))
    (row,) = await store.read(lambda tx: tx.list_approvals("pending", HOME))
    assert (row.turn, row.call_id, row.asked_at, row.expires) == (
        "t1",
        "review",
        after(1),
        after(3600),
    )
    answers = [
        await store.write(
            lambda tx: tx.answer_approval("t1", "review", Answer.ONCE, "ann", "", after(2))
        )
        for _ in "12"
    ]
    assert [bool(row) for row in answers] == [True, False]
    await store.write(lambda tx: tx.set_approval_state("t1", "review", "consumed"))
    kept = await store.read(lambda tx: tx.get_approval("t1", "review"))
    assert kept and (kept.state, kept.answer, kept.answered_by) == ("consumed", Answer.ONCE, "ann")
