"""A real HTTP server that speaks Anthropic's messages, batch and streamed, scripted per test; strict about what it is asked."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from aiohttp import web

from tests.fakes.anthropic.rules import THOUGHTS, Json, blocks, faults
from tests.fakes.anthropic.thoughts import Thoughts
from tests.fakes.openai import Asked, Exchange, FakeOpenAI, Step, fails

How = Literal["error", "drop", "malformed", "silence"]
KEY = "sk-ant-scripted"


def tokens(prompt: int, completion: int, *, read: int = 0, created: int = 0) -> Json:
    """A usage object as Anthropic sends it: `prompt` is what was neither read from the cache nor written to it."""
    return {
        "input_tokens": prompt,
        "cache_creation_input_tokens": created,
        "cache_read_input_tokens": read,
        "output_tokens": completion,
    }


def thinks(text: str = "hm", *, redacted: bool = False) -> Json:
    """A thought, to stand before what is said; it gets its signature when it is sent."""
    return {"type": "redacted_thinking"} if redacted else {"type": "thinking", "thinking": text}


def says(text: str, *thoughts: Json, usage: Json | None = None, finish: str = "end_turn") -> Step:
    """Answers with text. `usage={}` sends none; None sends 10 tokens in, 5 out."""
    return answers(
        *thoughts, *([{"type": "text", "text": text}] if text else []), usage=usage, finish=finish
    )


def calls(
    *wanted: tuple[str, Json],
    thoughts: tuple[Json, ...] = (),
    text: str = "",
    ids: str = "",
    usage: Json | None = None,
) -> Step:
    """Asks for tools: ("name", {arguments}). `ids` is what every id begins with, which then is the same every time."""
    uses = [
        {"type": "tool_use", "id": f"{ids}{place}" if ids else "", "name": name, "input": given}
        for place, (name, given) in enumerate(wanted)
    ]
    spoken = [{"type": "text", "text": text}] if text else []
    return answers(*thoughts, *spoken, *uses, usage=usage, finish="tool_use")


def answers(*content: Json, usage: Json | None = None, finish: str = "end_turn") -> Step:
    """Answers with these blocks; thoughts are signed, and calls without an id get one."""
    used = tokens(10, 5) if usage is None else usage

    async def step(x: Exchange) -> web.StreamResponse:
        assert isinstance(x.model, FakeAnthropic)
        signed = x.model.sign(x.asked.body, content)
        if not x.streams:
            return web.json_response(_whole(x.asked, signed, used, finish))
        response = await x.open()
        for event in _events(x.asked, signed, used, finish):
            await response.write(_event(event))
        return response

    return step


def breaks_midstream(text: str, how: How = "drop", error: Json | None = None) -> Step:
    """Half an answer, then an error event, a closed socket, broken JSON or silence. A batch answer breaks in the same way."""
    fault = {
        "type": "error",
        "error": error or {"type": "api_error", "message": "scripted failure midway"},
    }
    endings = {
        "error": b"event: error\ndata: " + json.dumps(fault).encode(),
        "malformed": b'data: {"type": "content_blo',
    }

    async def step(x: Exchange) -> web.StreamResponse:
        response = (
            await x.open()
            if x.streams
            else await x.open("application/json", None if how in endings else 10_000)
        )
        if x.streams:
            for event in list(
                _events(x.asked, [{"type": "text", "text": text}], tokens(1, 1), "end_turn")
            )[:-3]:
                await response.write(_event(event))
        if how in endings:
            await response.write(
                endings[how] + b"\n\n" if x.streams else endings[how].rpartition(b"data: ")[2]
            )
            return response
        if not x.streams:
            await response.write(b'{"type": "message", "content": [')
        return x.drop() if how == "drop" else await x.hang()

    return step


def refuses(kind: str, message: str = "no", status: int = 400, **headers: str) -> Step:
    """Anthropic's form of an error."""
    error = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fake"}
    return fails(status, error, {name.replace("_", "-"): value for name, value in headers.items()})


def _event(event: Json) -> bytes:
    return (
        b"event: "
        + event["type"].encode()
        + b"\ndata: "
        + json.dumps(event, ensure_ascii=False).encode()
        + b"\n\n"
    )


