"""How important each text is kept as, read from the journal (A1)."""

from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.core.events import ModelReplied, ToolFinished, UserSaid
from daemon.core.trust import Effect
from daemon.tools.signature import bind, tool
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, calls, says

PLAIN = "The house is red."
BASE = 0.5


@tool(effect=Effect.READ)
async def look() -> str:
    """Look."""
    return PLAIN


async def find_importance(it: Living, text: str) -> float:
    """Of what the user has said."""
    run = await it.ask(text)
    said = (await it.events(run.turn))[0]
    assert isinstance(said, UserSaid) and said.text == text
    return said.importance


async def test_a1_a_plain_text_is_as_important_as_its_role(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A system message is not stored: the system prompt is made anew for each call, so nothing has 0.1."""
    model.script(calls(("look", {}), text=PLAIN), says(PLAIN))
    async with living(tmp_path, model, parts=Overrides(tools=bind([look], {}))) as it:
        run = await it.ask(PLAIN)
        kept = [
            (type(event), event.importance)
            for event in await it.events(run.turn)
            if isinstance(event, UserSaid | ModelReplied | ToolFinished)
        ]
    assert kept == [(UserSaid, 0.5), (ModelReplied, 0.5), (ToolFinished, 0.3), (ModelReplied, 0.5)]


@pytest.mark.parametrize(
    "text", ["Actually, the house is blue.", "No, the house is blue.", "I meant the blue house."]
)
async def test_a1_a_text_that_corrects_something_is_more_important(
    tmp_path: Path, model: FakeOpenAI, text: str
) -> None:
    async with living(tmp_path, model) as it:
        assert await find_importance(it, PLAIN) == BASE < await find_importance(it, text)


@pytest.mark.parametrize(
    "text", ["The house is red. " * 40, "The house:\n```\nhouse = red\n```"], ids=["long", "code"]
)
async def test_a1_a_long_text_and_code_are_more_important(
    tmp_path: Path, model: FakeOpenAI, text: str
) -> None:
    async with living(tmp_path, model) as it:
        assert await find_importance(it, PLAIN) == BASE < await find_importance(it, text)
