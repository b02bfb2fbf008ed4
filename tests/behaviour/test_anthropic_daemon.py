"""A whole house behind Claude: its thinking goes along across calls, turns and restarts; the doctor and the fallback know it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from daemon.app.runtime_config import build_choice
from daemon.core.clock import system_clock
from daemon.core.events import ModelReplied, ModelRetried
from daemon.ops.model_checks import check_provider
from daemon.providers.anthropic import CACHE_MARK
from daemon.providers.config import ProviderConfig
from tests.fakes.anthropic import KEY, FakeAnthropic, calls, refuses, says, thinks, tokens
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI
from tests.fakes.openai import says as openai_says

NEW = "claude-haiku-5-5"


@pytest.fixture
async def fake() -> AsyncIterator[FakeAnthropic]:
    async with FakeAnthropic() as fake:
        yield fake


@pytest.mark.parametrize(("key", "state"), [(KEY, "ok"), ("sk-other", "fail")])
async def test_the_doctor_shows_the_key_as_this_service_wants_it(
    tmp_path: Path, fake: FakeAnthropic, key: str, state: str
) -> None:
    config = {
        "kind": "anthropic",
        "base_url": fake.base_url,
        "api_key": key,
        "models": {"primary": "claude-scripted"},
    }
    given = ProviderConfig.model_validate(config)
    fake.otherwise(calls(("ready", {"word": "yes"})))
    async with AsyncExitStack() as stack:
        route = build_choice(given, system_clock(), stack).primary
        checks = await check_provider(given, tmp_path, [route])
    assert [check.state for check in checks] == ([state] * 2 if state == "ok" else [state])


async def ask(house: Living, text: str, *, stream: bool) -> tuple[str, str]:
    """The turn and its reply."""
    accepted = await house.house.client.send("web:test", text, stream=stream)
    turn = accepted.turn or accepted.steered
    return turn, (await house.settled(turn)).reply or ""


CONFIG = {
    "provider": {"kind": "anthropic", "api_key": KEY, "models": {"primary": NEW}},
    "agent": {"effort": "medium"},
}


@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
async def test_a_daemon_works_with_claude_and_takes_thinking_across_turns_and_restarts(
    tmp_path: Path, fake: FakeAnthropic, stream: bool
) -> None:
    """A7, E12, E13: a call with thinking, its result, the answer; then another turn, and one after a restart."""
    fake.script(
        calls(
            ("current_time", {}),
            thoughts=(thinks("I need the clock"),),
            usage=tokens(5, 20, read=100, created=50),
        ),
        says("It is late.", thinks("late"), usage=tokens(7, 10, read=150)),
    )
    fake.otherwise(says("Good night.", thinks("bed")))
    async with living(tmp_path, fake, CONFIG) as house:
        turn, reply = await ask(house, "What time is it?", stream=stream)
        assert reply == "It is late."
        replied = [event for event in await house.events(turn) if isinstance(event, ModelReplied)]
        assert [(event.usage.input_tokens, event.usage.cached_tokens) for event in replied] == [
            (155, 100),
            (157, 150),
        ]
        assert all(event.native and "signature" in event.native.blocks for event in replied)
        assert (await ask(house, "Thanks", stream=stream))[1] == "Good night."
    async with living(tmp_path, fake, CONFIG) as house:
        assert (await ask(house, "And bye", stream=stream))[1] == "Good night."
    assert fake.refused == []
    assert [fake.thoughts_in(n) for n in range(4)] == [0, 1, 2, 3]
    assert all(asked["thinking"] == {"type": "adaptive"} for asked in fake.requests)
    assert [asked.body.get("stream", False) for asked in fake.requests] == [stream] * 4
    sent = [
        asked.raw.replace(CACHE_MARK, b"").rpartition(b'],"max_tokens"')[0]
        for asked in fake.requests
    ]
    assert all(after.startswith(before) for before, after in pairwise(sent))


async def test_another_model_takes_over_in_the_middle_of_a_turn_and_claude_after_it_a7(
    tmp_path: Path, fake: FakeAnthropic
) -> None:
    """A7: the fallback is told the calls without the thinking; its own calls are told to Claude in turn."""
    async with FakeOpenAI() as other:
        fake.script(
            calls(("current_time", {}), thoughts=(thinks(),)),
            *[refuses("not_found_error", "gone", 404)],
        )
        other.script(openai_says("It is noon."))
        fallback = {"kind": "openai", "base_url": other.base_url, "model": "other"}
        config = {**CONFIG, "provider": {**CONFIG["provider"], "fallbacks": [fallback]}}
        async with living(tmp_path, fake, config) as house:
            turn, reply = await ask(house, "What time is it?", stream=False)
            assert reply == "It is noon."
            assert any(isinstance(event, ModelRetried) for event in await house.events(turn))
            assert (await ask(house, "Thanks", stream=False))[1] == "ok"
    roles = [message["role"] for message in other.requests[0]["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]
    assert fake.refused == []