def _whole(asked: Asked, content: list[Json], usage: Json, finish: str | None) -> Json:
    head = {
        "id": "msg_fake",
        "type": "message",
        "role": "assistant",
        "model": asked["model"],
        "content": content,
    }
    return {
        **head,
        "stop_reason": finish,
        "stop_sequence": None,
        **({"usage": usage} if usage else {}),
    }


def _events(asked: Asked, content: list[Json], usage: Json, finish: str) -> Iterator[Json]:
    begun = {**usage, "output_tokens": 1} if usage else {}
    yield {"type": "message_start", "message": _whole(asked, [], begun, None)}
    yield {"type": "ping"}
    for index, block in enumerate(content):
        emptied, deltas = _opened(block)
        yield {"type": "content_block_start", "index": index, "content_block": emptied}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"type": "message_delta", "delta": {"stop_reason": finish, "stop_sequence": None}}
    yield {**ended, "usage": {"output_tokens": usage["output_tokens"]}} if usage else ended
    yield {"type": "message_stop"}


def _opened(block: Json) -> tuple[Json, list[Json]]:
    """A block as its stream begins, and the pieces that make it whole."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}, [
                {"type": "text_delta", "text": piece} for piece in _pieces(block["text"])
            ]
        case "thinking":
            thought = [
                {"type": "thinking_delta", "thinking": piece}
                for piece in _pieces(block["thinking"])
            ]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*thought, signed]
        case "tool_use":
            written = json.dumps(block["input"], ensure_ascii=False) if block["input"] else ""
            return {**block, "input": {}}, [
                {"type": "input_json_delta", "partial_json": p} for p in ["", *_pieces(written)]
            ]
        case _:
            return block, []


def _pieces(text: str) -> list[str]:
    size = len(text) // 5 + 1
    return [text[at : at + size] for at in range(0, len(text), size)]


def _no_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


@dataclass(slots=True)
class FakeAnthropic(FakeOpenAI):
    """The server. What breaks the rules is answered as the API would, and stands in `refused`; then the script goes on."""

    refused: list[str] = field(default_factory=list)
    thoughts: Thoughts = field(default_factory=Thoughts)
    signed: int = 0
    _default: Step = field(default_factory=lambda: says("ok"))

    def sign(self, body: Json, content: tuple[Json, ...]) -> list[Json]:
        """The blocks as they are sent, with what only the server can give them; it will know its thoughts again."""
        made: list[Json] = []
        for block in content:
            self.signed += 1
            own: Json = {
                "thinking": {"signature": f"Eq{self.signed}/+=="},
                "redacted_thinking": {"data": f"Er{self.signed}/+=="},
                "tool_use": {"id": block.get("id") or f"toolu_{self.signed:02}"},
            }.get(block["type"], {})
            made.append(block | own)
        self.thoughts.remember(body, made)
        return made

    def thoughts_in(self, request: int) -> int:
        """How many thoughts came back with this request."""
        return sum(block["type"] in THOUGHTS for _, block in blocks(self.requests[request].body))

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path != "/v1/messages":
            if (
                request.headers.get("x-api-key") != KEY
                or "anthropic-version" not in request.headers
            ):
                return web.json_response(
                    {"type": "error", "error": {"type": "authentication_error"}}, status=401
                )
            return web.json_response({"data": [{"id": "claude-scripted", "type": "model"}]})
        raw = await request.content.read()
        asked = Asked(json.loads(raw, parse_constant=_no_json), request.headers, raw)
        wrong = self._wrong(request, asked.body)
        async with self._came:
            self.requests.append(asked)
            self.count += 1
            self.refused += wrong
            self._came.notify_all()
        step = (
            refuses("invalid_request_error", wrong[0])
            if wrong
            else self._steps.pop(0)
            if self._steps
            else self._default
        )
        return await step(Exchange(request, asked, self))

    def _wrong(self, request: web.BaseRequest, body: Any) -> list[str]:
        key = request.headers.get("x-api-key") or request.headers.get(
            "Authorization", ""
        ).removeprefix("Bearer ")
        found = (
            []
            if key and request.headers.get("anthropic-version")
            else ["x-api-key and anthropic-version are required"]
        )
        found = found or faults(body) or list(self.thoughts.faults(body))
        return found if request.method == "POST" else ["Method Not Allowed"]
