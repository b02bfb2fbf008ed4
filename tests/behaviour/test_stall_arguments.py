"""Which arguments count as the same in a stall (A11)."""

from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.core.events import TurnEnded
from daemon.core.trust import Effect
from daemon.tools.signature import bind, tool
from tests.fakes.house import living
from tests.fakes.openai import FakeOpenAI, calls, says

ALIKE = {
    "case": ['{"a": "North", "b": "x"}', '{"a": "north", "b": "X"}', '{"a": "NORTH", "b": "x"}'],
    "spaces": ['{"a": "to be", "b": "x"}', '{ "a":"to  be" ,"b":"x"}', '{"a":" tobe","b": "x "}'],
    "key order": ['{"a": "n", "b": "x"}', '{"b": "x", "a": "n"}', '{"a": "n", "b": "x"}'],
}
OTHERS = [f'{{"a": "{side}", "b": "x"}}' for side in ("north", "south", "east")]


@tool(effect=Effect.WRITE, parallel=False)
async def press(a: str, b: str) -> str:
    """Press a button. What it changes depends on its arguments, even where the result is the same."""
    return "nothing new"


PARTS = Overrides(tools=bind([press], {}))
CONFIG = {"agent": {"on_stall": "stop", "check_claims": False}}


@pytest.mark.parametrize("arguments", ALIKE.values(), ids=ALIKE.keys())
async def test_a11_arguments_that_differ_in_case_spaces_or_key_order_are_the_same(
    tmp_path: Path, model: FakeOpenAI, arguments: list[str]
) -> None:
    model.script(*(calls(("press", one)) for one in arguments))
    model.otherwise(says("It is as you see."))
    async with living(tmp_path, model, CONFIG, PARTS) as it:
        run = await it.ask("Press the button")
        assert [call.result for call in run.calls] == ["nothing new"] * 3
        assert (run.stop_reason, run.iterations) == ("stalled", 3)
        ended = (await it.events(run.turn))[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.detail == "press was called 3 times running with the same outcome"


async def test_a11_other_arguments_are_no_stall(tmp_path: Path, model: FakeOpenAI) -> None:
    model.script(*(calls(("press", one)) for one in OTHERS), says("It is as you see."))
    async with living(tmp_path, model, CONFIG, PARTS) as it:
        run = await it.ask("Press the buttons")
        assert (run.stop_reason, run.iterations) == ("done", 3)
