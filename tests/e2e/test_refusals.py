"""A server that refuses a request for what is in it: the turn goes on without that, and so does the conversation (A7)."""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.e2e.test_odd_servers import home_with_note
from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import Exchange, FakeOpenAI, Step, calls, fails, hangs, says

Json = dict[str, Any]
READ = ("read_file", {"path": "note.txt"})
BUDGET = "[budget]\ndaily_usd = 1.0\n[agent]\nmax_usd = 0.5\n[provider.prices.fake]\ninput = 1.0\noutput = 1.0\n"


def refuses(
    fault: Callable[[Json], str], then: Step, status: int = 400, code: str | None = None
) -> Step:
    """A 400 for a body in which this finds a fault; else `then`."""

    async def step(x: Exchange) -> web.StreamResponse:
        if found := fault(x.asked.body):
            error = {"message": found, "type": "invalid_request_error", "param": None, "code": code}
            return await fails(status, {"error": error})(x)
        return await then(x)

    return step


def by_round() -> Step:
    """Reads the note once in each turn, then answers."""

    async def step(x: Exchange) -> web.StreamResponse:
        last = x.asked["messages"][-1]
        if last["role"] == "user" and "read it" in last["content"]:
            return await calls(READ)(x)
        return await says("It is 42.")(x)

    return step


def names_of(body: Json) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", ())]


def has_calls(body: Json) -> bool:
    return any("tool_calls" in message for message in body["messages"])


def no_seed(body: Json) -> str:
    return "Unsupported parameter: 'max_tokens' is not supported." if "max_tokens" in body else ""


def no_recall(body: Json) -> str:
    named = "Invalid schema for function 'recall': None is not of type 'string'."
    return named if "recall" in names_of(body) else ""


def no_third_tool(body: Json) -> str:
    third = names_of(body)[2:3] == ["recall"]
    return "Invalid 'tools[2].function.parameters': schema must be an object." if third else ""


def no_tools(body: Json) -> str:
    return "m does not support tools" if body.get("tools") or has_calls(body) else ""


def no_calls(body: Json) -> str:
    return "Improperly formed request." if has_calls(body) else ""


def no_history(body: Json) -> str:
    users = [m for m in body["messages"] if m["role"] == "user"]
    return "Conversation roles must alternate." if len(users) > 1 else ""


async def transcript(home: Path, run: Json) -> list[Json]:
    shown = await asyncio.to_thread(aidaemon, "show", str(run["turn"]), "--json", home=home)
    return json.loads(shown.stdout)["events"]


def no_payment(body: Json) -> str:
    named = "Invalid schema for function 'recall': see create_payment_link and the moderation_check of tools[2]."
    return named if "recall" in names_of(body) else ""


def no_declaration(body: Json) -> str:
    place = names_of(body).index("recall") if "recall" in names_of(body) else -1
    named = f"* GenerateContentRequest.tools[0].function_declarations[{place}].parameters: missing field."
    return named if place >= 0 else ""


def no_calling(body: Json) -> str:
    return "Function calling is not enabled for models/m" if body.get("tools") else ""


def no_role(body: Json) -> str:
    roles = {message["role"] for message in body["messages"]}
    return "System role not supported" if "system" in roles else ""


def no_orders_and_no_calling(body: Json) -> str:
    roles = {message["role"] for message in body["messages"]}
    return "Developer instruction is not enabled for m" if "system" in roles else no_calling(body)


RUNGS = {
    "a parameter": (no_seed, 1, "does not take the parameter max_tokens"),
    "a tool by its name": (no_recall, 1, "does not take the tool recall"),
    "a tool by its place": (no_third_tool, 1, "does not take the tool recall"),
    "a tool beside other words": (no_payment, 1, "does not take the tool recall"),
    "a tool by Gemini's place": (no_declaration, 1, "does not take the tool recall"),
    "all tools": (no_tools, 1, "does not take the parameter tools"),
    "calls in the history": (no_calls, 1, "I sent it as plain text"),
    "the history itself": (no_history, 2, "it has seen your latest message only"),
}


@pytest.mark.parametrize(("fault", "extra", "told"), RUNGS.values(), ids=RUNGS.keys())
async def test_what_a_server_refuses_is_left_out_told_once_and_remembered_a7(
    tmp_path: Path, fault: Callable[[Json], str], extra: int, told: str
) -> None:
    config = "[provider]\nmax_tokens = 500\n"
    async with FakeOpenAI() as model:
        text = scripted(model.base_url).replace("[provider]\n", config, 1)
        async with running_daemon(home_with_note(tmp_path), text) as daemon:
            model.otherwise(by_round())
            assert (await daemon.ask("please read it"))["reply"] == "It is 42."
            model.otherwise(refuses(fault, says("It is 42.")))
            before = model.count
            run = await daemon.ask("And now?")
            assert run["stop_reason"] == "done" and str(run["reply"]).startswith("It is 42.")
            assert told in str(run["reply"]) and model.count == before + 1 + extra
            assert (await daemon.ask("hi"))["reply"] == "It is 42."
            assert model.count == before + 2 + extra


