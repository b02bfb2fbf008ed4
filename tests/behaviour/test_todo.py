"""The model's own plan, the advice to make one, and iterations that are given back (E3, E4, D7, A12)."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from daemon.agent.pre_call import LAST, PLAN, REFRESH, REMIND
from daemon.app.daemon import Overrides
from daemon.core.events import Coached, IterationRefunded, ModelAsked
from daemon.core.trust import Effect
from daemon.tools.signature import bind, tool
from tests.behaviour.test_routing import sorts
from tests.fakes.house import living
from tests.fakes.openai import Asked, FakeOpenAI, Json, Step, by, calls, says
from tests.fakes.wordy_model import Turnstile

STEPS = "Read notes.txt, then write a summary of it to out.txt"


@tool(effect=Effect.READ)
async def look(at: str = "") -> str:
    """Look at something."""
    return f"saw {at}"


PARTS = Overrides(tools=bind([look], {}))


def plan(*items: tuple[str, str]) -> tuple[str, Json]:
    return "todo", {"items": [{"text": text, "state": state} for text, state in items]}


def sees(at: object) -> Step:
    return calls(("look", {"at": str(at)}))


def tail(asked: Asked) -> str:
    """What a request ends with."""
    return str(asked["messages"][-1]["content"])


def advice(model: FakeOpenAI) -> list[str]:
    """Which advice each request brought for the first time."""
    told: list[str] = []
    known = 0
    for asked in model.requests:
        users = [str(m["content"]) for m in asked["messages"] if m["role"] == "user"]
        here = [
            text for text in (PLAN, REFRESH, REMIND, LAST) if any(text in said for said in users)
        ]
        told.append(here[-1] if len(here) > known else "")
        known = len(here)
    return told


async def test_e3_the_advice_to_plan_is_clear_at_first_fades_and_ends(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Before the first call, after three iterations, after six; not when there is a plan."""
    model.script(*(sees(n) for n in range(9)), says("done"))
    async with living(tmp_path, model, parts=PARTS) as it:
        run = await it.ask(STEPS)
        kinds = [event.kind for event in await it.events(run.turn) if isinstance(event, Coached)]
    assert advice(model) == [PLAN, "", "", REMIND, "", "", LAST, "", "", ""]
    assert kinds == ["todo"] * 3
    assert len(PLAN) > len(REMIND) > len(LAST)


@pytest.mark.parametrize(
    "text",
    [
        "Build a web app that tracks my plants, with a database and tests",
        "The report, please: the usual one.",
    ],
    ids=["by the rules", "as the fast model says"],
)
async def test_e3_complex_work_gets_the_advice_too_and_the_same_way(
    tmp_path: Path, model: FakeOpenAI, text: str
) -> None:
    steps = [*(sees(n) for n in range(7)), says("It is as you see.")]
    model.otherwise(by(lambda body: says("COMPLEX") if sorts(body) else steps.pop(0)))
    models = {"provider": {"models": {"primary": "middle", "fast": "small"}}}
    config = {**models, "agent": {"check_claims": False}}
    async with living(tmp_path, model, config, PARTS) as it:
        await it.ask(text)
    model.requests = [asked for asked in model.requests if not sorts(asked.body)]
    assert advice(model) == [PLAN, "", "", REMIND, "", "", LAST, ""]


async def test_e3_who_has_a_plan_gets_no_more_advice(tmp_path: Path, model: FakeOpenAI) -> None:
    model.script(
        calls(plan(("read it", "doing"), ("sum it up", "open"))),
        *(sees(n) for n in range(7)),
        says("done"),
    )
    async with living(tmp_path, model, parts=PARTS) as it:
        await it.ask(STEPS)
    assert advice(model) == [PLAN, *[""] * 9]


@pytest.mark.parametrize(
    "text", ["hi", "What is the capital of Peru?", "The report, please: the usual one."]
)
async def test_e3_small_work_gets_no_advice_and_not_the_tool(
    tmp_path: Path, model: FakeOpenAI, text: str
) -> None:
    async with living(tmp_path, model) as it:
        await it.ask(text)
    assert advice(model) == [""]
    assert "todo" not in [tool["function"]["name"] for tool in model.requests[0]["tools"]]


