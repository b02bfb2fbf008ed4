"""A ModelRequest for OpenAI's Responses, as bytes whose beginning stays the same from call to call."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from daemon.core import value
from daemon.core.messages import Message, MessageRole, ModelRequest, Native, ToolCall, ToolSpec
from daemon.providers.openai_request import encode, make_valid_arguments

MISSING_START = "[the beginning of this conversation is missing]"
ENCRYPTED_REASONING = "reasoning.encrypted_content"
MIN_TOKENS = 16
MAX_ID = 64
INVALID_NAME_CHAR = re.compile(r"[^A-Za-z0-9_-]")
NON_REASONING = re.compile(r"(ft:)?(gpt-[34]|chatgpt-4)")
VERSION = re.compile(r"gpt-(\d+)\.(\d+)")
FIRST_XHIGH = (5, 2)


def encode_tools(tools: tuple[ToolSpec, ...]) -> bytes:
    """The tool list. Appending a tool only appends bytes before the closing bracket."""
    return b"[" + b",".join(encode(_tool_json(tool)) for tool in tools) + b"]"


def _tool_json(tool: ToolSpec) -> dict[str, object]:
    """Strict, which is the default here, would refuse a schema with an optional argument."""
    described = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", **described, "strict": False}


def encode_request(
    provider: str,
    model: str,
    request: ModelRequest,
    stream: bool = False,
    *,
    tools: Callable[[tuple[ToolSpec, ...]], bytes] = encode_tools,
) -> bytes:
    """The request body: model, instructions, tools and input first, what varies from call to call last."""
    first = next(
        (n for n, message in enumerate(request.messages) if message.role is not MessageRole.SYSTEM),
        len(request.messages),
    )
    parts = [b'{"model":' + encode(model)]
    if first:
        parts.append(
            b'"instructions":'
            + encode("\n\n".join(message.text for message in request.messages[:first]))
        )
    if request.tools:
        parts.append(b'"tools":' + tools(request.tools))
    items = list(_InputItems(provider, model).encode(request.messages[first:])) or [
        encode(_message_item("user", MISSING_START))
    ]
    parts.append(b'"input":[' + b",".join(items) + b"]")
    parts.extend(
        encode(name) + b":" + encode(value)
        for name, value in _make_settings(model, request, stream)
    )
    return b",".join(parts) + b"}"


def _make_settings(model: str, request: ModelRequest, stream: bool) -> list[tuple[str, object]]:
    """The server is to keep nothing: what was thought comes to us encrypted, and goes back."""
    thinks = not NON_REASONING.match(model)
    settings: list[tuple[str, object]] = [("store", False)]
    if thinks:
        settings.append(("include", [ENCRYPTED_REASONING]))
    if request.tools and not request.tools_allowed:
        settings.append(("tool_choice", "none"))
    if request.max_tokens:
        settings.append(("max_output_tokens", max(request.max_tokens, MIN_TOKENS)))
    if request.effort and thinks:
        settings.append(("reasoning", {"effort": _get_effort(model, request.effort)}))
    if stream:
        settings.append(("stream", True))
    return settings


def _get_effort(model: str, effort: str) -> str:
    """E13: more than high is there from GPT-5.2 on."""
    found = VERSION.match(model)
    most = "xhigh" if found and (int(found[1]), int(found[2])) >= FIRST_XHIGH else "high"
    return most if effort == "max" else effort


@dataclass(slots=True)
class _InputItems:
    """The input, item by item. Ids that are missing, too long or used twice are replaced, the same way each time."""

    provider: str
    model: str
    _used: set[str] = field(default_factory=set)
    _asked: list[str] = field(default_factory=list)

    def encode(self, messages: Sequence[Message]) -> Iterator[bytes]:
        """Results answer the calls just before them, by place."""
        for message in messages:
            match message.role:
                case MessageRole.TOOL:
                    yield from self._encode_result(message)
                case MessageRole.ASSISTANT:
                    yield from self._encode_reply(message)
                case MessageRole.SYSTEM:
                    yield encode(_message_item("developer", message.text))
                case _:
                    yield encode(_message_item("user", message.text))

    def _encode_result(self, message: Message) -> Iterator[bytes]:
        if self._asked:
            answered = self._asked.pop(0)
            yield encode(
                {"type": "function_call_output", "call_id": answered, "output": message.text}
            )

    def _encode_reply(self, message: Message) -> Iterator[bytes]:
        own = self._find_native_ids(message)
        if own and message.native:
            self._asked = own.calls
            self._used.update(own.all_ids)
            yield message.native.blocks.strip()[1:-1].encode("utf-8", "replace")
            return
        if message.text or not message.calls:
            yield encode(_message_item("assistant", message.text))
        self._asked = [self._make_unique_id(call) for call in message.calls]
        for call, call_id in zip(message.calls, self._asked, strict=True):
            named = {
                "type": "function_call",
                "call_id": call_id,
                "name": INVALID_NAME_CHAR.sub("_", call.name)[:MAX_ID] or "unknown",
            }
            yield encode({**named, "arguments": make_valid_arguments(call.arguments)})

    def _find_native_ids(self, message: Message) -> "_NativeIds | None":
        """What the reply is known by, if it can go back as it came; None if it must be written anew."""
        native = message.native
        if native is None or (native.provider, native.model) != (self.provider, self.model):
            return None
        own = _NativeIds.parse(native)
        sound = len(own.calls) == len(message.calls) and len(set(own.all_ids)) == len(own.all_ids)
        return own if sound and not self._used.intersection(own.all_ids) else None

    def _make_unique_id(self, call: ToolCall) -> str:
        wanted = call.provider_id if len(call.provider_id) <= MAX_ID else ""
        if not wanted or wanted in self._used:
            wanted = f"call_{len(self._used)}"
        while wanted in self._used:
            wanted += "_"
        self._used.add(wanted)
        return wanted


def _message_item(role: str, text: str) -> dict[str, object]:
    return {"role": role, "content": text}


@value
class _NativeIds:
    """A reply as it came: the ids of its calls, and all its ids. No id may stand twice in a request."""

    calls: list[str]
    all_ids: list[str]

    @classmethod
    def parse(cls, native: Native) -> "_NativeIds":
        """Read from its items."""
        items: list[dict[str, object]] = json.loads(native.blocks)
        calls = [str(item.get("call_id")) for item in items if item.get("type") == "function_call"]
        return cls(calls, calls + [str(item["id"]) for item in items if "id" in item])
