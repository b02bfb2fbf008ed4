"""What a model is told before the conversation begins (A3)."""

from pathlib import Path

from daemon.agent.context.builder import SYSTEM
from tests.fakes.house import living
from tests.fakes.openai import FakeOpenAI, calls, says


async def test_a3_each_call_of_a_turn_begins_with_the_base_text(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Once, in each conversation and at each call."""
    model.script(calls(("current_time", {})))
    model.otherwise(says("It is as you see."))
    async with living(tmp_path, model) as it:
        await it.ask("What do you see?", "web:one")
        await it.ask("What do you see?", "web:two")
    prompts = [request["messages"][0] for request in model.requests]
    assert [(one["role"], one["content"][: len(SYSTEM)]) for one in prompts] == [
        ("system", SYSTEM)
    ] * 3
    roles = [message["role"] for request in model.requests for message in request["messages"]]
    assert roles.count("system") == 3
