"""The loop, through the real house: every way a turn goes on and ends (architecture.md; A6, A12, D1, E1, B7)."""

import asyncio
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.core.events import (
    BudgetExtended,
    ModelAsked,
    ModelRetried,
    Stop,
    ToolFinished,
    ToolRetried,
    TurnEnded,
)
from daemon.core.trust import Effect
from daemon.tools.base import RetryableToolError
from daemon.tools.signature import ToolDefinition, bind, tool
from memory.memory import Memory
from tests.fakes.house import living
from tests.fakes.openai import FakeOpenAI, calls, fails, gate, hangs, raw, says, tokens

TIME = ("current_time", {})


@tool(effect=Effect.READ, parallel=False)
async def count(number: int) -> str:
    """Count."""
    return f"counted {number}"


@tool(effect=Effect.READ, parallel=False)
async def same(about: str = "") -> str:
    """Say the same."""
    return "nothing new"


@tool(effect=Effect.READ)
async def boom() -> str:
    """Raise."""
    raise RuntimeError("the tool is broken")


@tool(effect=Effect.READ)
async def whose(_session_id: str, _untrusted_source: bool, question: str = "") -> str:
    """Tell who is calling."""
    return f"{_session_id} untrusted={_untrusted_source}"


@tool(effect=Effect.READ)
async def endless() -> str:
    """Never come back."""
    await asyncio.Event().wait()
    return ""


@tool(effect=Effect.READ, retries=2)
async def flaky() -> str:
    """Fail in passing."""
    raise RetryableToolError("try later")


def with_tools(*definitions: ToolDefinition) -> Overrides:
    return Overrides(tools=bind(definitions, {}))


async def test_a_plain_answer_ends_done_and_is_stored(tmp_path: Path, model: FakeOpenAI) -> None:
    model.script(says("hello"))
    async with living(tmp_path, model) as it:
        run = await it.ask("hi")
        assert (run.state, run.stop_reason, run.reply, run.iterations) == (
            "ended",
            "done",
            "hello",
            0,
        )


