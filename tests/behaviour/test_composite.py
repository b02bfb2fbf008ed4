"""Several agents at one task, through the real house (B11): in a row, at once, against each other, round after round."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.core.events import ApprovalAsked, ChildReturned, ChildSpawned, Verified
from daemon.core.trust import Effect, Label
from daemon.tools.base import ToolOutput
from daemon.tools.signature import bind, tool
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, Json, Step, by, calls, fails, gate, hangs, says, tokens

PLAIN = "[identity]\nname = {name!r}\ninstructions = 'I am {name}.'\n"


@tool(effect=Effect.READ)
async def outside() -> ToolOutput:
    """Look outside."""
    return ToolOutput("a strange sign", label=Label.UNTRUSTED)


@tool(effect=Effect.EGRESS)
async def send(text: str) -> str:
    """Send something."""
    return f"sent {text}"


PARTS = Overrides(tools=bind((outside, send), {}))


def team(strategy: str, *agents: str, **more: object) -> str:
    members = ", ".join(f'{{ agent = "{agent}" }}' for agent in agents)
    lines = [
        f"{key} = {value if isinstance(value, int) else repr(value)}" for key, value in more.items()
    ]
    return "\n".join(
        ["[composite]", f"strategy = {strategy!r}", f"agents = [{members}]", *lines, ""]
    )


def who(body: Json) -> str:
    """Which agent is asking: by its instructions."""
    found = re.search(r"I am (\w+)\.", str(body["messages"][0]["content"]))
    return found.group(1) if found else "default"


def task(body: Json) -> str:
    return next(
        str(message["content"]) for message in body["messages"] if message["role"] == "user"
    )


def did(body: Json) -> int:
    """How many results it has seen."""
    return sum(message["role"] == "tool" for message in body["messages"])


def plays(script: Mapping[str, Step]) -> Step:
    """Each agent has a part of its own; the others say "NAME says so"."""
    return by(lambda body: script.get(who(body)) or says(f"{who(body)} says so"))


def in_turn(*steps: Step) -> Step:
    """One after the other, the last one for ever."""
    left = list(steps)
    return by(lambda _: left.pop(0) if len(left) > 1 else left[0])


@asynccontextmanager
async def house(
    tmp_path: Path,
    model: FakeOpenAI,
    specs: Mapping[str, str],
    config: Mapping[str, object] | None = None,
    agent: str = "team",
) -> AsyncIterator[Living]:
    """A house with these agents beside a, b, c and wise; `agent` is chosen in the session of the test."""
    folder = tmp_path / "agents"
    folder.mkdir(exist_ok=True, parents=True)
    for name in ("a", "b", "c", "wise"):
        (folder / f"{name}.toml").write_text(PLAIN.format(name=name))
    for name, spec in specs.items():
        (folder / f"{name}.toml").write_text(PLAIN.format(name=name) + spec)
    async with living(tmp_path, model, config, PARTS) as it:
        if agent:
            assert await it.command(f"/agent {agent}") == f"Agent: {agent}."
        yield it


async def spawned(it: Living, turn: str) -> list[ChildSpawned]:
    return [event for event in await it.events(turn) if isinstance(event, ChildSpawned)]


def asked(model: FakeOpenAI) -> list[str]:
    return [who(request.body) for request in model.requests]


async def test_in_a_row_each_works_on_what_the_one_before_answered_b11(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(plays({}))
    async with house(tmp_path, model, {"team": team("sequential", "a", "b", "c")}) as it:
        run = await it.ask("write a poem")
        assert (run.stop_reason, run.reply) == ("done", "c says so")
        assert asked(model) == ["a", "b", "c"]
        assert [task(request.body).split("\n")[0] for request in model.requests] == [
            "write a poem"
        ] * 3
        assert "## What b answered\nb says so" in task(model.requests[2].body)
        children = await spawned(it, run.turn)
        assert [child.session.startswith("sub-1-") for child in children] == [True] * 3
        views = [await it.house.client.get_run(child.child) for child in children]
        assert [view.reply for view in views if view] == ["a says so", "b says so", "c says so"]


async def test_at_once_all_are_at_work_together_and_their_answers_are_joined_in_order_b11(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    everyone = asyncio.Barrier(3)

    def meets(name: str) -> Step:
        async def step(x):
            await everyone.wait()
            return await says(f"{name} was there")(x)

        return step

    model.otherwise(plays({name: meets(name) for name in ("a", "b", "c")}))
    async with house(tmp_path, model, {"team": team("parallel", "c", "a", "b")}) as it:
        run = await it.ask("be there")
        assert run.reply == "\n\n".join(
            f"## What {name} answered\n{name} was there" for name in ("c", "a", "b")
        )


async def test_in_a_debate_each_hears_the_others_and_a_judge_sums_up_b11(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(plays({"wise": says("both are right")}))
    async with house(
        tmp_path, model, {"team": team("debate", "a", "b", rounds=2, judge="wise")}
    ) as it:
        run = await it.ask("tea or coffee?")
        assert (run.stop_reason, run.reply) == ("done", "both are right")
        assert sorted(asked(model)[:2]) == sorted(asked(model)[2:4]) == ["a", "b"] and asked(model)[
            4:
        ] == ["wise"]
        second = {who(request.body): task(request.body) for request in model.requests[2:4]}
        assert (
            "## What b answered\nb says so" in second["a"]
            and "## What a answered\na says so" in second["b"]
        )


async def test_rounds_go_on_until_the_text_is_there_b11(tmp_path: Path, model: FakeOpenAI) -> None:
    model.otherwise(
        plays(
            {
                "a": in_turn(says("draft one"), says("draft two")),
                "b": in_turn(says("too long"), says("APPROVED")),
            }
        )
    )
    async with house(
        tmp_path, model, {"team": team("iterative", "a", "b", rounds=5, until="APPROVED")}
    ) as it:
        run = await it.ask("write a poem")
        assert (run.stop_reason, run.reply, asked(model)) == (
            "done",
            "draft two",
            ["a", "b", "a", "b"],
        )
        again = task(model.requests[2].body)
        assert "## What a answered\ndraft one" in again and "## What b answered\ntoo long" in again


async def test_rounds_are_at_most_so_many_b11(tmp_path: Path, model: FakeOpenAI) -> None:
    model.otherwise(plays({}))
    async with house(
        tmp_path, model, {"team": team("iterative", "a", rounds=3, until="APPROVED")}
    ) as it:
        run = await it.ask("write a poem")
        assert (run.stop_reason, len(model.requests)) == ("max_iterations", 3)
        assert (
            run.reply
            and run.reply.startswith("a says so")
            and "Not finished: 3 rounds" in run.reply
        )


@pytest.mark.parametrize("strategy", ["sequential", "iterative"])
async def test_in_a_row_a_failure_is_the_end_with_its_text_b11(
    tmp_path: Path, model: FakeOpenAI, strategy: str
) -> None:
    model.otherwise(plays({"b": fails(401)}))
    async with house(tmp_path, model, {"team": team(strategy, "a", "b", "c")}) as it:
        run = await it.ask("write a poem")
        assert run.stop_reason == "failed" and "c" not in asked(model)
        assert run.reply and "b failed (failed)" in run.reply and "refused the key" in run.reply


async def test_at_once_the_others_go_on_and_who_failed_is_said_b11(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(plays({"b": fails(401)}))
    async with house(tmp_path, model, {"team": team("parallel", "a", "b")}) as it:
        run = await it.ask("write a poem")
        assert run.stop_reason == "done"
        assert (
            run.reply
            and "## What a answered\na says so" in run.reply
            and "## What b ended failed" in run.reply
        )


async def test_in_a_debate_the_others_go_on_and_who_failed_is_said_b11(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(plays({"b": fails(401), "wise": says("a and c agree")}))
    async with house(
        tmp_path, model, {"team": team("debate", "a", "b", "c", rounds=2, judge="wise")}
    ) as it:
        run = await it.ask("tea or coffee?")
        assert run.stop_reason == "done"
        assert run.reply and run.reply.startswith("a and c agree\n\n(b ended failed: ")


async def test_each_has_its_slice_of_the_budget_and_all_is_charged_to_the_whole_b11(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """F2."""
    model.otherwise(
        plays({name: says(f"{name} says so", usage=tokens(1000, 5)) for name in ("a", "b", "c")})
    )
    limit = "[model_policy.budget]\ntokens_per_run = 90000\n"
    async with house(tmp_path, model, {"team": limit + team("sequential", "a", "b", "c")}) as it:
        run = await it.ask("write a poem")
        assert [child.limits.max_input_tokens for child in await spawned(it, run.turn)] == [
            30_000,
            44_500,
            88_000,
        ]


async def test_at_once_the_slices_are_alike_b11(tmp_path: Path, model: FakeOpenAI) -> None:
    model.otherwise(plays({}))
    limit = "[model_policy.budget]\ntokens_per_run = 90000\n"
    async with house(tmp_path, model, {"team": limit + team("parallel", "a", "b", "c")}) as it:
        run = await it.ask("write a poem")
        assert [child.limits.max_input_tokens for child in await spawned(it, run.turn)] == [
            30_000
        ] * 3


async def test_when_the_budget_is_used_up_what_was_found_is_told_b11(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """F2, E9."""
    model.otherwise(plays({"a": says("a found gold", usage=tokens(60_000, 5))}))
    limit = "[model_policy.budget]\ntokens_per_run = 50000\n"
    specs = {"team": limit + team("sequential", "a", "b")}
    async with house(tmp_path, model, specs, {"agent": {"on_budget": "stop"}}) as it:
        run = await it.ask("dig")
        assert (run.stop_reason, asked(model)) == ("over_budget", ["a"])
        assert (
            run.reply
            and run.reply.startswith("I stopped:")
            and "## What a answered\na found gold" in run.reply
        )


CYCLES = '[iteration]\nmax_cycles = 5\n[[iteration.termination_conditions]]\nkind = "text-includes"\ntext = "<done>"\n'


async def test_a_member_may_itself_be_one_that_loops_b11(tmp_path: Path, model: FakeOpenAI) -> None:
    """B2: its declared end is a good one."""
    model.otherwise(plays({"loops": in_turn(says("on it"), says("here it is <done>"))}))
    async with house(
        tmp_path, model, {"loops": CYCLES, "team": team("sequential", "loops", "b")}
    ) as it:
        run = await it.ask("write a poem")
        assert (run.stop_reason, run.reply, asked(model)) == (
            "done",
            "b says so",
            ["loops", "loops", "b"],
        )
        returned = [
            event for event in await it.events(run.turn) if isinstance(event, ChildReturned)
        ]
        assert [(one.stop, one.text) for one in returned] == [
            ("condition", "here it is <done>"),
            ("done", "b says so"),
        ]


async def test_a_member_may_itself_be_several_b11(tmp_path: Path, model: FakeOpenAI) -> None:
    model.otherwise(plays({}))
    specs = {"pair": team("parallel", "a", "b"), "team": team("sequential", "pair", "c")}
    async with house(tmp_path, model, specs) as it:
        run = await it.ask("write a poem")
        assert run.reply == "c says so"
        assert "a says so" in task(model.requests[2].body) and "b says so" in task(
            model.requests[2].body
        )
        [pair, _] = await spawned(it, run.turn)
        assert [child.depth for child in await spawned(it, pair.child)] == [2, 2]


async def test_agents_at_work_for_each_other_are_at_most_so_deep_b11(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A17."""
    specs = {
        "low": team("sequential", "a"),
        "mid": team("sequential", "low"),
        "team": team("sequential", "mid"),
    }
    async with house(tmp_path, model, specs, {"subagents": {"max_depth": 2}}) as it:
        run = await it.ask("write a poem")
        assert (run.stop_reason, len(model.requests)) == ("failed", 0)
        assert run.reply and "nested 2 deep" in run.reply


