"""A quarter of the day's tokens and money is for the owner's own chats (DESIGN 6)."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from daemon.client.view_types import RunView
from tests.behaviour.test_budgets import Bill, first, limits, useful
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, Json, Step, by, calls, says, tokens

EVENTS = {"enabled": True, "notify": "http", "tokens": {"mail": "t" * 32}}
KEPT = "the rest is kept for the owner's own chats"
USER = {"name": "bob", "token": "b" * 32, "role": "editor"}


def home(budget: Mapping[str, object], **more: object) -> dict[str, object]:
    return limits({"on_budget": "stop"}, budget=budget, events=EVENTS, **more)


async def event(it: Living, key: str) -> RunView:
    return await it.settled((await it.house.triggers.accept("mail", {"n": key}, 20, key)).turn)


@pytest.mark.parametrize(
    ("budget", "used"),
    [
        ({"daily_tokens": 100_000}, tokens(74_900, 0)),
        ({"daily_usd": 4.0}, tokens(299_000, 0)),
    ],
)
async def test_the_owner_is_answered_when_events_have_used_three_quarters_and_events_are_not(
    tmp_path: Path, model: FakeOpenAI, budget: dict[str, object], used: Json
) -> None:
    """The refusal says what to do; a restart changes nothing."""
    model.script(says("noted", used))
    model.otherwise(says("here", tokens(10, 5)))
    async with living(tmp_path, model, home(budget)) as it:
        assert (await event(it, "one")).stop_reason == "done"
        refused = await event(it, "two")
        assert refused.stop_reason == "over_budget"
        useful(refused, "today's shared", KEPT, "owner_share in [budget]")
        assert (await it.ask("are you there?")).reply == "here"
    async with living(tmp_path, model, home(budget)) as it:
        assert (await event(it, "three")).stop_reason == "over_budget"
        assert (await it.ask("and now?")).reply == "here"
    async with living(tmp_path, model, home({**budget, "owner_share": 0})) as it:
        assert (await event(it, "four")).reply == "here"


async def test_what_the_owners_chat_and_its_agents_used_is_not_counted_as_the_others(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """After a restart, too: sessions of agents are those of who set them to work."""

    def choose(body: Json) -> Step:
        if first(body).startswith("child"):
            return says("that is it", tokens(60_000, 5))
        if first(body).startswith("parent") and body["messages"][-1]["role"] == "user":
            return calls(("spawn_agent", {"task": "child"}))
        return says("ok", tokens(10, 5))

    model.otherwise(by(choose))
    async with living(tmp_path, model, home({"daily_tokens": 100_000})) as it:
        assert (await it.ask("parent, go")).reply == "ok"
        assert (await event(it, "one")).reply == "ok"
    async with living(tmp_path, model, home({"daily_tokens": 100_000})) as it:
        assert (await event(it, "two")).reply == "ok"
        others = it.house.usage.others
        assert others.spent.input_tokens < 1000 < it.house.usage.account.spent.input_tokens


async def test_an_editors_chat_shares_the_three_quarters(tmp_path: Path, model: FakeOpenAI) -> None:
    model.script(says("noted", tokens(74_900, 0)))
    model.otherwise(says("here", tokens(10, 5)))
    config = home({"daily_tokens": 100_000}, http={"users": [USER]})
    async with living(tmp_path, model, config) as it:
        assert (await event(it, "one")).stop_reason == "done"
        turn = await it.from_other("bob", "hello", "web:bob")
        useful(await it.settled(turn), KEPT)
        assert (await it.ask("hello", "web:mine")).reply == "here"


async def test_parallel_events_never_use_more_than_three_quarters(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    bill = Bill(model, lambda number: 1.0)
    model.otherwise(by(lambda body: bill.of(body, lambda usage: says("ok", usage))))
    async with living(tmp_path, model, home({"daily_tokens": 60_000})) as it:
        ended = await asyncio.gather(*(event(it, str(n)) for n in range(12)))
        assert {view.stop_reason for view in ended} == {"done", "over_budget"}
        assert 20_000 < bill.sent + bill.received <= 45_000
        assert (await it.ask("are you there?")).reply == "ok"
