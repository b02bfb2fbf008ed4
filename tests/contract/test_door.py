"""What every door promises: the one of this process, and the same one over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon.app.config import parse_config
from daemon.app.daemon import open_daemon
from daemon.client.http import HttpClient
from daemon.client.protocol import DaemonClient
from daemon.client.view_types import LiveEvent, RunView, SendResult
from daemon.core.errors import UsageError
from daemon.core.events import Answer
from daemon.core.rows import GrantBounds
from daemon.http.app import HttpServer, build_app
from daemon.http.config import HttpConfig
from daemon.settings.paths import Paths
from tests.fakes.daemon_process import TOKEN, scripted
from tests.fakes.openai import FakeOpenAI, calls, gate, hangs, says
from tests.fakes.wordy_model import Script, shell

HERE = "terminal:main"


@dataclass(frozen=True, slots=True)
class Room:
    """A door, and the model behind it."""

    door: DaemonClient
    script: Script

    async def ask(self, text: str, session: str = HERE) -> RunView:
        """Say it and wait for the end."""
        return await self.door.wait_until_ended((await self.door.send(session, text)).turn)

    async def told(self, turn: str, name: str) -> LiveEvent:
        """Watch until the run tells this."""
        async for event in self.door.stream_events(turn):
            if event.name == name:
                return event
        raise AssertionError(f"run {turn} ended without {name}")


@pytest.fixture(params=["local", "remote"])
async def room(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Room]:
    paths = Paths(tmp_path / "home", tmp_path / "config.toml")
    async with FakeOpenAI() as model:
        loaded = parse_config(scripted(model.base_url), paths.config, env={}, secrets={})
        async with open_daemon(paths, loaded) as house:
            server = HttpServer(HttpConfig(port=0), build_app(house.client, TOKEN))
            remote = HttpClient(await server.start(), TOKEN)
            yield Room(remote if request.param == "remote" else house.client, Script(model))
            await server.aclose()


async def test_what_is_said_becomes_a_run_with_a_reply(room: Room) -> None:
    accepted = await room.door.send(HERE, room.script.on("hello", says("hello yourself")))
    view = await room.door.wait_until_ended(accepted.turn)
    assert accepted == SendResult(turn=view.turn)
    assert (view.session, view.state, view.stop_reason, view.reply) == (
        HERE,
        "ended",
        "done",
        "hello yourself",
    )
    assert await room.door.get_run(view.turn) == view


async def test_a_run_names_the_agents_it_set_to_work_and_they_name_it(room: Room) -> None:
    """A17: whoever waited for it is told the same as the journal says."""
    room.script.on("errand", says("done that"))
    run = await room.ask(
        room.script.on("family", calls(("spawn_agent", {"task": "an errand"})), says("all done"))
    )
    (child,) = run.children
    below = await room.door.wait_until_ended(child)
    assert (run.parent, run.agent, below.parent, below.children, below.reply) == (
        None,
        "default",
        run.turn,
        [],
        "done that",
    )
    assert (await room.door.get_run(run.turn), await room.door.get_run(child)) == (run, below)
    assert {line.turn: line.parent for line in await room.door.list_runs()} == {
        run.turn: None,
        child: run.turn,
    }


async def test_a_text_nobody_watches_is_answered_all_the_same(room: Room) -> None:
    accepted = await room.door.send(HERE, "hi", stream=False)
    assert (await room.door.wait_until_ended(accepted.turn)).reply == "ok"


async def test_who_waits_for_a_run_gets_what_the_journal_says_of_it(room: Room) -> None:
    steps = calls(("current_time", {}), ("nowhere", {})), says("it is late")
    run = await room.ask(room.script.on("something", *steps))
    assert (run.reply, len(run.calls)) == ("it is late", 2)
    assert await room.door.get_run(run.turn) == run


async def test_the_same_client_id_is_one_run(room: Room) -> None:
    first = await room.door.send(HERE, "hi", "c-1")
    assert await room.door.send(HERE, "hi", "c-1") == first
    await room.door.wait_until_ended(first.turn)
    assert [line.turn for line in await room.door.list_runs(HERE)] == [first.turn]


async def test_a_command_is_answered_and_is_no_run(room: Room) -> None:
    accepted = await room.door.send(HERE, "/help", "c-2")
    assert (accepted.turn, accepted.command) == ("", "help") and "/stop" in accepted.reply
    assert await room.door.send(HERE, "/help", "c-2") == accepted
    assert await room.door.list_runs(HERE) == []


async def test_text_mid_turn_names_the_run_it_steers(room: Room) -> None:
    go_on = asyncio.Event()
    room.script.on("begin", gate(go_on, calls(("current_time", {}))))
    turn = (await room.door.send(HERE, "begin")).turn
    await room.told(turn, "cycle.start")
    assert await room.door.send(HERE, "and hurry") == SendResult(steered=turn)
    go_on.set()
    assert (await room.told(turn, "steered")).data == {"text": "and hurry"}


async def test_what_never_was_is_told_by_its_absence(room: Room) -> None:
    assert await room.door.get_run("nosuchturn") is None
    assert await room.door.get_transcript("nosuchturn") == []
    assert await room.door.cancel_run("nosuchturn") is False
    assert await room.door.stop_session("terminal:nobody") == []
    assert await room.door.answer_approval("nosuchturn", "3.0", Answer.ONCE) is False
    assert (
        await room.door.list_runs("terminal:nobody")
        == await room.door.list_unfinished("terminal:nobody")
        == []
    )


async def test_waiting_for_or_watching_what_never_was_is_an_error(room: Room) -> None:
    with pytest.raises(KeyError):
        await room.door.wait_until_ended("nosuchturn")
    with pytest.raises(KeyError):
        await anext(room.door.stream_events("nosuchturn"))


async def test_a_watcher_sees_drafts_and_events_until_the_end(room: Room) -> None:
    go_on = asyncio.Event()
    turn = (
        await room.door.send(HERE, room.script.on("draft", gate(go_on, says("in several pieces"))))
    ).turn
    seen: list[LiveEvent] = []
    async for event in room.door.stream_events(turn):
        seen.append(event)
        if event.name == "cycle.start":
            go_on.set()
    draft = "".join(str(event.data["text"]) for event in seen if event.name == "model.delta")
    assert draft == "in several pieces"
    assert [event.name for event in seen if event.seq] == [
        "cycle.start",
        "model.response",
        "run.terminated_by",
        "run.completed",
    ]


async def test_a_watcher_who_comes_late_is_told_what_came_after(room: Room) -> None:
    room.script.on("late", calls(("current_time", {}), ("current_time", {})), says("done"))
    turn = (await room.ask("late")).turn
    whole = [event async for event in room.door.stream_events(turn)]
    for after in range(9):
        later = [event async for event in room.door.stream_events(turn, after)]
        assert later == [event for event in whole if event.seq and event.seq > after]


async def test_a_run_is_cancelled_once(room: Room) -> None:
    turn = (await room.door.send(HERE, room.script.on("hang", hangs()))).turn
    await room.told(turn, "cycle.start")
    assert await room.door.list_unfinished(HERE) == [turn]
    assert await room.door.cancel_run(turn) is True
    assert (await room.door.wait_until_ended(turn)).stop_reason == "cancelled"
    assert await room.door.cancel_run(turn) is False
    assert await room.door.list_unfinished(HERE) == []


async def test_a_session_is_stopped_with_all_its_runs(room: Room) -> None:
    turn = (await room.door.send(HERE, room.script.on("hang", hangs()))).turn
    await room.told(turn, "cycle.start")
    assert await room.door.stop_session(HERE) == [turn]
    assert (await room.door.wait_until_ended(turn)).stop_reason == "cancelled"


@pytest.mark.parametrize("answer", [Answer.ONCE, Answer.SESSION, Answer.ALWAYS, Answer.DENY])
async def test_a_question_is_answered_once(room: Room, answer: Answer) -> None:
    room.script.on("question", shell("echo x; rm -f x"), says("done"))
    turn = (await room.door.send(HERE, "question")).turn
    call_id = str((await room.told(turn, "approval.asked")).data["call_id"])
    (question,) = await room.door.list_approvals(session=HERE)
    assert (question.turn, question.call_id, question.tool, question.session) == (
        turn,
        call_id,
        "shell",
        HERE,
    )
    assert await room.door.answer_approval(turn, call_id, answer, reason="because") is True
    assert await room.door.answer_approval(turn, call_id, answer) is False
    (call,) = (await room.door.wait_until_ended(turn)).calls
    assert call.is_error is (answer is Answer.DENY)
    assert await room.door.list_approvals() == []


async def test_A15_a_yes_for_longer_has_bounds_and_can_be_taken_back(room: Room) -> None:
    steps = (shell("echo x; rm -f x"), says("done"))
    turn = (await room.door.send(HERE, room.script.on("bounded", *steps))).turn
    call_id = str((await room.told(turn, "approval.asked")).data["call_id"])
    bounds = GrantBounds(uses=3, duration=timedelta(minutes=30))
    with pytest.raises(UsageError):
        await room.door.answer_approval(turn, call_id, Answer.ONCE, bounds=bounds)
    assert await room.door.answer_approval(turn, call_id, Answer.ALWAYS, bounds=bounds)
    await room.door.wait_until_ended(turn)
    assert (await room.ask(room.script.on("bounded", *steps))).calls[0].decision == "allow"
    [grant] = await room.door.list_grants()
    assert (grant.tool, grant.session, grant.uses_left, grant.uses, grant.paths) == (
        "shell",
        "",
        2,
        1,
        "",
    )
    assert grant.expires is not None and datetime.fromisoformat(grant.expires) < datetime.now(
        UTC
    ) + timedelta(minutes=31)
    assert [await room.door.revoke_grant(grant.id), await room.door.revoke_grant(grant.id)] == [
        True,
        False,
    ]
    assert await room.door.list_grants() == []


async def test_what_a_terminal_has_not_shown_stays_undelivered(room: Room) -> None:
    turn = (await room.ask(room.script.on("say", says("read me")))).turn
    (waiting,) = await room.door.list_undelivered(HERE)
    assert (waiting.turn, waiting.kind, waiting.body) == (turn, "reply", "read me")
    await room.door.mark_delivered(waiting.turn, waiting.part)
    await room.door.mark_delivered(waiting.turn, waiting.part)
    assert await room.door.list_undelivered(HERE) == []


async def test_runs_and_sessions_are_listed_newest_first(room: Room) -> None:
    turns = [(await room.ask("hi", session)).turn for session in ("terminal:a", "web:b")]
    assert [line.turn for line in await room.door.list_runs()] == turns[::-1]
    assert [line.turn for line in await room.door.list_runs(limit=1)] == turns[1:]
    assert [view.id for view in await room.door.list_sessions()] == ["web:b", "terminal:a"]
    assert [view.id for view in await room.door.list_sessions(1)] == ["web:b"]
    assert [view.id for view in await room.door.list_sessions(1, "web:b")] == ["terminal:a"]


async def test_the_transcript_is_the_journal_itself(room: Room) -> None:
    turn = (await room.ask("hi")).turn
    kinds = [line["kind"] for line in await room.door.get_transcript(turn)]
    assert kinds == ["UserSaid", "ModelAsked", "ModelReplied", "TurnEnded"]


async def test_health_is_told(room: Room) -> None:
    health = await room.door.get_health()
    assert health.ok and health.version and health.problems == []


async def test_sessions_of_other_channels_cannot_be_written_to_from_afar(room: Room) -> None:
    if isinstance(room.door, HttpClient):
        with pytest.raises(UsageError, match="telegram:42"):
            await room.door.send("telegram:42", "hi")


async def test_the_agent_of_a_session_is_chosen_before_anything_is_said_in_it(room: Room) -> None:
    """B1"""
    await room.door.set_agent(HERE, "default")
    assert [(view.id, view.agent) for view in await room.door.list_sessions()] == [
        (HERE, "default")
    ]
    assert (await room.ask("hi")).reply == "ok"


async def test_an_agent_that_is_not_there_cannot_be_chosen(room: Room) -> None:
    """B1: which ones there are is told, and nothing is changed."""
    with pytest.raises(UsageError, match="there is no agent 'nobody'; there are: default"):
        await room.door.set_agent(HERE, "nobody")
    assert await room.door.list_sessions() == []
