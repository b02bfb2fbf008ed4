"""What a Claude wants to be asked, by its name: the forms of thinking changed from model to model (E13).

A conversation in the form of Anthropic's messages, with the model's own thinking where it still holds.

A ModelRequest in Anthropic's dialect, as bytes whose beginning stays the same from call to call.

What may be cached ends at a marker (`cache_control`), of which the API takes four: behind the tools, behind the system prompt,
behind the newest message, and where the newest message ended at the call before, so that a call finds what the last one has
stored however much has come since (the API looks back only 20 blocks). A marker is one key at the end of a block. It is not
part of what is compared: with every MARK taken out, the bytes of one call begin those of the next, up to the end of its messages.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count
from typing import Literal

from daemon.core import value
from daemon.core.messages import Message, MessageRole, ModelRequest, Native, ToolCall, ToolSpec

VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2}))?(?!\d)")
FIRST_THINKING = (3, 7)
FIRST_ADAPTIVE = (4, 6)
FIRST_PREFIX_BOUND = (5, 1)
BUDGETS = {"low": 2048, "medium": 8192, "high": 16_384, "max": 24_000}
HIGH_EFFORTS = ("high", "max")


@value
class ModelCapabilities:
    """How a model thinks. `bound`: its thinking counts only behind exactly what it was thought about."""

    thinking: Literal["none", "budget", "adaptive"]
    prefix_bound: bool = False

    def compute_limits(self, wanted: int | None, effort: str | None) -> tuple[int, int]:
        """(max_tokens, of which for thinking or 0): the API must be told, and a budget of thinking counts towards it."""
        if self.thinking == "none":
            return wanted or 4096, 0
        if self.thinking == "adaptive":
            return wanted or (32_000 if effort in HIGH_EFFORTS else 16_000), 0
        budget = BUDGETS.get(effort, BUDGETS["high"]) if effort else 0
        return (wanted or 8000) + budget, budget


def get_capabilities(model: str) -> ModelCapabilities:
    """Those of this model; one with a name that is not Claude's speaks the oldest form."""
    if "claude" not in model:
        return ModelCapabilities("budget")
    found = VERSION.search(model)
    if not found:
        return ModelCapabilities("adaptive", prefix_bound=True)
    version = int(found[1]), int(found[2] or 0)
    if version < FIRST_THINKING:
        return ModelCapabilities("none")
    if version < FIRST_ADAPTIVE:
        return ModelCapabilities("budget")
    return ModelCapabilities("adaptive", prefix_bound=version >= FIRST_PREFIX_BOUND)


Block = dict[str, object]

THINKING_TYPES = ("thinking", "redacted_thinking")
VALID_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
INVALID_NAME_CHAR = re.compile(r"[^A-Za-z0-9_-]")
MISSING_START = "[earlier messages are left out]"
GO_ON = "[go on]"
EMPTY_TEXT = "[an empty message]"


def encode(value: object) -> bytes:
    """JSON, compact. Half a surrogate pair, which no server takes, becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def make_own_native(provider: str, model: str, prefix: str, content: Sequence[Block]) -> Native:
    """A reply's own blocks, to be sent back; `prefix` names what stood before it when it was thought."""
    return Native(provider, model, json.dumps({"prefix": prefix, "content": content}))


@value
class NativeOwner:
    """Whose thinking goes back: this provider's and model's.

    `bound` asks for nothing to have changed before it: where a newer Claude is shown its thinking behind other words, other
    tools or another system prompt than it was thought about, it refuses the request.
    """

    provider: str
    model: str
    prefix_bound: bool = True

    def get_blocks(self, message: Message, prefix: str) -> list[Block] | None:
        """The blocks that this reply consisted of, if they may be sent again behind this prefix."""
        native = message.native
        if native is None or (native.provider, native.model) != (self.provider, self.model):
            return None
        try:
            kept: dict[str, object] = json.loads(native.blocks)
            content, thought_behind = kept["content"], kept["prefix"]
        except (ValueError, KeyError, TypeError):
            return None
        if not isinstance(content, list) or (self.prefix_bound and thought_behind != prefix):
            return None
        whole = sum(block.get("type") == "tool_use" for block in content) == len(message.calls)
        return content if whole else None


