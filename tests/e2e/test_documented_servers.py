"""llama.cpp, LM Studio, OpenRouter and LiteLLM answer in forms of their own, streamed and whole: a tool is used and the turn ends (G3)."""

import json
from pathlib import Path

import pytest
from aiohttp import web

from tests.e2e.test_odd_servers import READ, THOUGHT, Json, call, home_with_note, results
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import Exchange, FakeOpenAI, Step, tokens

SPEED = {"prompt_n": 1, "prompt_ms": 30.9, "predicted_n": 35, "predicted_ms": 661.0, "cache_n": 236}
THOUGHT_PARTS = {"type": "reasoning.text", "text": THOUGHT, "format": "unknown", "index": 0}
ANSWER = "It is 42."


def begins(name: str, call_id: str) -> Json:
    """The first piece of a call, without its arguments."""
    return {"index": 0, **call(name, {}, call_id), "function": {"name": name, "arguments": ""}}


def goes_on(piece: str, **more: object) -> Json:
    """More of its arguments."""
    return {"index": 0, "function": {"arguments": piece}, **more}


PIECES = ('{"path"', ': "note.txt"}')
LITE = {"provider_specific_fields": None, "function_call": None, "audio": None}
# What each server adds: to each chunk and body, to each choice; what it streams for a call, and what goes before chunks and at the end.
SERVERS: dict[str, Json] = {
    "llama.cpp": {
        "every": {"system_fingerprint": "b6210-a094f38143"},
        "choice": {},
        "deltas": [
            {"role": "assistant", "content": None},
            {"reasoning_content": THOUGHT},
            {"tool_calls": [begins("read_file", "vK3hPz0cJYlVpE2wYt8xqLmN5dRb7sTu")]},
            *({"tool_calls": [goes_on(piece)]} for piece in PIECES),
        ],
        "thoughts": {"reasoning_content": THOUGHT},
        "end": {"timings": SPEED},
        "ids": ["vK3hPz0cJYlVpE2wYt8xqLmN5dRb7sTu"],
    },
    "LM Studio": {
        "every": {"system_fingerprint": "qwen3-8b"},
        "choice": {"logprobs": None},
        "deltas": [
            {"role": "assistant", "reasoning_content": THOUGHT},
            {"tool_calls": [begins("read_file", "365174485")]},
            *({"tool_calls": [goes_on(piece)]} for piece in PIECES),
        ],
        "thoughts": {"reasoning_content": THOUGHT},
        "end": {"stats": {}},
        "ids": ["365174485"],
    },
    "OpenRouter": {
        "every": {"provider": "Together"},
        "choice": {"native_finish_reason": None, "logprobs": None},
        "deltas": [
            {"role": "assistant", "content": "", "reasoning": THOUGHT, "reasoning_details": [THOUGHT_PARTS]},
            {"role": "assistant", "content": None, "tool_calls": [begins("read_file", "call_h1")]},
            *({"role": "assistant", "content": None, "tool_calls": [goes_on(piece, type="function")]} for piece in PIECES),
        ],
        "thoughts": {"reasoning": THOUGHT, "reasoning_details": [THOUGHT_PARTS]},
        "before": b": OPENROUTER PROCESSING\n\n",
        "end": {},
        "ids": ["call_h1"],
    },
    "LiteLLM": {
        "every": {"citations": None, "system_fingerprint": None},
        "choice": {"logprobs": None},
        "deltas": [
            {"role": "assistant", "content": "", **LITE, "tool_calls": [begins("read_file", "toolu_01A")]},
            *(
                {"role": None, "content": None, **LITE, "tool_calls": [goes_on(piece, id=None, type="function") | {"function": {"arguments": piece, "name": None}}]}
                for piece in PIECES
            ),
        ],
        "thoughts": {},
        "end": {"_hidden_params": {"response_cost": 0.0001}, "service_tier": None},
        "ids": ["toolu_01A"],
    },
}  # fmt: skip


def answers(server: Json, deltas: list[Json], message: Json, finish: str) -> Step:
    """As this server does: in chunks, or whole."""
    before, end = server.get("before", b""), {"finish_reason": finish}
    if "native_finish_reason" in server["choice"]:
        end["native_finish_reason"] = finish

    def body(kind: str, choices: list[Json], **more: object) -> bytes:
        head = {"id": "gen-1", "object": kind, "created": 1_754_000_000, "model": "m"}
        return json.dumps(head | server["every"] | {"choices": choices} | more).encode()

    async def step(x: Exchange) -> web.StreamResponse:
        choice = {"index": 0, **server["choice"], "finish_reason": None}
        usage = {"usage": tokens(300, 40)} | server["end"]
        if not x.streams:
            whole = body("chat.completion", [choice | end | {"message": message}], **usage)
            return web.Response(body=whole, content_type="application/json")
        chunks = [[choice | {"delta": delta}] for delta in deltas]
        chunks.append([choice | end | {"delta": {}}])
        response = await x.open()
        for one in chunks:
            await response.write(before + b"data: " + body("chat.completion.chunk", one) + b"\n\n")
        await response.write(b"data: " + body("chat.completion.chunk", [], **usage) + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response

    return step


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS.keys())
async def test_g3_a_server_of_this_kind_is_understood_and_is_sent_back_what_it_said(
    tmp_path: Path, server: Json, streams: bool
) -> None:
    """A tool is called and its result answered; the tokens are counted; the next turn ends, too."""
    asked = {"role": "assistant", "content": None, **server["thoughts"]}
    asked["tool_calls"] = [call("read_file", READ, server["ids"][0])]
    told = {"role": "assistant", "content": ANSWER}
    async with (
        FakeOpenAI() as model,
        running_daemon(home_with_note(tmp_path), scripted(model.base_url)) as daemon,
    ):
        model.script(answers(server, server["deltas"], asked, "tool_calls"))
        model.otherwise(answers(server, [told], told, "stop"))
        where = "/v1/messages?wait=1" if not streams else "/v1/messages?stream=1"
        said = await daemon.post(where, 202 if streams else 200, text="What is in note.txt?")
        async for _ in daemon.stream(str(said["turn"])):
            pass
        run = await daemon.run(str(said["turn"]))
        assert (run["stop_reason"], run["reply"]) == ("done", ANSWER)
        assert "42" in results(model)[0]
        assert [bool(one.body.get("stream")) for one in model.requests] == [streams] * 2
        sent = next(m for m in model.requests[-1]["messages"] if m.get("tool_calls"))
        assert [one["id"] for one in sent["tool_calls"]] == server["ids"]
        assert {key: sent[key] for key in sent if key.startswith("reason")} == server["thoughts"]
        usage = run["usage"]
        assert isinstance(usage, dict) and (usage["input_tokens"], usage["output_tokens"]) == (
            600,
            80,
        )
        assert (await daemon.ask("And now?"))["reply"] == ANSWER
