"""A ModelRequest for Anthropic's messages, as bytes that begin the same at every call.

What may be cached ends at a marker (`cache_control`), of which the API takes four: behind the
tools, behind the system prompt, behind the newest message, and where the newest message ended at
the call before, so that a call finds what the last one has stored however much has come since (the
API looks back only 20 blocks). A marker is one key at the end of a block and is not compared: with
every CACHE_MARK taken out, the bytes of one call begin those of the next.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import count
from typing import Literal

from daemon.core import value
from daemon.core.messages import Message, MessageRole, ModelRequest, Native, ToolCall, ToolSpec
from daemon.providers.base import encode_json, make_valid_name, parse_arguments, split_instructions

Block = dict[str, object]

VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2}))?(?!\d)")
FIRST_THINKING = (3, 7)
FIRST_ADAPTIVE = (4, 6)
FIRST_PREFIX_BOUND = (5, 1)
BUDGETS = {"low": 2048, "medium": 8192, "high": 16_384, "max": 24_000}
HIGH_EFFORTS = ("high", "max")
THINKING_TYPES = ("thinking", "redacted_thinking")
VALID_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
MISSING_START = "[earlier messages are left out]"
GO_ON = "[go on]"
EMPTY_TEXT = "[an empty message]"
ALTERNATIVES = ("anyOf", "oneOf", "allOf")
CACHE_MARK = b',"cache_control":{"type":"ephemeral"}'


@value
class ModelCapabilities:
    """How a model thinks. `prefix_bound`: newer models refuse their thinking behind other words,
    tools or another system prompt than it was thought about.
    """

    thinking: Literal["none", "budget", "adaptive"]
    prefix_bound: bool = False

    def compute_limits(self, wanted: int | None, effort: str | None) -> tuple[int, int]:
        """(max_tokens, of which for thinking): a budget of thinking counts towards the maximum."""
        if self.thinking == "none":
            return wanted or 4096, 0
        if self.thinking == "adaptive":
            return wanted or (32_000 if effort in HIGH_EFFORTS else 16_000), 0
        budget = BUDGETS.get(effort, BUDGETS["high"]) if effort else 0
        return (wanted or 8000) + budget, budget


def get_capabilities(model: str) -> ModelCapabilities:
    """By the model's name (E13); a server with another name speaks the oldest form."""
    if "claude" not in model:
        return ModelCapabilities("budget")
    found = VERSION.search(model)
    if not found:
        return ModelCapabilities("adaptive", prefix_bound=True)
    version = int(found[1]), int(found[2] or 0)
    if version < FIRST_ADAPTIVE:
        return ModelCapabilities("none" if version < FIRST_THINKING else "budget")
    return ModelCapabilities("adaptive", prefix_bound=version >= FIRST_PREFIX_BOUND)


def make_own_native(provider: str, model: str, prefix: str, content: Sequence[Block]) -> Native:
    """A reply's own blocks; `prefix` names what stood before it when it was thought."""
    return Native(provider, model, json.dumps({"prefix": prefix, "content": content}))


@value
class AnthropicBody:
    """A request body. `prefix` names what the reply will have been thought about."""

    body: bytes
    prefix: str


class WireMessage:
    """One message: its blocks, and the bytes of each."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.blocks: list[Block] = []
        self.encoded: list[bytes] = []


class MessageBuilder:
    """Messages under construction: roles alternate, the user begins and ends, call ids are unique.

    `prefix_bound` sends thinking back only where nothing before it has changed.
    """

    def __init__(self, provider: str, model: str, prefix_bound: bool) -> None:
        self.messages: list[WireMessage] = []
        self._owner, self._prefix_bound = (provider, model), prefix_bound
        self._hash = blake2b(digest_size=12)
        self._ids: set[str] = set()
        self._waiting: list[tuple[str, str]] = []

    @property
    def prefix(self) -> str:
        """A name for exactly what has been said so far."""
        return self._hash.hexdigest()

    def build(self, before: Iterable[bytes], history: Sequence[Message]) -> None:
        """The messages behind tools and system prompt."""
        for part in before:
            self._hash.update(part)
        for message in history:
            match message.role:
                case MessageRole.ASSISTANT:
                    self._add_reply(message)
                case MessageRole.TOOL:
                    self._add_result(message)
                case _:
                    self._append("user", _text_block(message.text))
        if not self.messages or self.messages[-1].role == "assistant":
            self._append("user", _text_block(GO_ON if self.messages else MISSING_START))

    def _append(self, role: str, *blocks: Block) -> None:
        if not self.messages and role == "assistant":
            self._append("user", _text_block(MISSING_START))
        if not self.messages or self.messages[-1].role != role:
            self.messages.append(WireMessage(role))
        for block in blocks:
            encoded = encode_json(block)
            self._hash.update(role.encode() + encoded)
            self.messages[-1].blocks.append(block)
            self.messages[-1].encoded.append(encoded)

    def _add_reply(self, message: Message) -> None:
        ids = [self._make_unique_id(call.provider_id) for call in message.calls]
        self._waiting = [(call.provider_id, i) for call, i in zip(message.calls, ids, strict=True)]
        blocks = self._get_native_blocks(message)
        if blocks is None:
            blocks = list(map(_tool_use_block, message.calls))
            if message.text.strip() or not blocks:
                blocks.insert(0, _text_block(message.text))
        left = iter(ids)
        for block in blocks:
            is_call = block.get("type") == "tool_use"
            self._append("assistant", block | {"id": next(left)} if is_call else block)

    def _get_native_blocks(self, message: Message) -> list[Block] | None:
        """The blocks of this reply, if they may be sent again behind this prefix."""
        native = message.native
        if native is None or (native.provider, native.model) != self._owner:
            return None
        try:
            found: dict[str, object] = json.loads(native.blocks)
            content, thought_behind = found["content"], found["prefix"]
        except (ValueError, KeyError, TypeError):
            return None
        if not isinstance(content, list) or (self._prefix_bound and thought_behind != self.prefix):
            return None
        uses = sum(block.get("type") == "tool_use" for block in content)
        return content if uses == len(message.calls) else None

    def _add_result(self, message: Message) -> None:
        pair = next((pair for pair in self._waiting if pair[0] == message.provider_id), None)
        if pair is None:
            return
        self._waiting.remove(pair)
        block: Block = {"type": "tool_result", "tool_use_id": pair[1]}
        if message.text.strip():
            block["content"] = message.text
        self._append("user", {**block, "is_error": True} if message.is_error else block)

    def _make_unique_id(self, given: str) -> str:
        """The call's own id if it is valid and free; else one by place, the same every time."""
        if not VALID_ID.fullmatch(given) or given in self._ids:
            numbered = (f"call_{n}" for n in count(len(self._ids)))
            given = next(name for name in numbered if name not in self._ids)
        self._ids.add(given)
        return given