async def test_e3_the_plan_stands_at_the_end_of_each_request_as_it_is_now(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """The closing one, too; and no longer once all is done."""
    model.script(
        calls(plan(("read it", "doing"), ("sum it up", "open"))),
        sees("notes"),
        calls(plan(("read it", "done"), ("sum it up", "doing"))),
        calls(plan(("read it", "done"), ("sum it up", "done"))),
        says("done"),
    )
    async with living(tmp_path, model, parts=PARTS) as it:
        await it.ask(STEPS)
    first, second = (
        "<todo>\n[>] read it\n[ ] sum it up\n</todo>",
        "<todo>\n[x] read it\n[>] sum it up\n</todo>",
    )
    assert [tail(asked) for asked in model.requests[1:4]] == [first, first, second]
    assert [asked["messages"][-1]["role"] for asked in model.requests[1:4]] == ["user"] * 3
    assert "<todo>" not in str(model.requests[0].body["messages"]) + str(
        model.requests[4].body["messages"]
    )


async def test_e3_the_closing_call_knows_what_is_left(tmp_path: Path, model: FakeOpenAI) -> None:
    """A12."""
    model.script(
        calls(plan(("look", "doing"), ("tell", "open"))),
        sees(1),
        sees(2),
        says("I looked; telling remains."),
    )
    async with living(tmp_path, model, {"agent": {"max_iterations": 2}}, PARTS) as it:
        run = await it.ask(STEPS)
    assert (run.stop_reason, run.reply) == ("max_iterations", "I looked; telling remains.")
    assert tail(model.requests[3]).endswith("<todo>\n[>] look\n[ ] tell\n</todo>")
    assert "what remains to do" in tail(model.requests[3])


async def test_d7_the_plan_never_changes_what_was_sent_before_it(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """E3: a provider's cache hits on all but the last message, from call to call and in the next turn."""
    model.script(
        calls(plan(("one", "doing"), ("two", "open"))), sees(1), calls(plan(("one", "done"), ("two", "doing"))), sees(2),
        says("done"), says("you are welcome"),
    )  # fmt: skip
    async with living(tmp_path, model, parts=PARTS) as it:
        await it.ask(STEPS)
        await it.ask("thanks")
    for earlier, later in pairwise(asked.body for asked in model.requests):
        sent = (
            earlier["messages"][:-1]
            if "<todo>" in str(earlier["messages"][-1]["content"])
            else earlier["messages"]
        )
        assert later["messages"][: len(sent)] == sent
        assert later["tools"][: len(earlier["tools"])] == earlier["tools"]
    assert "<todo>" not in str(model.requests[-1].body["messages"])


async def test_e3_the_plan_is_shown_by_tasks_and_told_to_watchers(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    turnstile = Turnstile(says("done"))
    model.script(
        calls(plan(("read it", "done"), ("sum it up", "doing"), ("send it", "open"))), turnstile
    )
    async with living(tmp_path, model) as it:
        turn = await it.say(STEPS)
        await asyncio.wait_for(turnstile.reached.wait(), 10)
        tasks = (await it.command("/tasks")).splitlines()
        told = await it.until(turn, "todos")
        turnstile.open.set()
        await it.settled(turn)
        left = "Nothing is running here. Left open; say go on:\n[x] read it\n[>] sum it up\n[ ] send it"
        assert await it.command("/tasks") == left
    assert tasks[1:] == ["    [x] read it", "    [>] sum it up", "    [ ] send it"]
    assert told.data["items"] == [
        {"text": "read it", "state": "done"}, {"text": "sum it up", "state": "doing"}, {"text": "send it", "state": "open"},
    ]  # fmt: skip


async def test_e3_the_plan_survives_a_restart(tmp_path: Path, model: FakeOpenAI) -> None:
    """E11."""
    waiting = Turnstile(says("never"))
    model.script(calls(plan(("read it", "doing"))), waiting)
    config = {"agent": {"drain_seconds": 0}}
    async with living(tmp_path, model, config) as it:
        turn = await it.say(STEPS)
        await asyncio.wait_for(waiting.reached.wait(), 10)
    async with living(tmp_path, model, config) as it:
        assert (await it.settled(turn)).reply == "ok"
    assert tail(model.requests[-2]) == "<todo>\n[>] read it\n</todo>"


async def test_e3_a_plan_that_is_wrong_is_an_error_and_the_one_before_stands(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    wrong = [
        ("todo", {"items": [{"text": "x", "state": "perhaps"}]}),
        plan(*[("x", "open")] * 31),
        ("todo", {"items": "all"}),
    ]
    model.script(calls(plan(("read it", "doing"))), calls(*wrong), says("ok"))
    async with living(tmp_path, model) as it:
        run = await it.ask(STEPS)
    assert [call.is_error for call in run.calls] == [False, True, True, True]
    assert "at most 30 steps" in str(run.calls[2].result)
    assert tail(model.requests[2]) == "<todo>\n[>] read it\n</todo>"


async def test_f2_the_plan_is_counted_in_what_is_set_aside_for_a_call(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """E3: thirty long steps are no small thing."""
    long = [(f"step {n} " + "and on " * 25, "open") for n in range(30)]
    model.script(calls(plan(*long)), says("ok"))
    async with living(tmp_path, model) as it:
        run = await it.ask(STEPS)
        asked = [
            event.reserved_tokens
            for event in await it.events(run.turn)
            if isinstance(event, ModelAsked)
        ]
    assert asked[1] >= len(str(model.requests[1]["messages"])) / 4


async def test_e4_an_iteration_of_nothing_but_housekeeping_is_given_back_at_most_five_times(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A12: 10 iterations and 5 refunds, then a closing call."""
    numbers = iter(range(100))

    def choose(body: Json) -> Step:
        number = next(numbers)
        return calls(
            plan((f"step {number}", "doing")), ("find_tools", {"query": f"files {number}"})
        )

    model.otherwise(by(choose))
    async with living(tmp_path, model) as it:
        run = await it.ask(STEPS)
        refunds = [
            event for event in await it.events(run.turn) if isinstance(event, IterationRefunded)
        ]
    assert (run.stop_reason, run.iterations, len(refunds), model.count) == (
        "max_iterations",
        10,
        5,
        10 + 5 + 1,
    )


@pytest.mark.parametrize(
    ("wanted", "iterations"),
    [
        ([plan(("x", "doing"))], 0),
        ([("find_tools", {"query": "write a file"})], 0),
        ([plan(("x", "doing")), ("look", {"at": "home"})], 1),
        ([("todo", {"items": "wrong"})], 0),
        ([("look", {"at": "home"})], 1),
    ],
    ids=["todo", "find_tools", "work beside it", "wrong", "work"],
)
async def test_e4_only_housekeeping_is_given_back_and_a_final_text_never_counts(
    tmp_path: Path, model: FakeOpenAI, wanted: list[tuple[str, Json]], iterations: int
) -> None:
    model.script(calls(*wanted), says("done"))
    async with living(tmp_path, model, parts=PARTS) as it:
        run = await it.ask(STEPS)
        row = await it.house.store.read(lambda tx: tx.get_turn(run.turn))
    assert row and (run.iterations, row.iterations) == (iterations, iterations)


async def test_e4_a_sub_agents_iterations_are_its_own(tmp_path: Path, model: FakeOpenAI) -> None:
    """A17, D1."""

    def choose(body: Json) -> Step:
        opening = next(str(m["content"]) for m in body["messages"] if m["role"] == "user")
        done = sum(m["role"] == "tool" for m in body["messages"])
        if opening.startswith("child"):
            return sees(done) if done < 4 else says("seen")
        return says("all seen") if done else calls(("spawn_agent", {"task": "child, look"}))

    model.otherwise(by(choose))
    async with living(
        tmp_path, model, {"agent": {"max_iterations": 2}, "subagents": {"max_iterations": 5}}, PARTS
    ) as it:
        run = await it.ask("look around")
        [child] = [
            view for view in await it.house.client.list_runs() if view.session.startswith("sub-")
        ]
        view = await it.house.client.get_run(child.turn)
    assert view is not None
    assert (run.stop_reason, run.iterations, view.stop_reason) == ("done", 1, "max_iterations")


async def test_e3_the_plan_stands_behind_what_the_user_says_meanwhile(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """E7."""
    turnstile = Turnstile(says("done"))
    now = says("done now")  # and again, for a step is open
    model.script(calls(plan(("read it", "doing"))), turnstile, now, now)
    async with living(tmp_path, model, parts=PARTS) as it:
        turn = await it.say(STEPS)
        await asyncio.wait_for(turnstile.reached.wait(), 10)
        assert await it.say("and then print it") == turn
        turnstile.open.set()
        run = await it.settled(turn)
    assert str(run.reply).endswith("done now")
    assert "and then print it" in tail(model.requests[2]) and tail(model.requests[2]).endswith(
        "</todo>"
    )