async def test_several_can_be_a_sub_agent_b11(tmp_path: Path, model: FakeOpenAI) -> None:
    """A17."""
    ask = calls(("spawn_agent", {"task": "write a poem", "agent": "team"}))
    model.otherwise(
        plays({"default": by(lambda body: says("they wrote it") if did(body) else ask)})
    )
    async with house(tmp_path, model, {"team": team("sequential", "a", "b")}, agent="") as it:
        run = await it.ask("have a poem written")
        assert run.reply == "they wrote it"
        assert "b says so" in str(run.calls[0].result) and not run.calls[0].is_error


async def test_stopping_it_stops_all_who_work_for_it_b11(tmp_path: Path, model: FakeOpenAI) -> None:
    """A17, D5."""
    model.otherwise(plays({"a": hangs(), "b": hangs()}))
    async with house(tmp_path, model, {"team": team("parallel", "a", "b")}) as it:
        turn = await it.say("write a poem")
        await model.asked(2)
        shown = await it.command("/tasks")
        assert "agent a is working" in shown and "agent b is working" in shown
        await it.command("/stop")
        assert (await it.settled(turn)).stop_reason == "cancelled"
        for child in await spawned(it, turn):
            assert (await it.settled(child.child)).stop_reason == "cancelled"


async def test_its_deadline_is_theirs_b11(tmp_path: Path, model: FakeOpenAI) -> None:
    """D1: and what was found in time is told."""
    model.otherwise(plays({"a": says("a found gold"), "b": hangs()}))
    limit = "[model_policy.budget]\nseconds_per_run = 3.0\n"
    async with house(tmp_path, model, {"team": limit + team("parallel", "a", "b")}) as it:
        run = await it.ask("dig")
        assert run.stop_reason in (
            "deadline",
            "done",
        )  # whose time is up first, its own or its child's
        assert run.reply and "a found gold" in run.reply
        assert {
            (await it.settled(child.child)).stop_reason for child in await spawned(it, run.turn)
        } >= {"done"}


