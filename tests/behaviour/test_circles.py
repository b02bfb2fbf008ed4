"""Circles, repeated words, low confidence and errors that nothing helps, through the real house (A11, D3, D4, E1, E9)."""

import asyncio
from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.core.events import Coached
from daemon.core.trust import Effect
from daemon.tools.base import ServiceUnavailable, ToolError
from daemon.tools.signature import bind, tool
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, Step, calls, says

CONFIG = {"agent": {"max_iterations": 25}}
LAST = "This is how far I came."


@tool(effect=Effect.READ)
async def left(about: str = "") -> str:
    """Look to the left."""
    return "a wall"


@tool(effect=Effect.READ)
async def right(about: str = "") -> str:
    """Look to the right."""
    return "a door"


@tool(effect=Effect.READ)
async def broken(about: str = "") -> str:
    """Fail."""
    raise ToolError(f"there is no {about}")


@tool(effect=Effect.READ)
async def down(about: str = "") -> str:
    """Ask a service that is down."""
    raise ServiceUnavailable("the service answered 503")


@tool(effect=Effect.READ, timeout_s=0.01)
async def slow(about: str = "") -> str:
    """Ask a service that does not answer."""
    return await asyncio.Future()


PARTS = Overrides(tools=bind([left, right, broken, down, slow], {}))


def asks(name: str, about: object = "", text: str | None = None) -> Step:
    return calls((name, {"about": str(about)}), text=text)


async def coached(it: Living, turn: str) -> list[str]:
    return [event.kind for event in await it.events(turn) if isinstance(event, Coached)]


async def test_a11_ping_pong_is_coached_once_and_then_stopped_with_a_last_word(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(*[asks("left"), asks("right")] * 3, asks("left"), says(LAST))
    async with living(tmp_path, model, CONFIG, PARTS) as it:
        run = await it.ask("look around")
        assert (run.stop_reason, run.iterations, run.reply) == ("stalled", 7, LAST)
        assert await coached(it, run.turn) == ["stalled", "closing"]
        assert "left and right" in model.requests[6].last("user")["content"]


async def test_a11_a_model_that_does_something_else_after_coaching_goes_on(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(
        *[asks("left"), asks("right")] * 3, asks("left", "further"), says("There is a wall.")
    )
    async with living(tmp_path, model, CONFIG, PARTS) as it:
        run = await it.ask("look around")
        assert (run.stop_reason, run.reply) == ("done", "There is a wall.")


async def test_e9_ever_other_arguments_do_not_hide_a_tool_that_always_fails(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(*(asks("broken", f"thing {n}") for n in range(6)), says(LAST))
    async with living(tmp_path, model, CONFIG, PARTS) as it:
        run = await it.ask("find it")
        assert (run.stop_reason, run.iterations, run.reply) == ("stalled", 6, LAST)
        assert "broken has now failed 5 times" in model.requests[5].last("user")["content"]


async def test_a11_a_reply_that_repeats_one_passage_is_coached_and_then_stopped(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    babble = "I will look at the wall once more. " * 20
    model.script(asks("left", 1, babble), asks("left", 2, babble), says(LAST))
    async with living(tmp_path, model, CONFIG, PARTS) as it:
        run = await it.ask("look around")
        assert (run.stop_reason, run.iterations, run.reply) == ("repeating", 2, LAST)
        assert await coached(it, run.turn) == ["repeating", "closing"]


async def test_d4_a_model_that_sees_no_way_on_is_not_sent_on(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(asks("left", text="I'm not sure how to proceed."), says(LAST))
    async with living(tmp_path, model, CONFIG, PARTS) as it:
        run = await it.ask("look around")
        assert (run.stop_reason, run.iterations, run.reply) == ("low_confidence", 1, LAST)


async def test_d4_when_nearly_nothing_works_the_user_is_told(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(calls(*(("broken", {"about": f"thing {n}"}) for n in range(6))), says(LAST))
    async with living(tmp_path, model, CONFIG, PARTS) as it:
        run = await it.ask("find it")
        assert (run.stop_reason, run.iterations, run.reply) == ("low_confidence", 1, LAST)


@pytest.mark.parametrize("name", ["down", "slow"])
async def test_d3_a_service_that_fails_three_times_running_ends_the_turn(
    tmp_path: Path, model: FakeOpenAI, name: str
) -> None:
    model.script(*(asks(name, n) for n in range(3)), says(LAST))
    async with living(tmp_path, model, CONFIG, PARTS) as it:
        run = await it.ask("ask the service")
        assert (run.stop_reason, run.iterations, run.reply) == ("failed", 3, LAST)
        told = str(model.requests[3].last("user")["content"])
        assert f"dependency: {name} failed 3 times running" in told


@pytest.mark.parametrize("on_stall", ["coach", "stop"])
async def test_a11_on_stall_says_whether_there_is_a_second_chance(
    tmp_path: Path, model: FakeOpenAI, on_stall: str
) -> None:
    model.script(*[asks("left"), asks("right")] * 3)
    model.otherwise(says(LAST))
    async with living(
        tmp_path, model, {"agent": {"max_iterations": 25, "on_stall": on_stall}}, PARTS
    ) as it:
        run = await it.ask("look around")
        assert run.stop_reason == {"coach": "done", "stop": "stalled"}[on_stall]
