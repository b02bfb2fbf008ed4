"""Budgets through the real house: what is billed never exceeds a cap, and at the limit a person is asked (F2, A19, D1, B2)."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.client.view_types import ApprovalView, RunView
from daemon.core.events import Answer, ApprovalAnswered, ApprovalAsked, BudgetRaised, ModelAsked
from daemon.core.rows import SessionRow
from daemon.core.trust import Effect, Label
from daemon.tools.signature import bind, tool
from tests.fakes.house import SESSION, Living, living
from tests.fakes.openai import FakeOpenAI, Json, Step, by, calls, fails, hangs, says, tokens
from tests.fakes.wordy_model import Turnstile

PRICED = {
    "prices": {
        "scripted": {"input": 10.0, "output": 100.0},
        "second": {"input": 1000.0, "output": 10_000.0},
    }
}
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
OUTPUT = 8_192


@tool(effect=Effect.READ)
async def look(at: str = "") -> str:
    """Look at something."""
    return f"saw {at}"


@tool(effect=Effect.READ)
async def outside() -> str:
    """Look outside."""
    return "rain"


PARTS = Overrides(tools=bind([look, outside], {}))


def limits(cap: Mapping[str, object], **more: object) -> dict[str, object]:
    """[agent] with nothing in the way but this."""
    return {"agent": {"max_input_tokens": 0, "max_usd": 0, **cap}, "provider": PRICED, **more}


class Bill:
    """A provider that bills a share of the worst that may come of a request: a token for four bytes, max_tokens back."""

    def __init__(self, model: FakeOpenAI, share: Callable[[int], float]) -> None:
        self.sent, self.received, self.usd, self.share, self.model = 0, 0, 0.0, share, model

    def of(self, body: Json, make: Callable[[Json], Step]) -> Step:
        share = self.share(len(self.model.requests))
        sent = int(len(json.dumps(body)) / 4 * share)
        received = int(body.get("max_tokens", OUTPUT) * share)
        price = PRICED["prices"][body["model"]]
        self.sent += sent
        self.received += received
        self.usd += (sent * price["input"] + received * price["output"]) / 1_000_000
        return make(tokens(sent, received))


def first(body: Json) -> str:
    return str(
        next(message["content"] for message in body["messages"] if message["role"] == "user")
    )


def done(body: Json) -> int:
    return sum(message["role"] == "tool" for message in body["messages"])


async def question(it: Living, turn: str, number: int = 1) -> dict[str, object]:
    """What is asked of the owner about a budget when this turn waits for the n-th time."""
    waits = 0
    async for event in it.house.client.stream_events(turn):
        waits += event.name == "run.suspended"
        if waits == number:
            break
    [asked] = await it.house.client.list_approvals(session=SESSION)
    assert (asked.turn, asked.tool, asked.effect) == (turn, "extend_budget", "write")
    return json.loads(asked.arguments)


def useful(run: RunView, *said: str) -> None:
    for words in said:
        assert run.reply and words in run.reply, run.reply


async def until_asked(it: Living) -> list[ApprovalView]:
    """What waits for a yes, once something does."""
    async with asyncio.timeout(10):
        while not (found := await it.house.client.list_approvals("pending")):
            await asyncio.sleep(0.01)
    return found


@pytest.mark.parametrize("cap", [{"max_usd": 2.0}, {"max_input_tokens": 30_000}])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.02])
async def test_f2_twenty_sub_agents_at_once_never_cost_more_than_their_parent_may(
    tmp_path: Path, model: FakeOpenAI, cap: dict[str, float], share: float
) -> None:
    """A17: whatever the provider bills, up to the worst that was reserved for."""
    bill = Bill(model, lambda number: share if number > 1 else 0.01)

    def choose(body: Json) -> Step:
        if first(body).startswith("child"):
            return bill.of(
                body,
                lambda usage: calls(("look", {"at": f"{first(body)} {done(body)}"}), usage=usage),
            )
        wanted = [("spawn_agent", {"task": f"child {n}"}) for n in range(20)]
        return bill.of(
            body,
            lambda usage: says("all back", usage) if done(body) else calls(*wanted, usage=usage),
        )

    model.otherwise(by(choose))
    async with living(
        tmp_path, model, limits({**cap, "on_budget": "stop", "max_seconds": 60}), PARTS
    ) as it:
        async with asyncio.timeout(50):
            run = await it.ask("parent, go")
        ended = [
            view for view in await it.house.client.list_runs() if view.session.startswith("sub-")
        ]
    assert len(ended) == 20 and all(view.stop_reason for view in ended)
    assert model.count >= 4
    assert bill.usd <= cap.get("max_usd", 1e9)
    assert bill.sent <= cap.get("max_input_tokens", 1e9)
    assert run.stop_reason in (
        "over_budget",
        "done",
        "low_confidence",
    )  # or it says that nearly all of them failed
    if share == 1.0:
        assert "over_budget" in {view.stop_reason for view in ended}


async def test_f2_twenty_sub_agents_at_once_never_cost_more_than_the_day_may(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A19: tokens of both kinds."""
    bill = Bill(model, lambda number: 0.5 if number > 1 else 0.01)

    def choose(body: Json) -> Step:
        if first(body).startswith("child"):
            return bill.of(
                body,
                lambda usage: calls(("look", {"at": f"{first(body)} {done(body)}"}), usage=usage),
            )
        wanted = [("spawn_agent", {"task": f"child {n}"}) for n in range(20)]
        return bill.of(
            body,
            lambda usage: says("all back", usage) if done(body) else calls(*wanted, usage=usage),
        )

    model.otherwise(by(choose))
    config = limits({"on_budget": "stop", "max_seconds": 60}, budget={"daily_tokens": 60_000})
    async with living(tmp_path, model, config, PARTS) as it:
        await asyncio.wait_for(it.ask("parent, go"), 50)
        told = await it.command("/status")
    assert 30_000 < bill.sent + bill.received <= 60_000
    assert f"Today: {bill.sent + bill.received:,} tokens of 60,000" in told


