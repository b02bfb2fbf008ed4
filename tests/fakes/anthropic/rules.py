"""What Anthropic's API refuses about a request, as a pure function; stricter than the API where it is lenient."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

Json = dict[str, Any]

KEYS = {
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "stream",
}
BLOCKS = {
    "text": ({"type", "text"}, set()),
    "image": ({"type", "source"}, set()),
    "tool_use": ({"type", "id", "name", "input"}, set()),
    "tool_result": ({"type", "tool_use_id"}, {"content", "is_error"}),
    "thinking": ({"type", "thinking", "signature"}, set()),
    "redacted_thinking": ({"type", "data"}, set()),
}
THOUGHTS = ("thinking", "redacted_thinking")
PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
SPOKEN = {"user": ("text", "image", "tool_result"), "assistant": ("text", "tool_use", *THOUGHTS)}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID = re.compile(r"[a-zA-Z0-9_-]+")
WITH_BUDGET = re.compile(r"claude-(3-7|(opus|sonnet|haiku)-4(-[0-5])?(-\d{8})?$)")


def faults(body: Json) -> list[str]:
    """Everything that is wrong with it; an empty list is a request that is answered."""
    found = [f"{key}: Extra inputs are not permitted" for key in body.keys() - KEYS]
    found += (
        [] if isinstance(body.get("model"), str) and body["model"] else ["model: Field required"]
    )
    most = body.get("max_tokens")
    found += [] if isinstance(most, int) and most >= 1 else ["max_tokens: Field required"]
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return [*found, "messages: at least one message is required"]
    found += [*_order(messages), *_contents(messages)]
    if not found:
        found += [*_pairs(messages), *_tools(body), *_thinking(body), *_system(body), *_marks(body)]
    return found


def blocks(body: Json) -> Iterator[tuple[str, Json]]:
    """(role, block) of all messages, in their order."""
    for message in body["messages"]:
        for block in message["content"]:
            yield message["role"], block


def _order(messages: list[Json]) -> Iterator[str]:
    for index, message in enumerate(messages):
        if (
            not isinstance(message, dict)
            or message.keys() != {"role", "content"}
            or message["role"] not in SPOKEN
        ):
            yield f"messages.{index}: not a message"
            return
    if messages[0]["role"] != "user":
        yield "messages: first message must use the user role"
    if messages[-1]["role"] != "user":
        yield "This model does not support assistant message prefill. The conversation must end with a user message."
    for before, after in pairwise(messages):
        if before["role"] == after["role"]:
            yield "messages: roles must alternate between user and assistant"


def _contents(messages: list[Json]) -> Iterator[str]:
    for index, message in enumerate(messages):
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, list) or not content:
            yield f"messages.{index}: all messages must have non-empty content"
            continue
        for place, block in enumerate(content):
            yield from (
                f"messages.{index}.content.{place}: {fault}"
                for fault in _block(block, message["role"])
            )
        if isinstance(content[-1], dict) and content[-1].get("type") in THOUGHTS:
            yield f"messages.{index}: The final block in an assistant message cannot be `thinking`"


def _block(block: Any, role: str) -> Iterator[str]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in SPOKEN.get(role, ()):
        yield f"{kind} is not a block of the {role}"
        return
    needed, more = BLOCKS[str(kind)]
    if not needed <= block.keys() or not block.keys() <= needed | more | {"cache_control"}:
        yield f"{kind}: fields {sorted(block)}"
        return
    if kind == "text" and not _full(block["text"]):
        yield "text content blocks must contain non-whitespace text"
    if kind == "tool_result" and not (
        _full(block.get("content", "none")) and isinstance(block.get("is_error", False), bool)
    ):
        yield "tool_result: content must be text, not blank, or left out"
    if kind == "image" and not (
        block["source"].keys() == {"type", "media_type", "data"}
        and block["source"]["type"] == "base64"
        and block["source"]["media_type"] in PICTURES
        and block["source"]["data"]
    ):
        yield "image: source is not of its form"
    if kind == "tool_use" and not (
        ID.fullmatch(block["id"])
        and NAME.fullmatch(block["name"])
        and isinstance(block["input"], dict)
    ):
        yield "tool_use: id, name or input is not of its form"
    if kind in THOUGHTS and "cache_control" in block:
        yield "cache_control cannot be set for thinking blocks"
    if kind == "thinking" and not block["signature"]:
        yield "thinking: Invalid `signature` in `thinking` block"


def _full(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip())


def _pairs(messages: list[Json]) -> Iterator[str]:
    ids = [
        block["id"]
        for message in messages
        for block in message["content"]
        if block["type"] == "tool_use"
    ]
    if len(ids) != len(set(ids)):
        yield "messages: `tool_use` ids must be unique"
    for index, (before, after) in enumerate(pairwise([{"content": []}, *messages])):
        wanted = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
        kinds = [block["type"] for block in after["content"]]
        given = [
            block["tool_use_id"] for block in after["content"] if block["type"] == "tool_result"
        ]
        if sorted(wanted) != sorted(given):
            yield f"messages.{index}: `tool_use` ids {wanted} do not match the `tool_result` ids {given}"
        if kinds[: len(given)] != ["tool_result"] * len(given):
            yield f"messages.{index}: tool_result blocks must come first"


def _tools(body: Json) -> Iterator[str]:
    tools = body.get("tools", [])
    names = [tool.get("name") for tool in tools]
    if len(names) != len(set(names)) or not all(
        isinstance(name, str) and NAME.fullmatch(name) for name in names
    ):
        yield "tools: Tool names must be unique and of their form"
    if not all(tool.get("input_schema", {}).get("type") == "object" for tool in tools):
        yield "tools.input_schema.type: Field required"
    if any({"anyOf", "oneOf", "allOf"} & tool.get("input_schema", {}).keys() for tool in tools):
        yield "input_schema does not support oneOf, allOf, or anyOf at the top level"
    if not all(
        tool.keys() <= {"name", "description", "input_schema", "cache_control"} for tool in tools
    ):
        yield "tools: Extra inputs are not permitted"
    used = any(block["type"] in ("tool_use", "tool_result") for _, block in blocks(body))
    if used and not tools:
        yield "Requests which include `tool_use` or `tool_result` blocks must define tools"
    choice = body.get("tool_choice", {"type": "auto"})
    if choice not in ({"type": "auto"}, {"type": "none"}) or ("tool_choice" in body and not tools):
        yield "tool_choice: not of its form, or without tools"


def _thinking(body: Json) -> Iterator[str]:
    thinking, old = body.get("thinking"), bool(WITH_BUDGET.match(body["model"]))
    effort = body.get("output_config", {"effort": "high"})
    if effort.keys() != {"effort"} or effort["effort"] not in (
        "low",
        "medium",
        "high",
        "xhigh",
        "max",
    ):
        yield "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"
    if "output_config" in body and old:
        yield "This model does not support the effort parameter."
    if thinking is None:
        return
    if thinking["type"] == "enabled":
        yield from _budget(body, thinking)
    elif thinking != {"type": "adaptive"} or old:
        yield "thinking: adaptive thinking is not supported on this model"
    if thinking["type"] == "enabled" and body["model"].startswith("claude") and not old:
        yield '"thinking.type.enabled" is not supported for this model.'


def _budget(body: Json, thinking: Json) -> Iterator[str]:
    if (
        thinking.keys() != {"type", "budget_tokens"}
        or not 1024 <= thinking["budget_tokens"] < body["max_tokens"]
    ):
        yield "`max_tokens` must be greater than `thinking.budget_tokens`, which must be at least 1024"
    replied = body["messages"][-2]["content"] if len(body["messages"]) > 1 else []
    if any(block["type"] == "tool_use" for block in replied) and replied[0]["type"] not in THOUGHTS:
        yield "Expected `thinking` or `redacted_thinking`, but found something else. When `thinking` is enabled ..."


def _system(body: Json) -> Iterator[str]:
    system = body.get("system", [])
    if not all(
        block.keys() <= {"type", "text", "cache_control"} and _full(block.get("text"))
        for block in system
    ):
        yield "system: text content blocks must be non-empty"


def _marks(body: Json) -> Iterator[str]:
    everywhere = [
        *body.get("tools", []),
        *body.get("system", []),
        *(block for _, block in blocks(body)),
    ]
    marks = [block["cache_control"] for block in everywhere if "cache_control" in block]
    if len(marks) > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}."
    if any(mark != {"type": "ephemeral"} for mark in marks):
        yield "cache_control.ephemeral: Extra inputs are not permitted"
