"""A ModelRequest in OpenAI's chat completions dialect, as bytes whose beginning stays the same from call to call."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from daemon.core import value
from daemon.core.messages import Message, MessageRole, ModelRequest, ToolCall, ToolSpec

MAX_TOOL_LISTS = 64
MAX_CACHED_MESSAGES = 2048
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


def encode(value: object) -> bytes:
    """JSON, compact. Half a surrogate pair, which no server takes, becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def encode_tools(tools: tuple[ToolSpec, ...]) -> bytes:
    """The tool list. Appending a tool only appends bytes before the closing bracket."""
    return (
        b"["
        + b",".join(
            encode({"type": "function", "function": _function_json(tool)}) for tool in tools
        )
        + b"]"
    )


def _function_json(tool: ToolSpec) -> dict[str, object]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


@dataclass(slots=True)
class ToolListCache:
    """Remembers the bytes of tool lists, which are the same objects from call to call."""

    encoder: Callable[[tuple[ToolSpec, ...]], bytes] = encode_tools
    _known: dict[tuple[int, ...], tuple[tuple[ToolSpec, ...], bytes]] = field(default_factory=dict)

    def __call__(self, tools: tuple[ToolSpec, ...]) -> bytes:
        """The bytes of the encoder."""
        key = tuple(map(id, tools))
        if key not in self._known:
            if len(self._known) >= MAX_TOOL_LISTS:
                self._known.clear()
            self._known[key] = (
                tools,
                self.encoder(tools),
            )  # holding the tools keeps their ids from being given to others
        return self._known[key][1]


@dataclass(slots=True)
class MessageCache:
    """Remembers the bytes of single messages: a conversation is sent again and again, and is the same but for its end."""

    _known: dict[int, tuple[Message, bytes]] = field(default_factory=dict)

    def __call__(self, messages: tuple[Message, ...]) -> bytes:
        """The bytes of encode_messages."""
        if len(self._known) > MAX_CACHED_MESSAGES:
            self._known.clear()
        return b"[" + b",".join(self._encode(message) for message in messages) + b"]"

    def _encode(self, message: Message) -> bytes:
        known = self._known.get(id(message))
        if known is None:
            known = self._known[id(message)] = (
                message,
                encode(_message_json(message)),
            )  # holding it keeps its id its own
        return known[1]


def encode_messages(messages: tuple[Message, ...]) -> bytes:
    """The conversation."""
    return b"[" + b",".join(encode(_message_json(message)) for message in messages) + b"]"


def encode_request(
    model: str,
    request: ModelRequest,
    stream: bool = False,
    *,
    dialect: Dialect | None = None,
    tools: Callable[[tuple[ToolSpec, ...]], bytes] = encode_tools,
    messages: Callable[[tuple[Message, ...]], bytes] = encode_messages,
) -> bytes:
    """The request body: model, tools and messages first, what varies from call to call last."""
    parts = [b'{"model":' + encode(model)]
    if request.tools:
        parts.append(b'"tools":' + tools(request.tools))
    parts.append(b'"messages":' + messages(request.messages))
    parts.extend(
        encode(name) + b":" + encode(value)
        for name, value in _make_settings(request, stream, dialect or Dialect())
    )
    return b",".join(parts) + b"}"


def _make_settings(
    request: ModelRequest, stream: bool, dialect: Dialect
) -> list[tuple[str, object]]:
    settings: list[tuple[str, object]] = []
    if request.tools and not request.tools_allowed:
        settings.append(("tool_choice", "none"))
    if request.max_tokens:
        settings.append((dialect.max_tokens, request.max_tokens))
    if request.effort:
        settings.append(("reasoning_effort", EFFORTS.get(request.effort, request.effort)))
    if request.seed is not None:
        settings.append((dialect.seed, request.seed))
    if stream:
        settings += [("stream", True), ("stream_options", {"include_usage": True})]
    return settings


def _message_json(message: Message) -> dict[str, object]:
    match message.role:
        case MessageRole.TOOL:
            return {"role": "tool", "tool_call_id": message.provider_id, "content": message.text}
        case MessageRole.ASSISTANT if message.calls:
            return {
                "role": "assistant",
                "content": message.text or None,
                "tool_calls": [_call_json(call) for call in message.calls],
            }
        case _:
            return {"role": message.role.value, "content": message.text}


def _call_json(call: ToolCall) -> dict[str, object]:
    function = {"name": call.name, "arguments": make_valid_arguments(call.arguments)}
    return {"id": call.provider_id, "type": "function", "function": function}


def make_valid_arguments(written: str) -> str:
    """As the model wrote them, unless that is no JSON object: many servers refuse a history with such a call in it."""
    try:
        good = isinstance(json.loads(written), dict)
    except (ValueError, RecursionError):
        good = False
    return written if good else json.dumps({"invalid": written}) if written.strip() else "{}"