async def test_f2_what_sub_agents_cost_stands_in_the_parents_account_after_a_restart(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A17, B11: a child and a grandchild used up what the parent may; the parent is taken up again and knows it."""
    waiting = Turnstile(says("never"))

    def choose(body: Json) -> Step:
        if first(body).startswith("grandchild"):
            return says("that is it", tokens(9_000, 5))
        if first(body).startswith("child"):
            return (
                says("that is it", tokens(4_000, 5))
                if done(body)
                else calls(("spawn_agent", {"task": "grandchild"}))
            )
        return waiting if done(body) else calls(("spawn_agent", {"task": "child"}))

    model.otherwise(by(choose))
    config = limits({"max_input_tokens": 14_150, "on_budget": "stop", "drain_seconds": 0})
    async with living(tmp_path, model, config) as it:
        turn = await it.say("parent, go")
        await asyncio.wait_for(waiting.reached.wait(), 20)
    model.otherwise(says("not asked any more"))
    async with living(tmp_path, model, config) as it:
        run = await it.settled(turn)
    assert (run.stop_reason, model.count) == ("over_budget", 5)
    useful(run, "the turn's tokens are nearly used up", "Done: spawn_agent.")


@pytest.mark.parametrize(
    ("cap", "usage", "of", "limit"),
    [
        ({"max_usd": 1.0}, tokens(100_000, 0), "usd", 1.0),
        ({"max_input_tokens": 100_000}, tokens(100_000, 0), "sent", 100_000),
    ],
)
async def test_f2_at_the_limit_a_person_is_asked_and_yes_doubles_it(
    tmp_path: Path, model: FakeOpenAI, cap: dict[str, object], usage: Json, of: str, limit: float
) -> None:
    """D1: asked again at each limit, and the first limit is what is added each time."""
    model.otherwise(by(lambda body: calls(("look", {"at": f"page {done(body)}"}), usage=usage)))
    async with living(tmp_path, model, limits(cap), PARTS) as it:
        turn = await it.say("look at all pages")
        asked = await question(it, turn)
        assert asked == {"budget": "turn", "of": of, "used": limit, "limit": limit, "more": limit}
        assert "Approved: The turn's" in await it.command("/approve")
        again = await question(it, turn, 2)
        assert again == {
            "budget": "turn",
            "of": of,
            "used": 2 * limit,
            "limit": 2 * limit,
            "more": limit,
        }
        assert "Denied" in await it.command("/deny that is enough")
        run = await it.settled(turn)
        raised = [
            event.limits for event in await it.events(turn) if isinstance(event, BudgetRaised)
        ]
    assert (run.stop_reason, model.count, run.iterations) == ("over_budget", 2, 2)
    assert [(one.max_usd, one.max_input_tokens) for one in raised] == [
        (2.0, None) if of == "usd" else (None, 200_000)
    ]
    useful(
        run, "used up", "Done: look.", "Not run: look.", "raise the limit in [agent] or [budget]"
    )


async def test_f2_an_answer_that_is_complete_needs_no_more_and_nobody_is_asked(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """D2: it is still held against what was done."""
    model.script(
        says("Berlin, as far as I know.", tokens(12_000, 5)),
        says("I sent the mail.", tokens(12_000, 5)),
    )
    async with living(tmp_path, model, limits({"max_input_tokens": 10_000})) as it:
        run = await it.ask("what is the capital of Germany?")
        assert (run.stop_reason, run.reply) == ("done", "Berlin, as far as I know.")
        turn = await it.say("send Anna a mail")
        assert (await question(it, turn))["used"] == 12_000  # for the correction that is due


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """Puts the wall clock to so long after the start."""
    file = tmp_path / "now"

    def put(after: timedelta) -> None:
        new = tmp_path / "now.new"
        new.write_text((START + after).isoformat())
        new.replace(file)

    put(timedelta(0))
    monkeypatch.setenv("AIDAEMON_TEST_CLOCK", str(file))
    return put


async def test_f2_silence_is_a_no_and_the_turn_ends_with_what_to_do(
    tmp_path: Path, model: FakeOpenAI, clock: Callable[[timedelta], None]
) -> None:
    """A15: after approval_minutes."""
    model.otherwise(
        by(lambda body: calls(("look", {"at": f"page {done(body)}"}), usage=tokens(12_000, 0)))
    )
    async with living(tmp_path / "home", model, limits({"max_input_tokens": 10_000}), PARTS) as it:
        turn = await it.say("look at all pages")
        await question(it, turn)
        clock(timedelta(minutes=6))
        run = await asyncio.wait_for(it.settled(turn), 10)
        [answered] = [
            event for event in await it.events(turn) if isinstance(event, ApprovalAnswered)
        ]
    assert (run.stop_reason, model.count, answered.answer) == ("over_budget", 1, Answer.EXPIRED)
    useful(
        run,
        "the turn's tokens are used up (12,000 of 10,000)",
        "Not run: look.",
        "when there is budget again",
    )


@pytest.mark.parametrize(
    ("cap", "of", "limit"),
    [({"daily_tokens": 20_000}, "tokens", 20_000), ({"daily_usd": 1.0}, "usd", 1.0)],
)
async def test_a19_the_day_is_asked_for_too_a_yes_holds_over_a_restart_and_midnight_ends_it(
    tmp_path: Path,
    model: FakeOpenAI,
    clock: Callable[[timedelta], None],
    cap: dict[str, object],
    of: str,
    limit: float,
) -> None:
    """F2: a yes is for all chats of that day; the next day begins with the configured limit and nothing spent."""
    spent = tokens(100_000, 0) if of == "usd" else tokens(19_900, 100)
    config = limits({}, budget=cap)
    model.otherwise(says("ok", spent))
    async with living(tmp_path / "home", model, config) as it:
        assert (await it.ask("one", "web:a")).reply == "ok"
        turn = await it.say("two")
        assert await question(it, turn) == {
            "budget": "day",
            "of": of,
            "used": limit,
            "limit": limit,
            "more": limit,
        }
        await it.command("/approve")
        assert (await it.settled(turn)).reply == "ok"
    clock(timedelta(hours=1))
    async with living(tmp_path / "home", model, config) as it:
        turn = await it.say("three")
        asked = await question(it, turn)
        assert asked == {
            "budget": "day",
            "of": of,
            "used": 2 * limit,
            "limit": 2 * limit,
            "more": limit,
        }
        await it.command("/approve")
        assert (await it.settled(turn)).reply == "ok"
        clock(timedelta(hours=12, minutes=1))
        await clock_is_read(it)
        assert (await it.ask("four")).reply == "ok"
        turn = await it.say("five")
        assert (await question(it, turn))["limit"] == limit
        await it.command("/deny")
        useful(await it.settled(turn), "today's", "until midnight")


async def clock_is_read(it: Living) -> None:
    """The house looks at its clock every 100 ms."""
    async with asyncio.timeout(5):
        told = ""
        while "Today: 0 tokens" not in told:
            told = await it.command("/status")


async def from_a_stranger(it: Living) -> str:
    row = SessionRow("web:stranger", "web", "stranger", Label.UNTRUSTED, START)
    await it.house.store.write(lambda tx: tx.put_session(row))
    return await it.say("look at all pages", "web:stranger")


async def from_a_loop(it: Living) -> str:
    row = SessionRow("loop:1", "web", "test", Label.TRUSTED, START, root=SESSION)
    await it.house.store.write(lambda tx: tx.put_session(row))
    return await it.say("look at all pages", "loop:1")


async def from_the_owner(it: Living) -> str:
    return await it.say("look at all pages")


@pytest.mark.parametrize(
    ("who", "on_budget"),
    [(from_a_stranger, "ask"), (from_a_loop, "stop"), (from_the_owner, "stop")],
    ids=["stranger", "loop", "stop"],
)
async def test_f2_strangers_and_who_wants_no_question_are_not_asked(
    tmp_path: Path, model: FakeOpenAI, who: Callable[[Living], Awaitable[str]], on_budget: str
) -> None:
    """C12, D1."""
    model.otherwise(
        by(lambda body: calls(("look", {"at": f"page {done(body)}"}), usage=tokens(12_000, 0)))
    )
    async with living(
        tmp_path, model, limits({"max_input_tokens": 10_000, "on_budget": on_budget}), PARTS
    ) as it:
        turn = await who(it)
        run = await asyncio.wait_for(it.settled(turn), 10)
        assert not [event for event in await it.events(turn) if isinstance(event, ApprovalAsked)]
    assert (run.stop_reason, model.count) == ("over_budget", 1)


async def test_c7_a_loop_asks_for_more_as_a_turn_does_and_goes_on_after_a_yes(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(
        by(
            lambda body: (
                calls(("look", {"at": f"page {done(body)}"}), usage=tokens(12_000, 0))
                if done(body) < 2
                else says("All is read.")
            )
        )
    )
    async with living(tmp_path, model, limits({"max_input_tokens": 10_000}), PARTS) as it:
        turn = await from_a_loop(it)
        for _ in range(2):
            [asked] = await until_asked(it)
            assert (asked.turn, asked.tool) == (turn, "extend_budget")
            await it.house.client.answer_approval(turn, asked.call_id, Answer.ONCE)
        run = await asyncio.wait_for(it.settled(turn), 10)
    assert (run.stop_reason, run.reply) == ("done", "All is read.")


async def test_f2_time_can_be_extended_too(tmp_path: Path, model: FakeOpenAI) -> None:
    """What ran when the time was up is cut, and the turn goes on from there."""
    model.script(calls(("look", {"at": "home"})), hangs(), says("Here it is."))
    config = limits({"max_seconds": 1.0})
    async with living(tmp_path, model, config, PARTS) as it:
        turn = await it.say("find it")
        [asked] = await until_asked(it)
        about = json.loads(asked.arguments)
        assert (about["of"], about["limit"], about["more"]) == ("seconds", 1.0, 1.0)
        assert "Go on with 1 s more?" in await it.command("/approve")
        run = await asyncio.wait_for(it.settled(turn), 10)
        assert (run.stop_reason, run.reply) == ("done", "Here it is.")
        model.script(calls(("look", {"at": "home"})), hangs())
        turn = await it.say("find it again")
        await until_asked(it)
        await it.command("/deny")
        run = await asyncio.wait_for(it.settled(turn), 10)
    assert run.stop_reason == "deadline"
    useful(run, "the time for one turn is used up (1 s)")


async def test_f2_where_agents_used_up_the_money_their_parent_asks_for_more(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A17, D6: agents that ended for want of money are no failing tools."""

    def choose(body: Json) -> Step:
        if first(body).startswith("child"):
            return calls(("look", {"at": f"page {done(body)}"}), usage=tokens(0, 300))
        tasks = [("spawn_agent", {"task": f"child {number}"}) for number in range(8)]
        return calls(*tasks) if not done(body) else says("Half is read.")

    model.otherwise(by(choose))
    async with living(tmp_path, model, limits({"max_usd": 0.6}), PARTS) as it:
        turn = await it.say("parent, go")
        asked = await question(it, turn)
        assert (asked["budget"], asked["of"]) == ("turn", "usd")
        await it.command("/deny")
        run = await it.settled(turn)
    assert run.stop_reason == "over_budget"


async def test_f2_sub_agents_are_not_asked_but_who_set_them_to_work_is(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A17: the child ends, its parent's owner is asked, and the parent goes on."""

    def choose(body: Json) -> Step:
        if first(body).startswith("child"):
            return calls(("look", {"at": f"page {done(body)}"}), usage=tokens(12_000, 0))
        return (
            says("I have what I need.") if done(body) else calls(("spawn_agent", {"task": "child"}))
        )

    model.otherwise(by(choose))
    async with living(tmp_path, model, limits({"max_input_tokens": 10_000}), PARTS) as it:
        turn = await it.say("parent, go")
        asked = await question(it, turn)
        assert (asked["budget"], asked["used"]) == ("turn", 12_010)
        await it.command("/approve")
        run = await it.settled(turn)
        children = [
            view for view in await it.house.client.list_runs() if view.session.startswith("sub-")
        ]
    assert (run.reply, [view.stop_reason for view in children]) == (
        "I have what I need.",
        ["over_budget"],
    )


async def test_f2_an_unknown_price_counts_as_the_configured_worst_and_is_said_to_be_unknown(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A19: 50,000 tokens at 5 USD a million, 4,000 at 25."""
    model.otherwise(
        by(lambda body: calls(("look", {"at": f"page {done(body)}"}), usage=tokens(50_000, 4_000)))
    )
    config = {"agent": {"max_usd": 0.34, "max_input_tokens": 0, "on_budget": "stop"}}
    async with living(tmp_path, model, config, PARTS) as it:
        run = await it.ask("look at all pages")
        status, cost = await it.command("/status"), await it.command("/cost")
    assert (run.stop_reason, model.count, run.usage.usd) == ("over_budget", 1, None)
    useful(run, "the turn's money is used up ($0.3500 of $0.34)")
    assert "$0.0000, and calls of unknown price" in status
    assert "price unknown" in cost


async def test_f2_where_little_is_left_the_reply_must_be_short_and_where_nearly_nothing_is_it_is_not_asked_for(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """The price of output is 100 USD a million: 0.5 USD are less than 5,000 tokens."""
    async with living(tmp_path / "one", model, limits({"max_usd": 0.5, "on_budget": "stop"})) as it:
        assert (await it.ask("write me a poem")).reply == "ok"
        [asked] = [
            event
            for event in await it.events((await it.house.client.list_runs())[0].turn)
            if isinstance(event, ModelAsked)
        ]
    assert 4_000 < model.requests[0]["max_tokens"] < 5_000
    assert asked.reserved_usd and 0.49 < asked.reserved_usd <= 0.5
    async with living(
        tmp_path / "two", model, limits({"max_usd": 0.02, "on_budget": "stop"})
    ) as it:
        run = await it.ask("write me a poem")
    assert (run.stop_reason, model.count) == ("over_budget", 1)
    useful(run, "not enough for the first call (which may take $0.0", "of $0.02")
    async with living(tmp_path / "three", model, limits({})) as it:
        await it.ask("write me a poem")
    assert "max_tokens" not in model.requests[1].body


async def test_e13_where_little_is_left_there_is_no_long_thinking_either(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """F2: what a model thinks is output, too, and is set aside on top of what it says."""
    for home, cap in (("one", 4.0), ("two", 2.0)):
        async with living(
            tmp_path / home, model, limits({"max_usd": cap, "on_budget": "stop", "effort": "high"})
        ) as it:
            assert (await it.ask("write me a poem")).reply == "ok"
    asked = [
        (request.body.get("reasoning_effort"), request.body.get("max_tokens", 0) > OUTPUT)
        for request in model.requests
    ]
    assert asked == [("high", False), (None, True)]


async def test_f2_a_reservation_that_was_never_settled_counts_as_spent(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A19: of the turn, and of the day: the daemon was cut off in the middle of a call, so nobody knows what that cost."""
    async with living(tmp_path / "probe", model, limits({})) as it:
        turn = (await it.ask("write me a poem")).turn
        [asked] = [event for event in await it.events(turn) if isinstance(event, ModelAsked)]
    config = limits(
        {
            "max_input_tokens": asked.reserved_tokens * 3 // 2,
            "drain_seconds": 0,
            "on_budget": "stop",
        },
        budget={"daily_tokens": 1_000_000},
    )
    model.script(hangs())
    async with living(tmp_path / "home", model, config) as it:
        turn = await it.say("write me a poem")
        await asyncio.wait_for(model.hanging.wait(), 20)
    async with living(tmp_path / "home", model, config) as it:
        run = await it.settled(turn)
        told = await it.command("/status")
    assert (run.stop_reason, model.count) == ("over_budget", 2)
    useful(run, f"({asked.reserved_tokens:,} of {asked.reserved_tokens * 3 // 2:,})")
    assert f"Today: {asked.reserved_tokens:,} tokens" in told


async def test_f2_what_the_provider_refused_costs_nothing(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A7: a wrong key does not use the day up."""
    model.otherwise(fails(401))
    async with living(
        tmp_path, model, limits({"on_budget": "stop"}, budget={"daily_usd": 1.0})
    ) as it:
        reasons = {(await it.ask(f"write poem {n}")).stop_reason for n in range(5)}
        assert reasons == {"failed"}
        assert "Today: 0 tokens, $0.0000 of $1" in await it.command("/status")


async def test_f2_a_dearer_fallback_is_not_asked_when_the_budget_has_no_room_for_it(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A7: a hundred times the price, held before it is asked."""
    model.script(fails(404))
    fallback = {"kind": "openai", "base_url": model.base_url, "model": "second"}
    config = limits({"max_usd": 2.0, "on_budget": "stop"})
    config["provider"] = {**PRICED, "fallbacks": [fallback]}
    async with living(tmp_path / "one", model, config) as it:
        run = await it.ask("write me a poem")
    assert (run.stop_reason, [request["model"] for request in model.requests]) == (
        "over_budget",
        ["scripted"],
    )
    model.script(fails(404), says("from the second", tokens(100, 10)))
    config["agent"] = {"max_usd": 200.0, "max_input_tokens": 0}
    async with living(tmp_path / "two", model, config) as it:
        run = await it.ask("write me a poem")
    assert (run.reply, run.usage.usd) == ("from the second", 0.2)


TEAM = """
[identity]
name = "team"
[composite]
strategy = "sequential"
agents = [{ agent = "default", brief = "FIRST" }, { agent = "default", brief = "SECOND" }, { agent = "default", brief = "THIRD" }]
"""


async def test_b11_what_the_agents_of_a_composite_cost_counts_for_the_whole(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """F2: the third is not asked any more."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "team.toml").write_text(TEAM)
    model.otherwise(says("my part is done", tokens(6_000, 5)))
    async with living(
        tmp_path, model, limits({"max_input_tokens": 12_000, "on_budget": "stop"})
    ) as it:
        assert "team" in await it.command("/agent team")
        run = await it.ask("do it together")
        cost = await it.command("/cost")
    assert (run.stop_reason, model.count) == ("over_budget", 2)
    assert "2 calls, 12,000 in" in cost


async def test_b2_where_the_budget_is_a_condition_its_end_is_that_condition(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """F2: and nobody is asked for more."""
    (tmp_path / "agents").mkdir()
    spec = '[identity]\nname = "miser"\n[iteration]\nmax_cycles = 9\n[model_policy.budget]\nusd_per_run = 1.0\n'
    spec += '[[iteration.termination_conditions]]\nkind = "budget-exhausted"\n'
    (tmp_path / "agents" / "miser.toml").write_text(spec)
    model.otherwise(
        by(lambda body: calls(("look", {"at": f"page {done(body)}"}), usage=tokens(60_000, 0)))
    )
    async with living(tmp_path, model, limits({}), PARTS) as it:
        await it.command("/agent miser")
        run = await it.ask("look at all pages")
        assert not [
            event for event in await it.events(run.turn) if isinstance(event, ApprovalAsked)
        ]
    assert (run.stop_reason, model.count) == ("condition", 2)