async def test_tool_results_go_back_to_the_model_in_order(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(calls(("count", {"number": 1}), ("count", {"number": 2})), says("done"))
    async with living(tmp_path, model, parts=with_tools(count)) as it:
        run = await it.ask("count")
        assert [call.result for call in run.calls] == ["counted 1", "counted 2"]
        sent = model.requests[1]["messages"]
        assert [m["content"] for m in sent if m["role"] == "tool"] == ["counted 1", "counted 2"]


async def test_a12_after_ten_iterations_comes_one_uncounted_closing_call_without_tool_choice(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(
        *(calls(("count", {"number": n})) for n in range(10)),
        says("I counted to ten; the rest remains."),
    )
    async with living(tmp_path, model, parts=with_tools(count)) as it:
        run = await it.ask("count for ever")
        assert (run.stop_reason, run.iterations) == ("max_iterations", 10)
        assert run.reply == "I counted to ten; the rest remains."
        assert len(model.requests) == 11
        assert model.requests[10]["tool_choice"] == "none"
        assert model.requests[10]["tools"] == model.requests[9]["tools"]
        more = ["request_more_iterations" in request.raw.decode() for request in model.requests]
        assert more == [False] * 4 + [True] * 7  # asked for once half of them are used
        assert all(
            request.body.get("tool_choice", "auto") == "auto" for request in model.requests[:10]
        )


async def test_a12_a_model_that_asks_for_tools_in_the_closing_call_gets_none(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(calls(("count", {"number": 1})))
    async with living(tmp_path, model, {"agent": {"max_iterations": 2}}, with_tools(count)) as it:
        run = await it.ask("count for ever")
        assert (run.stop_reason, run.iterations, len(model.requests)) == ("max_iterations", 2, 3)
        assert run.reply and "2 iterations" in run.reply and "count" in run.reply
        outcomes = [
            event.outcome.value
            for event in await it.events(run.turn)
            if isinstance(event, ToolFinished)
        ]
        assert outcomes == ["ok", "ok", "not_run"]


async def test_a6_more_iterations_come_in_tens_up_to_25_and_then_as_an_error(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    more = calls(("request_more_iterations", {"reason": "items 4 to 30 remain"}))
    model.script(
        *(more if n in (9, 19, 24) else calls(("count", {"number": n})) for n in range(25)),
        says("that is all"),
    )
    async with living(tmp_path, model, parts=with_tools(count)) as it:
        run = await it.ask("count for ever")
        assert (run.stop_reason, run.iterations, run.reply) == ("max_iterations", 25, "that is all")
        events = await it.events(run.turn)
        assert [event.max_iterations for event in events if isinstance(event, BudgetExtended)] == [
            20,
            25,
        ]
        asked = [call for call in run.calls if call.tool == "request_more_iterations"]
        assert [call.is_error for call in asked] == [False, False, True]
        assert "request_more_iterations" in [
            t["function"]["name"] for t in model.requests[-1]["tools"]
        ]


async def test_a6_a_reason_is_required(tmp_path: Path, model: FakeOpenAI) -> None:
    model.script(
        calls(("request_more_iterations", {})),
        calls(("request_more_iterations", {"reason": "  "})),
        says("ok"),
    )
    async with living(tmp_path, model) as it:
        run = await it.ask("go")
        assert [call.is_error for call in run.calls] == [True, True]
        assert not [
            event for event in await it.events(run.turn) if isinstance(event, BudgetExtended)
        ]


async def test_b7_a_tool_that_raises_is_an_error_result_and_the_loop_goes_on(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(calls(("boom", {}), ("nowhere", {}), ("count", "not json")), says("went on"))
    async with living(tmp_path, model, parts=with_tools(boom, count)) as it:
        run = await it.ask("go")
        assert run.reply == "went on"
        assert [call.is_error for call in run.calls] == [True, True, True]
        assert "the tool is broken" in (run.calls[0].result or "")


async def test_b7_arguments_nested_without_end_are_one_result_and_the_loop_goes_on(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(
        calls(("count", "[" * 100_000), ("nope", '{"a": ' + "[" * 900 + "]" * 900 + "}")),
        says("never mind"),
    )
    async with living(tmp_path, model, parts=with_tools(count)) as it:
        run = await it.ask("go deep")
        assert (run.stop_reason, run.reply) == ("done", "never mind")
        assert [call.is_error for call in run.calls] == [True, True]


async def test_a10_the_session_is_injected_and_underscored_arguments_of_the_model_are_stripped(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(
        calls(("whose", {"_session_id": "spoofed", "_untrusted_source": True, "question": "?"})),
        says("ok"),
    )
    async with living(tmp_path, model, parts=with_tools(whose)) as it:
        run = await it.ask("who")
        assert run.calls[0].result == "web:test untrusted=False"


async def test_e1_the_deadline_reaches_into_a_model_call(tmp_path: Path, model: FakeOpenAI) -> None:
    model.script(hangs())
    async with living(tmp_path, model, {"agent": {"max_seconds": 0.3}}) as it:
        run = await it.ask("hang")
        assert run.stop_reason == "deadline"
        assert run.reply and "0.3 s" in run.reply
        await asyncio.wait_for(model.gone.wait(), 5)


async def test_e1_the_deadline_reaches_into_a_tool(tmp_path: Path, model: FakeOpenAI) -> None:
    model.script(calls(("endless", {})))
    agent = {"max_seconds": 2, "on_budget": "stop"}
    async with living(tmp_path, model, {"agent": agent}, with_tools(endless)) as it:
        run = await it.ask("hang")
        assert (run.stop_reason, run.calls[0].is_error) == ("deadline", True)


async def test_d1_input_tokens_are_a_breaker_of_their_own(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(calls(("current_time", {}), usage=tokens(6000, 5)))
    async with living(
        tmp_path, model, {"agent": {"max_input_tokens": 10_000, "on_budget": "stop"}}
    ) as it:
        run = await it.ask("go")
        assert (run.stop_reason, len(model.requests)) == ("over_budget", 2)
        assert run.calls[1].result is not None
        assert run.calls[1].is_error
        assert run.reply and "12,000 of 10,000" in run.reply


async def test_d1_usd_is_a_breaker_of_its_own(tmp_path: Path, model: FakeOpenAI) -> None:
    model.otherwise(calls(("current_time", {}), usage=tokens(1_000_000, 0)))
    prices = {"prices": {"scripted": {"input": 0.6, "output": 1.0}}}
    limits = {"max_usd": 1.0, "max_input_tokens": 0, "on_budget": "stop"}
    async with living(tmp_path, model, {"agent": limits, "provider": prices}) as it:
        run = await it.ask("go")
        assert (run.stop_reason, len(model.requests), run.usage.usd) == ("over_budget", 2, 1.2)


async def test_a19_the_day_has_a_budget_over_all_sessions(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(says("ok", usage=tokens(4500, 600)))
    config = {"budget": {"daily_tokens": 5000}, "agent": {"on_budget": "stop"}}
    async with living(tmp_path, model, config) as it:
        assert (await it.ask("one", "web:a")).reply == "ok"
        refused = await it.ask("two", "web:b")
        assert (refused.stop_reason, len(model.requests)) == ("over_budget", 1)
    async with living(tmp_path, model, config) as it:
        assert (await it.ask("after a restart", "web:c")).stop_reason == "over_budget"


async def test_an_unknown_price_is_unknown_and_never_zero(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with living(tmp_path, model) as it:
        assert (await it.ask("hi there")).usage.usd is None
        assert "price unknown" in await it.command("/cost")


async def test_a7_auth_is_told_at_once_with_what_to_do(tmp_path: Path, model: FakeOpenAI) -> None:
    model.script(fails(401))
    async with living(tmp_path, model) as it:
        run = await it.ask("hi")
        assert (run.stop_reason, len(model.requests)) == ("failed", 1)
        assert run.reply and "api_key" in run.reply
        ended = (await it.events(run.turn))[-1]
        assert isinstance(ended, TurnEnded) and ended.detail == "auth"


async def test_a7_a_rate_limit_is_waited_out_once_and_every_retry_stands_in_the_journal(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    slow_down = fails(429, headers={"Retry-After": "0"})
    model.script(slow_down, slow_down, says("from the fallback"))
    fallback = {"kind": "openai", "base_url": model.base_url, "model": "second"}
    async with living(tmp_path, model, {"provider": {"fallbacks": [fallback]}}) as it:
        run = await it.ask("hi")
        assert (run.reply, run.iterations) == ("from the fallback", 0)
        assert [request["model"] for request in model.requests] == [
            "scripted",
            "scripted",
            "second",
        ]
        retried = [event for event in await it.events(run.turn) if isinstance(event, ModelRetried)]
        assert [(event.error, event.next_model) for event in retried] == [
            ("rate_limit", "scripted"),
            ("rate_limit", "second"),
        ]


async def test_a11_going_in_circles_is_coached_first_and_stopped_when_it_happens_again(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    circle = calls(("same", {"about": "it"}))
    model.script(*[circle] * 4, says("I could not find out."))
    async with living(tmp_path, model, {"agent": {"max_iterations": 25}}, with_tools(same)) as it:
        run = await it.ask("find out")
        assert (run.stop_reason, run.iterations, run.reply) == (
            "stalled",
            4,
            "I could not find out.",
        )
        coached = model.requests[3]["messages"][-1]
        assert coached["role"] == "user" and "3 times running" in coached["content"]


async def test_a11_on_stall_stop_stops_at_once(tmp_path: Path, model: FakeOpenAI) -> None:
    model.script(*[calls(("same", {"about": "it"}))] * 3, says("stuck"))
    async with living(tmp_path, model, {"agent": {"on_stall": "stop"}}, with_tools(same)) as it:
        assert (await it.ask("find out")).iterations == 3


async def test_a11_the_same_tool_with_new_results_is_healthy(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(*(calls(("count", {"number": n})) for n in range(6)), says("counted"))
    async with living(tmp_path, model, parts=with_tools(count)) as it:
        assert (await it.ask("count to six")).stop_reason == "done"


async def test_a11_parallel_calls_of_one_reply_count_once(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(calls(*[("same", {"about": "it"})] * 5), says("fine"))
    async with living(tmp_path, model, {"agent": {"on_stall": "stop"}}, with_tools(same)) as it:
        assert (await it.ask("look five times")).stop_reason == "done"


async def test_e6_a_retryable_tool_failure_is_retried_off_budget(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(calls(("flaky", {})), says("gave up"))
    async with living(tmp_path, model, parts=with_tools(flaky)) as it:
        run = await it.ask("try")
        assert (run.iterations, run.calls[0].is_error) == (1, True)
        assert [e.attempt for e in await it.events(run.turn) if isinstance(e, ToolRetried)] == [
            1,
            2,
        ]


async def test_the_prefix_stays_the_same_bytes_from_call_to_call_and_turn_to_turn(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(
        calls(("count", {"number": 1})),
        says("one"),
        calls(("find_tools", {"query": "write a file"})),
        says("two"),
    )
    async with living(tmp_path, model, parts=with_tools(count)) as it:
        for text in ("first", "second", "third"):
            await it.ask(text)
    bodies = [request.body for request in model.requests]
    for earlier, later in pairwise(bodies):
        assert later["messages"][: len(earlier["messages"])] == earlier["messages"]
        assert later["tools"][: len(earlier["tools"])] == earlier["tools"]
    assert "write_file" in [tool["function"]["name"] for tool in bodies[-1]["tools"]]


async def test_a_bare_hi_carries_at_most_640_tokens(tmp_path: Path, model: FakeOpenAI) -> None:
    async with living(tmp_path, model) as it:
        await it.ask("hi")
    body = model.requests[0].body
    raw = model.requests[0].raw.decode()
    assert len(raw) / 4 <= 640
    assert [tool["function"]["name"] for tool in body["tools"]] == [
        "current_time", "remember", "recall", "read_file", "shell", "schedule", "find_tools",
    ]  # fmt: skip


async def test_before_each_model_call_it_is_written_down_with_what_replay_needs(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    blocked = asyncio.Event()
    model.script(gate(blocked, says("ok")))
    async with living(tmp_path, model) as it:
        turn = await it.say("hi there")
        await model.asked(1)
        asked = (await it.events(turn))[-1]
        blocked.set()
        await it.settled(turn)
    assert isinstance(asked, ModelAsked)
    assert asked.prompt_hash and asked.tools_hash and asked.reserved_tokens > 100
    assert asked.tools[0] == "current_time"


async def test_a1_messages_are_stored_with_an_importance(tmp_path: Path, model: FakeOpenAI) -> None:
    model.script(says("ok"))
    async with living(tmp_path, model) as it:
        run = await it.ask("remember that we decided to use the blue one")
        scores = [
            event.importance for event in await it.events(run.turn) if hasattr(event, "importance")
        ]
    assert scores[0] > 0.8 > 0.5 > scores[1]


async def test_a5_what_was_remembered_is_given_to_a_later_session(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(
        calls(("remember", {"fact": "the user's dog is called Rex"})), says("noted"), says("Rex")
    )
    async with living(tmp_path, model) as it:
        await it.ask("my dog is called Rex", "web:one")
        await it.ask("what is my dog called?", "web:two")
    assert "the user's dog is called Rex" in model.requests[2]["messages"][-1]["content"]


@pytest.mark.parametrize("text", ["", None])
async def test_an_empty_answer_is_tried_again_and_then_a_failure_that_is_told(
    tmp_path: Path, model: FakeOpenAI, text: str | None
) -> None:
    model.script(says(text), says("second time"))
    async with living(tmp_path, model) as it:
        run = await it.ask("hi there")
        assert run.reply == "second time"


async def test_e4_a_final_text_does_not_count_as_an_iteration(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(calls(TIME), says("late"))
    async with living(tmp_path, model, {"agent": {"max_iterations": 1}}) as it:
        run = await it.ask("time?")
        assert run.iterations == 1
        asked = [
            event.closing for event in await it.events(run.turn) if isinstance(event, ModelAsked)
        ]
        assert asked == [False, True]


async def test_d6_stop_reasons_are_counted(tmp_path: Path, model: FakeOpenAI) -> None:
    model.script(says("a"), says("b"), fails(401))
    async with living(tmp_path, model) as it:
        for text in ("one", "two", "three"):
            await it.ask(text)
        first = (await it.house.store.read(lambda tx: tx.list_all_turns(9)))[-1]
        counts = await it.house.store.read(lambda tx: tx.count_stops(first.started_at))
    assert counts == {Stop.DONE: 2, Stop.FAILED: 1}


async def test_a_memory_from_outside_is_given_to_no_turn(tmp_path: Path, model: FakeOpenAI) -> None:
    memory = await Memory.open(tmp_path / "memory.db")
    await memory.remember(
        "the dog is called Rex", at=datetime.now(UTC), source="a mail", label="untrusted"
    )
    await memory.aclose()
    async with living(tmp_path, model) as it:
        assert (await it.ask("what is my dog called?")).label == "trusted"
        assert "Rex" not in str(model.requests[-1].body)
        assert (await it.ask("what is the capital of France?", "web:other")).label == "trusted"


async def test_a7_an_answer_without_end_is_left_and_the_daemon_goes_on(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    flood = raw(b'{"choices": [', *[b" " * (1 << 20)] * 80)
    model.script(flood, flood, says("short"))
    async with living(tmp_path, model) as it:
        run = await it.ask("tell me everything")
        assert (run.stop_reason, "does not end" in (run.reply or "")) == ("failed", True)
        assert (await it.ask("tell me less")).reply == "short"


async def test_a8_the_answer_of_a_fallback_says_nothing_good_of_the_config(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(fails(404), says("from the fallback"), says("from the primary"))
    fallback = {"kind": "openai", "base_url": model.base_url, "model": "second"}
    async with living(tmp_path, model, {"provider": {"fallbacks": [fallback]}}) as it:
        assert (await it.ask("hi there")).reply == "from the fallback"
        assert not it.paths.lastgood.exists()
        assert (await it.ask("hi again")).reply == "from the primary"
        assert it.paths.lastgood.read_text() == it.paths.config.read_text()


async def test_text_that_is_no_text_is_taken_all_the_same(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with living(tmp_path, model) as it:
        assert (await it.ask("half a pair: \ud83d")).reply == "ok"


async def test_an_answer_that_its_model_calls_unfinished_is_asked_once_to_be_done_now(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    plan = says("I will look at the clock.", finish="unfinished")
    model.script(plan, calls(("current_time", {})), says("It is late."), plan, plan)
    async with living(tmp_path, model) as it:
        done = await it.ask("what time is it?")
        assert (done.reply, len(done.calls)) == ("It is late.", 1)
        assert "Do it now" in str(model.requests[1].last("user")["content"])
        again = await it.ask("and now?")
        assert (again.reply, len(model.requests)) == ("I will look at the clock.", 5)
