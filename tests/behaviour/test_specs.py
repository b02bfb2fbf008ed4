"""An agent of agents/NAME.toml, run through the real house: what its author declared is what the loop keeps to (B1-B8, D3).

F4: each condition is checked by machine on a live run.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from daemon.app.daemon import Overrides
from daemon.core.events import Answer, Coached, HistoryCompressed, ModelReplied, ToolFinished
from daemon.core.trust import Effect
from daemon.tools.base import ToolOutput
from daemon.tools.signature import bind, tool
from tests.fakes.house import SESSION, Living, living
from tests.fakes.openai import FakeOpenAI, by, calls, says, tokens
from tests.fakes.openai import Step as Scripted

PRICED = {"provider": {"prices": {"scripted": {"input": 1.0, "output": 1.0}}}}
DEAR = tokens(20_000, 0)  # $0.02, ten times what a call is estimated at


@tool(effect=Effect.READ)
async def look(number: int = 0) -> str:
    """Look at a page."""
    return f"page {number}"


@tool(effect=Effect.READ)
async def build(exit_code: int, says: str) -> ToolOutput:
    """Build it."""
    return ToolOutput(says, exit_code=exit_code)


@tool(effect=Effect.READ)
async def boom() -> str:
    """Raise."""
    raise RuntimeError("the tool is broken")


@tool(effect=Effect.WRITE)
async def note(text: str) -> str:
    """Write a note."""
    return f"noted {text}"


@tool(effect=Effect.READ)
async def page(number: int) -> str:
    """Give a long page."""
    return f"page {number}: " + f"words of page {number} " * 150


def looks(usage: dict[str, Any] | None = None) -> Scripted:
    """A model that looks at one page after the other, for ever."""
    numbers = itertools.count(1)
    return by(lambda _: calls(("look", {"number": next(numbers)}), text="looking on", usage=usage))


@asynccontextmanager
async def agent(
    tmp_path: Path, model: FakeOpenAI, spec: str, config: Mapping[str, object] | None = None
) -> AsyncIterator[Living]:
    """A house with this agent, chosen in the session of the test."""
    (tmp_path / "agents").mkdir(exist_ok=True)
    (tmp_path / "agents" / "coder.toml").write_text(f'[identity]\nname = "coder"\n{spec}')
    parts = Overrides(tools=bind((look, build, boom, note, page), {}))
    async with living(tmp_path, model, config, parts) as it:
        assert await it.command("/agent coder") == "Agent: coder."
        yield it


def conditions(*tables: str, cycles: int = 30) -> str:
    ends = "".join(f"[[iteration.termination_conditions]]\n{table}\n" for table in tables)
    return f"[iteration]\nmax_cycles = {cycles}\n{ends}"


TEXT = 'kind = "text-includes"\ntext = "<task-complete>"'
BUILT = 'kind = "tool-result"\ntool = "build"\nmatch = { exit_code = 0, contains = "tsc" }'
BROKE = 'kind = "budget-exhausted"'
BUDGET = "[model_policy.budget]\nusd_per_run = 0.05\n"
DONE = says("All done. <task-complete>")


def roles(request: Any) -> list[str]:
    return [message["role"] for message in request["messages"]]


async def named(it: Living, turn: str) -> list[str]:
    return [
        event.name async for event in it.house.client.stream_events(turn) if event.seq is not None
    ]


async def test_max_cycles_is_exact_with_tools_in_all_of_them_and_no_closing_call(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B3: after the Nth cycle it stops, whatever the model wants to do next; that is no failure."""
    model.otherwise(looks())
    async with agent(tmp_path, model, conditions(TEXT, cycles=4)) as it:
        run = await it.ask("look at everything")
        assert (run.state, run.stop_reason, run.iterations, len(model.requests)) == (
            "ended",
            "max_iterations",
            4,
            4,
        )
        assert all(request.body.get("tool_choice", "auto") == "auto" for request in model.requests)
        assert [call.result for call in run.calls] == ["page 1", "page 2", "page 3", "page 4"]
        assert run.reply == "looking on"
        ended = await it.until(run.turn, "run.terminated_by")
        assert (ended.data["reason"], ended.data["ok"]) == ("maxCycles", True)
        assert not [
            event
            for event in await it.events(run.turn)
            if isinstance(event, ModelReplied) and event.closing
        ]


async def test_cycles_with_text_alone_count_too(tmp_path: Path, model: FakeOpenAI) -> None:
    """B3: the cycle counter is of model calls, not of tool calls."""
    model.script(says("one"), says("another"), says("a third"))
    async with agent(tmp_path, model, conditions(TEXT, cycles=3)) as it:
        run = await it.ask("think")
        assert (run.stop_reason, run.iterations, run.reply, len(model.requests)) == (
            "max_iterations",
            3,
            "a third",
            3,
        )


