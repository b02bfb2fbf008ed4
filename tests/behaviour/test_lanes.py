"""Lanes: order, parallel sessions, steering, stop, pause, suspension (architecture.md; E7, D5)."""

import asyncio
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import cast

import pytest

from daemon.agent.context.builder import TurnContext
from daemon.agent.loop import AgentLoop
from daemon.agent.turn_control import TurnControl
from daemon.app.daemon import Overrides
from daemon.core.errors import StoreUnavailable
from daemon.core.events import Answer, Steered, ToolStarted
from daemon.core.trust import Effect
from daemon.core.turn import Turn
from daemon.tools.signature import bind, tool
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, Json, Step, by, calls, gate, hangs, says

SLOW = ("shell", {"command": "sleep 321"})
SEND = ("send", {"text": "hello"})


def last(body: Json) -> str:
    return str(body["messages"][-1]["content"])


def echo(body: Json) -> Step:
    return says(f"re: {last(body)}")


def sender(sent: list[str]) -> Overrides:
    @tool(effect=Effect.EGRESS)
    async def send(text: str) -> str:
        """Send a text away."""
        sent.append(text)
        return "sent"

    return Overrides(tools=bind([send], {}))


async def approve(it: Living, turn: str, answer: Answer = Answer.ONCE) -> bool:
    asked = await it.until(turn, "approval.asked")
    return await it.house.client.answer_approval(turn, str(asked.data["call_id"]), answer)


async def state(it: Living, turn: str) -> str:
    view = await it.house.client.get_run(turn)
    assert view
    return view.state