TEMPLATES = {
    "llama.cpp": "While executing CallExpression at line 40, column 32 in source: raise_exception('Conversation roles must alternate')",
    "LM Studio": "Error rendering prompt with jinja template: Only user and assistant roles are supported!",
    "Ollama": "template: :12:24: executing: can't evaluate field Arguments",
}  # fmt: skip


@pytest.mark.parametrize("words", TEMPLATES.values(), ids=TEMPLATES.keys())
@pytest.mark.parametrize("status", [500, 200])
async def test_a_template_that_cannot_render_the_history_is_a_refusal_a7(
    tmp_path: Path, status: int, words: str
) -> None:
    def no_template(body: Json) -> str:
        return words if has_calls(body) else ""

    async with (
        FakeOpenAI() as model,
        running_daemon(home_with_note(tmp_path), scripted(model.base_url)) as daemon,
    ):
        model.otherwise(by_round())
        assert (await daemon.ask("please read it"))["reply"] == "It is 42."
        model.otherwise(refuses(no_template, says("It is 42."), status))
        before = model.count
        run = await daemon.ask("And now?")
        assert str(run["reply"]).startswith("It is 42.") and model.count == before + 2
        assert (await daemon.ask("hi"))["reply"] == "It is 42."


async def test_a_climb_makes_three_extra_calls_at_most_and_ends_with_the_latest_message_a7(
    tmp_path: Path,
) -> None:
    def all_of_it(body: Json) -> str:
        return no_seed(body) or no_recall(body) or no_calls(body) or no_history(body)

    async with FakeOpenAI() as model:
        text = scripted(model.base_url).replace("[provider]\n", "[provider]\nmax_tokens = 500\n", 1)
        async with running_daemon(home_with_note(tmp_path), text) as daemon:
            model.otherwise(by_round())
            await daemon.ask("please read it")
            model.otherwise(refuses(all_of_it, says("It is 42.")))
            before = model.count
            run = await daemon.ask("And now?")
            assert str(run["reply"]).startswith("It is 42.") and model.count == before + 4


async def test_a_server_that_refuses_everything_ends_the_turn_and_not_the_conversation_a7(
    tmp_path: Path,
) -> None:
    async with FakeOpenAI() as model, running_daemon(tmp_path, scripted(model.base_url)) as daemon:
        model.otherwise(fails(400, {"error": {"message": "No.", "type": "invalid_request_error"}}))
        run = await daemon.ask("hello")  # nothing can be left out of it
        assert run["stop_reason"] == "failed" and model.count == 1
        model.otherwise(says("Hello!"))
        assert (await daemon.ask("hi"))["reply"] == "Hello!"


NEVER = {
    "a filter": (
        400,
        {
            "message": "The response was filtered due to the content management policy.",
            "code": "content_filter",
        },
    ),
    "a filter in words": (
        400,
        {"message": "Output blocked by content filtering policy", "type": "invalid_request_error"},
    ),
    "credit": (400, {"message": "Your credit balance is too low", "type": "invalid_request_error"}),
    "a key": (401, {"message": "Incorrect API key provided", "code": "invalid_api_key"}),
    "not found": (404, {"message": "The model does not exist", "code": "model_not_found"}),
}


@pytest.mark.parametrize(("status", "error"), NEVER.values(), ids=NEVER.keys())
async def test_a_filter_credit_a_key_and_a_missing_model_never_climb_a7(
    tmp_path: Path, status: int, error: Json
) -> None:
    async with FakeOpenAI() as model, running_daemon(tmp_path, scripted(model.base_url)) as daemon:
        model.otherwise(fails(status, {"error": error}))
        run = await daemon.ask("hello")
        assert run["stop_reason"] == "failed" and model.count == 1


async def test_the_money_of_each_extra_call_is_reserved_and_a_refusal_costs_nothing_f2(
    tmp_path: Path,
) -> None:
    async with (
        FakeOpenAI() as model,
        running_daemon(home_with_note(tmp_path), scripted(model.base_url, BUDGET)) as daemon,
    ):
        model.otherwise(by_round())
        await daemon.ask("please read it")
        model.otherwise(refuses(no_history, says("It is 42.")))
        run = await daemon.ask("And now?")
        lines = await transcript(tmp_path, run)
        asked = [line["reserved_usd"] for line in lines if line["kind"] == "ModelAsked"]
        assert len(asked) == 3 and all(usd > 0 for usd in asked)
        steps = [line["history"] for line in lines if line["kind"] == "RequestAdapted"]
        assert steps == ["plain", "last"]
        assert json.loads(json.dumps(run["usage"]))["input_tokens"] == 10


