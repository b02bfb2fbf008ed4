"""Agents at work for other agents, through the real house (A17, A13, trust.md)."""

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web

from daemon.app.daemon import Overrides
from daemon.core.events import ChildSpawned
from daemon.core.trust import Effect, Label
from daemon.tools.base import ToolOutput
from daemon.tools.signature import bind, tool
from tests.fakes.house import SESSION, Living, living
from tests.fakes.openai import Asked, Exchange, FakeOpenAI, Json, Step, by, calls, gate, hangs, says


def first(body: Json) -> str:
    """What the conversation of a request began with, after the system prompt."""
    return str(
        next(message["content"] for message in body["messages"] if message["role"] == "user")
    )


def results(body: Json) -> list[str]:
    """Tool results since the last user message."""
    messages = body["messages"]
    last = max(place for place, message in enumerate(messages) if message["role"] == "user")
    return [str(message["content"]) for message in messages[last:] if message["role"] == "tool"]


def play(parts: dict[str, list[Step]], otherwise: Step | None = None) -> Step:
    """Each conversation has a script of its own, found by what its first message begins with."""

    def choose(body: Json) -> Step:
        for begins, steps in parts.items():
            if first(body).startswith(begins):
                return steps.pop(0) if steps else says("nothing more")
        return otherwise or says("ok")

    return by(choose)


def spawn(task: str, **more: object) -> Step:
    return calls(("spawn_agent", {"task": task, **more}))


async def child_of(it: Living, turn: str, at: int = 0) -> ChildSpawned:
    return [event for event in await it.events(turn) if isinstance(event, ChildSpawned)][at]


