"""What OpenAI's Responses API refuses, as its documentation and its errors tell: pure, and stricter where they are unsure."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

Json = dict[str, Any]

KNOWN = {
    "model", "instructions", "tools", "input", "store", "include", "tool_choice", "max_output_tokens", "reasoning", "stream",
    "parallel_tool_calls",
}  # fmt: skip
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
EFFORTS = {"none", "minimal", "low", "medium", "high", "xhigh", "max"}
PARTS = {
    "user": {"input_text", "input_image"},
    "developer": {"input_text"},
    "system": {"input_text"},
    "assistant": {"output_text", "refusal"},
}
FIELDS = {
    "message": {"type", "id", "role", "content", "status", "phase"},
    "function_call": {"type", "id", "call_id", "name", "arguments", "status"},
    "function_call_output": {"type", "id", "call_id", "output", "status"},
    "reasoning": {"type", "id", "summary", "encrypted_content", "status", "content"},
}


def faults(body: Json) -> list[str]:
    """Everything that the API would not take; an empty list for a request that it answers."""
    found = [f"unknown parameter: {name!r}" for name in body.keys() - KNOWN]
    items = body.get("input") or []
    items = [{"role": "user", "content": items}] if isinstance(items, str) else items
    found += [] if items and body.get("model") else ["missing required parameter: model or input"]
    found += [f"input[{n}]: {fault}" for n, item in enumerate(items) for fault in _item(item)]
    if found:
        return found
    return [*_pairs(items), *_thoughts(items, body), *_ids(items), *_tools(body), *_settings(body)]


def _kind(item: Json) -> str:
    return item.get("type", "message")


def _item(item: Json) -> Iterator[str]:
    kind = _kind(item)
    if kind not in FIELDS:
        yield f"invalid value: {kind!r}"
        return
    if item.keys() - FIELDS[kind]:
        yield f"unknown parameter: {sorted(item.keys() - FIELDS[kind])}"
    if kind == "message":
        yield from _message(item)
    if (
        kind in ("function_call", "function_call_output")
        and not 1 <= len(item.get("call_id", "")) <= 64
    ):
        yield "invalid call_id"
    if kind == "function_call":
        yield from _call(item)
    if kind == "function_call_output" and not isinstance(item.get("output"), str):
        yield "output must be a string"


def _message(item: Json) -> Iterator[str]:
    role, content = item.get("role"), item.get("content")
    if role not in PARTS:
        yield f"invalid role: {role!r}"
    elif (
        not isinstance(content, str)
        and {part.get("type") for part in content or [{}]} - PARTS[role]
    ):
        yield f"invalid content of {role}: {content}"
    for part in content if isinstance(content, list) else []:
        if part.get("type") == "input_image" and not (
            part.keys() <= {"type", "image_url", "detail"}
            and str(part.get("image_url")).startswith("data:image/")
        ):
            yield f"invalid image: {sorted(part)}"


def _call(item: Json) -> Iterator[str]:
    if not NAME.fullmatch(item.get("name", "")):
        yield f"invalid name: {item.get('name')!r}"
    arguments: object = None
    with suppress(ValueError, TypeError):
        arguments = json.loads(item.get("arguments", ""))
    if not isinstance(arguments, dict):
        yield f"arguments are no JSON object: {item.get('arguments')!r}"


def _pairs(items: list[Json]) -> Iterator[str]:
    """Every call has one output somewhere behind it, every output a call before it."""
    waiting: set[str] = set()
    called: set[str] = set()
    for item in items:
        call_id = item.get("call_id", "")
        if _kind(item) == "function_call":
            if call_id in called:
                yield f"duplicate call_id {call_id}"
            waiting.add(call_id)
            called.add(call_id)
        elif _kind(item) == "function_call_output":
            if call_id not in waiting:
                yield f"no tool call found for function call output with call_id {call_id}"
            waiting.discard(call_id)
        elif _kind(item) == "message" and item["role"] != "assistant" and waiting:
            yield f"no tool output found for function call {sorted(waiting)[0]}"
    if waiting:
        yield f"no tool output found for function call {sorted(waiting)[0]}"


def _thoughts(items: list[Json], body: Json) -> Iterator[str]:
    for item, after in pairwise([*items, {"type": "nothing"}]):
        if _kind(item) != "reasoning":
            continue
        name = item.get("id", "")
        if (
            not name.startswith("rs_")
            or not isinstance(item.get("summary"), list)
            or item.get("content")
        ):
            yield f"invalid reasoning item {name!r}"
        if not body.get("store", True) and not item.get("encrypted_content"):
            yield f"item with id {name!r} not found. Items are not persisted when `store` is set to false"
        if _kind(after) not in ("reasoning", "function_call") and after.get("role") != "assistant":
            yield f"item {name!r} of type 'reasoning' was provided without its required following item"


def _ids(items: list[Json]) -> Iterator[str]:
    ids = [item["id"] for item in items if "id" in item]
    if len(set(ids)) != len(ids):
        yield "duplicate item found"
    for item in items:
        prefix = {"message": "msg_", "function_call": "fc_"}.get(_kind(item), "")
        if not item.get("id", prefix).startswith(prefix):
            yield f"invalid id {item['id']!r}: expected an id that begins with {prefix!r}"


def _tools(body: Json) -> Iterator[str]:
    tools = body.get("tools", [])
    names = [tool.get("name", "") for tool in tools]
    if len(set(names)) != len(names) or not all(map(NAME.fullmatch, names)):
        yield f"invalid or duplicate tool names: {names}"
    for tool in tools:
        if tool.get("type") != "function" or tool.keys() - {
            "type",
            "name",
            "description",
            "parameters",
            "strict",
        }:
            yield f"invalid tool: {tool}"
        if tool.get("strict", True):
            yield "invalid schema: strict needs additionalProperties to be false"
    if "tool_choice" in body and (
        not tools or body["tool_choice"] not in ("none", "auto", "required")
    ):
        yield "tool choice is only allowed when tools are specified"


def _settings(body: Json) -> Iterator[str]:
    if body.get("max_output_tokens", 16) < 16:
        yield "integer below minimum value: max_output_tokens"
    if (
        body.get("reasoning", {}).keys() - {"effort", "summary"}
        or body.get("reasoning", {}).get("effort", "low") not in EFFORTS
    ):
        yield "invalid reasoning"
    if set(body.get("include", [])) - {"reasoning.encrypted_content"}:
        yield "invalid include"
    if body["model"].startswith("gpt-4") and (body.get("include") or body.get("reasoning")):
        yield "encrypted content and reasoning are not supported with this model"
