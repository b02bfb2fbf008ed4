"""Agents at work for others at awkward moments: clocks, restarts, poison, what was read before (A17, A11, F2, E7, B8)."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.core.events import ChildSpawned, ToolFinished
from daemon.core.requests import LoopOrder
from daemon.core.trust import Effect
from daemon.tools.signature import bind, tool
from tests.fakes.house import SESSION, Living, living
from tests.fakes.openai import FakeOpenAI, Json, Step, by, calls, gate, hangs, says

BREAKS = 13
SEND = ("send", {"text": "x"})


@tool(effect=Effect.EGRESS)
async def send(text: str) -> str:
    """Send something."""
    return "sent"


@tool(effect=Effect.READ, parallel=True)
async def nap(number: int) -> str:
    """Take a moment."""
    await asyncio.sleep(0.3)
    return f"slept {number}"


def broken(arguments: Mapping[str, object]) -> None:
    """A faulty add-on."""
    if arguments["number"] == BREAKS:
        raise RuntimeError("an add-on broke")


PARTS = Overrides(tools=[*bind([send], {}), replace(bind([nap], {})[0], check=broken)])
BREAK = calls(("nap", {"number": BREAKS}))


def first(body: Json) -> str:
    return str(
        next(message["content"] for message in body["messages"] if message["role"] == "user")
    )


def play(parts: dict[str, list[Step]]) -> Step:
    """Each conversation has a script of its own, found by what its first message begins with."""

    def choose(body: Json) -> Step:
        for begins, steps in parts.items():
            if first(body).startswith(begins):
                return steps.pop(0) if steps else says("nothing more")
        return says("ok")

    return by(choose)


def spawn(task: str, **more: object) -> Step:
    return calls(("spawn_agent", {"task": task, **more}))


async def child_of(it: Living, turn: str, at: int = 0) -> ChildSpawned:
    return [event for event in await it.events(turn) if isinstance(event, ChildSpawned)][at]


async def results(it: Living, turn: str, name: str) -> list[str]:
    return [
        event.text
        for event in await it.events(turn)
        if isinstance(event, ToolFinished) and event.tool == name
    ]


async def suspended(it: Living, turn: str, at: int = 0) -> str:
    """The child of this turn, once it waits for a person."""
    await it.until(turn, "agent.started")
    child = (await child_of(it, turn, at)).child
    await it.until(child, "run.suspended")
    return child


async def test_a11_what_was_read_before_an_agent_went_to_work_is_read_anew_after_it(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A17: nobody can say what it has changed."""
    read = calls(("read_file", {"path": "plan.txt"}))
    write = calls(("write_file", {"path": "plan.txt", "text": "new"}))
    model.otherwise(
        play(
            {
                "parent": [read, spawn("child, edit"), read, says("done")],
                "child": [write, says("edited")],
            }
        )
    )
    async with living(tmp_path, model) as it:
        (tmp_path / "workspace").mkdir(exist_ok=True)
        (tmp_path / "workspace" / "plan.txt").write_text("old")
        run = await it.ask("parent, go")
        before, after = await results(it, run.turn, "read_file")
    assert "old" in before and "new" in after, after


