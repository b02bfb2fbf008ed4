"""A ModelRequest for OpenAI's Responses, as bytes whose beginning stays the same from call to call."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from daemon.core.messages import Message, ModelRequest, Native, Role, ToolCall, ToolSpec
from daemon.providers.openai_request import encode, sound_arguments

BEGINNING = "[the beginning of this conversation is missing]"
ENCRYPTED = "reasoning.encrypted_content"
FEWEST_TOKENS = 16
LONGEST_ID = 64
NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
THOUGHTLESS = re.compile(r"(ft:)?(gpt-[34]|chatgpt-4)")
VERSION = re.compile(r"gpt-(\d+)\.(\d+)")
EXTRA_HIGH = (5, 2)


def encode_tools(tools: tuple[ToolSpec, ...]) -> bytes:
    """The tool list. Appending a tool only appends bytes before the closing bracket."""
    return b"[" + b",".join(encode(_tool(tool)) for tool in tools) + b"]"


def _tool(tool: ToolSpec) -> dict[str, object]:
    """Strict, which is the default here, would refuse a schema with an optional argument."""
    described = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", **described, "strict": False}


def to_wire(
    provider: str,
    model: str,
    request: ModelRequest,
    stream: bool = False,
    *,
    tools: Callable[[tuple[ToolSpec, ...]], bytes] = encode_tools,
) -> bytes:
    """The request body: model, instructions, tools and input first, what varies from call to call last."""
    first = next((n for n, message in enumerate(request.messages) if message.role is not Role.SYSTEM), len(request.messages))
    parts = [b'{"model":' + encode(model)]
    if first:
        parts.append(b'"instructions":' + encode("\n\n".join(message.text for message in request.messages[:first])))
    if request.tools:
        parts.append(b'"tools":' + tools(request.tools))
    items = list(_Items(provider, model).of(request.messages[first:])) or [encode(_said("user", BEGINNING))]
    parts.append(b'"input":[' + b",".join(items) + b"]")
    parts.extend(encode(name) + b":" + encode(value) for name, value in _settings(model, request, stream))
    return b",".join(parts) + b"}"


def _settings(model: str, request: ModelRequest, stream: bool) -> list[tuple[str, object]]:
    """The server is to keep nothing: what was thought comes to us encrypted, and goes back."""
    thinks = not THOUGHTLESS.match(model)
    settings: list[tuple[str, object]] = [("store", False)]
    if thinks:
        settings.append(("include", [ENCRYPTED]))
    if request.tools and not request.tools_allowed:
        settings.append(("tool_choice", "none"))
    if request.max_tokens:
        settings.append(("max_output_tokens", max(request.max_tokens, FEWEST_TOKENS)))
    if request.effort and thinks:
        settings.append(("reasoning", {"effort": _effort(model, request.effort)}))
    if stream:
        settings.append(("stream", True))
    return settings


def _effort(model: str, effort: str) -> str:
    """E13: more than high is there from GPT-5.2 on."""
    found = VERSION.match(model)
    most = "xhigh" if found and (int(found[1]), int(found[2])) >= EXTRA_HIGH else "high"
    return most if effort == "max" else effort


@dataclass(slots=True)
class _Items:
    """The input, item by item. Ids that are missing, too long or used twice are replaced, the same way each time."""

    provider: str
    model: str
    _used: set[str] = field(default_factory=set)
    _asked: list[str] = field(default_factory=list)

    def of(self, messages: Sequence[Message]) -> Iterator[bytes]:
        """Results answer the calls just before them, by place."""
        for message in messages:
            match message.role:
                case Role.TOOL:
                    yield from self._result(message)
                case Role.ASSISTANT:
                    yield from self._reply(message)
                case Role.SYSTEM:
                    yield encode(_said("developer", message.text))
                case _:
                    yield encode(_said("user", message.text))

    def _result(self, message: Message) -> Iterator[bytes]:
        if self._asked:
            answered = self._asked.pop(0)
            yield encode({"type": "function_call_output", "call_id": answered, "output": message.text})

    def _reply(self, message: Message) -> Iterator[bytes]:
        own = self._own(message)
        if own and message.native:
            self._asked = own.calls
            self._used.update(own.marks)
            yield message.native.blocks.strip()[1:-1].encode("utf-8", "replace")
            return
        if message.text or not message.calls:
            yield encode(_said("assistant", message.text))
        self._asked = [self._unused(call) for call in message.calls]
        for call, call_id in zip(message.calls, self._asked, strict=True):
            named = {"type": "function_call", "call_id": call_id, "name": NO_NAME.sub("_", call.name)[:LONGEST_ID] or "unknown"}
            yield encode({**named, "arguments": sound_arguments(call.arguments)})

    def _own(self, message: Message) -> "_Own | None":
        """What the reply is known by, if it can go back as it came; None if it must be written anew."""
        native = message.native
        if native is None or (native.provider, native.model) != (self.provider, self.model):
            return None
        own = _Own.of(native)
        sound = len(own.calls) == len(message.calls) and len(set(own.marks)) == len(own.marks)
        return own if sound and not self._used.intersection(own.marks) else None

    def _unused(self, call: ToolCall) -> str:
        wanted = call.provider_id if len(call.provider_id) <= LONGEST_ID else ""
        if not wanted or wanted in self._used:
            wanted = f"call_{len(self._used)}"
        while wanted in self._used:
            wanted += "_"
        self._used.add(wanted)
        return wanted


def _said(role: str, text: str) -> dict[str, object]:
    return {"role": role, "content": text}


@dataclass(frozen=True, slots=True)
class _Own:
    """A reply as it came: the ids of its calls, and all its ids. No id may stand twice in a request."""

    calls: list[str]
    marks: list[str]

    @classmethod
    def of(cls, native: Native) -> "_Own":
        """Read from its items."""
        items: list[dict[str, object]] = json.loads(native.blocks)
        calls = [str(item.get("call_id")) for item in items if item.get("type") == "function_call"]
        return cls(calls, calls + [str(item["id"]) for item in items if "id" in item])
