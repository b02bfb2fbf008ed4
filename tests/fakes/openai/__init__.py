"""A real HTTP server that speaks OpenAI's chat completions, batch and streamed, scripted per test. As a process: __main__.py."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from aiohttp import web

from daemon.tools.policy import orders
from tests.fakes.orders import order_all

Json = dict[str, Any]
How = Literal["error", "drop", "malformed", "silence"]
HEAD = {"id": "chatcmpl-fake", "created": 1_700_000_000}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came in; indexing it indexes its body."""

    body: Json
    headers: Mapping[str, str]
    raw: bytes

    def __getitem__(self, key: str) -> Any:
        return self.body[key]

    def last(self, *roles: str) -> Json:
        """The last message of these roles (of any, without roles); empty if there is none."""
        return next(
            (m for m in reversed(self.body.get("messages", [])) if not roles or m["role"] in roles),
            {},
        )


@dataclass(slots=True)
class Exchange:
    """A request under way: what a step works on."""

    request: web.BaseRequest
    asked: Asked
    model: "FakeOpenAI"

    @property
    def streams(self) -> bool:
        return bool(self.asked.body.get("stream"))

    async def hang(self) -> web.StreamResponse:
        """Say nothing until the client goes away."""
        self.model.hanging.set()
        try:
            return await asyncio.Future()
        finally:
            self.model.gone.set()

    def drop(self) -> web.StreamResponse:
        if self.request.transport:
            self.request.transport.abort()
        return web.Response()

    async def open(
        self, kind: str = "text/event-stream", length: int | None = None
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": kind})
        response.content_length = length
        await response.prepare(self.request)
        return response


Step = Callable[[Exchange], Awaitable[web.StreamResponse]]


def tokens(prompt: int, completion: int, cached: int = 0) -> Json:
    """A usage object as OpenAI sends it."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def says(
    text: str | None,
    usage: Json | None = None,
    delay: float | None = None,
    finish: str = "stop",
) -> Step:
    """Answers with text. `usage={}` sends none; None sends 10 tokens in, 5 out."""
    return _answers(text, [], usage, delay, finish)


def calls(
    *wanted: tuple[str, Any],
    text: str | None = None,
    usage: Json | None = None,
    delay: float | None = None,
) -> Step:
    """Asks for tools: ("name", {arguments}) or ("name", "raw text"); their ids are call_0, call_1 ... every time."""
    tool_calls = [
        {
            "id": f"call_{i}",
            "type": "function",
            "function": {"name": name, "arguments": _raw(arguments)},
        }
        for i, (name, arguments) in enumerate(wanted)
    ]
    return _answers(text, tool_calls, usage, delay)


def _raw(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _answers(
    text: str | None,
    tool_calls: list[Json],
    usage: Json | None,
    delay: float | None,
    finish: str = "stop",
) -> Step:
    usage = tokens(10, 5) if usage is None else usage

    async def step(x: Exchange) -> web.StreamResponse:
        if delay:
            await asyncio.sleep(delay)
        if not x.streams:
            return web.Response(
                body=json.dumps(_whole(x.asked, text, tool_calls, usage, finish)),
                content_type="application/json",
            )
        response = await x.open()
        for chunk in _chunks(x.asked, text, tool_calls, usage, finish):
            await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response

    return step


def _whole(
    asked: Asked, text: str | None, tool_calls: list[Json], usage: Json, finish: str = "stop"
) -> Json:
    message: Json = {"role": "assistant", "content": text}
    if tool_calls:
        message["tool_calls"] = tool_calls
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if tool_calls else finish,
    }
    body = {
        **HEAD,
        "object": "chat.completion",
        "model": asked.body.get("model", ""),
        "choices": [choice],
    }
    return {**body, "usage": usage} if usage else body


def _chunks(
    asked: Asked, text: str | None, tool_calls: list[Json], usage: Json, finish: str = "stop"
) -> Iterator[Json]:
    head = {**HEAD, "object": "chat.completion.chunk", "model": asked.body.get("model", "")}

    def chunk(delta: Json, ending: str | None = None) -> Json:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": ending}]}

    yield chunk({"role": "assistant", "content": "" if text is not None else None})
    for piece in _pieces(text or ""):
        yield chunk({"content": piece})
    for index, call in enumerate(tool_calls):
        function = call["function"]
        opening = {
            "index": index,
            "id": call["id"],
            "type": "function",
            "function": {"name": function["name"], "arguments": ""},
        }
        yield chunk({"tool_calls": [opening]})
        for piece in _pieces(function["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if tool_calls else finish)
    if usage and (asked.body.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": usage}


def trickles(count: int, every: float) -> Step:
    """Streams so many words, one after the other, with a pause after each."""

    async def step(x: Exchange) -> web.StreamResponse:
        if not x.streams:
            return await says("word " * count)(x)
        response = await x.open()
        head = {**HEAD, "object": "chat.completion.chunk", "model": x.asked.body.get("model", "")}
        for _ in range(count):
            delta = {"index": 0, "delta": {"content": "word "}, "finish_reason": None}
            await response.write(
                b"data: " + json.dumps({**head, "choices": [delta]}).encode() + b"\n\n"
            )
            await asyncio.sleep(every)
        for chunk in list(_chunks(x.asked, None, [], tokens(10, count)))[1:]:
            await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response

    return step


def _pieces(text: str) -> list[str]:
    size = len(text) // 5 + 1
    return [text[at : at + size] for at in range(0, len(text), size)]


def fails(status: int, body: object = None, headers: Mapping[str, str] | None = None) -> Step:
    """Answers with an HTTP error; `body` is JSON, or the text itself if it is a str."""
    shown = (
        {"error": {"message": f"scripted failure {status}", "type": "error", "code": None}}
        if body is None
        else body
    )
    kind = "text/html" if isinstance(shown, str) else "application/json"

    async def step(x: Exchange) -> web.StreamResponse:
        return web.Response(status=status, text=_raw(shown), headers=headers, content_type=kind)

    return step


def hangs() -> Step:
    """Never answers; sets `model.hanging`, and `model.gone` when the client has left."""
    return Exchange.hang


def drops() -> Step:
    """Closes the socket instead of answering."""

    async def step(x: Exchange) -> web.StreamResponse:
        return x.drop()

    return step


def breaks_midstream(text: str, how: How = "drop", error: Json | None = None) -> Step:
    """Half an answer, then an error object, a closed socket, broken JSON or silence. A batch answer breaks in the same way."""
    fault = {
        "error": error
        or {"message": "scripted failure midway", "type": "server_error", "code": None}
    }
    endings = {"error": json.dumps(fault).encode(), "malformed": b'{"choices": [{"delta": {"cont'}

    async def step(x: Exchange) -> web.StreamResponse:
        response = (
            await x.open()
            if x.streams
            else await x.open("application/json", None if how in endings else 10_000)
        )
        if x.streams:
            for chunk in list(_chunks(x.asked, text, [], {}))[:-1]:
                await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        if how in endings:
            await response.write(b"data: " + endings[how] + b"\n\n" if x.streams else endings[how])
            return response
        if not x.streams:
            await response.write(b'{"choices": [')
        return x.drop() if how == "drop" else await x.hang()

    return step


def raw(*pieces: bytes) -> Step:
    """A 200 with exactly these bytes, written piece by piece."""

    async def step(x: Exchange) -> web.StreamResponse:
        response = await x.open(
            "text/event-stream" if pieces[0][:1] in b":de" else "application/json"
        )
        for piece in pieces:
            await response.write(piece)
        return response

    return step


def gate(event: asyncio.Event, then: Step) -> Step:
    """Waits for the event, then does the step."""

    async def step(x: Exchange) -> web.StreamResponse:
        await event.wait()
        return await then(x)

    return step


def by(choose: Callable[[Json], Step]) -> Step:
    """Chooses the step by the request's body."""

    async def step(x: Exchange) -> web.StreamResponse:
        return await choose(x.asked.body)(x)

    return step


@dataclass(slots=True)
class FakeOpenAI:
    """The server. Steps are used up in the order in which requests come; then `otherwise` answers. What the owner's
    words order is asked in `consents`, beside all that; the answer is "all that they could" unless a test says otherwise.
    """

    port: int = 0
    base_url: str = ""
    requests: list[Asked] = field(default_factory=list)
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    count: int = 0
    consents: list[str] = field(default_factory=list)
    answer_orders: Callable[[str], str] = order_all
    _steps: list[Step] = field(default_factory=list)
    _default: Step = field(default_factory=lambda: says("ok"))
    _came: asyncio.Condition = field(default_factory=asyncio.Condition)
    _runner: web.ServerRunner | None = None

    async def __aenter__(self) -> Self:
        self._runner = web.ServerRunner(
            web.Server(self._serve, handler_cancellation=True), shutdown_timeout=0.2
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, backlog=4096).start()
        self.port = self._runner.addresses[0][1]
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner:
            await self._runner.cleanup()

    def script(self, *steps: Step) -> None:
        """Queue steps, one for each request."""
        self._steps.extend(steps)

    def otherwise(self, step: Step) -> None:
        """What to do when the queue is empty."""
        self._default = step

    @property
    def left(self) -> int:
        """Steps not yet used."""
        return len(self._steps)

    async def asked(self, n: int, within: float = 30) -> Asked:
        """Wait until n requests have come; the n-th."""
        async with asyncio.timeout(within), self._came:
            await self._came.wait_for(lambda: self.count >= n)
        return self.requests[n - 1 - self.count + len(self.requests)]

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/requests":
            return web.json_response(
                {"count": self.count, "bodies": [asked.body for asked in self.requests]}
            )
        if not request.path.endswith("/chat/completions"):
            return web.json_response(
                {"object": "list", "data": [{"id": "fake", "object": "model"}]}
            )
        read = await request.content.read()  # request.read() refuses more than 1 MB
        asked = Asked(json.loads(read), request.headers, read)
        if asked.body["messages"][0]["content"] == orders.SYSTEM:
            self.consents.append(asked.body["messages"][-1]["content"])
            return await says(self.answer_orders(self.consents[-1]))(Exchange(request, asked, self))
        step = self._steps.pop(0) if self._steps else self._default
        async with self._came:
            self.requests.append(asked)
            self.count += 1
            self._came.notify_all()
        try:
            return await step(Exchange(request, asked, self))
        except (asyncio.CancelledError, ConnectionError):  # it left, perhaps before the answer began
            self.gone.set()
            raise