async def test_messages_of_one_session_are_answered_in_order(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(by(echo))
    async with living(tmp_path, model, {"agent": {"while_busy": "queue"}}) as it:
        turns = [await it.say(f"message {n}") for n in range(20)]
        replies = [(await it.settled(turn)).reply for turn in turns]
        assert replies == [f"re: message {n}" for n in range(20)]
        assert [last(request.body) for request in model.requests] == [
            f"message {n}" for n in range(20)
        ]


async def test_a_thousand_sessions_are_in_flight_at_once(tmp_path: Path, model: FakeOpenAI) -> None:
    everybody = asyncio.Event()
    model.otherwise(gate(everybody, says("all here")))
    async with living(tmp_path, model) as it:
        turns = await asyncio.gather(*(it.say("are you there?", f"web:{n}") for n in range(1000)))
        await model.asked(1000, within=60)
        everybody.set()
        runs = await asyncio.gather(*(it.settled(turn) for turn in turns))
        assert {run.reply for run in runs} == {"all here"}


async def test_e7_text_of_the_same_sender_is_folded_in_before_the_next_model_call(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    released = asyncio.Event()
    model.script(gate(released, calls(("current_time", {}))), says("done both"))
    async with living(tmp_path, model) as it:
        turn = await it.say("do a thing")
        await model.asked(1)
        accepted = await it.house.client.send("web:test", "and another thing")
        assert (accepted.turn, accepted.steered) == ("", turn)
        released.set()
        assert (await it.settled(turn)).reply == "done both"
        assert [m["content"] for m in model.requests[1]["messages"] if m["role"] == "user"] == [
            "do a thing",
            "and another thing",
        ]
        row = next(e for e in await it.events(turn) if isinstance(e, Steered))
        inbox = await it.house.store.read(lambda tx: tx.get_input(row.input_id))
        assert inbox and inbox.state == f"steered:{turn}"


async def test_e7_text_that_comes_while_the_final_answer_is_written_is_still_answered(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    released = asyncio.Event()
    model.script(gate(released, says("first answer")), says("second answer"))
    async with living(tmp_path, model) as it:
        turn = await it.say("question")
        await model.asked(1)
        assert await it.say("wait, another one") == turn
        released.set()
        assert (await it.settled(turn)).reply == "first answer\n\nsecond answer"
        await it.ask("and now?")
        assert str(model.requests[-1]["messages"]).count("first answer") == 1


async def test_other_senders_queue_while_a_turn_runs(tmp_path: Path, model: FakeOpenAI) -> None:
    released = asyncio.Event()
    model.script(gate(released, says("one")), says("two"))
    async with living(tmp_path, model) as it:
        first = await it.say("mine")
        await model.asked(1)
        second = await it.from_other("somebody else", "theirs")
        assert await state(it, second) == "queued"
        released.set()
        assert [(await it.settled(turn)).reply for turn in (first, second)] == ["one", "two"]
        assert "theirs" not in str(model.requests[0]["messages"])


async def test_while_busy_queue_makes_a_turn_of_every_text(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    released = asyncio.Event()
    model.script(gate(released, says("one")), says("two"))
    async with living(tmp_path, model, {"agent": {"while_busy": "queue"}}) as it:
        first = await it.say("a")
        await model.asked(1)
        second = await it.say("b")
        assert first != second
        released.set()
        assert (await it.settled(second)).reply == "two"


async def test_stop_acts_within_a_second_through_a_running_model_call(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(hangs())
    async with living(tmp_path, model) as it:
        turn = await it.say("hang")
        await model.hanging.wait()
        began = monotonic()
        assert "1 task" in await it.command("/stop")
        run = await it.settled(turn)
        assert (run.stop_reason, monotonic() - began < 1) == ("cancelled", True)
        await asyncio.wait_for(model.gone.wait(), 1)


async def test_stop_acts_within_a_second_through_a_running_tool_and_kills_its_processes(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(calls(SLOW, ("current_time", {})))
    async with living(tmp_path, model) as it:
        turn = await it.say("sleep")
        assert await approve(it, turn)
        await it.until(turn, "tool.started")
        await until_running("sleep 321")
        began = monotonic()
        await it.command("/stop")
        run = await it.settled(turn)
        assert (run.stop_reason, monotonic() - began < 1) == ("cancelled", True)
        assert not running("sleep 321")
        assert run.reply and "unknown" in run.reply
        assert [call.is_error for call in run.calls] == [True, False]


async def test_e7_stop_ends_a_commands_children_and_theirs_too(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Also one in the background, and one that has left its process group."""
    marks = [f"76{os.getpid()}.{number}" for number in range(4)]
    sleeps = [f"sleep {mark}" for mark in marks]
    inner = f"setsid {sleeps[0]} & {sleeps[1]} & wait"
    model.script(calls(("shell", {"command": f"sh -c '{inner}' & {sleeps[2]} & {sleeps[3]}"})))
    async with living(tmp_path, model) as it:
        turn = await it.say("sleep")
        assert await approve(it, turn)
        for command in sleeps:
            await until_running(command)
        await it.command("/stop")
        assert (await it.settled(turn)).stop_reason == "cancelled"
        assert [command for command in sleeps if running(command)] == []


async def test_stop_reaches_queued_and_suspended_turns_too(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    sent: list[str] = []
    model.script(calls(SEND), hangs())
    async with living(tmp_path, model, parts=sender(sent)) as it:
        waiting = await it.say("send a greeting")
        await it.until(waiting, "run.suspended")
        hanging = await it.from_other("another", "hang")
        await model.hanging.wait()
        queued = await it.from_other("third", "queue")
        await it.command("/stop")
        reasons = [(await it.settled(turn)).stop_reason for turn in (waiting, hanging, queued)]
        assert reasons == ["cancelled"] * 3
        assert (sent, len(model.requests)) == ([], 2)
        assert await it.house.client.list_approvals() == []


async def test_pause_holds_before_the_next_step_and_resume_goes_on(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    released = asyncio.Event()
    model.script(
        gate(released, calls(("current_time", {}))), says("after the pause"), says("queued one")
    )
    async with living(tmp_path, model, {"agent": {"while_busy": "queue", "max_seconds": 1}}) as it:
        turn = await it.say("go")
        await model.asked(1)
        await it.command("/pause")
        queued = await it.say("later")
        released.set()
        await it.until(turn, "model.response")
        await asyncio.wait({asyncio.create_task(model.asked(2))}, timeout=1.2)
        assert (len(model.requests), await state(it, turn), await state(it, queued)) == (
            1,
            "running",
            "queued",
        )
        await it.command("/resume")
        assert (await it.settled(turn)).reply == "after the pause"
        assert (await it.settled(queued)).reply == "queued one"


async def test_a_turn_that_waits_for_a_person_lets_the_next_message_by(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    sent: list[str] = []
    model.script(calls(SEND), says("meanwhile"), says("it is sent"))
    async with living(tmp_path, model, parts=sender(sent)) as it:
        waiting = await it.from_other("ann", "send a greeting")
        await it.until(waiting, "run.suspended")
        # a command is no answer, and does not begin a turn
        assert "1 waiting for your answer" in await it.command("/status")
        assert await state(it, waiting) == "suspended"
        assert await approve(it, waiting)
        assert (await it.settled(waiting)).reply == "meanwhile"
        assert sent == ["hello"]


async def test_text_while_a_question_is_open_rejects_it_with_that_text_as_the_reason(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    sent: list[str] = []
    model.script(calls(SEND), says("then I will not"))
    async with living(tmp_path, model, parts=sender(sent)) as it:
        turn = await it.say("send a greeting")
        await it.until(turn, "run.suspended")
        accepted = await it.house.client.send("web:test", "no, write to Bob first")
        assert accepted.steered == turn
        run = await it.settled(turn)
        assert (run.reply, sent) == ("then I will not", [])
        assert "write to Bob first" in (run.calls[0].result or "")
        assert "rejected" in (run.calls[0].result or "")


@pytest.mark.parametrize(
    ("answer", "asked_again"),
    [(Answer.ONCE, True), (Answer.SESSION, False), (Answer.ALWAYS, False)],
)
async def test_an_approval_holds_for_exactly_its_scope(
    tmp_path: Path, model: FakeOpenAI, answer: Answer, asked_again: bool
) -> None:
    sent: list[str] = []
    model.script(calls(SEND), says("one"), calls(SEND), says("two"))
    async with living(tmp_path, model, parts=sender(sent)) as it:
        first = await it.say("send a greeting")
        assert await approve(it, first, answer)
        await it.settled(first)
        second = await it.say("send it again")
        if asked_again:
            assert await approve(it, second, Answer.DENY)
        assert (await it.settled(second)).reply == "two"
        assert sent == ["hello"] if asked_again else sent == ["hello", "hello"]


async def test_an_approval_is_bound_to_its_arguments(tmp_path: Path, model: FakeOpenAI) -> None:
    sent: list[str] = []
    model.script(calls(SEND), says("one"), calls(("send", {"text": "something else"})), says("two"))
    async with living(tmp_path, model, parts=sender(sent)) as it:
        first = await it.say("send a greeting")
        await approve(it, first, Answer.ALWAYS)
        await it.settled(first)
        second = await it.say("and now the other one")
        assert await approve(it, second, Answer.DENY)
        await it.settled(second)
        assert sent == ["hello"]


async def test_a_question_is_answered_once(tmp_path: Path, model: FakeOpenAI) -> None:
    sent: list[str] = []
    model.script(calls(SEND), says("ok"))
    async with living(tmp_path, model, parts=sender(sent)) as it:
        turn = await it.say("send a greeting")
        asked = await it.until(turn, "approval.asked")
        answers = [
            await it.house.client.answer_approval(turn, str(asked.data["call_id"]), Answer.ONCE)
            for _ in range(3)
        ]
        await it.settled(turn)
        assert (answers, sent) == ([True, False, False], ["hello"])


async def test_two_gated_calls_wait_each_on_their_own(tmp_path: Path, model: FakeOpenAI) -> None:
    sent: list[str] = []
    model.script(calls(SEND, ("send", {"text": "second"})), says("ok"))
    async with living(tmp_path, model, parts=sender(sent)) as it:
        turn = await it.say("send both")
        await it.until(turn, "run.suspended")
        one, two = await it.house.client.list_approvals()
        assert await it.house.client.answer_approval(turn, two.call_id, Answer.ONCE)
        assert await it.house.client.answer_approval(
            turn, one.call_id, Answer.DENY, reason="not that one"
        )
        run = await it.settled(turn)
        assert sent == ["second"]
        assert [call.is_error for call in run.calls] == [True, False]


async def test_an_effect_behind_a_call_that_waits_waits_too_and_reading_goes_past(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    sent: list[str] = []
    write = ("write_file", {"path": "x.txt", "text": "new"})
    model.script(calls(SEND, write, ("list_dir", {})), says("ok"))
    async with living(tmp_path, model, parts=sender(sent)) as it:
        turn = await it.say("send it, then write")
        await it.until(turn, "run.suspended")
        view = await it.house.client.get_run(turn)
        assert view and [call.result is not None for call in view.calls] == [False, False, True]
        assert await approve(it, turn)
        run = await it.settled(turn)
        assert [call.is_error for call in run.calls] == [False, False, False]
        assert [e.tool for e in await it.events(turn) if isinstance(e, ToolStarted)] == [
            "list_dir",
            "send",
            "write_file",
        ]


async def test_a15_a_question_nobody_answers_expires_by_the_wall_clock_and_the_turn_goes_on(
    tmp_path: Path, model: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall, now = tmp_path / "clock", datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
    wall.write_text(now.isoformat())
    monkeypatch.setenv("AIDAEMON_TEST_CLOCK", str(wall))
    sent: list[str] = []
    model.script(calls(SEND), says("nobody answered"))
    async with living(tmp_path / "home", model, parts=sender(sent)) as it:
        turn = await it.say("send a greeting")
        asked = await it.until(turn, "approval.asked")
        assert asked.data["expires"] == (now + timedelta(minutes=5)).isoformat()
        wall.write_text((now + timedelta(minutes=6)).isoformat())
        assert (await it.settled(turn)).reply == "nobody answered"
        assert not await it.house.client.answer_approval(
            turn, str(asked.data["call_id"]), Answer.ONCE
        )
        assert sent == []


async def test_the_same_client_id_is_the_same_message(tmp_path: Path, model: FakeOpenAI) -> None:
    async with living(tmp_path, model) as it:
        first = await it.house.client.send("web:test", "hello you", "id-1")
        await it.settled(first.turn)
        assert await it.house.client.send("web:test", "hello you", "id-1") == first
        assert (await it.house.client.send("web:other", "hello you", "id-1")).turn != first.turn
        status = await it.house.client.send("web:test", "/whoami", "id-2")
        assert await it.house.client.send("web:test", "/whoami", "id-2") == status
    assert len([r for r in model.requests if last(r.body).endswith("hello you")]) == 2


async def test_clear_starts_with_an_empty_conversation_and_keeps_the_journal(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(by(echo))
    async with living(tmp_path, model) as it:
        first = await it.ask("the code word is swordfish")
        await it.command("/clear")
        await it.ask("what was it?")
        assert "swordfish" not in str(model.requests[-1]["messages"])
        assert await it.events(first.turn)
    async with living(tmp_path, model) as it:
        await it.ask("and now?")
        assert "swordfish" not in str(model.requests[-1]["messages"])
        assert "what was it?" in str(model.requests[-1]["messages"])


async def test_model_pins_and_auto_unpins(tmp_path: Path, model: FakeOpenAI) -> None:
    async with living(tmp_path, model) as it:
        await it.command("/model other")
        await it.ask("one thing")
        await it.command("/auto")
        await it.ask("two things")
    assert [request["model"] for request in model.requests] == ["other", "scripted"]


async def test_an_unknown_command_names_the_nearest_and_a_path_is_no_command(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with living(tmp_path, model) as it:
        assert "/status" in await it.command("/statsu")
        assert "/stop" in await it.command("/help")
        assert (await it.ask("/etc/passwd what is that?")).reply == "ok"


def running(command: str) -> bool:
    return any(command in _command_line(path) for path in Path("/proc").glob("[0-9]*/cmdline"))


def _command_line(path: Path) -> str:
    try:
        return path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


async def until_running(command: str) -> None:
    async with asyncio.timeout(10):
        while not running(command):
            await asyncio.sleep(0)


async def test_a_text_to_a_turn_that_a_failing_disk_interrupts_is_still_folded_in(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    began = asyncio.Event()

    @dataclass
    class Interrupted:
        """An agent whose first turn fails as soon as a text has joined it."""

        agent: AgentLoop

        async def run(self, turn: Turn, context: TurnContext, control: TurnControl) -> None:
            if not began.is_set():
                await turn.commit()
                began.set()
                while not control.steers:
                    await asyncio.sleep(0.01)
                raise StoreUnavailable()
            await self.agent.run(turn, context, control)

    model.script(says("done both"))
    async with living(tmp_path, model) as it:
        it.house.sessions.agent = cast(AgentLoop, Interrupted(it.house.sessions.agent))
        turn = await it.say("do a thing")
        await began.wait()
        assert (await it.house.client.send("web:test", "and another thing")).steered == turn
        await asyncio.wait_for(it.settled(turn), 10)
        assert "and another thing" in str(model.requests[0]["messages"])
