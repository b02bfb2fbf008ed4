"""Servers that differ from OpenAI's: a turn ends with its answer, and so does the next (issue: nothing kills a conversation)."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.fakes import responses
from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.openai import Exchange, FakeOpenAI, Step, fails, hangs, raw, says, tokens, trickles
from tests.fakes.responses import FakeResponses

Json = dict[str, Any]
VALID_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
READ = {"path": "note.txt"}


def replies(message: Json, finish: str = "stop") -> Step:
    """A whole answer with exactly this message, streamed in one piece where that was asked for."""

    async def step(x: Exchange) -> web.StreamResponse:
        choice = {"index": 0, "finish_reason": finish}
        body: Json = {"id": "x", "created": 1, "model": "m", "usage": tokens(10, 5)}
        if not x.streams:
            body |= {"object": "chat.completion", "choices": [choice | {"message": message}]}
            return web.Response(text=json.dumps(body), content_type="application/json")
        body |= {"object": "chat.completion.chunk", "choices": [choice | {"delta": message}]}
        response = await x.open()
        await response.write(b"data: " + json.dumps(body).encode() + b"\n\ndata: [DONE]\n\n")
        return response

    return step


def call(name: str, arguments: object, call_id: str = "call_a", **extra: object) -> Json:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function, **extra}


def unless(fault: Callable[[list[Json]], str], then: Step) -> Step:
    """Refuses a history in which this finds a fault, as strict servers do."""

    async def step(x: Exchange) -> web.StreamResponse:
        if found := fault(x.asked["messages"]):
            error = {"message": found, "type": "invalid_request_error", "param": None, "code": None}
            return await fails(400, {"error": error})(x)
        return await then(x)

    return step


def has_odd_name(messages: list[Json]) -> str:
    names = [one["function"]["name"] for m in messages for one in m.get("tool_calls") or ()]
    return "" if all(map(VALID_NAME.fullmatch, names)) else "string does not match pattern"


def home_with_note(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "note.txt").write_text("The answer is 42.\n")
    (tmp_path / "workspace" / "other.txt").write_text("Another one.\n")
    return tmp_path


async def reply_of(daemon: Daemon, text: str = "What is in note.txt?") -> str:
    run = await daemon.ask(text)
    assert run["stop_reason"] == "done", run
    return str(run["reply"])


def results(model: FakeOpenAI, request: int = -1) -> list[str]:
    return [m["content"] for m in model.requests[request]["messages"] if m["role"] == "tool"]


async def test_two_calls_with_one_id_and_no_index_are_two_calls_p01(tmp_path: Path) -> None:
    first, second = (
        {
            "choices": [
                {"index": 0, "delta": {"tool_calls": [call("read_file", {"path": path}, "x")]}}
            ]
        }
        for path in ("note.txt", "other.txt")
    )
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    lines = [b"data: %s\n\n" % json.dumps(one).encode() for one in (first, second, end)]
    async with (
        FakeOpenAI() as model,
        running_daemon(home_with_note(tmp_path), scripted(model.base_url)) as daemon,
    ):
        model.script(raw(*lines, b"data: [DONE]\n\n"), says("Both are read."))
        assert await reply_of(daemon) == "Both are read."
        found = results(model)
        assert "42" in found[0] and "Another" in found[1]


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
async def test_what_the_model_thought_goes_back_with_its_call_p03(tmp_path: Path, key: str) -> None:
    def lacks_thought(messages: list[Json]) -> str:
        asked = [m for m in messages if m.get("tool_calls")]
        missing = any(m.get(key) != "I should look." for m in asked)
        return f"The {key} in the thinking mode must be passed back to the API." if missing else ""

    thinking = {
        "role": "assistant",
        "content": "",
        key: "I should look.",
        "tool_calls": [call("read_file", READ)],
    }
    async with (
        FakeOpenAI() as model,
        running_daemon(home_with_note(tmp_path), scripted(model.base_url)) as daemon,
    ):
        model.script(replies(thinking, "tool_calls"))
        model.otherwise(unless(lacks_thought, says("It is 42.")))
        assert await reply_of(daemon) == "It is 42."
        assert await reply_of(daemon, "Thanks") == "It is 42."
        assert model.count == 3


async def test_the_signature_of_a_call_goes_back_unchanged_p04(tmp_path: Path) -> None:
    signature = {"google": {"thought_signature": "c2lnbmF0dXJl"}}

    def lacks_signature(messages: list[Json]) -> str:
        made = [one for m in messages for one in m.get("tool_calls") or ()]
        missing = any(one.get("extra_content") != signature for one in made)
        return (
            "Function call is missing a thought_signature in functionCall parts." if missing else ""
        )

    asked = {
        "role": "assistant",
        "content": None,
        "tool_calls": [call("read_file", READ, extra_content=signature)],
    }
    async with (
        FakeOpenAI() as model,
        running_daemon(home_with_note(tmp_path), scripted(model.base_url)) as daemon,
    ):
        model.script(replies(asked, "tool_calls"))
        model.otherwise(unless(lacks_signature, says("It is 42.")))
        assert await reply_of(daemon) == "It is 42."
        assert await reply_of(daemon, "Thanks") == "It is 42."


async def test_half_an_emoji_in_an_answer_is_replaced_in_one_call_p06_x01(tmp_path: Path) -> None:
    half = {"role": "assistant", "content": "Fine \ud83d thanks"}
    async with FakeOpenAI() as model, running_daemon(tmp_path, scripted(model.base_url)) as daemon:
        model.otherwise(replies(half))
        assert await reply_of(daemon, "How are you?") == "Fine \ufffd thanks"
        assert model.count == 1
        shown = await asyncio.to_thread(aidaemon, "chat", "--once", "How are you?", home=tmp_path)
        assert shown.returncode == 0 and "Fine \ufffd thanks" in shown.stdout


async def test_half_an_emoji_in_the_arguments_of_a_call_is_replaced_p06(tmp_path: Path) -> None:
    asked = call("remember", {"fact": "likes \ud83d"})
    async with FakeOpenAI() as model, running_daemon(tmp_path, scripted(model.base_url)) as daemon:
        model.script(
            replies({"role": "assistant", "tool_calls": [asked]}, "tool_calls"), says("Noted.")
        )
        assert await reply_of(daemon, "Remember what I like") == "Noted."
        assert "error" not in results(model)[0]


@pytest.mark.parametrize(
    "text",
    [
        "<think>\nThe user says hi.\n</think>\n\nHello!",
        "<think></think>Hello!",
        "The user says hi, so I greet.\n</think>\n\nHello!",
        "<thinking>hm</thinking>\nHello!",
        "[THINK]hm[/THINK]Hello!",
        "<seed:think>hm</seed:think>Hello!",
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hello!",
    ],
)
async def test_a_thought_in_the_text_is_not_shown_p14(tmp_path: Path, text: str) -> None:
    async with FakeOpenAI() as model, running_daemon(tmp_path, scripted(model.base_url)) as daemon:
        model.script(says(text))
        assert await reply_of(daemon, "hi") == "Hello!"


@pytest.mark.parametrize(
    "text",
    [
        "Models write `<think>` and `</think>` around it.",
        "To end it, write </think> after the thought.",
        "The token <|channel|>final<|message|> marks an answer.",
        "<think> is the tag that opens a thought.",
        "[thought] I like it.",
    ],
)
async def test_an_answer_about_such_tags_stays_whole_p14(tmp_path: Path, text: str) -> None:
    async with FakeOpenAI() as model, running_daemon(tmp_path, scripted(model.base_url)) as daemon:
        model.script(says(text))
        assert await reply_of(daemon, "hi") == text


CALL = '{"name": "read_file", "arguments": {"path": "note.txt"}}'
WRITTEN = {
    "Qwen and Hermes": f"<tool_call>\n{CALL}\n</tool_call>",
    "two of them": f"<tool_call>\n{CALL}\n</tool_call>\n<tool_call>\n{CALL}\n</tool_call>",
    "bare JSON": CALL,
    "a list": f"[{CALL}]",
    "doubled braces": f"{{{CALL}}}",
    "a doubled brace": f"{{{CALL}",
    "a fence": f"```json\n{CALL}\n```",
    "OpenAI's own form": '{"type": "function", "function": ' + CALL + "}",
    "Llama": '<|python_tag|>{"name": "read_file", "parameters": {"path": "note.txt"}}<|eom_id|>',
    "Llama's function": '<function=read_file>{"path": "note.txt"}</function>',
    "Llama's Python": '[read_file(path="note.txt")]',
    "Mistral": f"[TOOL_CALLS][{CALL}]",
    "newer Mistral": '[TOOL_CALLS]read_file[ARGS]{"path": "note.txt"}',
    "Qwen Coder": "<tool_call>\n<function=read_file>\n<parameter=path>\nnote.txt\n</parameter>\n</function>\n</tool_call>",
    "GLM": "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>note.txt</arg_value>\n</tool_call>",
    "Claude and MiniMax": '<tool_calls><invoke name="read_file"><parameter name="path">note.txt</parameter></invoke></tool_calls>',
    "DeepSeek": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n```json\n{"path": "note.txt"}\n```<｜tool▁call▁end｜>',
    "LFM2": '<|tool_call_start|>[read_file(path="note.txt")]<|tool_call_end|>',
    "a whole message": '{"tool_calls": [' + CALL + "]}",
    "behind words": f"I look.\n\n<tool_call>\n{CALL}\n</tool_call>",
    "Kimi behind words": 'I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{"path": "note.txt"}<|tool_call_end|><|tool_calls_section_end|>',
    "Mistral behind words": f"I look.[TOOL_CALLS][{CALL}]",
    "Qwen Coder without its beginning": "I look.\n<function=read_file>\n<parameter=path>\nnote.txt\n</parameter>\n</function>\n</tool_call>",
    "newer DeepSeek": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="read_file">\n<｜DSML｜parameter name="path" string="true">note.txt</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
    "gpt-oss": '<|channel|>analysis<|message|>I read.<|end|><|start|>assistant<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>{"path": "note.txt"}<|call|>',
    "gpt-oss, name first": '<|start|>assistant to=functions.read_file<|channel|>commentary json<|message|>{"path": "note.txt"}<|call|>',
    "Cohere": '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "read_file", "parameters": {"path": "note.txt"}}]<|END_ACTION|>',
    "in a thought without an end": f"<think>I read it.\n<tool_call>\n{CALL}\n</tool_call>",
    "behind a thought": f"<think>I look.</think>\n<tool_call>{CALL}</tool_call>",
    "Gemma": "```tool_code\nprint(default_api.read_file(path='note.txt'))\n```",
    "ReAct": 'Thought: I look.\nAction: read_file\nAction Input: {"path": "note.txt"}',
}


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN.keys())
async def test_a_call_that_is_written_as_text_is_run_and_told_as_recovered_p15(
    tmp_path: Path, text: str
) -> None:
    async with (
        FakeOpenAI() as model,
        running_daemon(home_with_note(tmp_path), scripted(model.base_url)) as daemon,
    ):
        model.script(says(text), says("It is 42."))
        run = await daemon.ask("What is in note.txt?")
        assert run["reply"] == "It is 42."
        assert "42" in results(model)[0]
        shown = await asyncio.to_thread(aidaemon, "show", str(run["turn"]), "--json", home=tmp_path)
        assert '"recovered":true' in shown.stdout.replace(": ", ":")


@pytest.mark.parametrize(
    "text",
    [
        f"You could call it like this:\n```json\n{CALL}\n```",
        f"You could call it like this:\n```\n<tool_call>{CALL}</tool_call>\n```",
        f"A model writes `<tool_call>{CALL}</tool_call>`",
        f"<tool_call>{CALL}</tool_call> is how it looks.",
        '{"name": "no_such_tool", "arguments": {}}',
        '{"name": "delete read_file", "arguments": {}}',
        '<b>read_file {"path": "note.txt"}</b>',
        "```css\nshell {}\n```",
        '{"name": "read_file", "size": 3}',
    ],
)
async def test_what_is_more_or_less_than_a_call_is_an_answer_p15(tmp_path: Path, text: str) -> None:
    async with FakeOpenAI() as model, running_daemon(tmp_path, scripted(model.base_url)) as daemon:
        model.script(says(text))
        assert await reply_of(daemon, "How do I call it?") == text


@pytest.mark.parametrize("end", ["/", "/chat/completions", "/chat/completions/"])
async def test_an_address_as_providers_print_it_works_p21(tmp_path: Path, end: str) -> None:
    async with (
        FakeOpenAI() as model,
        running_daemon(tmp_path, scripted(model.base_url + end)) as daemon,
    ):
        model.script(says("Hello!"))
        assert await reply_of(daemon, "hi") == "Hello!"


@pytest.mark.parametrize(
    ("finish", "note"),
    [
        *((one, "\n\n(This answer was cut off") for one in ("length", "token_limit", "MAX_OUTPUT")),
        *((one, "\n\n(A filter of") for one in ("content_filter", "SAFETY", "guardrail_intervened")),
        *((one, "") for one in ("stop", "eos_token", "end_turn", "")),
    ],
)
async def test_an_answer_that_was_cut_says_so_p25_e12(
    tmp_path: Path, finish: str, note: str
) -> None:
    async with FakeOpenAI() as model, running_daemon(tmp_path, scripted(model.base_url)) as daemon:
        model.script(
            replies({"role": "assistant", "content": "The three reasons are: first"}, finish)
        )
        head, _, rest = (await reply_of(daemon, "Why?")).partition("first")
        assert head == "The three reasons are: " and rest.startswith(note) and bool(rest) is bool(note)


@pytest.mark.parametrize(
    "name",
    [
        "read_file<|channel|>commentary",
        "functions.read_file",
        "functions.read_file:0",
        "default_api:read_file",
        " Read-File",
    ],
)
async def test_marks_around_the_name_of_a_tool_are_no_part_of_it_p27(
    tmp_path: Path, name: str
) -> None:
    asked = {"role": "assistant", "content": None, "tool_calls": [call(name, READ)]}
    async with (
        FakeOpenAI() as model,
        running_daemon(home_with_note(tmp_path), scripted(model.base_url)) as daemon,
    ):
        model.script(replies(asked, "tool_calls"))
        model.otherwise(unless(has_odd_name, says("It is 42.")))
        assert await reply_of(daemon) == "It is 42."
        assert "42" in results(model)[0]
        assert await reply_of(daemon, "hi") == "It is 42."


@pytest.mark.parametrize("name", ["", "no.such tool!"])
async def test_a_call_without_a_name_that_is_known_gets_an_error_and_the_turn_goes_on_a7(
    tmp_path: Path, name: str
) -> None:
    asked = {"role": "assistant", "content": None, "tool_calls": [call(name, READ)]}
    async with FakeOpenAI() as model, running_daemon(tmp_path, scripted(model.base_url)) as daemon:
        model.script(replies(asked, "tool_calls"))
        model.otherwise(unless(has_odd_name, says("I did not find it.")))
        assert await reply_of(daemon) == "I did not find it."
        assert list(json.loads(results(model)[0])) == ["error"]


async def test_ids_that_a_server_gives_twice_are_sent_once_each(tmp_path: Path) -> None:
    def has_twin(messages: list[Json]) -> str:
        ids = [one["id"] for m in messages for one in m.get("tool_calls") or ()]
        answers = [m["tool_call_id"] for m in messages if m["role"] == "tool"]
        return "" if ids == answers and len(set(ids)) == len(ids) else f"duplicate id in {ids}"

    asked = {"role": "assistant", "content": None, "tool_calls": [call("read_file", READ, "")]}
    async with (
        FakeOpenAI() as model,
        running_daemon(home_with_note(tmp_path), scripted(model.base_url)) as daemon,
    ):
        for _ in range(3):
            model.script(replies(asked, "tool_calls"), unless(has_twin, says("It is 42.")))
            assert await reply_of(daemon) == "It is 42."


def _is_marked(results: Sequence[str]) -> bool:
    return all(list(json.loads(one)) == ["error"] for one in results)


async def test_the_error_of_a_tool_is_marked_as_one_b7(tmp_path: Path) -> None:
    asked = {
        "role": "assistant",
        "content": None,
        "tool_calls": [call("read_file", {"path": "none.txt"})],
    }
    async with FakeOpenAI() as model, running_daemon(tmp_path, scripted(model.base_url)) as daemon:
        model.script(replies(asked, "tool_calls"), says("There is none."))
        assert await reply_of(daemon) == "There is none."
        assert results(model) and _is_marked(results(model))


async def test_the_error_of_a_tool_is_marked_over_responses_too_b7(tmp_path: Path) -> None:
    async with FakeResponses() as model:
        config = scripted(model.base_url).replace("[provider]", '[provider]\napi = "responses"')
        async with running_daemon(tmp_path, config) as daemon:
            model.script(
                responses.calls(("read_file", {"path": "none.txt"})), responses.says("There is none.")
            )
            assert await reply_of(daemon) == "There is none."
        sent = [
            one["output"]
            for one in model.requests[-1].body["input"]
            if one.get("type") == "function_call_output"
        ]
        assert sent and _is_marked(sent)


TIMES = "[provider]\ntimeout_s = 0.5\ntotal_timeout_s = 1.5\n"


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (hangs(), "it was silent for 0.5 s"),
        (trickles(1000, 0.05), "its answer was not complete after 1.5 s"),
    ],
    ids=["hung", "dripping"],
)
async def test_a_server_that_hangs_or_drips_is_cut_by_a_limit_of_its_own_e2(
    tmp_path: Path, step: Step, told: str
) -> None:
    async with FakeOpenAI() as model:
        config = scripted(model.base_url).replace("[provider]\n", TIMES, 1)
        async with running_daemon(tmp_path, config) as daemon:
            model.otherwise(step)
            turn = await daemon.begin("hello")
            async for _ in daemon.stream(turn):  # somebody watches, so that it streams
                pass
            run = await daemon.run(turn)
            assert run["stop_reason"] == "failed" and told in str(run["reply"])
            assert model.count == 2  # asked once more, as A7 says


THOUGHT = "The user asks for the note; I read it."
DOCUMENTED: dict[str, list[Json]] = {
    "DeepSeek": [
        {"role": "assistant", "content": None, "reasoning_content": "The user asks"},
        {"content": None, "reasoning_content": " for the note; I read it."},
        {"tool_calls": [{"index": 0, **call("read_file", READ, "call_00_a1"), "function": {"name": "read_file", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"path": '}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"note.txt"}'}}]},
    ],
    "Gemini": [
        {"role": "assistant", "tool_calls": [{"index": 0, **call("read_file", READ, "function-call-1", extra_content={"google": {"thought_signature": "c2ln"}})}]},
    ],
    "vLLM": [
        {"role": "assistant", "content": "", "reasoning_content": None},
        {"reasoning": THOUGHT},
        {"tool_calls": [{"index": 0, **call("read_file", READ, "chatcmpl-tool-1")}]},
    ],
    "Ollama": [
        {"role": "assistant", "content": "", "reasoning": THOUGHT},
        {"role": "assistant", "content": "", "tool_calls": [{"index": 0, **call("read_file", READ, "call_x1")}]},
        {"role": "assistant", "content": "", "tool_calls": [{"index": 0, **call("read_file", {"path": "other.txt"}, "call_x2")}]},
    ],
    "Kimi": [
        {"role": "assistant", "content": "", "reasoning_content": THOUGHT},
        {"tool_calls": [{"index": 0, **call("read_file", READ, "functions.read_file:0")}]},
    ],
}  # fmt: skip


@pytest.mark.parametrize("deltas", DOCUMENTED.values(), ids=DOCUMENTED.keys())
async def test_a_documented_answer_is_read_and_goes_back_as_its_server_wants_it(
    tmp_path: Path, deltas: list[Json]
) -> None:
    chunks: list[Json] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    lines = [b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks]
    async with (
        FakeOpenAI() as model,
        running_daemon(home_with_note(tmp_path), scripted(model.base_url)) as daemon,
    ):
        model.script(raw(*lines, b"data: [DONE]\n\n"), says("It is 42."))
        assert await reply_of(daemon) == "It is 42."
        said = next(m for m in model.requests[-1]["messages"] if m.get("tool_calls"))
        sent = [one for delta in deltas for one in delta.get("tool_calls") or () if "id" in one]
        assert [one["id"] for one in said["tool_calls"]] == [one["id"] for one in sent]
        for key in ("reasoning", "reasoning_content"):
            pieces = "".join(delta.get(key) or "" for delta in deltas)
            assert said.get(key, "") == pieces and pieces in ("", THOUGHT)
        assert [one.get("extra_content") for one in said["tool_calls"]] == [
            one.get("extra_content") for one in sent
        ]
        assert len(results(model)) == len(sent) and "42" in results(model)[0]


@pytest.mark.parametrize(
    "text",
    [
        "recall<arg_key>" + " " * 50_000,
        "<think></think>" * 2_000,
        "<tool_call>" * 5_000,
        "<think>" + " " * 90_000 + "</think>x",
    ],
    ids=["blanks", "thoughts", "tags", "a long thought"],
)
async def test_a_degenerate_reply_holds_up_nobody(tmp_path: Path, text: str) -> None:
    async with FakeOpenAI() as model, running_daemon(tmp_path, scripted(model.base_url)) as daemon:
        model.script(says(text))
        turn = await daemon.begin("hello")
        async for _ in daemon.stream(turn):
            pass
        assert (await daemon.ask("hi"))["reply"] == "ok"


async def test_a_thought_that_was_cut_says_so_e12(tmp_path: Path) -> None:
    async with FakeOpenAI() as model, running_daemon(tmp_path, scripted(model.base_url)) as daemon:
        model.script(replies({"role": "assistant", "content": "<think>so, so, so"}, "length"))
        assert "was still thinking" in await reply_of(daemon, "Why?") and model.count == 1
