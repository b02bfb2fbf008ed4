"""A ModelRequest for OpenAI's chat completions, as bytes that begin the same at every call."""

import json

from daemon.core import value
from daemon.core.messages import Message, MessageRole, ModelRequest, ToolCall, ToolSpec
from daemon.providers.base import EncodingCache, encode_json, parse_arguments

EFFORTS = {"max": "high"}


@value
class Dialect:
    """Where servers differ in the names of things."""

    max_tokens: str = "max_tokens"
    seed: str = "seed"


def get_dialect(host: str) -> Dialect:
    """The dialect of a server."""
    if host == "api.openai.com" or host.endswith(".openai.azure.com"):
        return Dialect(max_tokens="max_completion_tokens")
    return Dialect(seed="random_seed") if host == "api.mistral.ai" else Dialect()


def encode_request(
    model: str,
    request: ModelRequest,
    stream: bool = False,
    *,
    dialect: Dialect | None = None,
    cache: EncodingCache | None = None,
) -> bytes:
    """The request body: model, tools and messages first, what varies from call to call last."""
    cache, dialect = cache or EncodingCache(), dialect or Dialect()
    parts = [b'{"model":' + encode_json(model)]
    if request.tools:
        parts.append(b'"tools":[' + cache.encode_list(request.tools, _tool_json) + b"]")
    parts.append(b'"messages":[' + cache.encode_list(request.messages, _message_json) + b"]")
    settings: dict[str, object] = {}
    if request.tools and not request.tools_allowed:
        settings["tool_choice"] = "none"
    if request.max_tokens:
        settings[dialect.max_tokens] = request.max_tokens
    if request.effort:
        settings["reasoning_effort"] = EFFORTS.get(request.effort, request.effort)
    if request.seed is not None:
        settings[dialect.seed] = request.seed
    if stream:
        settings |= {"stream": True, "stream_options": {"include_usage": True}}
    if settings:
        parts.append(encode_json(settings)[1:-1])
    return b",".join(parts) + b"}"


def _tool_json(tool: ToolSpec) -> dict[str, object]:
    described = {"name": tool.name, "description": tool.description}
    return {"type": "function", "function": {**described, "parameters": tool.parameters}}


def _message_json(message: Message) -> dict[str, object]:
    match message.role:
        case MessageRole.TOOL:
            answered = {"role": "tool", "tool_call_id": message.provider_id}
            return {**answered, "content": message.text}
        case MessageRole.ASSISTANT if message.calls:
            calls = [_call_json(call) for call in message.calls]
            return {"role": "assistant", "content": message.text or None, "tool_calls": calls}
        case _:
            return {"role": message.role.value, "content": message.text}


def _call_json(call: ToolCall) -> dict[str, object]:
    function = {"name": call.name, "arguments": make_valid_arguments(call.arguments)}
    return {"id": call.provider_id, "type": "function", "function": function}


def make_valid_arguments(written: str) -> str:
    """As the model wrote them, unless that is no JSON object, which many servers refuse."""
    found = parse_arguments(written)
    return json.dumps(found) if found in ({}, {"invalid": written}) else written
