"""Stops, texts and broken turns at awkward moments: nothing said is lost, nothing that was stopped goes on (E7, D5, D6)."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import TypeVar

import pytest

from daemon.app.daemon import Overrides
from daemon.core.clock import Commit
from daemon.core.events import Answer, Steered, Suspended
from daemon.core.trust import Effect
from daemon.sessions.inbox import OWNER, InboxMessage
from daemon.store.journal import Store, Tx
from daemon.store.sqlite import SqliteStore
from daemon.tools.base import Tool
from daemon.tools.signature import bind, tool
from tests.fakes.commits import commit_of
from tests.fakes.house import SESSION, Living, living
from tests.fakes.openai import FakeOpenAI, calls, gate, hangs, says

T = TypeVar("T")
SEND = ("send", {"text": "hello"})
NOT_BEGUN = "Stopping 1 task.\nNot begun: {}\nSend again what you still want."


@tool(effect=Effect.EGRESS)
async def send(text: str) -> str:
    """Send a text away."""
    return "sent"


@tool(effect=Effect.READ, parallel=True)
async def nap(number: int) -> str:
    """Take a moment."""
    await asyncio.sleep(0.3)
    return f"slept {number}"


def with_tools() -> Overrides:
    return Overrides(tools=bind([send, nap], {}))


async def state(it: Living, turn: str) -> str | None:
    view = await it.house.client.get_run(turn)
    return view.state if view else None


async def test_stop_takes_a_text_with_it_that_was_on_its_way_into_the_turn(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(hangs())
    model.otherwise(says("what comes next"))
    async with living(tmp_path, model) as it:
        turn = await it.say("hang")
        await model.hanging.wait()
        assert await it.say("and do this, too") == turn
        assert await it.command("/stop") == NOT_BEGUN.format("and do this, too")
        assert (await it.settled(turn)).stop_reason == "cancelled"
        assert (await it.ask("next")).reply == "what comes next"
        assert len(model.requests) == 2
        assert {line.stop_reason for line in await it.house.client.list_runs(SESSION)} == {
            "cancelled",
            "done",
        }


async def test_a_stop_that_comes_while_the_turn_is_being_put_to_wait_is_heard(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(calls(SEND))
    async with living(tmp_path, model, parts=with_tools()) as it:
        turn = await it.say("send a greeting")
        await suspending(it, turn)
        assert await it.house.client.cancel_run(turn)
        assert (await asyncio.wait_for(it.settled(turn), 5)).stop_reason == "cancelled"


async def suspending(it: Living, turn: str) -> None:
    """The moment between `Suspended` and the disk's word that it is written."""
    lane = it.house.sessions.worker_of(
        (await it.house.client.inbox.store.read(lambda tx: tx.list_sessions()))[0]
    )
    while not (lane.running and lane.running.id == turn and lane.running.suspended):
        await asyncio.sleep(0)