def encode_request(
    model: str, request: ModelRequest, stream: bool = False, *, provider: str = "anthropic"
) -> AnthropicBody:
    """The request body: model, tools, system and messages first, what varies last."""
    capabilities = get_capabilities(model)
    system, history = split_instructions(request.messages)
    instructions = [encode_json(_text_block(m.text)) for m in system if m.text.strip()]
    tools = [encode_json(tool) for tool in _list_tools(request, history)]
    builder = MessageBuilder(provider, model, capabilities.prefix_bound)
    builder.build((*tools, *instructions), history)
    messages = builder.messages
    parts = [b'{"model":' + encode_json(model)]
    for name, blocks in ((b'"tools":', tools), (b'"system":', instructions)):
        if blocks:
            parts.append(name + _json_list(_add_cache_mark(blocks)))
    marked = (len(messages) - 1, len(messages) - 3)  # the user's last two
    encoded = [_encode_message(message, n in marked) for n, message in enumerate(messages)]
    parts.append(b'"messages":' + _json_list(encoded))
    settings = _make_settings(request, capabilities, _allows_thinking(messages))
    if tools and not (request.tools and request.tools_allowed):
        settings["tool_choice"] = {"type": "none"}
    if stream:
        settings["stream"] = True
    parts.append(encode_json(settings)[1:-1])
    return AnthropicBody(b",".join(parts) + b"}", builder.prefix)


def _list_tools(request: ModelRequest, history: Sequence[Message]) -> Iterable[Block]:
    """The tools; without any, a history with calls in it still needs them named."""
    if request.tools:
        return map(_tool_block, request.tools)
    names = dict.fromkeys(make_valid_name(call.name) for m in history for call in m.calls)
    return [{"name": name, "input_schema": {"type": "object"}} for name in names]


def _tool_block(tool: ToolSpec) -> Block:
    """The API refuses alternatives of a whole schema: what any of them would take is shown."""
    schema: Block = {"type": "object"}
    schema |= {key: part for key, part in tool.parameters.items() if key not in ALTERNATIVES}
    properties: Block = {}
    for key in ALTERNATIVES:
        choices = tool.parameters.get(key)
        for choice in choices if isinstance(choices, list) else ():
            properties |= _get_properties(choice)
    if properties:
        schema["properties"] = properties | _get_properties(tool.parameters)
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def _get_properties(schema: object) -> Block:
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, dict) else {}


def _make_settings(
    request: ModelRequest, capabilities: ModelCapabilities, may_think: bool
) -> Block:
    thinks = {"adaptive": True, "budget": may_think}.get(capabilities.thinking, False)
    effort = request.effort if thinks else None
    limit, budget = capabilities.compute_limits(request.max_tokens, effort)
    settings: Block = {"max_tokens": limit}
    if effort and budget:
        settings["thinking"] = {"type": "enabled", "budget_tokens": budget}
    elif effort:
        settings |= {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
    return settings


def _allows_thinking(messages: Sequence[WireMessage]) -> bool:
    """With a budget, tool results are thought about only where their calls were."""
    has_results = any(block["type"] == "tool_result" for block in messages[-1].blocks)
    return not has_results or messages[-2].blocks[0]["type"] in THINKING_TYPES


def _encode_message(message: WireMessage, marked: bool) -> bytes:
    content = _add_cache_mark(message.encoded) if marked else message.encoded
    return b'{"role":"' + message.role.encode() + b'","content":' + _json_list(content) + b"}"


def _add_cache_mark(blocks: Sequence[bytes]) -> list[bytes]:
    return [*blocks[:-1], blocks[-1][:-1] + CACHE_MARK + b"}"]


def _json_list(values: Iterable[bytes]) -> bytes:
    return b"[" + b",".join(values) + b"]"


def _tool_use_block(call: ToolCall) -> Block:
    arguments = parse_arguments(call.arguments)
    return {"type": "tool_use", "id": "", "name": make_valid_name(call.name), "input": arguments}


def _text_block(text: str) -> Block:
    return {"type": "text", "text": text if text.strip() else EMPTY_TEXT}
