"""Which model answers: by the kind of work, unless one is pinned; a cheap model is asked only where the rules are unsure
(A2, E3, E13, A19).
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from daemon.agent.pre_call import QUESTION_FOR_MODEL
from daemon.core.events import Classified, Consulted, Consulting, UserSaid
from daemon.core.turn_spec import Intent
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, Json, Step, by, calls, fails, hangs, says, tokens

THREE = {"primary": "middle", "fast": "small", "smart": "big"}
UNSURE = "The report, please: the usual one."
SORTING = QUESTION_FOR_MODEL.splitlines()[0]


def config(
    models: Mapping[str, str] | None = None, agent: Mapping[str, object] | None = None, **more: object
) -> dict[str, object]:
    """The fast model sorts messages; it is not asked about claims (F6)."""
    more["agent"] = {"check_claims": False, **(agent or {})}
    prices = {name: {"input": 1.0, "output": 10.0} for name in ("small", "middle", "big", "other")}
    return {"provider": {"models": dict(models or THREE), "prices": prices}, **more}


def sorts(body: Json) -> bool:
    """This request asks what kind of work a message is."""
    return str(body["messages"][0]["content"]).startswith(SORTING)


def sorted_as(model: FakeOpenAI, verdict: Step, answer: Step | None = None) -> None:
    model.otherwise(by(lambda body: verdict if sorts(body) else answer or says("ok")))


def asked(model: FakeOpenAI) -> list[str]:
    """Which models were asked, in order."""
    return [("?" if sorts(request.body) else "") + request["model"] for request in model.requests]


async def events_of(it: Living, turn: str, *kinds: type) -> list[str]:
    return [type(event).__name__ for event in await it.events(turn) if isinstance(event, kinds)]


@pytest.mark.parametrize(
    ("text", "intent", "chosen"),
    [
        ("hi", Intent.TRIVIAL, "small"),
        ("What is the capital of Peru?", Intent.SIMPLE_QUERY, "small"),
        ("Read notes.txt, then write a summary of it to out.txt", Intent.MULTI_STEP, "middle"),
        ("Build a web app that tracks my plants, with a database and tests", Intent.COMPLEX, "big"),
    ],
)
async def test_a2_the_kind_of_work_chooses_the_model(
    tmp_path: Path, model: FakeOpenAI, text: str, intent: Intent, chosen: str
) -> None:
    """E3: where the rules are sure nobody is asked what kind of work it is."""
    async with living(tmp_path, model, config()) as it:
        run = await it.ask(text)
        said = (await it.events(run.turn))[0]
    assert isinstance(said, UserSaid) and said.intent is intent
    assert asked(model) == [chosen]


# What people say to an assistant in a week; each with the kind that a person would put it in.
T, S, M, C = Intent.TRIVIAL, Intent.SIMPLE_QUERY, Intent.MULTI_STEP, Intent.COMPLEX
ORDINARY = {
    "good morning!": T,
    "ok, thanks": T,
    "thanks, that helped": T,
    "I feel a bit tired today": T,
    "yes please": S,
    "go on": S,
    "What is the capital of Australia?": S,
    "How many grams are in an ounce?": S,
    "Translate 'see you soon' into French": S,
    "Where is Ljubljana?": S,
    "what's on my calendar today?": S,
    "Is it going to rain tomorrow?": S,
    "Remind me to call mum at six": S,
    "Did Anna reply to my mail?": S,
    "Can you book a table for two on Friday?": S,
    "Why is the build red?": S,
    "What should I cook tonight?": S,
    "The heating is making a strange noise": S,
    "Which of these two laptops is better for video?": S,
    "Summarise this thread for me": S,
    "Make the second paragraph shorter": S,
    "Delete the old backups": S,
    "Write a birthday poem for Tom": S,
    "Read the notes from Monday and send them to Ben": M,
    "Find a cheap flight to Lisbon, then put it in the calendar": M,
    "Download the bank statement and save it in taxes/2025": M,
    "Every photo of the trip should go to Lea, but scaled down first": M,
    "Refactor the parser so that it streams": C,
    "Help me plan a week in Japan": C,
    "Our shop needs an online presence; where do we begin?": C,
}


async def test_e3_about_a_third_of_ordinary_messages_is_sorted_without_the_fast_model(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """And rightly; for each of the others it is asked once."""
    sorted_as(model, says("SIMPLE_QUERY"))
    decided: dict[str, Intent | None] = {}
    async with living(tmp_path, model, config()) as it:
        for number, text in enumerate(ORDINARY):
            before = sum(sorts(request.body) for request in model.requests)
            run = await it.ask(text, f"web:{number}")
            said = (await it.events(run.turn))[0]
            asked_now = sum(sorts(request.body) for request in model.requests) - before
            assert isinstance(said, UserSaid) and asked_now == (said.intent is None), text
            if said.intent is not None:
                decided[text] = said.intent
    assert decided.items() <= ORDINARY.items()
    assert len(ORDINARY) == 30 and 8 <= len(decided) <= 13


@pytest.mark.parametrize(
    ("word", "chosen"),
    [
        ("TRIVIAL", "small"),
        ("Simple query.", "small"),
        ("MULTI_STEP", "middle"),
        ("It is COMPLEX", "big"),
    ],
)
async def test_a2_where_the_rules_are_unsure_a_cheap_model_is_asked_once(
    tmp_path: Path, model: FakeOpenAI, word: str, chosen: str
) -> None:
    """E3: the question is small, and the answer holds for the whole turn."""
    steps = [calls(("current_time", {})), says("ok")]
    model.otherwise(by(lambda body: says(word) if sorts(body) else steps.pop(0)))
    async with living(tmp_path, model, config()) as it:
        run = await it.ask(UNSURE)
        assert await events_of(it, run.turn, Consulting, Consulted, Classified) == [
            "Consulting",
            "Consulted",
            "Classified",
        ]
    assert asked(model) == ["?small", chosen, chosen]
    question = model.requests[0].body
    assert UNSURE in question["messages"][0]["content"] and "tools" not in question
    assert question["max_tokens"] <= 16


@pytest.mark.parametrize(
    "models", [{"primary": "one"}, {"primary": "one", "fast": "one", "smart": "one"}]
)
async def test_a2_routing_is_off_where_all_are_the_same(
    tmp_path: Path, model: FakeOpenAI, models: dict[str, str]
) -> None:
    async with living(tmp_path, model, config(models)) as it:
        for text in (
            "hi",
            UNSURE,
            "Build a web app that tracks my plants, with a database and tests",
        ):
            run = await it.ask(text)
            assert await events_of(it, run.turn, Consulting) == []
    assert asked(model) == ["one"] * 3


async def test_a2_without_a_cheaper_model_nobody_is_asked_what_it_is(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """E3: a strong model alone is for what is plainly hard."""
    async with living(tmp_path, model, config({"primary": "middle", "smart": "big"})) as it:
        for text in (
            "hi",
            UNSURE,
            "Build a web app that tracks my plants, with a database and tests",
        ):
            await it.ask(text)
    assert asked(model) == ["middle", "middle", "big"]


async def test_a2_model_pins_and_auto_unpins(tmp_path: Path, model: FakeOpenAI) -> None:
    """Over a restart, too; while one is pinned nobody is asked what kind of work it is."""
    sorted_as(model, says("COMPLEX"))
    async with living(tmp_path, model, config()) as it:
        assert (await it.command("/model")) == "Model: middle"
        assert "Model: other." in await it.command("/model other")
        assert "other (pinned; /auto unpins)" in await it.command("/model")
        assert "* other" in await it.command("/models") and "- big" in await it.command("/models")
        await it.ask("hi")
    async with living(tmp_path, model, config()) as it:
        assert "Model: other (pinned)" in await it.command("/status")
        await it.ask(UNSURE)
        await it.ask("hi", "web:elsewhere")
        assert await it.command("/auto") == "Model: middle"
        await it.ask(UNSURE)
    assert asked(model) == ["other", "other", "small", "?small", "big"]


async def test_a2_a_spec_that_names_its_model_has_it_for_all_work(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B1."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "own.toml").write_text(
        '[identity]\nname = "own"\n[model_policy]\nmodel = "other"\n'
    )
    async with living(tmp_path, model, config()) as it:
        await it.command("/agent own")
        for text in ("hi", UNSURE):
            await it.ask(text)
    assert asked(model) == ["other", "other"]


@pytest.mark.parametrize(
    "verdict", [fails(401), says("I cannot say, COMPLEX or TRIVIAL"), says("purple")]
)
async def test_e3_without_a_verdict_the_primary_answers(
    tmp_path: Path, model: FakeOpenAI, verdict: Step
) -> None:
    """A2: nothing of it reaches the user."""
    sorted_as(model, verdict)
    async with living(tmp_path, model, config()) as it:
        run = await it.ask(UNSURE)
        assert (run.stop_reason, run.reply, run.notices) == ("done", "ok", [])
        assert await events_of(it, run.turn, Classified) == []
    assert asked(model) == ["?small", "middle"]


async def test_e3_what_is_not_sorted_is_not_asked_again_in_the_same_turn(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Nor at each of its calls."""
    steps = [calls(("current_time", {})), says("ok")]
    sorted_as(model, says("purple"), by(lambda body: steps.pop(0)))
    async with living(tmp_path, model, config()) as it:
        await it.ask(UNSURE)
    assert asked(model) == ["?small", "middle", "middle"]