@dataclass(slots=True)
class WireMessage:
    """One message: its blocks, and the bytes of each."""

    role: str
    blocks: list[Block] = field(default_factory=list)
    encoded: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class MessageBuilder:
    """Messages under construction. Roles alternate, the first and the last are the user's; every call has an id of its own."""

    owner: NativeOwner
    messages: list[WireMessage] = field(default_factory=list)
    _hash: blake2b = field(default_factory=lambda: blake2b(digest_size=12))
    _ids: set[str] = field(default_factory=set)
    _waiting: list[tuple[str, str]] = field(default_factory=list)

    @property
    def prefix(self) -> str:
        """A name for exactly what has been said so far."""
        return self._hash.hexdigest()

    def add_prefix(self, before: Iterable[bytes]) -> None:
        """What stands before the messages: tools and system prompt."""
        for part in before:
            self._hash.update(part)

    def add_message(self, message: Message) -> None:
        """The next message of a repaired history."""
        match message.role:
            case MessageRole.ASSISTANT:
                self._add_reply(message)
            case MessageRole.TOOL:
                self._add_result(message)
            case _:
                self._append("user", [_text_block(message.text)])

    def finish(self) -> None:
        """A conversation that waits for an answer ends with the user."""
        if not self.messages or self.messages[-1].role == "assistant":
            self._append("user", [_text_block(GO_ON if self.messages else MISSING_START)])

    def _append(self, role: str, blocks: Sequence[Block]) -> None:
        if not self.messages and role == "assistant":
            self._append("user", [_text_block(MISSING_START)])
        if not self.messages or self.messages[-1].role != role:
            self.messages.append(WireMessage(role))
        for block in blocks:
            encoded = encode(block)
            self._hash.update(role.encode() + encoded)
            self.messages[-1].blocks.append(block)
            self.messages[-1].encoded.append(encoded)

    def _add_reply(self, message: Message) -> None:
        ids = [self._make_unique_id(call) for call in message.calls]
        self._waiting = [
            (call.provider_id, given) for call, given in zip(message.calls, ids, strict=True)
        ]
        own = self.owner.get_blocks(message, self.prefix)
        if own is not None:
            self._append("assistant", _replace_ids(own, ids))
            return
        uses = [
            _tool_use_block(call, given) for call, given in zip(message.calls, ids, strict=True)
        ]
        spoken = [_text_block(message.text)] if message.text.strip() or not uses else []
        self._append("assistant", [*spoken, *uses])

    def _add_result(self, message: Message) -> None:
        given = next((pair for pair in self._waiting if pair[0] == message.provider_id), None)
        if given is None:
            return
        self._waiting.remove(given)
        block: Block = {"type": "tool_result", "tool_use_id": given[1]}
        if message.text.strip():
            block["content"] = message.text
        self._append("user", [block | {"is_error": True} if message.is_error else block])

    def _make_unique_id(self, call: ToolCall) -> str:
        """The call's own, if the API takes it and no other call has it; else one by its place, the same at every request."""
        given = call.provider_id
        if not VALID_ID.fullmatch(given) or given in self._ids:
            given = next(
                name for n in count(len(self._ids)) if (name := f"call_{n}") not in self._ids
            )
        self._ids.add(given)
        return given


def list_call_names(history: Iterable[Message]) -> list[str]:
    """Names of all tools that were ever called in it."""
    return list(
        dict.fromkeys(_make_valid_name(call.name) for message in history for call in message.calls)
    )


def _text_block(text: str) -> Block:
    return {"type": "text", "text": text if text.strip() else EMPTY_TEXT}


def _tool_use_block(call: ToolCall, given: str) -> Block:
    return {
        "type": "tool_use",
        "id": given,
        "name": _make_valid_name(call.name),
        "input": parse_arguments(call.arguments),
    }


def _replace_ids(content: Sequence[Block], ids: Sequence[str]) -> list[Block]:
    left = iter(ids)
    return [
        block | {"id": next(left)} if block.get("type") == "tool_use" else block
        for block in content
    ]


def _make_valid_name(name: str) -> str:
    """A name from another model's imagination is still sent where only names of tools are taken."""
    return INVALID_NAME_CHAR.sub("_", name)[:64] or "unnamed"


def parse_arguments(written: str) -> dict[str, object]:
    """As the model wrote them, unless that is no JSON object: the API takes nothing else."""
    try:
        found: object = json.loads(written)
        json.dumps(
            found, allow_nan=False
        )  # Python reads NaN and 1e999, and would write what is no JSON
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    return {"invalid": written} if written.strip() else {}


ALTERNATIVES = ("anyOf", "oneOf", "allOf")
CACHE_MARK = b',"cache_control":{"type":"ephemeral"}'


@value
class AnthropicBody:
    """A request body. `prefix` names what the reply will have been thought about."""

    body: bytes
    prefix: str


