"""Answers of each kind of server with members removed, doubled and of a wrong type: each is a reply that can go back, or an error with a class."""

import copy
import json
import random
from dataclasses import replace
from typing import Any

import pytest

from daemon.core.clock import SystemClock
from daemon.core.messages import Message, MessageRole, ModelReply, ModelRequest, ToolSpec
from daemon.providers.anthropic import Anthropic
from daemon.providers.base import encode_body
from daemon.providers.config import SERVICES
from daemon.providers.errors import CallFailed
from daemon.providers.gemini import Gemini
from daemon.providers.http import HttpProvider
from daemon.providers.openai import OpenAI
from daemon.providers.responses import Responses
from tests.full_form import FULL

COUNT = 10_000 if FULL else 500
WRONG: list[Any] = [
    None,
    "",
    "text",
    0,
    -1,
    1.5,
    True,
    [],
    [None],
    {},
    {"a": []},
    "\ud83d",
    [[]],
    "<think>",
    "{",
]
READ = ToolSpec("read_file", "reads", {"type": "object", "properties": {"path": {}}})
ASK = ModelRequest((Message(MessageRole.USER, "read it"),), (READ,))
CHAT = {
    "id": "x",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "<think>hm</think>I read it.",
                "reasoning_content": "I should.",
                "reasoning_details": [{"type": "reasoning.text", "text": "a", "index": 0}],
                "extra_content": {"google": {"thought": True}},
                "tool_calls": [
                    {
                        "id": "call_a",
                        "type": "function",
                        "function": {"name": "read_file", "arguments": '{"path": "a"}'},
                        "extra_content": {"google": {"thought_signature": "c2ln"}},
                    }
                ],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 5,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 1},
    },
}
PIECE = {"choices": [{"index": 0, "finish_reason": None, "delta": CHAT["choices"][0]["message"]}]}  # type: ignore[index]
MESSAGE = {
    "type": "message",
    "stop_reason": "tool_use",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "I read it."},
        {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a"}},
    ],
    "usage": {"input_tokens": 5, "output_tokens": 5, "cache_read_input_tokens": 1},
}
RESPONSE = {
    "status": "completed",
    "output": [
        {"type": "reasoning", "id": "r1", "encrypted_content": "e", "summary": []},
        {"type": "message", "id": "m1", "content": [{"type": "output_text", "text": "I read it."}]},
        {
            "type": "function_call",
            "id": "f1",
            "call_id": "c1",
            "name": "read_file",
            "arguments": '{"path": "a"}',
        },
    ],
    "usage": {"input_tokens": 5, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 1}},
}
CONTENT = {
    "candidates": [
        {
            "finishReason": "STOP",
            "content": {
                "role": "model",
                "parts": [
                    {"text": "hm", "thought": True},
                    {"text": "I read it."},
                    {
                        "functionCall": {"name": "read_file", "args": {"path": "a"}},
                        "thoughtSignature": "c2ln",
                    },
                ],
            },
        }
    ],
    "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 5},
}
KINDS: dict[str, tuple[type[HttpProvider], str, Any]] = {
    "chat": (OpenAI, "m", CHAT),
    "chat, a piece": (OpenAI, "m", PIECE),
    "anthropic": (Anthropic, "claude-haiku-5-5", MESSAGE),
    "responses": (Responses, "gpt-5-mini", RESPONSE),
    "gemini": (Gemini, "gemini-3.8-flash", CONTENT),
}


def places(value: object) -> list[tuple[Any, Any]]:
    """Every member and item, with what holds it."""
    found: list[tuple[Any, Any]] = []
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    for key, one in inner:
        found += [(value, key), *places(one)]
    return found


def mutate(dice: random.Random, recorded: object) -> Any:
    """One to three changes somewhere in it."""
    changed = {"whole": copy.deepcopy(recorded)}
    for _ in range(dice.randint(1, 3)):
        holder, key = dice.choice(places(changed))
        match dice.randint(0, 2):
            case 0 if key != "whole":
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            case 1 if isinstance(holder[key], str):
                holder[key] *= 2
            case _:
                holder[key] = copy.deepcopy(dice.choice(WRONG))
    return changed["whole"]


@pytest.mark.parametrize(("kind", "model", "recorded"), KINDS.values(), ids=KINDS.keys())
def test_any_answer_is_a_reply_that_can_go_back_or_an_error_with_a_class(
    kind: type[HttpProvider], model: str, recorded: object
) -> None:
    dice, read = random.Random(24), 0
    for number in range(COUNT):
        adapter = kind(base_url=SERVICES[kind.kind].url, api_key="k", clock=SystemClock())
        _, _, builder = adapter.prepare(model, ASK, False)
        body = json.dumps(mutate(dice, recorded))
        try:
            builder.feed(body)
            reply = builder.build(ASK)
        except CallFailed as error:
            assert str(error), (number, body)
            continue
        read += 1
        assert reply.text.strip() or reply.calls, (number, body)
        _send_back(adapter, model, reply)
    assert read > COUNT // 4


def _send_back(adapter: HttpProvider, model: str, reply: ModelReply) -> None:
    """The next request holds it, and is JSON without half a character."""
    native = reply.native and replace(reply.native, provider=adapter.name, model=model)
    said = Message(MessageRole.ASSISTANT, reply.text, reply.calls, native=native)
    results = [Message(MessageRole.TOOL, "ok", provider_id=one.provider_id) for one in reply.calls]
    messages = (*ASK.messages, said, *results, Message(MessageRole.USER, "and now?"))
    _, fields, _ = adapter.prepare(model, ModelRequest(messages, (READ,)), False)
    json.loads(encode_body(fields).decode())
