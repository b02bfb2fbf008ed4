"""A real HTTP server that speaks OpenAI's Responses, batch and streamed, scripted, and refuses what OpenAI refuses."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes.openai import Asked, Exchange, FakeOpenAI, Json, Step, fails
from tests.fakes.responses.rules import faults

SECRET = "gAAAAABthought"


def tokens(input: int, output: int, reasoning: int = 0, cached: int = 0) -> Json:
    """A usage object as OpenAI sends it."""
    return {
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": input + output,
    }


def message(words: str, phase: str = "", refusal: bool = False) -> Json:
    part = (
        {"type": "refusal", "refusal": words}
        if refusal
        else {"type": "output_text", "text": words, "annotations": []}
    )
    item: Json = {"type": "message", "status": "completed", "role": "assistant", "content": [part]}
    return item | ({"phase": phase} if phase else {})


def call(name: str, arguments: Any, call_id: str = "call_a") -> Json:
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {
        "type": "function_call",
        "status": "completed",
        "call_id": call_id,
        "name": name,
        "arguments": written,
    }


def reasoning(encrypted: str = SECRET) -> Json:
    return {
        "type": "reasoning",
        "summary": [],
        **({"encrypted_content": encrypted} if encrypted else {}),
    }


def replies(
    *output: Json,
    usage: Json | None = None,
    status: str = "completed",
    reason: str = "",
    bare: bool = False,
) -> Step:
    """Answers with these items. `usage=None` sends 10 tokens in, 5 out; `bare` streams no items at the end, as some servers."""
    usage = tokens(10, 5) if usage is None else usage

    async def step(x: Exchange) -> web.StreamResponse:
        whole = _whole(x, output, usage, status, reason)
        if not x.streams:
            return web.json_response(whole)
        response = await x.open()
        for number, event in enumerate(_events(whole, bare)):
            line = f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n"
            await response.write(line.encode())
        return response

    return step


def says(words: str, usage: Json | None = None) -> Step:
    return replies(message(words), usage=usage)


def calls(*wanted: tuple[str, Any], thought: str = SECRET, usage: Json | None = None) -> Step:
    """Thinks, then asks for tools; the ids of the calls are its own every time."""

    async def step(x: Exchange) -> web.StreamResponse:
        asked = [
            call(name, arguments, f"call_{x.model.count}_{n}")
            for n, (name, arguments) in enumerate(wanted)
        ]
        return await replies(*([reasoning(thought)] if thought else []), *asked, usage=usage)(x)

    return step


def refuses(
    status: int, text: str, code: str | None = None, kind: str = "invalid_request_error"
) -> Step:
    """An error as OpenAI writes it."""
    return fails(status, {"error": {"message": text, "type": kind, "param": None, "code": code}})


def breaks(error: Json, how: str = "failed") -> Step:
    """A response that fails after it began; with "error", an error event instead of an end."""

    async def step(x: Exchange) -> web.StreamResponse:
        whole = _whole(x, (), {}, "failed", "") | {"error": error}
        if not x.streams:
            return web.json_response(whole)
        response = await x.open()
        event = (
            {"type": "error", **error}
            if how == "error"
            else {"type": "response.failed", "response": whole}
        )
        await response.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        return response

    return step


def _whole(x: Exchange, output: tuple[Json, ...], usage: Json, status: str, reason: str) -> Json:
    prefix = {"message": "msg", "function_call": "fc", "reasoning": "rs"}
    items = [
        {"id": f"{prefix[item['type']]}_{x.model.count}_{n}", **item}
        for n, item in enumerate(output)
    ]
    head = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": x.asked["model"],
        "status": status,
    }
    details = {"reason": reason} if reason else None
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {
        **head,
        "output": items,
        "usage": usage or None,
        "error": None,
        "incomplete_details": details,
        **rest,
    }


def _events(whole: Json, bare: bool) -> Iterator[Json]:
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(whole["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        emptied: Json = {"content": []} if item["type"] == "message" else {}
        emptied |= {"arguments": ""} if item["type"] == "function_call" else {}
        emptied |= {"encrypted_content": "gAA"} if "encrypted_content" in item else {}
        yield {
            "type": "response.output_item.added",
            "output_index": index,
            "item": {**item, **emptied, "status": "in_progress"},
        }
        yield from ({**piece, **at} for piece in _pieces(item))
        if not bare:
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
    last = {**whole, "output": []} if bare else whole
    yield {"type": f"response.{whole['status']}", "response": last}


def _pieces(item: Json) -> Iterator[Json]:
    for number, part in enumerate(item.get("content", [])):
        kind = "refusal" if "refusal" in part else "output_text"
        empty = {**part, "refusal" if "refusal" in part else "text": ""}
        yield {"type": "response.content_part.added", "content_index": number, "part": empty}
        for piece in _cut(part.get("refusal") or part["text"]):
            yield {
                "type": f"response.{kind}.delta",
                "content_index": number,
                "delta": piece,
                "logprobs": [],
            }
        yield {"type": "response.content_part.done", "content_index": number, "part": part}
    for piece in _cut(item.get("arguments", "")):
        yield {"type": "response.function_call_arguments.delta", "delta": piece}
    if "arguments" in item:
        named = {"name": item["name"], "arguments": item["arguments"]}
        yield {"type": "response.function_call_arguments.done", **named}


def _cut(words: str) -> list[str]:
    size = len(words) // 4 + 1
    return [words[at : at + size] for at in range(0, len(words), size)]


@dataclass(slots=True)
class FakeResponses(FakeOpenAI):
    """The server. A request that OpenAI would refuse is refused, and kept in `refused` with the reasons."""

    refused: list[list[str]] = field(default_factory=list)
    _default: Step = field(default_factory=lambda: says("ok"))

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if not request.path.endswith("/responses"):
            return web.json_response(
                {"object": "list", "data": [{"id": "fake", "object": "model"}]}
            )
        read = await request.content.read()
        asked = Asked(json.loads(read), request.headers, read)
        found = faults(asked.body)
        if found:
            self.refused.append(found)
        step = refuses(400, "; ".join(found)) if found else self._next()
        async with self._came:
            self.requests.append(asked)
            self.count += 1
            self._came.notify_all()
        return await step(Exchange(request, asked, self))

    def _next(self) -> Step:
        return self._steps.pop(0) if self._steps else self._default