async def test_a_queued_message_of_a_paused_session_can_be_stopped(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with living(tmp_path, model) as it:
        await it.command("/pause")
        queued, kept = await it.say("never mind"), await it.say("later")
        assert await it.house.client.cancel_run(queued)
        assert (await asyncio.wait_for(it.settled(queued), 5)).stop_reason == "cancelled"
        assert (await state(it, kept), model.requests) == ("queued", [])


async def test_time_is_counted_once_for_calls_that_ran_together(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    naps = [("nap", {"number": number}) for number in range(8)]
    model.script(calls(*naps), calls(SEND), says("all done"))
    async with living(tmp_path, model, {"agent": {"max_seconds": 2}}, with_tools()) as it:
        turn = await it.say("rest, then send")
        asked = await it.until(turn, "approval.asked")
        assert await it.house.client.answer_approval(turn, str(asked.data["call_id"]), Answer.ONCE)
        run = await it.settled(turn)
        assert (run.stop_reason, run.reply) == ("done", "all done")
        (waited,) = [event for event in await it.events(turn) if isinstance(event, Suspended)]
        assert waited.seconds is not None and waited.seconds < 2


async def test_an_old_turn_that_cannot_be_read_does_not_silence_the_session(
    tmp_path: Path, model: FakeOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    model.script(says("one"), says("two"))
    async with living(tmp_path, model) as it:
        old = await it.ask("first")
        path = it.paths.journal
    spoil(path, old.turn)
    async with living(tmp_path, model) as it:
        assert (await asyncio.wait_for(it.ask("second"), 5)).reply == "two"
        assert old.turn in caplog.text


def spoil(journal: Path, turn: str) -> None:
    db = sqlite3.connect(journal)
    db.execute("UPDATE events SET payload = '{}' WHERE turn = ? AND kind = 'ModelReplied'", (turn,))
    db.commit()
    db.close()


def breaking_once() -> Tool:
    """A faulty add-on: its check does not raise what checks may raise."""
    faults = [RuntimeError("an add-on broke")]

    def check(arguments: Mapping[str, object]) -> None:
        if faults:
            raise faults.pop()

    return replace(bind([nap], {})[0], check=check)


async def test_what_was_said_to_a_turn_that_breaks_is_folded_in_at_its_next_try(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    released = asyncio.Event()
    model.script(gate(released, calls(("nap", {"number": 1}))), says("both seen to"))
    async with living(tmp_path, model, parts=Overrides(tools=[breaking_once()])) as it:
        turn = await it.say("go")
        await model.asked(1)
        assert await it.say("and this") == turn
        released.set()
        run = await asyncio.wait_for(it.settled(turn), 10)
        assert run.reply == "both seen to"
        assert [event.text for event in await it.events(turn) if isinstance(event, Steered)] == [
            "and this"
        ]


def breaking_at_odd_numbers() -> Tool:
    """A faulty add-on, again."""

    def check(arguments: Mapping[str, object]) -> None:
        if arguments["number"] in (1, 3, 5, 7):
            raise RuntimeError("an add-on broke")

    return replace(bind([nap], {})[0], check=check)


async def test_b5_25_what_breaks_again_and_again_but_gets_further_is_not_set_aside(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(*(calls(("nap", {"number": number})) for number in range(8)), says("at last"))
    async with living(tmp_path, model, parts=Overrides(tools=[breaking_at_odd_numbers()])) as it:
        run = await asyncio.wait_for(it.ask("go"), 10)
        assert (run.state, run.reply) == ("ended", "at last")


@dataclass
class SlowDesk:
    """A journal where one write, or what was read, once asked for it, lies around for a while before it is done, or told."""

    store: Store
    lies: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    next_lies: bool = False
    next_read_lies: bool = False

    async def write(self, work: Callable[[Tx], T]) -> T:
        if self.next_lies:
            self.next_lies = False
            self.lies.set()
            await self.done.wait()
        return await self.store.write(work)

    def submit(self, work: Callable[[Tx], T]) -> Commit[T]:
        return commit_of(self.write(work))

    async def read(self, look: Callable[[Tx], T]) -> T:
        found = await self.store.read(look)
        if self.next_read_lies:
            self.next_read_lies = False
            self.lies.set()
            await self.done.wait()
        return found

    @property
    def problem(self) -> str:
        return self.store.problem

    def watch_outbox(self, told: Callable[[], None]) -> Callable[[], None]:
        return self.store.watch_outbox(told)

    async def aclose(self) -> None:
        await self.store.aclose()


async def test_a_text_that_comes_too_late_for_its_turn_is_a_turn_and_is_told_so(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    desk: list[SlowDesk] = []

    async def open_store(path: Path) -> Store:
        desk.append(SlowDesk(await SqliteStore.open(path)))
        return desk[0]

    model.script(hangs(), says("on its own"))
    async with living(tmp_path, model, parts=Overrides(open_store=open_store)) as it:
        turn = await it.say("hang")
        await model.hanging.wait()
        desk[0].next_lies = True
        late = asyncio.create_task(it.house.client.send(SESSION, "and this", "c1", stream=False))
        await desk[0].lies.wait()
        assert await it.house.client.cancel_run(turn)
        assert (await it.settled(turn)).stop_reason == "cancelled"
        desk[0].done.set()
        accepted = await late
        assert (accepted.steered, (await it.settled(accepted.turn)).reply) == ("", "on its own")
        assert await it.house.client.send(SESSION, "and this", "c1") == accepted


async def test_a_command_that_was_cut_off_is_not_said_to_have_been_done(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with living(tmp_path, model) as it:
        cut = InboxMessage("web", "test", SESSION, OWNER, f"{SESSION}/c1", "/pause")
        await it.house.client.inbox.accept(cut, command=True)  # and here the daemon died
        assert "is unknown" in (await it.house.client.send(SESSION, "/pause", "c1")).reply
        assert (
            await it.command("/pause")
            != (await it.house.client.send(SESSION, "/pause", "c1")).reply
        )


@tool(effect=Effect.READ)
async def quitter() -> str:
    """Give up in the middle, as a library's cancel scope may."""
    raise asyncio.CancelledError


async def test_b7_a_tool_that_cancels_itself_is_an_error_and_no_stop(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(calls(("quitter", {})), says("another way, then"))
    async with living(tmp_path, model, parts=Overrides(tools=bind([quitter], {}))) as it:
        run = await asyncio.wait_for(it.ask("go"), 5)
        assert (run.stop_reason, run.reply, run.calls[0].is_error) == (
            "done",
            "another way, then",
            True,
        )


async def test_a_paused_turn_does_not_hold_up_the_end_of_the_daemon(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    released = asyncio.Event()
    model.script(gate(released, calls(("current_time", {}))), says("after the restart"))
    async with living(tmp_path, model) as it:
        turn = await it.say("go")
        await model.asked(1)
        await it.command("/pause")
        released.set()
        await it.until(turn, "model.response")
        began = monotonic()
    assert monotonic() - began < 5
    async with living(tmp_path, model) as it:
        await it.command("/resume")
        assert (await asyncio.wait_for(it.settled(turn), 5)).reply == "after the restart"


async def test_d6_every_reason_to_stop_is_logged(
    tmp_path: Path, model: FakeOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "daemon")
    model.script(says("hello"), calls(("current_time", {})))
    model.otherwise(says("closing words"))
    async with living(tmp_path, model, {"agent": {"max_iterations": 1}}) as it:
        one, two = await it.ask("hi"), await it.ask("what time is it?")
        assert f"turn {one.turn} of {SESSION} ended: done, after 0 iterations" in caplog.text
        assert f"turn {two.turn} of {SESSION} ended: max_iterations" in caplog.text


async def test_commands_given_at_once_do_not_undo_each_other(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with living(tmp_path, model) as it:
        await it.command("/whoami")
        await asyncio.gather(
            *(it.command(text) for text in ("/pause", "/model other", "/effort low", "/clear"))
        )
        (row,) = await it.house.store.read(lambda tx: tx.list_sessions())
        assert (row.paused, row.model, row.effort, row.cleared_at is None) == (
            True,
            "other",
            "low",
            False,
        )
        assert it.house.sessions.find_awake(SESSION) in (None, row)


async def test_a_command_that_comes_while_its_lane_wakes_up_holds(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B1, D5: `chat --agent NAME` chooses just when the conversation of before is taken up."""
    desk: list[SlowDesk] = []

    async def open_store(path: Path) -> Store:
        desk.append(SlowDesk(await SqliteStore.open(path)))
        return desk[-1]

    async with living(tmp_path, model, parts=Overrides(open_store=open_store)) as it:
        await it.ask("hi")
        (row,) = await it.house.store.read(lambda tx: tx.list_sessions())
    async with living(tmp_path, model, parts=Overrides(open_store=open_store)) as it:
        desk[-1].next_read_lies = True
        it.house.sessions.wake_turn(row, "none")
        await desk[-1].lies.wait()
        await it.command("/model other")
        desk[-1].done.set()
        await it.ask("hi")
        assert model.requests[-1].body["model"] == "other"