async def test_e3_nor_when_the_first_call_is_made_again_with_a_shorter_history(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B4."""
    async with living(tmp_path, model, config()) as it:
        for n in range(8):
            model.script(says(f"tale {n} " * 400))
            await it.ask("hi")
        too_long = fails(
            400,
            {
                "error": {
                    "message": "too long",
                    "type": "invalid",
                    "code": "context_length_exceeded",
                }
            },
        )
        model.script(says("purple"), too_long, says("shorter"))
        assert (await it.ask(UNSURE)).reply == "shorter"
    assert asked(model)[8:] == ["?small", "middle", "middle"]


async def test_e2_stop_reaches_into_the_question_what_kind_of_work_it_is(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """E7: within a second; and so does the deadline."""
    model.otherwise(hangs())
    async with living(tmp_path, model, config()) as it:
        turn = await it.say(UNSURE)
        await asyncio.wait_for(model.hanging.wait(), 10)
        await it.command("/stop")
        run = await asyncio.wait_for(it.settled(turn), 1)
        await asyncio.wait_for(model.gone.wait(), 1)
    assert (run.stop_reason, asked(model)) == ("cancelled", ["?small"])
    async with living(tmp_path / "two", model, config(agent={"max_seconds": 0.4})) as it:
        assert (await asyncio.wait_for(it.ask(UNSURE), 5)).stop_reason == "deadline"


async def test_a19_the_question_is_charged_and_shown(tmp_path: Path, model: FakeOpenAI) -> None:
    """F2: to the turn, to the day, and in /cost by its own model."""
    sorted_as(model, says("COMPLEX", tokens(200, 4)), says("ok", tokens(1_000, 100)))
    async with living(tmp_path, model, config(budget={"daily_tokens": 50_000})) as it:
        run = await it.ask(UNSURE)
        cost, status = await it.command("/cost"), await it.command("/status")
    assert (run.usage.input_tokens, run.usage.output_tokens, run.usage.usd) == (
        1_200,
        104,
        pytest.approx(0.00224),
    )
    assert "small: 1 calls, 200 in (0 cached), 4 out, $0.0002" in cost
    assert "big: 1 calls, 1,000 in (0 cached), 100 out, $0.0020" in cost
    assert "1,304 tokens of 50,000" in status


async def test_f2_where_there_is_no_budget_for_the_question_it_is_left_out(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A2: and the turn ends for want of budget, not for want of an answer to it."""
    sorted_as(model, says("COMPLEX"))
    async with living(
        tmp_path, model, config(agent={"max_input_tokens": 100, "on_budget": "stop"})
    ) as it:
        run = await it.ask(UNSURE)
    assert (run.stop_reason, asked(model)) == ("over_budget", [])


async def test_a2_a_fast_model_that_does_not_answer_is_followed_by_the_primary(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A7: not found means at once."""
    model.otherwise(
        by(lambda body: fails(404) if body["model"] == "small" else says("from the middle one"))
    )
    async with living(tmp_path, model, config()) as it:
        assert (await it.ask("hi")).reply == "from the middle one"
    assert asked(model) == ["small", "middle"]


async def test_e13_effort_is_the_chats_the_specs_or_the_configs(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A14: /effort holds for the chat, over a restart; without one, nothing is sent."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "deep.toml").write_text(
        '[identity]\nname = "deep"\n[model_policy]\neffort = "high"\n'
    )
    async with living(tmp_path, model, config()) as it:
        await it.ask("hi", "web:a")
        assert "Effort: low" in await it.command("/effort low", "web:b")
        assert "changes it" in await it.command("/effort tiny", "web:b")
    async with living(tmp_path, model, config(agent={"effort": "medium"})) as it:
        await it.ask("hi", "web:b")
        await it.ask("hi", "web:c")
        await it.command("/agent deep", "web:c")
        await it.ask("hi", "web:c")
    assert [request.body.get("reasoning_effort") for request in model.requests] == [
        None,
        "low",
        "medium",
        "high",
    ]
