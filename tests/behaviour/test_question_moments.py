"""Questions of the house to a person, through the real house: one yes is one yes, to one thing (F2, E10, D2)."""

import json
from pathlib import Path

from daemon.core.events import ApprovalAsked
from tests.fakes.house import SESSION, Living, living
from tests.fakes.openai import FakeOpenAI, fails, says

PRICED = {"prices": {"scripted": {"input": 10.0, "output": 100.0}}}


def limited(usd: float, **more: object) -> dict[str, object]:
    return {"agent": {"max_input_tokens": 0, "max_usd": usd, **more}, "provider": PRICED}


async def asked(it: Living, turn: str, number: int) -> str:
    """What is asked when the turn waits for the n-th time."""
    waits = 0
    async for event in it.house.client.stream_events(turn):
        waits += event.name == "run.suspended"
        if waits == number:
            break
    [question] = await it.house.client.list_approvals(session=SESSION)
    return question.tool


async def test_f2_what_is_asked_for_is_enough_for_the_next_call(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """One yes is one yes: nobody is asked nine times because the first limit was small."""
    model.otherwise(says("here it is"))
    async with living(tmp_path, model, limited(0.01)) as it:
        turn = await it.say("sum this up: " + "word " * 8_000)  # more than ten cents to send
        assert await asked(it, turn, 1) == "extend_budget"
        [question] = [event for event in await it.events(turn) if isinstance(event, ApprovalAsked)]
        about = json.loads(question.arguments)
        assert about["limit"] == 0.01 and about["more"] > 0.1
        await it.command("/approve")
        assert (await it.settled(turn)).reply == "here it is"


async def test_d2_each_thing_that_a_person_is_to_look_at_is_asked_about(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """E10: a yes to the tone is none to the facts."""
    checks = [{"kind": "manual", "value": "the tone"}, {"kind": "manual", "value": "the facts"}]
    model.script(says("draft"), says("draft with facts"))
    async with living(tmp_path, model, {"agent": {"verify": checks}}) as it:
        turn = await it.say("write it")
        for number, answer in enumerate(
            ("/approve", "/deny the year is wrong", "/approve", "/approve"), 1
        ):
            assert await asked(it, turn, number) == "review_answer"
            await it.command(answer)
        assert (await it.settled(turn)).reply == "draft with facts"
        looks = [
            json.loads(event.arguments)["look_at"]
            for event in await it.events(turn)
            if isinstance(event, ApprovalAsked)
        ]
        assert looks == ["the tone", "the facts"] * 2


async def test_f2_what_a_day_has_cost_is_the_same_after_a_restart_though_nobody_answered(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A19: a server that breaks may have worked, and may bill it."""
    model.otherwise(fails(500))
    config = {"budget": {"daily_usd": 100.0}}
    async with living(tmp_path, model, config) as it:
        assert (await it.ask("go")).stop_reason == "failed"
        before = it.house.sessions.budgets.daily.account.spent
    async with living(tmp_path, model, config) as it:
        after = it.house.sessions.budgets.daily.account.spent
    assert (before.input_tokens, before.usd) == (after.input_tokens, after.usd) and before.usd > 0