def encode_request(
    model: str, request: ModelRequest, stream: bool = False, *, provider: str = "anthropic"
) -> AnthropicBody:
    """The request body: model, tools, system and messages first, what varies from call to call last."""
    can = get_capabilities(model)
    instructions, history = _split_instructions(request.messages)
    tools = _encode_tools(request, history)
    said = MessageBuilder(NativeOwner(provider, model, prefix_bound=can.prefix_bound))
    said.add_prefix((*tools, *instructions))
    for message in history:
        said.add_message(message)
    said.finish()
    parts = [b'{"model":' + encode(model)]
    if tools:
        parts.append(b'"tools":' + _json_list(_add_cache_mark(tools)))
    if instructions:
        parts.append(b'"system":' + _json_list(_add_cache_mark(instructions)))
    parts.append(b'"messages":' + _encode_messages(said.messages))
    settings = _make_settings(request, can, may_think=_allows_thinking(said.messages))
    if tools and not (request.tools and request.tools_allowed):
        settings["tool_choice"] = {"type": "none"}
    if stream:
        settings["stream"] = True
    parts.extend(encode(name) + b":" + encode(value) for name, value in settings.items())
    return AnthropicBody(b",".join(parts) + b"}", said.prefix)


def _split_instructions(messages: Sequence[Message]) -> tuple[list[bytes], Sequence[Message]]:
    """The system prompt, which has a place of its own, and the rest; what comes later in that role is told as the user's."""
    spoken = next(
        (index for index, message in enumerate(messages) if message.role is not MessageRole.SYSTEM),
        len(messages),
    )
    blocks = [encode({"type": "text", "text": m.text}) for m in messages[:spoken] if m.text.strip()]
    return blocks, messages[spoken:]


def _encode_tools(request: ModelRequest, history: Sequence[Message]) -> list[bytes]:
    """The tools; where there are none, a history with calls in it needs them named all the same."""
    if request.tools:
        return [encode(_tool_block(tool)) for tool in request.tools]
    return [
        encode({"name": name, "input_schema": {"type": "object"}})
        for name in list_call_names(history)
    ]


def _tool_block(tool: ToolSpec) -> Block:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": _flatten_schema(tool.parameters),
    }


def _flatten_schema(parameters: Mapping[str, object]) -> Block:
    """An object without alternatives of its whole, which the API refuses: what any of them would take is shown."""
    schema: Block = {
        "type": "object",
        **{key: part for key, part in parameters.items() if key not in ALTERNATIVES},
    }
    taken: Block = {}
    for key in ALTERNATIVES:
        for choice in _as_list(parameters.get(key)):
            taken |= _get_properties(choice)
    return schema | {"properties": taken | _get_properties(parameters)} if taken else schema


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _get_properties(schema: object) -> Block:
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, dict) else {}


def _make_settings(
    request: ModelRequest, can: ModelCapabilities, *, may_think: bool
) -> dict[str, object]:
    effort = (
        request.effort
        if can.thinking == "adaptive" or (can.thinking == "budget" and may_think)
        else None
    )
    most, budget = can.compute_limits(request.max_tokens, effort)
    settings: dict[str, object] = {"max_tokens": most}
    if effort and budget:
        settings["thinking"] = {"type": "enabled", "budget_tokens": budget}
    elif effort:
        settings |= {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
    return settings


def _allows_thinking(messages: Sequence[WireMessage]) -> bool:
    """With a budget, a reply to tool results is thought about only where the calls were: the API refuses it otherwise."""
    answers = any(block["type"] == "tool_result" for block in messages[-1].blocks)
    return not answers or messages[-2].blocks[0]["type"] in THINKING_TYPES


def _encode_messages(messages: Sequence[WireMessage]) -> bytes:
    """The user's last two end what may be cached."""
    newest = len(messages) - 1
    return _json_list(
        _encode_message(message, marked=index in (newest, newest - 2))
        for index, message in enumerate(messages)
    )


def _encode_message(message: WireMessage, *, marked: bool) -> bytes:
    content = _add_cache_mark(message.encoded) if marked else message.encoded
    return b'{"role":' + encode(message.role) + b',"content":' + _json_list(content) + b"}"


def _add_cache_mark(blocks: Sequence[bytes]) -> list[bytes]:
    return [*blocks[:-1], blocks[-1][:-1] + CACHE_MARK + b"}"]


def _json_list(values: Iterable[bytes]) -> bytes:
    return b"[" + b",".join(values) + b"]"
