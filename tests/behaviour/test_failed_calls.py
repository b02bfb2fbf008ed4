"""What a model call that fails waits for, and who is asked next (A7)."""

import asyncio
from pathlib import Path
from time import monotonic

import pytest

from daemon.core.events import ModelRetried, TurnEnded
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, Step, drops, fails, says


def with_fallback(model: FakeOpenAI) -> dict[str, object]:
    fallback = {"kind": "openai", "base_url": model.base_url, "model": "second"}
    return {"provider": {"fallbacks": [fallback]}}


def list_asked(model: FakeOpenAI) -> list[str]:
    return [request["model"] for request in model.requests]


async def list_retries(it: Living, turn: str) -> list[ModelRetried]:
    return [event for event in await it.events(turn) if isinstance(event, ModelRetried)]


async def find_detail(it: Living, turn: str) -> str:
    ended = (await it.events(turn))[-1]
    assert isinstance(ended, TurnEnded)
    return ended.detail


async def test_a7_an_account_without_credit_is_told_at_once_and_nobody_is_asked_again(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """The fallback is not asked either."""
    model.script(fails(402))
    async with living(tmp_path, model, with_fallback(model)) as it:
        run = await it.ask("What do you see?")
        assert (run.stop_reason, list_asked(model)) == ("failed", ["scripted"])
        assert run.reply and "the account has no credit" in run.reply
        assert await find_detail(it, run.turn) == "billing"
        assert await list_retries(it, run.turn) == []


@pytest.mark.parametrize(("said", "waited"), [("7", 7.0), ("59", 59.0), ("3600", 60.0)])
async def test_a7_a_rate_limit_waits_as_long_as_it_says_and_at_most_a_minute(
    tmp_path: Path, model: FakeOpenAI, said: str, waited: float
) -> None:
    """The wait stands in the journal before it begins; the test stops the turn there."""
    model.otherwise(fails(429, headers={"Retry-After": said}))
    async with living(tmp_path, model, with_fallback(model)) as it:
        turn = await it.say("What do you see?")
        await it.until(turn, "model.retry")
        await it.command("/stop")
        await asyncio.wait_for(it.settled(turn), 5)
        [retried] = await list_retries(it, turn)
    assert (retried.error, retried.wait_s, retried.next_model) == ("rate_limit", waited, "scripted")
    assert list_asked(model) == ["scripted"]


async def test_a7_a_rate_limit_that_is_over_soon_is_waited_out(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(fails(429, headers={"Retry-After": "0.5"}), says("It is as you see."))
    async with living(tmp_path, model, with_fallback(model)) as it:
        began = monotonic()
        assert (await it.ask("What do you see?")).reply == "It is as you see."
        assert monotonic() - began >= 0.5
    assert list_asked(model) == ["scripted", "scripted"]


@pytest.mark.parametrize(
    ("fault", "error"), [(fails(500), "server"), (drops(), "network")], ids=["server", "network"]
)
async def test_a7_a_server_that_fails_is_asked_again_after_two_seconds_and_then_the_fallback(
    tmp_path: Path, model: FakeOpenAI, fault: Step, error: str
) -> None:
    model.script(fault, fault, says("It is as you see."))
    async with living(tmp_path, model, with_fallback(model)) as it:
        began = monotonic()
        run = await it.ask("What do you see?")
        assert run.reply == "It is as you see." and monotonic() - began >= 2
        retried = await list_retries(it, run.turn)
    assert [(one.error, one.wait_s, one.next_model) for one in retried] == [
        (error, 2.0, "scripted"),
        (error, 0.0, "second"),
    ]
    assert list_asked(model) == ["scripted", "scripted", "second"]


async def test_a7_a_pinned_model_that_fails_is_followed_by_the_primary_and_then_the_fallback(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    gone = fails(404)
    model.script(gone, gone, says("It is as you see."))
    async with living(tmp_path, model, with_fallback(model)) as it:
        await it.command("/model other")
        assert (await it.ask("What do you see?")).reply == "It is as you see."
    assert list_asked(model) == ["other", "scripted", "second"]


async def test_a7_an_answer_that_nobody_expects_is_a_failure_and_the_fallback_is_not_asked(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(fails(600))
    async with living(tmp_path, model, with_fallback(model)) as it:
        run = await it.ask("What do you see?")
        assert (run.stop_reason, list_asked(model)) == ("failed", ["scripted"])
        assert run.reply and "gave an answer that nobody expected" in run.reply
        assert await find_detail(it, run.turn) == "unknown"
        assert await list_retries(it, run.turn) == []