async def test_a17_the_parents_clock_stands_still_for_a_waiting_agent_after_a_restart_too(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    config = {"agent": {"max_seconds": 1, "drain_seconds": 0}}
    model.otherwise(
        play(
            {
                "parent": [spawn("child sends"), says("done")],
                "child": [calls(SEND), says("I sent it")],
            }
        )
    )
    async with living(tmp_path, model, config, PARTS) as it:
        turn = await it.say("parent, go")
        await suspended(it, turn)
    async with living(tmp_path, model, config, PARTS) as it:
        await asyncio.sleep(
            1.3
        )  # longer than the parent may work: nothing to wait for but the time itself
        assert "Approved" in await it.command("/approve")
        assert (await it.settled(turn)).reply == "done"


async def test_a17_waiting_for_an_agent_that_waits_counts_for_nothing_after_a_restart(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """D1: what a call took is not what the turn worked, where a person was waited for."""
    config = {"agent": {"max_seconds": 1, "drain_seconds": 0}}
    script = {"parent": [spawn("child sends"), hangs()], "child": [calls(SEND), says("I sent it")]}
    model.otherwise(play(script))
    async with living(tmp_path, model, config, PARTS) as it:
        turn = await it.say("parent, go")
        await suspended(it, turn)
        await asyncio.sleep(1.3)
        assert "Approved" in await it.command("/approve")
        await asyncio.wait_for(model.hanging.wait(), 10)
    model.otherwise(says("done"))
    async with living(tmp_path, model, config, PARTS) as it:
        assert (await it.settled(turn)).reply == "done"


async def test_d1_calls_that_ran_together_count_once_after_a_restart(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    naps = [("nap", {"number": number}) for number in range(8)]
    model.script(calls(*naps), hangs())
    config = {"agent": {"max_seconds": 2, "drain_seconds": 0}}
    async with living(tmp_path, model, config, PARTS) as it:
        turn = await it.say("rest")
        await asyncio.wait_for(model.hanging.wait(), 10)
    model.otherwise(says("all done"))
    async with living(tmp_path, model, config, PARTS) as it:
        assert (await it.settled(turn)).reply == "all done"


async def test_a17_a_clock_that_stood_still_for_an_agent_goes_on_when_who_waited_for_it_is_stopped(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """D1: the top agent hangs afterwards, and its deadline ends it."""
    script = {
        "top": [spawn("middle"), hangs()],
        "middle": [spawn("child sends")],
        "child": [calls(SEND), says("I sent it")],
    }
    model.otherwise(play(script))
    async with living(tmp_path, model, {"agent": {"max_seconds": 2, "on_budget": "stop"}}, PARTS) as it:
        top = await it.say("top, go")
        await it.until(top, "agent.started")
        middle = (await child_of(it, top)).child
        await suspended(it, middle)
        assert await it.house.client.cancel_run(middle)
        assert (await it.settled(middle)).stop_reason == "cancelled"
        assert (await asyncio.wait_for(it.settled(top), 6)).stop_reason == "deadline"


async def test_a17_an_agent_in_the_background_that_waits_does_not_stop_its_parents_clock(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    asks = asyncio.Event()
    script = {
        "parent": [spawn("child", background=True), gate(asks, hangs())],
        "child": [calls(SEND)],
    }
    model.otherwise(play(script))
    async with living(tmp_path, model, {"agent": {"max_seconds": 1, "on_budget": "stop"}}, PARTS) as it:
        turn = await it.say("parent, go")
        await suspended(it, turn)
        asks.set()
        assert (await asyncio.wait_for(it.settled(turn), 5)).stop_reason == "deadline"


@pytest.mark.parametrize("guard", ['approvals = "always"', 'protected_paths = ["note.txt"]'])
async def test_b8_what_an_agents_author_wants_to_be_asked_about_is_asked_of_those_it_sets_to_work_too(
    tmp_path: Path, model: FakeOpenAI, guard: str
) -> None:
    """A17: two deep, or the model would only have to choose another agent."""
    write = calls(("write_file", {"path": "note.txt", "text": "x"}))
    script = {
        "parent": [spawn("middle"), says("done")],
        "middle": [spawn("child")],
        "child": [write, says("as you like")],
    }
    model.otherwise(play(script))
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "careful.toml").write_text(
        f'[identity]\nname = "careful"\n[tools]\n{guard}\n'
    )
    async with living(tmp_path, model) as it:
        await it.command("/agent careful")
        turn = await it.say("parent, go")
        await it.until(turn, "agent.started")
        child = await suspended(it, (await child_of(it, turn)).child)
        [asked] = await it.house.client.list_approvals(session=SESSION)
        assert (asked.turn, asked.tool) == (child, "write_file")
        await it.command("/approve")
        assert (await it.settled(turn)).reply == "done"


async def test_b5_25_a_background_agent_that_is_set_aside_is_reported_without_a_restart(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A17."""
    asks = asyncio.Event()
    child = gate(asks, BREAK)
    script = {
        "parent": [spawn("child", background=True), says("at work"), says("it broke")],
        "child": [child] * 9,
    }
    model.otherwise(play(script))
    async with living(tmp_path, model, parts=PARTS) as it:
        run = await it.ask("parent, go")
        asks.set()
        spawned = await child_of(it, run.turn)
        assert (await it.settled(spawned.child)).state == "quarantined"
        report = await asyncio.wait_for(it.settled(spawned.report), 5)
        assert report.reply == "it broke"


async def test_b5_25_agents_of_a_turn_that_is_set_aside_are_stopped_at_once(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A17."""
    asks = asyncio.Event()
    parent = [spawn("child", background=True), *[gate(asks, BREAK)] * 9]
    model.otherwise(play({"parent": parent, "child": [hangs()]}))
    async with living(tmp_path, model, parts=PARTS) as it:
        turn = await it.say("parent, go")
        await asyncio.wait_for(model.hanging.wait(), 10)
        asks.set()
        assert (await it.settled(turn)).state == "quarantined"
        child = await asyncio.wait_for(it.settled((await child_of(it, turn)).child), 5)
        assert child.stop_reason == "cancelled"


async def test_e7_pause_holds_the_agents_below_too_and_that_takes_no_time(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A17."""
    asks = asyncio.Event()
    child = [gate(asks, calls(("nap", {"number": 1}))), says("rested")]
    model.otherwise(play({"parent": [spawn("child naps"), says("done")], "child": child}))
    async with living(tmp_path, model, {"agent": {"max_seconds": 2, "on_budget": "stop"}}, PARTS) as it:
        turn = await it.say("parent, go")
        await model.asked(2)
        await it.command("/pause")
        asks.set()
        await asyncio.sleep(
            2.3
        )  # longer than the parent may work: nothing to wait for but the time itself
        assert model.count == 2
        await it.command("/resume")
        assert (await it.settled(turn)).reply == "done"


async def test_a17_so_many_agents_at_once_work_in_the_background_and_no_more(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    wanted = [("spawn_agent", {"task": f"child {n}", "background": True}) for n in range(12)]
    parent = [calls(*wanted), says("at work")]
    model.otherwise(by(lambda body: parent.pop(0) if first(body) == "go" else hangs()))
    async with living(tmp_path, model, {"subagents": {"max_background": 5}}) as it:
        run = await it.ask("go")
        told = await results(it, run.turn, "spawn_agent")
        assert sum(text.startswith("started as turn") for text in told) == 5
        assert sum("5 agents run in the background" in text for text in told) == 7
        await it.command("/stop")


async def test_a17_an_attempt_of_a_loop_sets_nobody_to_work_behind_its_back(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """C1: the next attempt begins afresh, so nobody would hear of it."""
    model.script(spawn("child", background=True), says("so be it"))
    config = {
        "agent": {"loop": {"enabled": True, "criterion": "max_iterations", "max_iterations": 1}}
    }
    async with living(tmp_path, model, config) as it:
        loop = await it.house.loops.start(LoopOrder("default", "go", SESSION))
        await it.settled(loop.turn_id(1))
        assert "nobody would hear of it" in (await results(it, loop.turn_id(1), "spawn_agent"))[0]


async def test_e7_what_is_said_while_a_call_is_being_prepared_is_in_that_call(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """E3: a cheap model is asked first what kind of work it is."""
    sorts = asyncio.Event()
    model.script(gate(sorts, says("SIMPLE_QUERY")), says("both"))
    config = {"provider": {"models": {"primary": "one", "fast": "two"}}}
    async with living(tmp_path, model, config) as it:
        turn = await it.say(
            "the thing from yesterday, as we said, for the others as well if they are there"
        )
        await model.asked(1)
        assert await it.say("and this") == turn
        sorts.set()
        assert (await it.settled(turn)).reply == "both"
        assert "and this" in str(model.requests[1]["messages"])


async def test_a15_allowed_in_this_chat_is_allowed_to_all_who_work_for_it(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A17, C12: the chat is the person's; the session of an agent is over when its task is."""
    script = {
        "parent": [spawn("child one"), spawn("child two"), calls(SEND), says("done")],
        "child one": [calls(SEND), says("sent")],
        "child two": [calls(SEND), says("sent")],
    }
    model.otherwise(play(script))
    async with living(tmp_path, model, parts=PARTS) as it:
        turn = await it.say("parent, go")
        await suspended(it, turn)
        await it.command("/approve session")
        assert (await asyncio.wait_for(it.settled(turn), 10)).reply == "done"
        assert "(this chat;" in await it.command("/grants")


async def test_e7_who_is_stopped_reports_nothing_and_nobody_is_set_to_work_again(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A17."""
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
        await asyncio.wait_for(model.hanging.wait(), 10)
        spawned = await child_of(it, run.turn)
        await it.command("/stop")
        assert (await it.settled(spawned.child)).stop_reason == "cancelled"
        await it.ask("next")
        assert [line.turn for line in await it.house.client.list_runs(SESSION)][1:] == [run.turn]


async def test_a17_a_report_does_not_begin_a_chain_that_nobody_ends(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """F2: each report begins a turn with a budget of its own; only a person's word may begin another agent in the background."""

    def choose(body: Json) -> Step:
        said = max(at for at, message in enumerate(body["messages"]) if message["role"] == "user")
        if "child" in first(body) or len(body["messages"]) > said + 1:
            return says("well")
        return spawn("child again", background=True)

    model.otherwise(by(choose))
    async with living(tmp_path, model) as it:
        run = await it.ask("go")
        spawned = await child_of(it, run.turn)
        await it.settled(spawned.child)
        report = await it.settled(spawned.report)
        assert report.reply == "well"
        assert "begun by a report" in (await results(it, report.turn, "spawn_agent"))[0]