async def test_what_helped_is_forgotten_when_the_config_changes_a7(tmp_path: Path) -> None:
    async with (
        FakeOpenAI() as model,
        running_daemon(home_with_note(tmp_path), scripted(model.base_url)) as daemon,
    ):
        model.otherwise(refuses(no_recall, says("Hello!")))
        await daemon.ask("hello")
        await daemon.ask("hi")
        assert "recall" not in names_of(model.requests[-1].body) and model.count == 3
        config = tmp_path / "config.toml"
        config.write_text(config.read_text() + "\n[budget]\ndaily_tokens = 900000\n")
        assert "Applied" in str(await daemon.post("/v1/messages", text="/reload"))
        run = await daemon.ask("hi again")
        assert model.count == 5 and "does not take the tool recall" in str(run["reply"])


async def test_a_turn_that_was_killed_behind_its_climb_goes_on_as_it_had_learnt_a7(
    tmp_path: Path,
) -> None:
    async with FakeOpenAI() as model:
        config = scripted(model.base_url)
        async with running_daemon(home_with_note(tmp_path), config) as daemon:
            model.otherwise(by_round())
            await daemon.ask("please read it")
            model.otherwise(refuses(no_calls, hangs()))
            model.script(refuses(no_calls, says("")), calls(READ))
            turn = await daemon.begin("once more")
            await model.hanging.wait()
            os.killpg(daemon.process.pid, signal.SIGKILL)
            await daemon.process.wait()
        model.otherwise(refuses(no_calls, says("It is 42.")))
        async with running_daemon(tmp_path, None) as daemon:
            async for _ in daemon.stream(turn):
                pass
            assert str((await daemon.run(turn))["reply"]).startswith("It is 42.")


async def test_a_fallback_that_refuses_is_asked_as_it_wants_in_the_whole_turn_a7(
    tmp_path: Path,
) -> None:
    async with FakeOpenAI() as primary, FakeOpenAI() as model:
        fallback = (
            f'[[provider.fallbacks]]\nkind = "openai"\nbase_url = "{model.base_url}"\nmodel = "b"\n'
        )
        config = scripted(primary.base_url, fallback)
        async with running_daemon(home_with_note(tmp_path), config) as daemon:
            primary.script(calls(READ), says("It is 42."))
            await daemon.ask("please read it")
            primary.otherwise(fails(404, {"error": {"message": "The model does not exist"}}))
            model.script(refuses(no_calls, says("")), calls(READ))
            model.otherwise(refuses(no_calls, says("It is 42.")))
            run = await daemon.ask("once more")
            assert str(run["reply"]).startswith("It is 42.")


async def test_what_was_left_out_is_sent_again_after_clear_a7(tmp_path: Path) -> None:
    """Without what memory adds once an earlier turn is indexed: it is about the history alone."""
    no_memory = "[memory]\nrelevance = 0\n"
    async with (
        FakeOpenAI() as model,
        running_daemon(home_with_note(tmp_path), scripted(model.base_url, no_memory)) as daemon,
    ):
        model.otherwise(by_round())
        await daemon.ask("please read it")
        model.otherwise(refuses(no_history, says("It is 42.")))
        await daemon.ask("And now?")
        await daemon.post("/v1/messages", text="/clear")
        model.otherwise(says("Hello Ann!"))
        await daemon.ask("My name is Ann")
        await daemon.ask("What is my name?")
        users = [m for m in model.requests[-1]["messages"] if m["role"] == "user"]
        assert [m["content"] for m in users] == ["My name is Ann", "What is my name?"]


@pytest.mark.parametrize(
    ("fault", "status", "told"),
    [
        (no_calling, 400, "does not take the parameter tools"),
        (lambda body: "No endpoints found that support tool use." if body.get("tools") else "", 404, "does not take the parameter tools"),
        (no_role, 400, "does not take a system prompt"),
        (no_orders_and_no_calling, 400, "does not take a system prompt and the parameter tools"),
    ],
    ids=["no calling", "no endpoint with tools", "no system role", "neither"],
)  # fmt: skip
async def test_a_model_without_tools_or_system_prompt_answers_from_its_first_turn_on_a7(
    tmp_path: Path, fault: Callable[[Json], str], status: int, told: str
) -> None:
    async with (
        FakeOpenAI() as model,
        running_daemon(home_with_note(tmp_path), scripted(model.base_url)) as daemon,
    ):
        model.otherwise(refuses(fault, says("It is 42."), status))
        run = await daemon.ask("hello")
        assert run["stop_reason"] == "done" and str(run["reply"]).startswith("It is 42.")
        assert told in str(run["reply"])
        assert (await daemon.ask("hi"))["reply"] == "It is 42."
        assert "aidaemon" in str(model.requests[-1].body["messages"]).lower()
