"""After the work the model may reflect on it, where that is switched on; that feeds the next turn and session (E10)."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

from daemon.app.daemon import Overrides
from daemon.core.events import Consulted, UserSaid
from daemon.core.trust import Effect, Label
from daemon.tools.base import ToolOutput
from daemon.tools.signature import bind, tool
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, Json, Step, by, calls, fails, gate, hangs, says

ON: Mapping[str, object] = {"agent": {"reflect": True}}
THOUGHT = "Goal: repair the greenhouse pump.\nDone: the valve was opened.\nLeft: order a gasket."
WORK = "Please look at the greenhouse pump, find out what is wrong with it, and then write down what is to be done."


@tool(effect=Effect.READ)
async def outside() -> ToolOutput:
    """Look outside."""
    return ToolOutput("a strange sign", label=Label.UNTRUSTED)


def reflects(body: Json) -> bool:
    return "Write a reflection" in str(body["messages"][0]["content"])


def plays(reflection: Step, *otherwise: Step) -> Step:
    steps = list(otherwise)
    return by(
        lambda body: reflection if reflects(body) else steps.pop(0) if steps else says("fine")
    )


async def thoughts(it: Living, turn: str) -> list[str]:
    return [
        one.text
        for one in await it.events(turn)
        if isinstance(one, Consulted) and one.purpose == "reflection"
    ]


async def memories(it: Living, turn: str) -> list[str]:
    """But for what was said before."""
    return [
        hit.text
        for one in await it.events(turn)
        if isinstance(one, UserSaid)
        for hit in one.memories
        if not re.search(r":(\d+\.\d+|reply)$", hit.id)
    ]


async def test_it_is_off_by_default_e10(tmp_path: Path, model: FakeOpenAI) -> None:
    async with living(tmp_path, model) as it:
        run = await it.ask(WORK)
        assert (len(model.requests), await thoughts(it, run.turn)) == (1, [])


async def test_it_is_recorded_with_what_it_cost_e10(tmp_path: Path, model: FakeOpenAI) -> None:
    model.otherwise(plays(says(THOUGHT), says("The valve was stuck.")))
    async with living(tmp_path, model, ON) as it:
        run = await it.ask(WORK)
        assert (run.reply, await thoughts(it, run.turn)) == ("The valve was stuck.", [THOUGHT])
        assert run.usage.input_tokens == 20  # two calls of ten
        asked = str(model.requests[-1]["messages"][1]["content"])
        assert WORK in asked and "The valve was stuck." in asked
        assert "tools" not in model.requests[-1].body


async def test_the_next_turn_of_the_session_is_shown_it_e10(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(plays(says(THOUGHT)))
    async with living(tmp_path, model, ON) as it:
        await it.ask(WORK)
        run = await it.ask("Go on with what is left of it, please, and tell me when you are done.")
        shown = next(request for request in reversed(model.requests) if not reflects(request.body))
        assert (
            "<memory>" in shown.last("user")["content"]
            and "order a gasket" in shown.last("user")["content"]
        )
        assert any("order a gasket" in text for text in await memories(it, run.turn))


async def test_the_next_turn_is_shown_it_after_a_restart_too_e10(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(plays(says(THOUGHT)))
    async with living(tmp_path, model, ON) as it:
        await it.ask(WORK)
    async with living(tmp_path, model, ON) as it:
        run = await it.ask("Go on with what is left of it, please, and tell me when you are done.")
        assert any("order a gasket" in text for text in await memories(it, run.turn))


async def test_another_session_finds_it_by_what_it_is_about_e10(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(plays(says(THOUGHT)))
    async with living(tmp_path, model, ON) as it:
        await it.ask(WORK)
        run = await it.ask(
            "What do you know about the greenhouse pump and its gasket?", "web:another"
        )
        [found] = [text for text in await memories(it, run.turn) if "gasket" in text]
        assert found.startswith("Reflection on earlier work: Goal: repair")


async def test_what_a_tainted_turn_thinks_is_found_nowhere_before_a_persons_yes_e10(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """trust.md: the next turn of its own session has it, with its label; other sessions do not."""
    model.otherwise(plays(says(THOUGHT), calls(("outside", {})), says("The valve was stuck.")))
    async with living(tmp_path, model, ON, Overrides(tools=bind([outside], {}))) as it:
        assert (await it.ask(WORK)).label == "untrusted"
        run = await it.ask(
            "What do you know about the greenhouse pump and its gasket?", "web:another"
        )
        assert (run.label, await memories(it, run.turn)) == ("trusted", [])
        run = await it.ask("Go on with what is left of it, please, and tell me when you are done.")
        said = next(one for one in await it.events(run.turn) if isinstance(one, UserSaid))
        assert said.memories[0].label is Label.UNTRUSTED


async def test_when_no_model_reflects_nothing_else_changes_e10(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(plays(fails(401), says("The valve was stuck.")))
    async with living(tmp_path, model, ON) as it:
        run = await it.ask(WORK)
        assert (run.stop_reason, run.reply) == ("done", "The valve was stuck.")
        run = await it.ask("What do you know about the greenhouse pump?", "web:another")
        assert await memories(it, run.turn) == []


async def test_a_restart_while_it_reflects_answers_once_and_thinks_once_more_e10(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(plays(hangs(), says("The valve was stuck.")))
    config = {"agent": {"reflect": True, "drain_seconds": 0}}
    async with living(tmp_path, model, config) as it:
        turn = await it.say(WORK)
        await asyncio.wait_for(model.hanging.wait(), 20)
    model.otherwise(plays(says(THOUGHT)))
    async with living(tmp_path, model, config) as it:
        run = await it.settled(turn)
        assert (run.reply, await thoughts(it, turn)) == ("The valve was stuck.", [THOUGHT])
        assert (
            len(model.requests) == 3
        )  # the answer, the thought that was cut, and the one after the restart
        assert [item.body for item in await it.house.client.list_undelivered("web:test")] in (
            [],
            ["The valve was stuck."],
        )


async def test_more_words_of_the_user_while_it_reflects_are_reflected_on_too_e10(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    free = asyncio.Event()
    thinking = [gate(free, says(THOUGHT)), says("Goal: both pumps.")]
    answers = [says("The valve was stuck."), says("The other one, too.")]
    model.otherwise(by(lambda body: (thinking if reflects(body) else answers).pop(0)))
    async with living(tmp_path, model, ON) as it:
        turn = await it.say(WORK)
        await model.asked(2)
        assert await it.say("and the other pump") == turn
        free.set()
        run = await it.settled(turn)
        assert run.reply == "The valve was stuck.\n\nThe other one, too."
        assert await thoughts(it, turn) == [THOUGHT, "Goal: both pumps."]
        run = await it.ask("And what is left to be done now, after all this?")
        assert (await memories(it, run.turn))[0] == "Goal: both pumps."


async def test_work_that_was_rejected_is_reflected_on_e10(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    answers = [says("one"), says("two"), says("three"), says("four")]
    model.otherwise(plays(says(THOUGHT), *answers))
    verify = {"agent": {"reflect": True, "verify": [{"kind": "contains", "value": "Sources:"}]}}
    async with living(tmp_path, model, verify) as it:
        run = await it.ask(WORK)
        assert (run.stop_reason, await thoughts(it, run.turn)) == ("rejected", [THOUGHT])


async def test_a_cleared_session_is_shown_none_e10(tmp_path: Path, model: FakeOpenAI) -> None:
    model.otherwise(plays(says("Goal: x\nDone: y\nLeft: z")))
    async with living(tmp_path, model, ON) as it:
        await it.ask(WORK)
        await it.command("/clear")
        run = await it.ask("Tell me a story about a fox and a hen, at least a page of it.")
        assert await memories(it, run.turn) == []


async def test_a_greeting_earns_none_e10(tmp_path: Path, model: FakeOpenAI) -> None:
    """E3: a trivial message takes the minimal path."""
    async with living(tmp_path, model, ON) as it:
        run = await it.ask("hi")
        assert (len(model.requests), await thoughts(it, run.turn)) == (1, [])