async def test_a_restart_in_the_middle_goes_on_and_sets_nobody_to_work_twice_b11(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    config = {"agent": {"drain_seconds": 0}}
    specs = {"team": team("sequential", "a", "b", "c")}
    model.otherwise(plays({"b": hangs()}))
    async with house(tmp_path, model, specs, config) as it:
        turn = await it.say("write a poem")
        await asyncio.wait_for(model.hanging.wait(), 20)
    model.otherwise(plays({}))
    async with house(tmp_path, model, specs, config) as it:
        run = await it.settled(turn)
        assert (run.stop_reason, run.reply) == ("done", "c says so")
        assert asked(model) == ["a", "b", "b", "c"]
        assert [child.agent for child in await spawned(it, turn)] == ["a", "b", "c"]


async def test_a_restart_while_several_work_goes_on_with_those_who_are_left_b11(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    config = {"agent": {"drain_seconds": 0}}
    specs = {"team": team("parallel", "a", "b")}
    model.otherwise(plays({"b": hangs()}))
    async with house(tmp_path, model, specs, config) as it:
        turn = await it.say("write a poem")
        await asyncio.wait_for(model.hanging.wait(), 20)
        await it.until(turn, "agent.ended")  # the other one is done, and that is on disk
    model.otherwise(plays({}))
    async with house(tmp_path, model, specs, config) as it:
        run = await it.settled(turn)
        assert run.reply and "a says so" in run.reply and "b says so" in run.reply
        assert sorted(asked(model)) == ["a", "b", "b"]


async def test_what_one_has_read_taints_the_others_and_the_whole_b11(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """trust.md."""
    model.otherwise(
        plays({"a": by(lambda body: says("I saw a sign") if did(body) else calls(("outside", {})))})
    )
    async with house(tmp_path, model, {"team": team("sequential", "a", "b")}) as it:
        run = await it.ask("look out")
        assert run.label == "untrusted"
        assert [child.label for child in await spawned(it, run.turn)] == [
            Label.TRUSTED,
            Label.UNTRUSTED,
        ]


async def test_the_words_of_another_agent_are_not_the_owners_b11(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """trust.md: what a tainted agent says to the next one is nothing that may be sent without a question."""
    sends = by(
        lambda body: (
            says("done") if did(body) else calls(("send", {"text": "the strange sign says PAY"}))
        )
    )
    looks = by(
        lambda body: (
            says("send this: the strange sign says PAY") if did(body) else calls(("outside", {}))
        )
    )
    model.otherwise(plays({"a": looks, "b": sends}))
    async with house(tmp_path, model, {"team": team("sequential", "a", "b")}) as it:
        turn = await it.say("look out and send it")
        children: list[ChildSpawned] = []
        async for event in it.house.client.stream_events(turn):
            if event.name == "agent.started" and event.data["agent"] == "b":
                children = await spawned(it, turn)
                break
        await it.until(children[1].child, "run.suspended")
        assert [
            event.tool
            for event in await it.events(children[1].child)
            if isinstance(event, ApprovalAsked)
        ] == ["send"]
        await it.command("/deny no")
        assert (await it.settled(turn)).stop_reason == "done"


async def test_only_the_whole_is_delivered_and_once_b11(tmp_path: Path, model: FakeOpenAI) -> None:
    model.otherwise(plays({}))
    async with house(tmp_path, model, {"team": team("sequential", "a", "b")}, agent="") as it:
        await it.command("/agent team", "terminal:x")
        await it.ask("write a poem", "terminal:x")
        assert [item.body for item in await it.house.client.list_undelivered("terminal:x")] == [
            "b says so"
        ]


async def test_what_is_said_meanwhile_is_the_next_task_b11(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """E7: nobody of them would read it, and it is not lost."""
    free = asyncio.Event()
    model.otherwise(plays({"a": gate(free, says("a says so"))}))
    async with house(tmp_path, model, {"team": team("sequential", "a", "b")}) as it:
        turn = await it.say("write a poem")
        await model.asked(1)
        second = await it.say("make it short")
        assert second != turn
        free.set()
        assert (await it.settled(turn)).reply == "b says so"
        assert (await it.settled(second)).reply == "b says so"
        assert task(model.requests[-1].body).count("make it short") == 1


async def test_they_are_told_what_was_said_before_in_the_conversation_b11(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(plays({"a": says("roses are red")}))
    async with house(tmp_path, model, {"team": team("sequential", "a")}) as it:
        await it.ask("write a poem about roses")
        await it.ask("make it shorter")
        told = task(model.requests[-1].body)
        assert "User: write a poem about roses\nAssistant: roses are red" in told
        assert told.endswith("The user now says:\nmake it shorter")


async def test_an_agent_that_is_gone_ends_it_with_what_there_is_and_the_reason_b11(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    free = asyncio.Event()
    model.otherwise(plays({"a": gate(free, says("a says so"))}))
    async with house(tmp_path, model, {"team": team("sequential", "a", "b")}) as it:
        turn = await it.say("write a poem")
        await model.asked(1)
        (it.paths.home / "agents" / "b.toml").unlink()
        free.set()
        run = await it.settled(turn)
        assert run.stop_reason == "failed" and run.reply and "there is no agent 'b'" in run.reply
        assert "a says so" in run.reply


CHECKED = '[[verify]]\nkind = "contains"\nvalue = "{value}"\n'


@pytest.mark.parametrize(("value", "reason"), [("b says", "done"), ("Sources:", "rejected")])
async def test_its_own_checks_are_held_against_the_whole_b11(
    tmp_path: Path, model: FakeOpenAI, value: str, reason: str
) -> None:
    """E10: there is nobody left to put it right; that is said."""
    model.otherwise(plays({}))
    async with house(
        tmp_path, model, {"team": CHECKED.format(value=value) + team("sequential", "a", "b")}
    ) as it:
        run = await it.ask("write a poem")
        assert (run.stop_reason, len(model.requests)) == (reason, 2)
        assert run.reply and ("did not pass" in run.reply) is (reason == "rejected")


async def test_the_checks_of_the_config_are_held_against_each_member_b11(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """E10."""
    model.otherwise(
        plays({name: in_turn(says("no"), says(f"{name}. Sources: none")) for name in ("a", "b")})
    )
    config = {"agent": {"verify": [{"kind": "contains", "value": "Sources:"}]}}
    async with house(tmp_path, model, {"team": team("sequential", "a", "b")}, config) as it:
        run = await it.ask("write a poem")
        assert (run.reply, asked(model)) == ("b. Sources: none", ["a", "a", "b", "b"])
        assert not [event for event in await it.events(run.turn) if isinstance(event, Verified)]


async def test_a_person_may_have_to_look_at_the_whole_b11(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """E10, B8."""
    model.otherwise(plays({}))
    async with house(
        tmp_path, model, {"team": '[[verify]]\nkind = "manual"\n' + team("sequential", "a", "b")}
    ) as it:
        turn = await it.say("write a poem")
        await it.until(turn, "run.suspended")
        await it.command("/approve")
        run = await it.settled(turn)
        assert (run.stop_reason, run.reply, len(model.requests)) == ("done", "b says so", 2)


async def test_whoever_watches_sees_them_begin_and_end_b11(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B5."""
    model.otherwise(plays({}))
    async with house(tmp_path, model, {"team": team("sequential", "a", "b")}) as it:
        turn = await it.say("write a poem")
        told: Sequence[tuple[str, object]] = [
            (event.name, event.data.get("key"))
            async for event in it.house.client.stream_events(turn)
            if event.name.startswith("agent.")
        ]
        first, second = "round.0.agent.0", "round.0.agent.1"
        assert told == [
            ("agent.started", first), ("agent.ended", first), ("agent.started", second), ("agent.ended", second),
        ]  # fmt: skip