async def test_a17_a_sub_agent_does_its_task_in_a_session_of_its_own_and_its_answer_is_the_result(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(
        play(
            {
                "parent": [spawn("child task"), says("the child says forty-two")],
                "child": [says("forty-two")],
            }
        )
    )
    async with living(tmp_path, model) as it:
        run = await it.ask("parent, go")
        assert run.reply == "the child says forty-two"
        child = await child_of(it, run.turn)
        assert child.session.startswith("sub-1-") and child.depth == 1
        assert "forty-two" in results(model.requests[-1].body)[0]
        view = await it.house.client.get_run(child.child)
        assert view and (view.session, view.state, view.reply) == (
            child.session,
            "ended",
            "forty-two",
        )
        assert [m["content"] for m in model.requests[1]["messages"][1:]] == [
            "child task"
        ]  # it knows nothing else


async def test_a17_only_the_parents_reply_reaches_the_chat(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(
        play(
            {
                "parent": [spawn("child task"), says("all done")],
                "child": [says("for the parent only")],
            }
        )
    )
    async with living(tmp_path, model) as it:
        await it.ask("parent, go", "terminal:a")
        assert [item.body for item in await it.house.client.list_undelivered("terminal:a")] == [
            "all done"
        ]


async def test_a17_sub_agents_are_at_most_so_deep(tmp_path: Path, model: FakeOpenAI) -> None:
    def choose(body: Json) -> Step:
        return (
            spawn(f"deeper than {first(body)}")
            if not results(body)
            else says(f"got {results(body)[0]}")
        )

    model.otherwise(by(choose))
    async with living(tmp_path, model, {"subagents": {"max_depth": 2}}) as it:
        run = await it.ask("top")
        assert run.reply and "sub-agents may be nested 2 deep" in run.reply
        sessions = {
            view.id.partition("-")[2][:1]
            for view in await it.house.client.list_sessions()
            if view.id.startswith("sub-")
        }
        assert sessions == {"1", "2"}


async def test_a17_iterations_and_time_of_a_sub_agent_are_its_own_and_limited(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    def choose(body: Json) -> Step:
        if first(body).startswith("parent"):
            return says("the child gave up") if results(body) else spawn("child for ever")
        return calls(("list_dir", {"path": f"x{len(body['messages'])}"}))

    model.otherwise(by(choose))
    async with living(tmp_path, model, {"subagents": {"max_iterations": 3, "timeout_s": 50}}) as it:
        run = await it.ask("parent, go")
        assert (run.reply, run.iterations) == ("the child gave up", 1)
        child = await it.house.client.get_run((await child_of(it, run.turn)).child)
        assert child and (child.stop_reason, child.iterations) == ("max_iterations", 3)
        assert (await child_of(it, run.turn)).limits.max_seconds == 50


async def test_a17_a_sub_agent_has_ten_iterations_and_300_seconds_unless_the_config_says_else(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Whatever its parent may do."""

    @tool(effect=Effect.READ)
    async def count(number: int) -> str:
        """Count."""
        return f"counted {number}"

    parts, own = Overrides(tools=bind([count], {})), {"max_iterations": 25, "max_seconds": 5000}

    def choose(body: Json) -> Step:
        if first(body).startswith("parent"):
            return says("It is as you see.") if results(body) else spawn("child for ever")
        return calls(("count", {"number": len(body["messages"])}))

    model.otherwise(by(choose))
    async with living(tmp_path, model, {"agent": own}, parts) as it:
        run = await it.ask("parent, go")
        spawned = await child_of(it, run.turn)
        child = await it.house.client.get_run(spawned.child)
    assert (spawned.limits.max_iterations, spawned.limits.max_seconds) == (10, 300)
    assert child and (child.stop_reason, child.iterations) == ("max_iterations", 10)


async def test_a17_a_sub_agent_that_takes_too_long_is_stopped_and_the_parent_told(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(
        play(
            {
                "parent": [spawn("child hangs"), says("too slow, I did it myself")],
                "child": [hangs()],
            }
        )
    )
    async with living(tmp_path, model, {"subagents": {"timeout_s": 0.3}}) as it:
        run = await it.ask("parent, go")
        assert run.reply == "too slow, I did it myself"
        assert '"stop_reason": "deadline"' in str(run.calls[0].result) and run.calls[0].is_error


async def test_d4_a_sub_agent_that_sees_no_way_on_says_so_to_who_set_it_to_work(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """It does not go on; its parent decides what is done."""
    unsure = calls(("list_dir", {}), text="I'm not sure how to proceed.")
    script = {
        "parent": [spawn("child task"), says("I look at it myself, then.")],
        "child": [unsure, says("This is how far I came."), says("I went on all the same.")],
    }
    model.otherwise(play(script))
    async with living(tmp_path, model) as it:
        run = await it.ask("parent, go")
        child = await it.house.client.get_run((await child_of(it, run.turn)).child)
    assert child and (child.stop_reason, child.iterations) == ("low_confidence", 1)
    [told] = [json.loads(result)["error"] for result in results(model.requests[-1].body)]
    assert '"stop_reason": "low_confidence"' in told and "This is how far I came." in told
    assert (run.stop_reason, run.reply) == ("done", "I look at it myself, then.")


async def test_a17_its_answer_is_cut_to_measure(tmp_path: Path, model: FakeOpenAI) -> None:
    model.otherwise(
        play({"parent": [spawn("child talks"), says("ok")], "child": [says("word " * 4000)]})
    )
    async with living(tmp_path, model) as it:
        run = await it.ask("parent, go")
        text = str(run.calls[0].result)
        assert 7900 < len(text) < 8200 and "left out" in text


async def test_a17_a_sub_agent_inherits_the_label_and_hands_its_own_back(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    @tool(effect=Effect.READ)
    async def outside() -> ToolOutput:
        """Look outside."""
        return ToolOutput("strange text", label=Label.UNTRUSTED)

    parts = Overrides(tools=bind([outside], {}))
    script = {
        "parent": [spawn("child looks out"), spawn("child inherits"), says("done")],
        "child looks": [calls(("outside", {})), says("I saw it")],
        "child inherits": [says("hm")],
    }
    model.otherwise(play(script))
    async with living(tmp_path, model, parts=parts) as it:
        run = await it.ask("parent, go")
        assert run.label == "untrusted"
        spawned = [event for event in await it.events(run.turn) if isinstance(event, ChildSpawned)]
        assert [event.label for event in spawned] == [Label.TRUSTED, Label.UNTRUSTED]
        second = await it.house.client.get_run(spawned[1].child)
        assert second and second.label == "untrusted"


async def test_a17_a_background_agent_reports_in_a_message_of_its_own(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    free = asyncio.Event()
    script = {
        "parent": [
            spawn("child slow", background=True),
            says("it is at work"),
            says("thanks, it found gold"),
        ],
        "child": [gate(free, says("gold"))],
    }
    model.otherwise(play(script))
    async with living(tmp_path, model) as it:
        run = await it.ask("parent, go")
        assert run.reply == "it is at work"
        child = await child_of(it, run.turn)
        assert "agent default is working" in await it.command("/tasks")
        free.set()
        await it.settled(child.child)
        report = await it.settled(child.report)
        assert (report.session, report.reply) == (SESSION, "thanks, it found gold")
        assert "gold" in str(model.requests[-1].last("user")["content"])


async def test_a17_stopping_the_parent_stops_the_children(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(
        play(
            {
                "parent": [spawn("child hangs")],
                "child": [spawn("grandchild hangs")],
                "grandchild": [hangs()],
            }
        )
    )
    async with living(tmp_path, model) as it:
        turn = await it.say("parent, go")
        await asyncio.wait_for(model.hanging.wait(), 20)
        assert await it.command("/stop") == "Stopping 1 task."
        assert (await it.settled(turn)).stop_reason == "cancelled"
        child = await child_of(it, turn)
        assert (await it.settled(child.child)).stop_reason == "cancelled"
        assert (
            await it.settled((await child_of(it, child.child)).child)
        ).stop_reason == "cancelled"


@pytest.mark.parametrize("how", ["stop", "deadline"])
async def test_a17_a_parent_that_is_cut_tells_what_its_sub_agent_did_and_invites_no_repeat(
    tmp_path: Path, model: FakeOpenAI, how: str
) -> None:
    """Promise 3: the file is written; the sub-agent is at its next model call when the parent ends."""
    wrote = calls(("write_file", {"path": "notes.txt", "text": "hello"}))
    model.otherwise(play({"parent": [spawn("child task")], "child": [wrote, hangs()]}))
    agent = {"agent": {"max_seconds": 1.5, "on_budget": "stop"}} if how == "deadline" else {}
    async with living(tmp_path, model, agent) as it:
        turn = await it.say("parent, go")
        await asyncio.wait_for(model.hanging.wait(), 20)
        if how == "stop":
            await it.command("/stop")
        run = await it.settled(turn)
    assert run.reply and "Done: write_file." in run.reply
    assert "Outcome unknown (may or may not have happened): spawn_agent." in run.reply
    assert "Not run" not in run.reply + str(run.calls[0].result)
    assert "ask again" not in run.reply and "go on" not in run.reply
    assert "look at what it did before you ask for the same again" in run.reply


async def test_a17_stop_reaches_background_agents_of_a_turn_that_is_over(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(
        play(
            {
                "parent": [spawn("child hangs", background=True), says("it is at work")],
                "child": [hangs()],
            }
        )
    )
    async with living(tmp_path, model) as it:
        run = await it.ask("parent, go")
        await asyncio.wait_for(model.hanging.wait(), 20)
        await it.command("/stop")
        assert (await it.settled((await child_of(it, run.turn)).child)).stop_reason == "cancelled"


async def test_a17_a_question_of_a_sub_agent_is_asked_in_the_chat_and_waiting_takes_no_time(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    @tool(effect=Effect.EGRESS)
    async def send(text: str) -> str:
        """Send something."""
        return "sent"

    script = {
        "parent": [spawn("child sends"), says("done")],
        "child": [calls(("send", {"text": "x"})), says("I sent it")],
    }
    model.otherwise(play(script))
    async with living(
        tmp_path, model, {"agent": {"max_seconds": 2}}, Overrides(tools=bind([send], {}))
    ) as it:
        turn = await it.say("parent, go")
        started = await it.until(turn, "agent.started")
        await it.until(str(started.data["turn"]), "run.suspended")
        [asked] = await it.house.client.list_approvals(session=SESSION)
        assert asked.session.startswith("sub-1-")
        await asyncio.sleep(
            2.2
        )  # longer than the parent may work: nothing to wait for but the time itself
        assert "Approved" in await it.command("/approve")
        assert (await it.settled(turn)).reply == "done"


async def test_a17_many_at_once_run_in_parallel_and_each_is_answered_in_its_place(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    everyone = asyncio.Barrier(6)

    def choose(body: Json) -> Step:
        if first(body).startswith("parent"):
            wanted = [("spawn_agent", {"task": f"child {n}"}) for n in range(6)]
            return (
                says("|".join(result[-1] for result in results(body)))
                if results(body)
                else calls(*wanted)
            )

        async def step(x: Exchange) -> web.StreamResponse:
            await everyone.wait()
            return await says(first(body)[-1])(x)

        return step

    model.otherwise(by(choose))
    async with living(tmp_path, model) as it:
        assert (await it.ask("parent, go")).reply == "0|1|2|3|4|5"


async def test_a17_a_sub_agent_survives_a_restart_and_is_not_spawned_twice(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    def asked_of(who: str, asked: list[Asked]) -> int:
        return sum(first(one.body).startswith(who) for one in asked)

    model.otherwise(play({"parent": [spawn("child works")], "child": [hangs()]}))
    async with living(tmp_path, model, {"agent": {"drain_seconds": 0}}) as it:
        turn = await it.say("parent, go")
        await asyncio.wait_for(model.hanging.wait(), 20)
    model.otherwise(play({"parent": [says("got it")], "child": [says("done after all")]}))
    async with living(tmp_path, model) as it:
        run = await it.settled(turn)
        assert run.reply == "got it"
        assert (
            len([event for event in await it.events(turn) if isinstance(event, ChildSpawned)]) == 1
        )
        assert "done after all" in str(run.calls[0].result)
    assert (
        asked_of("child", model.requests) == 2
    )  # the call that was cut, and the one after the restart


async def test_a17_an_unknown_agent_is_refused_with_those_there_are(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(play({"parent": [spawn("x", agent="nobody"), says("ok")]}))
    async with living(tmp_path, model) as it:
        run = await it.ask("parent, go")
        assert "nobody" in str(run.calls[0].result) and run.calls[0].is_error
