"""How much a model is to think, as each service is told it (E13)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import anthropic, gemini, responses
from tests.fakes.anthropic import KEY, FakeAnthropic
from tests.fakes.gemini import FakeGemini
from tests.fakes.house import living
from tests.fakes.openai import FakeOpenAI, Json
from tests.fakes.responses import FakeResponses

EFFORTS = ("low", "medium", "high", "max")
TOLD = "It is as you see."


def in_generation(body: Json) -> Any:
    return body.get("generationConfig", {}).get("thinkingConfig")


def in_output(body: Json) -> Any:
    return (body.get("thinking", {}).get("type"), body.get("output_config", {}).get("effort"))


def in_budget(body: Json) -> Any:
    thinking = body.get("thinking", {})
    return thinking.get("budget_tokens"), body["max_tokens"] - thinking.get("budget_tokens", 0)


SERVICES: dict[str, tuple[type[FakeOpenAI], Json, str, Callable[[Json], Any], list[Any]]] = {
    "chat completions": (
        *(FakeOpenAI, {"kind": "openai"}, "scripted", lambda body: body.get("reasoning_effort")),
        [None, "low", "medium", "high", "high"],
    ),
    "responses": (
        *(FakeResponses, {"api": "responses"}, "gpt-5.4", lambda body: body.get("reasoning")),
        [None, *({"effort": word} for word in ("low", "medium", "high", "xhigh"))],
    ),
    "claude": (
        *(FakeAnthropic, {"kind": "anthropic"}, "claude-haiku-5-5", in_output),
        [(None, None), *(("adaptive", word) for word in EFFORTS)],
    ),
    "an older claude": (
        *(FakeAnthropic, {"kind": "anthropic"}, "claude-sonnet-4-20250514", in_budget),
        [(None, 8000), (2048, 8000), (8192, 8000), (16_384, 8000), (24_000, 8000)],
    ),
    "gemini": (
        *(FakeGemini, {"kind": "gemini"}, "gemini-3.8-flash", in_generation),
        [None, *({"thinkingLevel": word} for word in ("LOW", "MEDIUM", "HIGH", "HIGH"))],
    ),
    "an older gemini": (
        *(FakeGemini, {"kind": "gemini"}, "gemini-2.5-pro", in_generation),
        [None, *({"thinkingBudget": count} for count in (1024, 8192, 24_576, 32_768))],
    ),
}
REPLIES = {FakeAnthropic: anthropic.says, FakeGemini: gemini.says, FakeResponses: responses.says}


@pytest.mark.parametrize("service", SERVICES)
async def test_e13_each_effort_up_to_max_is_told_in_the_words_of_the_service(
    tmp_path: Path, service: str
) -> None:
    """Without /effort nothing is sent."""
    fake, kind, name, found, expected = SERVICES[service]
    async with fake() as model:
        if fake in REPLIES:
            model.otherwise(REPLIES[fake](TOLD))
        provider = kind | {"base_url": model.base_url, "api_key": KEY}
        config = {"provider": provider | {"models": {"primary": name}}}
        async with living(tmp_path, model, config) as it:
            await it.ask("hello")
            for effort in EFFORTS:
                assert f"Effort: {effort}" in await it.command(f"/effort {effort}")
                assert (await it.ask("and now?")).stop_reason == "done"
    assert [found(asked.body) for asked in model.requests] == expected
