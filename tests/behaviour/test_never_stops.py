"""A model that never stops, in each of ten ways: the turn ends within its budget, with the right reason and a useful last word
(E1, D1, D7, A6, A11, A12, A17, E2, F2, F6).
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from aiohttp import web

from daemon.app.daemon import Overrides
from daemon.client.view_types import RunView
from daemon.core.events import ChildSpawned, ModelAsked
from daemon.core.trust import Effect
from daemon.tools.signature import bind, tool
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.house import Living, living
from tests.fakes.openai import (
    Exchange,
    FakeOpenAI,
    Json,
    Step,
    by,
    calls,
    fails,
    hangs,
    says,
    tokens,
)

CAP = 25
MB = 1_000_000
MANY = 500  # more than any of these may need; a turn that asks so often is not stopped by anything
PARENT = "Please sort this out for me, whatever it takes."


@tool(effect=Effect.READ)
async def look(at: str = "") -> str:
    """Look at something."""
    return f"saw {at}"


@tool(effect=Effect.READ)
async def there(at: str = "") -> str:
    """Look there."""
    return "nothing here"


@tool(effect=Effect.READ, volatile=True)
async def flood(at: str = "") -> str:
    """Give a lot back."""
    return f"{at} " + "water " * (MB // 6)


PARTS = Overrides(tools=bind([look, there, flood], {}))


def endlessly(model: FakeOpenAI, choose: Callable[[int, Json], Step]) -> None:
    """Whatever is asked, and however often, this is the answer; without an end, the test has one."""
    numbers: Iterator[int] = count(1)

    def step(body: Json) -> Step:
        number = next(numbers)
        assert number <= MANY, "nothing stops this model"
        return choose(number, body)

    model.otherwise(by(step))


async def ask(it: Living, model: FakeOpenAI, text: str = PARENT, within: float = 30) -> RunView:
    async with asyncio.timeout(within):
        return await it.ask(text)


def useful(run: RunView, *said: str) -> None:
    """The last message says why, what was done, and what to do next."""
    assert run.reply and len(run.reply) < 2000
    for words in said:
        assert words in run.reply, run.reply


async def test_a11_the_same_call_again_and_again(tmp_path: Path, model: FakeOpenAI) -> None:
    """E1: three times, a word, once more, and a closing call: 3 + 1 + 1."""
    endlessly(model, lambda number, body: calls(("there", {"at": "home"})))
    async with living(tmp_path, model, parts=PARTS) as it:
        run = await ask(it, model)
    assert (run.stop_reason, run.iterations, model.count) == ("stalled", 4, 5)
    useful(
        run,
        "I stopped: there was called 3 times running",
        "Done: there ×4.",
        "Not run: there.",
        "Tell me another way to try",
    )


async def test_a12_ever_new_arguments_and_results(tmp_path: Path, model: FakeOpenAI) -> None:
    """D1: nothing is wrong with it, so only the limit ends it: 10 iterations and a closing call."""
    endlessly(model, lambda number, body: calls(("look", {"at": f"page {number}"})))
    async with living(tmp_path, model, parts=PARTS) as it:
        run = await ask(it, model)
    assert (run.stop_reason, run.iterations, model.count) == ("max_iterations", 10, 11)
    useful(
        run,
        "all 10 iterations are used up",
        "Done: look ×10.",
        "Not run: look.",
        "Ask me to go on, or raise max_iterations",
    )


async def test_a11_ping_pong(tmp_path: Path, model: FakeOpenAI) -> None:
    """Three rounds of two, a word, one more call, and a closing call."""
    endlessly(
        model, lambda number, body: calls(("there" if number % 2 else "look", {"at": "home"}))
    )
    async with living(tmp_path, model, parts=PARTS) as it:
        run = await ask(it, model)
    assert (run.stop_reason, run.iterations, model.count) == ("stalled", 7, 8)
    useful(
        run,
        "it went back and forth between",
        "Done: there ×4, look ×3.",
        "Not run:",
        "Tell me another way to try",
    )


SPEC = """
[identity]
name = "talker"
[iteration]
max_cycles = 12
[[iteration.termination_conditions]]
kind = "text-includes"
text = "<task-complete>"
"""


def agent(home: Path, name: str, text: str) -> None:
    (home / "agents").mkdir(parents=True)
    (home / "agents" / f"{name}.toml").write_text(text)


async def test_b3_endless_text_where_no_condition_ever_matches(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B6, D7: nudged each time; exactly max_cycles calls."""
    topics = (
        "rivers",
        "bread",
        "chess",
        "clouds",
        "tin",
        "owls",
        "maps",
        "salt",
        "kites",
        "ferns",
        "bells",
        "dust",
    )
    endlessly(
        model,
        lambda number, body: says(f"Let me tell you about {topics[number % 12]}, which are old. "),
    )
    agent(tmp_path, "talker", SPEC)
    async with living(tmp_path, model, parts=PARTS) as it:
        assert "talker" in await it.command("/agent talker")
        run = await ask(it, model)
    assert (run.stop_reason, run.iterations, model.count) == ("max_iterations", 12, 12)
    assert run.reply