async def test_a_request_for_more_iterations_adds_nothing_to_max_cycles(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B3: a hard ceiling."""
    model.otherwise(calls(("request_more_iterations", {"reason": "there is more to look at"})))
    async with agent(tmp_path, model, conditions(TEXT, cycles=3)) as it:
        run = await it.ask("look")
        assert (run.stop_reason, run.iterations, len(model.requests)) == ("max_iterations", 3, 3)


async def test_text_that_includes_the_signal_ends_the_run_as_a_condition(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B2"""
    model.script(calls(("look", {"number": 1})), DONE)
    async with agent(tmp_path, model, conditions(TEXT)) as it:
        run = await it.ask("do it")
        assert (run.state, run.stop_reason, run.reply) == (
            "ended",
            "condition",
            "All done. <task-complete>",
        )
        ended = await it.until(run.turn, "run.terminated_by")
        assert ended.data == {
            "reason": "condition",
            "detail": "text-includes: <task-complete>",
            "ok": True,
        }


async def test_a_signal_beside_tool_calls_is_heard_after_the_tools_have_run(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B2: checked after each cycle's tool dispatch."""
    model.script(calls(("note", {"text": "last"}), text="<task-complete>"))
    async with agent(tmp_path, model, conditions(TEXT)) as it:
        run = await it.ask("do it")
        assert (run.stop_reason, [call.result for call in run.calls], len(model.requests)) == (
            "condition",
            ["noted last"],
            1,
        )


async def test_a_tool_result_ends_the_run_when_exit_code_and_text_both_match(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B2"""
    tries = [(1, "tsc: 3 errors"), (0, "eslint ok"), (0, "tsc ok")]
    model.script(*(calls(("build", {"exit_code": code, "says": text})) for code, text in tries))
    async with agent(tmp_path, model, conditions(BUILT)) as it:
        run = await it.ask("make it build")
        assert (run.stop_reason, len(run.calls), len(model.requests)) == ("condition", 3, 3)
        ended = await it.until(run.turn, "run.terminated_by")
        assert ended.data["detail"] == "tool-result: build with exit code 0 and 'tsc' in it"


async def test_the_budget_that_is_exhausted_ends_the_run_without_a_question(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B2: cumulative USD >= usd_per_run. $0.02 a call, so the third is the last; its tools still run."""
    model.otherwise(looks(DEAR))
    async with agent(tmp_path, model, BUDGET + conditions(BROKE), PRICED) as it:
        run = await it.ask("look at everything")
        assert (run.state, run.stop_reason) == ("ended", "condition")
        ended = await it.until(run.turn, "run.terminated_by")
        assert ended.data["detail"] == "budget-exhausted: $0.05"
        assert (run.iterations, len(run.calls), run.usage.usd) == (3, 3, pytest.approx(0.06))


async def test_a_budget_that_has_no_room_for_another_cycle_is_exhausted_too(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B2, F2: the limit is hard, so the call that would break it is not made."""
    model.otherwise(looks(tokens(24_950, 0)))
    async with agent(tmp_path, model, BUDGET + conditions(BROKE), PRICED) as it:
        run = await it.ask("look at everything")
        ended = await it.until(run.turn, "run.terminated_by")
        assert (ended.data["reason"], str(ended.data["detail"])[:16]) == (
            "condition",
            "budget-exhausted",
        )
        assert (run.iterations, run.usage.usd) == (2, pytest.approx(0.0499))


@pytest.mark.parametrize(
    ("order", "first"),
    [
        ((TEXT, BUILT, BROKE), "text-includes"),
        ((BUILT, BROKE, TEXT), "tool-result"),
        ((BROKE, TEXT, BUILT), "budget-exhausted"),
    ],
)
async def test_of_several_conditions_that_hold_at_once_the_first_in_the_spec_fires(
    tmp_path: Path, model: FakeOpenAI, order: tuple[str, ...], first: str
) -> None:
    """B2: in spec order, after the tools of the cycle in which all three come true."""
    model.script(
        calls(
            ("build", {"exit_code": 0, "says": "tsc ok"}),
            text="<task-complete>",
            usage=tokens(60_000, 0),
        )
    )
    async with agent(tmp_path, model, BUDGET + conditions(*order), PRICED) as it:
        run = await it.ask("do it")
        ended = await it.until(run.turn, "run.terminated_by")
        assert ended.data["reason"] == "condition" and str(ended.data["detail"]).startswith(first)
        assert [call.result for call in run.calls] == ["tsc ok"]


async def test_a_cycle_without_a_tool_call_is_nudged_when_conditions_are_declared(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B6: so that the next cycle has a chance to produce a terminating signal."""
    model.script(says("I think I am done."), DONE)
    async with agent(tmp_path, model, conditions(TEXT)) as it:
        run = await it.ask("do it")
        assert (run.stop_reason, run.reply) == ("condition", "All done. <task-complete>")
        last = model.requests[1]["messages"][-1]
        assert last["role"] == "user" and "your text contains <task-complete>" in last["content"]
        assert [
            event.kind for event in await it.events(run.turn) if isinstance(event, Coached)
        ] == ["nudge"]


async def test_there_is_no_nudge_after_tool_calls_nor_without_conditions(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B6"""
    model.script(calls(("look", {"number": 1})), says("That is all."))
    async with agent(tmp_path, model, "[iteration]\nmax_cycles = 5\n") as it:
        run = await it.ask("do it")
        assert (run.stop_reason, run.reply) == ("done", "That is all.")
        assert not [event for event in await it.events(run.turn) if isinstance(event, Coached)]
        assert roles(model.requests[1])[-1] == "tool"


async def test_events_tell_every_cycle(tmp_path: Path, model: FakeOpenAI) -> None:
    """B5: cycle.start, model.response, tool_call and tool_result each, tool.results; at the end what terminated the run."""
    model.script(calls(("look", {"number": 1}), ("look", {"number": 2}), text="hm"), DONE)
    async with agent(tmp_path, model, conditions(TEXT, cycles=7)) as it:
        run = await it.ask("do it")
        told = [event async for event in it.house.client.stream_events(run.turn)]
        assert [
            event.name for event in told if event.name not in ("tool.started", "model.delta")
        ] == [
            *(
                "cycle.start",
                "model.response",
                "tool_call",
                "tool_call",
                "tool_result",
                "tool_result",
                "tool.results",
            ),
            *("cycle.start", "model.response", "run.terminated_by", "run.completed"),
        ]
        start = next(event for event in told if event.name == "cycle.start")
        assert (start.data["iteration"], start.data["max_iterations"]) == (1, 7)
        reply = next(event for event in told if event.name == "model.response")
        assert (
            reply.data["iteration"],
            reply.data["text_length"],
            reply.data["finish_reason"],
        ) == (1, 2, "tool_calls")
        results = next(event for event in told if event.name == "tool.results")
        assert (results.data["iteration"], results.data["count"]) == (1, 2)


async def test_parallel_tools_are_all_settled_before_the_model_sees_any(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B5: the whole history, then one result for each call, in the order of the calls."""
    model.script(calls(("look", {"number": 1}), ("boom", {}), ("look", {"number": 3})), DONE)
    async with agent(tmp_path, model, conditions(TEXT)) as it:
        await it.ask("do it")
        assert roles(model.requests[1])[-5:] == ["user", "assistant", "tool", "tool", "tool"]
        shown = [
            message["content"]
            for message in model.requests[1]["messages"]
            if message["role"] == "tool"
        ]
        assert (shown[0], shown[2]) == ("page 1", "page 3") and "the tool is broken" in shown[1]


async def test_a_tool_that_fails_is_shown_as_an_error_and_the_cycles_go_on(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B7: the model decides what to do next."""
    model.script(calls(("boom", {})), calls(("look", {"number": 1})), DONE)
    async with agent(tmp_path, model, conditions(TEXT)) as it:
        run = await it.ask("do it")
        assert (run.stop_reason, [call.is_error for call in run.calls]) == (
            "condition",
            [True, False],
        )


async def test_with_approvals_always_each_of_two_parallel_calls_waits_on_its_own(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B8: one is approved, one rejected; the rejected one is a result the agent can go on from."""
    model.script(calls(("note", {"text": "a"}), ("note", {"text": "b"})), DONE)
    async with agent(tmp_path, model, '[tools]\napprovals = "always"\n' + conditions(TEXT)) as it:
        turn = await it.say("write two notes")
        await it.until(turn, "run.suspended")
        door = it.house.client
        first, second = await door.list_approvals(session=SESSION)
        assert await door.answer_approval(turn, second.call_id, Answer.DENY, reason="not that one")
        assert [row.call_id for row in await door.list_approvals(session=SESSION)] == [
            first.call_id
        ]
        assert await door.answer_approval(turn, first.call_id, Answer.ONCE)
        run = await it.settled(turn)
        assert run.stop_reason == "condition"
        assert [call.result for call in run.calls] == [
            "noted a",
            '{"rejected": true, "reason": "not that one"}',
        ]


async def test_without_approvals_in_the_spec_the_same_call_needs_none(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B8: so it was the spec that asked."""
    model.script(calls(("note", {"text": "a"})), DONE)
    async with agent(tmp_path, model, conditions(TEXT)) as it:
        assert [call.result for call in (await it.ask("write a note")).calls] == ["noted a"]


async def test_a_protected_path_of_the_spec_is_asked_about_and_no_other(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B8"""
    files = [
        ("write_file", {"path": path, "text": "x"}) for path in ("free.txt", "plans/secret.txt")
    ]
    model.script(calls(*files), DONE)
    async with agent(
        tmp_path, model, '[tools]\nprotected_paths = ["plans"]\n' + conditions(TEXT)
    ) as it:
        turn = await it.say("write two files")
        await it.until(turn, "run.suspended")
        [asked] = await it.house.client.list_approvals(session=SESSION)
        assert "plans/secret.txt" in asked.arguments
        await it.house.client.answer_approval(turn, asked.call_id, Answer.ONCE)
        assert (await it.settled(turn)).stop_reason == "condition"
        assert (tmp_path / "workspace" / "plans" / "secret.txt").read_text() == "x"


async def test_a_command_is_asked_about_where_the_spec_protects_something(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B8: what a command may look at without a question is known of the config's protected paths only."""
    config = {"tools": {"shell": {"allowed": ["ls"]}}}
    model.script(calls(("shell", {"argv": ["ls"]})), DONE, calls(("shell", {"argv": ["ls"]})))
    async with agent(tmp_path, model, conditions(TEXT), config) as it:
        assert [call.decision for call in (await it.ask("list it")).calls] == ["allow"]
    async with agent(
        tmp_path, model, '[tools]\nprotected_paths = ["plans"]\n' + conditions(TEXT), config
    ) as it:
        turn = await it.say("list it")
        await it.until(turn, "run.suspended")
        [asked] = await it.house.client.list_approvals(session=SESSION)
        assert asked.tool == "shell"


async def test_when_tokens_cross_80_percent_of_the_context_window_the_strategy_runs_before_the_next_cycle(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B4: the request stays within the window; the journal keeps every page whole."""
    numbers = itertools.count(1)
    model.script(*[by(lambda _: calls(("page", {"number": next(numbers)})))] * 12, DONE)
    spec = conditions(TEXT).replace(
        "[[", 'context_window = 6000\nsummary_strategy = "rolling-window"\n[[', 1
    )
    async with agent(tmp_path, model, '[tools]\nenabled = ["page"]\n' + spec) as it:
        run = await it.ask("read it all")
        events = await it.events(run.turn)
        shortened = [event for event in events if isinstance(event, HistoryCompressed)]
        assert run.stop_reason == "condition" and {event.strategy for event in shortened} == {
            "rolling-window"
        }
        assert all(event.tokens_before > 0.8 * 6000 for event in shortened)
        assert all(len(request.raw) / 4 < 6000 for request in model.requests)
        assert all(roles(request)[:2] == ["system", "user"] for request in model.requests)
        kept = [event.text for event in events if isinstance(event, ToolFinished)]
        assert len(kept) == 12 and kept[0].startswith("page 1: words of page 1")
        assert "history.compressed" in await named(it, run.turn)


async def test_only_the_tools_of_the_spec_are_shown_and_no_other_can_be_called(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B1"""
    model.script(calls(("note", {"text": "a"})), DONE)
    async with agent(
        tmp_path, model, '[tools]\nenabled = ["look", "b*"]\n' + conditions(TEXT)
    ) as it:
        run = await it.ask("write a note")
        assert {one["function"]["name"] for one in model.requests[0]["tools"]} == {
            "look",
            "build",
            "boom",
        }
        assert run.calls[0].is_error and "no tool named note" in (run.calls[0].result or "")


async def test_instructions_and_model_of_the_spec_reach_the_model(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B1"""
    spec = '[model_policy]\nmodel = "big-one"\neffort = "high"\n'
    async with agent(tmp_path, model, 'instructions = "You write TypeScript."\n' + spec) as it:
        await it.ask("hi")
        [asked] = model.requests
        assert (asked["model"], asked.body.get("reasoning_effort")) == ("big-one", "high")
        assert asked["messages"][0]["content"].endswith("You write TypeScript.")


async def test_a_turn_keeps_what_it_began_with_while_its_file_is_edited(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B1: the edit holds from the next message on."""
    model.script(calls(("note", {"text": "a"})), says("first"), says("second"))
    async with agent(
        tmp_path, model, '[tools]\napprovals = "always"\n[iteration]\nmax_cycles = 5\n'
    ) as it:
        turn = await it.say("write a note")
        await it.until(turn, "run.suspended")
        (tmp_path / "agents" / "coder.toml").write_text(
            '[identity]\nname = "coder"\ninstructions = "NEW"\n'
        )
        [asked] = await it.house.client.list_approvals(session=SESSION)
        await it.house.client.answer_approval(turn, asked.call_id, Answer.ONCE)
        assert (await it.settled(turn)).reply == "first"
        await it.ask("and now")
        assert ["NEW" in request["messages"][0]["content"] for request in model.requests] == [
            False,
            False,
            True,
        ]


async def test_an_agent_whose_file_became_wrong_says_so_and_asks_no_model(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B1: the message is not lost, and no other agent takes over in silence."""
    async with agent(tmp_path, model, "") as it:
        (tmp_path / "agents" / "coder.toml").write_text(
            '[identity]\nname = "coder"\n[iteration]\nmax_cycles = 0\n'
        )
        run = await asyncio.wait_for(it.ask("hi"), 10)
        assert (run.state, run.stop_reason, model.requests) == ("ended", "failed", [])
        assert "coder.toml: iteration.max_cycles: found 0, expected 1 or more" in (run.reply or "")


async def test_a_composite_s_sub_agent_may_itself_be_iterative(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B11: the member keeps its own cycles and conditions; its end is no failure of the composite."""
    model.script(calls(("look", {"number": 1})), DONE, says("GOOD, approved."))
    composite = '[composite]\nstrategy = "iterative"\nagents = [{ agent = "worker" }, { agent = "critic" }]\nuntil = "GOOD"\n'
    (tmp_path / "agents").mkdir(exist_ok=True)
    (tmp_path / "agents" / "worker.toml").write_text(
        '[identity]\nname = "worker"\n' + conditions(TEXT)
    )
    (tmp_path / "agents" / "critic.toml").write_text(
        '[identity]\nname = "critic"\ninstructions = "CRITIC"\n'
    )
    async with agent(tmp_path, model, composite) as it:
        run = await it.ask("do it")
        assert (run.stop_reason, run.reply) == ("done", "GOOD, approved.")
        assert ["CRITIC" in request["messages"][0]["content"] for request in model.requests] == [
            False,
            False,
            True,
        ]
        assert "All done. <task-complete>" in model.requests[2]["messages"][-1]["content"]
        ended = [
            event
            async for event in it.house.client.stream_events(run.turn)
            if event.name == "agent.ended"
        ]
        assert [event.data["stop_reason"] for event in ended] == ["condition", "done"]


SCHEMA = '[output.schema]\ntype = "object"\nrequired = ["verdict"]\n'


async def test_an_answer_that_does_not_fit_its_schema_gets_one_correction_round(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """D3"""
    model.script(says("It looks good."), says('```json\n{"verdict": "good"}\n```'))
    async with agent(tmp_path, model, SCHEMA) as it:
        run = await it.ask("judge it")
        assert (run.stop_reason, len(model.requests)) == ("done", 2)
        asked = model.requests[1]["messages"][-1]
        assert asked["role"] == "user" and "it is not JSON" in asked["content"]


async def test_an_answer_that_fails_its_schema_again_ends_the_turn(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """D3: an error that nothing helps."""
    model.otherwise(says('{"verdct": "good"}'))
    async with agent(tmp_path, model, SCHEMA) as it:
        run = await it.ask("judge it")
        ended = await it.until(run.turn, "run.terminated_by")
        assert (run.stop_reason, len(model.requests)) == ("failed", 2)
        assert "'verdict' is a required property" in str(ended.data["detail"])


async def test_a_refused_critical_tool_of_the_spec_ends_the_turn(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """D3: permission denied on a declared critical tool."""
    model.script(calls(("note", {"text": "a"})), says("I was not allowed to write the note."))
    spec = '[tools]\napprovals = "always"\ncritical = ["note"]\n'
    async with agent(tmp_path, model, spec + conditions(TEXT)) as it:
        turn = await it.say("write a note")
        await it.until(turn, "run.suspended")
        [asked] = await it.house.client.list_approvals(session=SESSION)
        await it.house.client.answer_approval(turn, asked.call_id, Answer.DENY, reason="no notes")
        run = await it.settled(turn)
        assert run.stop_reason == "failed" and len(model.requests) <= 2
