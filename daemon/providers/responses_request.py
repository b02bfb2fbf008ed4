"""A ModelRequest for OpenAI's Responses, as bytes that begin the same at every call."""

import json
import re
from collections.abc import Iterator, Sequence

from daemon.core.messages import Message, MessageRole, ModelRequest, ToolSpec
from daemon.providers.base import (
    EncodingCache,
    encode_json,
    make_valid_name,
    split_instructions,
)
from daemon.providers.openai_request import make_valid_arguments

MISSING_START = "[the beginning of this conversation is missing]"
ENCRYPTED_REASONING = "reasoning.encrypted_content"
MIN_TOKENS = 16
MAX_ID = 64
NON_REASONING = re.compile(r"(ft:)?(gpt-[34]|chatgpt-4)")
VERSION = re.compile(r"gpt-(\d+)\.(\d+)")
FIRST_XHIGH = (5, 2)


def encode_request(
    provider: str,
    model: str,
    request: ModelRequest,
    stream: bool = False,
    *,
    cache: EncodingCache | None = None,
) -> bytes:
    """The request body: model, instructions, tools and input first, what varies last."""
    instructions, messages = split_instructions(request.messages)
    parts = [b'{"model":' + encode_json(model)]
    if instructions:
        text = "\n\n".join(message.text for message in instructions)
        parts.append(b'"instructions":' + encode_json(text))
    if request.tools:
        tools = (cache or EncodingCache()).encode_list(request.tools, _tool_json)
        parts.append(b'"tools":[' + tools + b"]")
    items = list(_InputItems(provider, model).encode(messages))
    items = items or [_encode_message("user", MISSING_START)]
    parts.append(b'"input":[' + b",".join(items) + b"]")
    parts.append(encode_json(_make_settings(model, request, stream))[1:-1])
    return b",".join(parts) + b"}"


def _tool_json(tool: ToolSpec) -> dict[str, object]:
    """Strict, which is the default here, would refuse a schema with an optional argument."""
    described = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", **described, "strict": False}


def _make_settings(model: str, request: ModelRequest, stream: bool) -> dict[str, object]:
    """The server stores nothing: reasoning comes to us encrypted, and goes back."""
    reasons = not NON_REASONING.match(model)
    settings: dict[str, object] = {"store": False}
    if reasons:
        settings["include"] = [ENCRYPTED_REASONING]
    if request.tools and not request.tools_allowed:
        settings["tool_choice"] = "none"
    if request.max_tokens:
        settings["max_output_tokens"] = max(request.max_tokens, MIN_TOKENS)
    if request.effort and reasons:
        effort, version = request.effort, VERSION.match(model)
        if effort == "max":  # E13: more than high is there from GPT-5.2 on
            newer = version and (int(version[1]), int(version[2])) >= FIRST_XHIGH
            effort = "xhigh" if newer else "high"
        settings["reasoning"] = {"effort": effort}
    if stream:
        settings["stream"] = True
    return settings


class _InputItems:
    """The input. Ids that are missing, too long or used twice are replaced, always the same way."""

    def __init__(self, provider: str, model: str) -> None:
        self._owner = provider, model
        self._used: set[str] = set()
        self._asked: list[str] = []

    def encode(self, messages: Sequence[Message]) -> Iterator[bytes]:
        """Results answer the calls just before them, by place."""
        for message in messages:
            match message.role:
                case MessageRole.TOOL:
                    if self._asked:
                        answer = {"type": "function_call_output", "call_id": self._asked.pop(0)}
                        yield encode_json({**answer, "output": message.text})
                case MessageRole.ASSISTANT:
                    yield from self._encode_native(message) or self._encode_reply(message)
                case MessageRole.SYSTEM:
                    yield _encode_message("developer", message.text)
                case _:
                    yield _encode_message("user", message.text)

    def _encode_native(self, message: Message) -> list[bytes]:
        """The reply as it came, if it comes from this model and none of its ids is used twice."""
        native = message.native
        if native is None or (native.provider, native.model) != self._owner:
            return []
        items: list[dict[str, object]] = json.loads(native.blocks)
        calls = [str(item.get("call_id")) for item in items if item.get("type") == "function_call"]
        ids = calls + [str(item["id"]) for item in items if "id" in item]
        if len(calls) != len(message.calls) or len({*ids} - self._used) != len(ids):
            return []
        self._asked = calls
        self._used.update(ids)
        return [native.blocks.strip()[1:-1].encode("utf-8", "replace")]

    def _encode_reply(self, message: Message) -> Iterator[bytes]:
        if message.text or not message.calls:
            yield _encode_message("assistant", message.text)
        self._asked = [self._make_unique_id(call.provider_id) for call in message.calls]
        for call, call_id in zip(message.calls, self._asked, strict=True):
            item = {"type": "function_call", "call_id": call_id, "name": make_valid_name(call.name)}
            yield encode_json({**item, "arguments": make_valid_arguments(call.arguments)})

    def _make_unique_id(self, wanted: str) -> str:
        if not wanted or len(wanted) > MAX_ID or wanted in self._used:
            wanted = f"call_{len(self._used)}"
        while wanted in self._used:
            wanted += "_"
        self._used.add(wanted)
        return wanted


def _encode_message(role: str, text: str) -> bytes:
    return encode_json({"role": role, "content": text})