async def test_a11_endless_text_that_is_the_same_each_time(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Three times, a word, once more, and a closing call that says it a sixth time: that is no last word."""
    endlessly(model, lambda number, body: says("I am still thinking about it."))
    agent(tmp_path, "talker", SPEC)
    async with living(tmp_path, model, parts=PARTS) as it:
        await it.command("/agent talker")
        run = await ask(it, model)
    assert (run.stop_reason, model.count) == ("repeating", 5)
    useful(
        run,
        'the same reply came 3 times running ("i am still thinking about it.")',
        "Ask again in other words",
    )


async def test_a11_one_reply_that_says_one_thing_for_ever(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A degenerate reply with a call, a word, another one, and a closing call that is no better: 2 + 1."""
    babble = "I will now look at the page once more. " * 400
    endlessly(model, lambda number, body: calls(("look", {"at": str(number)}), text=babble))
    async with living(tmp_path, model, parts=PARTS) as it:
        run = await ask(it, model)
    assert (run.stop_reason, model.count) == ("repeating", 3)
    useful(
        run,
        "one passage was repeated over and over",
        "Done: look ×2.",
        "Not run: look.",
        "Ask again in other words",
    )


async def test_a17_endless_sub_agents_in_each_level_and_iteration(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """F2: every agent sets others to work all the time; what that costs is charged to all above, so the first's tokens end it.

    A call is billed for at least FEE tokens, so there are at most LIMIT / FEE of them, and one closing call for each agent.
    """
    fee, limit = 1_000, 40_000

    def choose(number: int, body: Json) -> Step:
        task = f"part {number} of the task, whatever it takes"
        return calls(("spawn_agent", {"task": task}), usage=tokens(fee, 10))

    endlessly(model, choose)
    config = {"agent": {"max_input_tokens": limit, "on_budget": "stop"}}
    async with living(tmp_path, model, config, PARTS) as it:
        run = await ask(it, model, within=60)
        depths = {
            view.id.split("-")[1]
            for view in await it.house.client.list_sessions()
            if view.id.startswith("sub-")
        }
        billed = fee * model.count
    assert run.stop_reason == "over_budget"
    assert depths == {"1", "2", "3"}
    assert (model.count, billed) <= (limit // fee, limit)
    useful(
        run,
        "the turn's tokens are",
        "of 40,000",
        "Failed: spawn_agent.",
        "Ask me to go on when there is budget again",
    )


async def test_a17_endless_sub_agents_are_bounded_by_iterations_too(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """D1: with 2 iterations for each agent and 2 levels below, a level has twice the calls of the one above."""
    endlessly(
        model,
        lambda number, body: calls(
            ("spawn_agent", {"task": f"part {number} of it, whatever it takes"})
        ),
    )
    config = {"agent": {"max_iterations": 2}, "subagents": {"max_iterations": 2, "max_depth": 2}}
    async with living(tmp_path, model, config, PARTS) as it:
        run = await ask(it, model, within=60)
    assert (run.stop_reason, run.iterations) == ("max_iterations", 2)
    assert model.count == (1 + 2 + 4) * (2 + 1)
    useful(run, "all 2 iterations are used up", "spawn_agent", "raise max_iterations")


async def test_a6_request_more_iterations_each_time(tmp_path: Path, model: FakeOpenAI) -> None:
    """Beside real work: 25 iterations in all, and a closing call."""

    def choose(number: int, body: Json) -> Step:
        return calls(
            ("request_more_iterations", {"reason": f"page {number} remains"}),
            ("look", {"at": f"page {number}"}),
        )

    endlessly(model, choose)
    async with living(tmp_path, model, parts=PARTS) as it:
        run = await ask(it, model)
    assert (run.stop_reason, run.iterations, model.count) == ("max_iterations", CAP, CAP + 1)
    useful(
        run,
        "all 25 iterations are used up",
        "look ×25",
        "Not run: request_more_iterations, look.",
        "Ask me to go on",
    )


async def test_a6_request_more_iterations_and_nothing_else(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """E9: granted twice, refused five times in the same way, a word, refused once more, and a closing call: 2 + 5 + 1 + 1."""
    endlessly(
        model,
        lambda number, body: calls(
            ("request_more_iterations", {"reason": f"reason {'abcdefghij'[number % 10]}"})
        ),
    )
    async with living(tmp_path, model, parts=PARTS) as it:
        run = await ask(it, model)
    assert run.stop_reason in ("stalled", "low_confidence")
    assert model.count <= 2 + 5 + 1 + 1
    useful(
        run,
        "I stopped: ",
        "Done: request_more_iterations ×2.",
        "Failed: request_more",
        "Not run: request_more",
    )


async def test_d7_huge_results_and_huge_replies(tmp_path: Path, model: FakeOpenAI) -> None:
    """B4: a megabyte of each, each time; what is sent stays bounded, and so does the turn: 10 iterations and a closing call."""
    words = [f"word{n}" for n in range(2000)]

    def choose(number: int, body: Json) -> Step:
        text = " ".join(words[(n * number) % 2000] for n in range(MB // 8))[:MB]
        return calls(("flood", {"at": f"bay {number}"}), text=text)

    endlessly(model, choose)
    async with living(
        tmp_path, model, {"agent": {"max_input_tokens": 0, "max_usd": 0}}, PARTS
    ) as it:
        run = await ask(it, model, within=90)
    assert (run.stop_reason, run.iterations, model.count) == ("max_iterations", 10, 11)
    assert (
        max(len(request.raw) for request in model.requests) < 4 * 32_000 * 1.25
    )  # the window, in bytes, and its envelopes
    assert run.reply and "Done: flood ×10." in run.reply


async def test_d7_huge_replies_to_the_user_are_whole(tmp_path: Path, model: FakeOpenAI) -> None:
    """An answer of a megabyte is one answer; what follows is not drowned by it."""
    text = " ".join(f"word{n}" for n in range(MB // 9))[:MB]
    model.script(says(text), says("short"))
    async with living(tmp_path, model) as it:
        run = await ask(it, model)
        assert (run.stop_reason, run.reply) == ("done", text)
        assert (await ask(it, model, "and now?")).reply == "short"


async def test_e1_empty_replies(tmp_path: Path, model: FakeOpenAI) -> None:
    """A7: asked again once, then it is a failure that is told; what was done before is told, too."""
    endlessly(
        model, lambda number, body: calls(("look", {"at": "home"})) if number == 1 else says("")
    )
    async with living(tmp_path, model, parts=PARTS) as it:
        run = await ask(it, model)
    assert (run.stop_reason, model.count) == ("failed", 3)
    useful(
        run,
        "could not get an answer from the model",
        "empty",
        "Done: look.",
        "Your message is kept. Ask again",
    )


async def test_f6_claims_without_work(tmp_path: Path, model: FakeOpenAI) -> None:
    """E10: one correction, then the reply with an honest line: 2 calls, and no tool ran."""
    endlessly(model, lambda number, body: says("Done, I sent the mail to Anna."))
    async with living(tmp_path, model, parts=PARTS) as it:
        run = await ask(it, model, "Please send Anna a mail about the meeting.")
    assert (run.stop_reason, model.count, run.calls) == ("done", 2, [])
    useful(run, "Done, I sent the mail to Anna.", "(Note: no tool result of this turn shows that")


def drips() -> Step:
    """A reply that comes a letter at a time, often enough not to be silence, and never to its end."""

    async def step(x: Exchange) -> web.StreamResponse:
        response = await x.open("text/event-stream" if x.streams else "application/json")
        if not x.streams:
            await response.write(b'{"choices": [')
        chunk = {
            "id": "x",
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": {"content": "a"}}],
        }
        x.model.hanging.set()
        try:
            while True:
                await response.write(
                    b"data: " + json.dumps(chunk).encode() + b"\n\n" if x.streams else b" "
                )
                await asyncio.sleep(0.02)
        finally:
            x.model.gone.set()

    return step


@pytest.mark.parametrize("stream", [True, False])
async def test_e2_a_slow_drip(tmp_path: Path, model: FakeOpenAI, stream: bool) -> None:
    """E1: never silent for as long as `timeout_s`, so the deadline ends it, within a second; two calls in all."""
    model.script(calls(("look", {"at": "home"})))
    model.otherwise(drips())
    agent = {"max_seconds": 1.5, "on_budget": "stop"}
    config = {"agent": agent, "provider": {"timeout_s": 1.0}}
    async with living(tmp_path, model, config, PARTS) as it:
        clock = asyncio.get_running_loop().time
        began = clock()
        turn = (await it.house.client.send("web:test", PARENT, stream=stream)).turn
        run = await asyncio.wait_for(it.settled(turn), 10)
        assert clock() - began < 1.5 + 1.0
        await asyncio.wait_for(model.gone.wait(), 1)
    assert (run.stop_reason, run.iterations, model.count) == ("deadline", 1, 2)
    useful(
        run,
        "the time for one turn is used up (1.5 s)",
        "Done: look.",
        "Ask me to go on, or raise max_seconds",
    )


async def test_e2_a_call_that_hangs_ends_by_its_own_time_limit(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A7: it is asked once more, then it is told, with what was done before."""
    model.script(calls(("look", {"at": "home"})))
    model.otherwise(hangs())
    async with living(tmp_path, model, {"provider": {"timeout_s": 0.3}}, PARTS) as it:
        run = await ask(it, model)
    assert (run.stop_reason, model.count) == ("failed", 3)
    useful(
        run,
        "could not get an answer from the model",
        "Done: look.",
        "Your message is kept. Ask again",
    )


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("silent", [hangs(), drips()], ids=["hangs", "drips"])
async def test_e2_stop_reaches_into_a_call_within_a_second(
    tmp_path: Path, model: FakeOpenAI, silent: Step, stream: bool
) -> None:
    """D5, E7: and the connection is closed."""
    model.otherwise(silent)
    async with living(tmp_path, model) as it:
        turn = (await it.house.client.send("web:test", PARENT, stream=stream)).turn
        await asyncio.wait_for(model.hanging.wait(), 10)
        assert await it.command("/stop") == "Stopping 1 task."
        run = await asyncio.wait_for(it.settled(turn), 1)
        await asyncio.wait_for(model.gone.wait(), 1)
    assert (run.stop_reason, model.count) == ("cancelled", 1)
    useful(run, "Stopped.", "Say what you want instead, or ask again.")


async def test_e2_the_deadline_reaches_into_a_wait_between_two_tries(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A7, E1: the provider wants a minute, the turn has half a second."""
    model.otherwise(fails(429, headers={"Retry-After": "60"}))
    async with living(tmp_path, model, {"agent": {"max_seconds": 0.5}}) as it:
        run = await ask(it, model, within=5)
    assert (run.stop_reason, model.count) == ("deadline", 1)


async def test_e1_whatever_the_way_the_end_is_on_record_once(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """D6, D7: the closing call is marked, its end is the last event, and it is delivered."""
    endlessly(model, lambda number, body: calls(("there", {"at": "home"})))
    async with living(tmp_path, model, parts=PARTS) as it:
        run = await it.ask(PARENT, "terminal:main")
        events = await it.events(run.turn)
        assert [event.closing for event in events if isinstance(event, ModelAsked)] == [
            False
        ] * 4 + [True]
        assert [type(event).__name__ for event in events].count("TurnEnded") == 1
        assert [item.body for item in await it.house.client.list_undelivered("terminal:main")] == [
            run.reply
        ]
        assert not [event for event in events if isinstance(event, ChildSpawned)]


async def test_a11_the_same_call_through_the_real_process(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """E1."""
    endlessly(model, lambda number, body: calls(("read_file", {"path": "nowhere.txt"})))
    async with running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon:
        run = await daemon.ask(PARENT)
    assert (run["stop_reason"], model.count) == ("stalled", 5)
    assert "read_file was called 3 times running" in str(
        run["reply"]
    ) and "Tell me another way" in str(run["reply"])


async def test_e2_a_slow_drip_through_the_real_process(tmp_path: Path, model: FakeOpenAI) -> None:
    """D1."""
    model.otherwise(drips())
    async with running_daemon(
        tmp_path / "home", scripted(model.base_url, "[agent]\nmax_seconds = 1.5\n")
    ) as daemon:
        run = await daemon.ask(PARENT)
        assert (run["stop_reason"], model.count) == ("deadline", 1)
        assert "raise max_seconds in [agent]" in str(run["reply"])
        model.otherwise(says("here"))
        assert (await daemon.ask("are you there?"))["reply"] == "here"
