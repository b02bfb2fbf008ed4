"""A real HTTP server that speaks Gemini's generateContent, batch and streamed, scripted, and refuses what Google refuses."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from aiohttp import web

from tests.fakes.gemini.rules import faults, proto
from tests.fakes.openai import Asked, Exchange, FakeOpenAI, Json, Step, fails

SIGNATURE = "c2lnbmF0dXJlLW9uZQ=="


class Talk(Exchange):
    """A request under way; the address says whether it streams."""

    @property
    def streams(self) -> bool:
        return (
            ":streamGenerateContent" in self.request.path and self.request.query.get("alt") == "sse"
        )


def tokens(prompt: int, candidates: int, thoughts: int = 0, cached: int = 0) -> Json:
    """Usage as Google sends it: what is nothing is left out."""
    counts = {"promptTokenCount": prompt, "candidatesTokenCount": candidates}
    counts |= {"totalTokenCount": prompt + candidates + thoughts}
    counts |= {"thoughtsTokenCount": thoughts} if thoughts else {}
    return counts | ({"cachedContentTokenCount": cached} if cached else {})


def text(words: str, signature: str = "", thought: bool = False) -> Json:
    return {
        "text": words,
        **({"thought": True} if thought else {}),
        **({"thoughtSignature": signature} if signature else {}),
    }


def call(name: str, args: Json | None = None, signature: str = "", id: str = "") -> Json:
    wanted = {
        **({"id": id} if id else {}),
        "name": name,
        **({"args": args} if args is not None else {}),
    }
    return {"functionCall": wanted, **({"thoughtSignature": signature} if signature else {})}


def replies(*parts: Json, usage: Json | None = None, finish: str = "STOP", why: str = "") -> Step:
    """Answers with these parts. `usage={}` sends none; None sends 10 tokens in, 5 out."""
    usage = tokens(10, 5) if usage is None else usage

    async def step(x: Exchange) -> web.StreamResponse:
        if not x.streams:
            return web.json_response(_answer(list(parts), usage, finish, why))
        response = await x.open()
        for piece in _pieces(list(parts)):
            await response.write(_event(_answer(piece, {}, "", "")))
        await response.write(_event(_answer([{"text": ""}], usage, finish, why)))
        return response

    return step


def says(words: str, usage: Json | None = None) -> Step:
    return replies(text(words), usage=usage)


def calls(
    *wanted: tuple[str, Json],
    signature: str = SIGNATURE,
    words: str = "",
    usage: Json | None = None,
) -> Step:
    """Asks for tools as Gemini 3 does: the first call of a reply is signed, none has an id."""
    asked = [call(name, args, "" if n else signature) for n, (name, args) in enumerate(wanted)]
    return replies(*([text(words)] if words else []), *asked, usage=usage)


def blocks(reason: str = "PROHIBITED_CONTENT") -> Step:
    """The filter does not like the prompt: no candidates at all."""

    async def step(x: Exchange) -> web.StreamResponse:
        answer = {
            "promptFeedback": {"blockReason": reason},
            "usageMetadata": {"promptTokenCount": 7},
        }
        if not x.streams:
            return web.json_response(answer)
        response = await x.open()
        await response.write(_event(answer))
        return response

    return step


def refuses(code: int, status: str, message: str, *details: Json) -> Step:
    """An error as Google writes it."""
    return fails(
        code,
        {"error": {"code": code, "message": message, "status": status, "details": list(details)}},
    )


def _answer(parts: list[Json], usage: Json, finish: str, why: str) -> Json:
    candidate: Json = {
        "content": {"role": "model", **({"parts": parts} if parts else {})},
        "index": 0,
    }
    candidate |= {"finishReason": finish} if finish else {}
    candidate |= {"finishMessage": why} if why else {}
    return {
        "candidates": [candidate],
        **({"usageMetadata": usage} if usage else {}),
        "responseId": "r1",
    }


def _event(answer: Json) -> bytes:
    return b"data: " + json.dumps(answer).encode() + b"\r\n\r\n"


def _pieces(parts: list[Json]) -> Iterator[list[Json]]:
    """Text comes in pieces, its signature in a part of its own behind them; a call comes whole."""
    for part in parts:
        if "text" not in part:
            yield [part]
            continue
        words, rest = part["text"], {key: part[key] for key in part.keys() & {"thought"}}
        size = len(words) // 4 + 1
        yield from ([{"text": words[at : at + size], **rest}] for at in range(0, len(words), size))
        if "thoughtSignature" in part:
            yield [{"text": "", **rest, "thoughtSignature": part["thoughtSignature"]}]


@dataclass(slots=True)
class FakeGemini(FakeOpenAI):
    """The server. A request that Google would refuse is refused, and kept in `refused` with the reasons."""

    refused: list[list[str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    _default: Step = field(default_factory=lambda: says("ok"))

    async def __aenter__(self) -> Self:
        await FakeOpenAI.__aenter__(self)
        self.base_url = f"http://127.0.0.1:{self.port}/v1beta"
        return self

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        model, _, verb = request.path.removeprefix("/v1beta/models/").partition(":")
        if verb not in ("generateContent", "streamGenerateContent"):
            return web.json_response(
                {"models": [{"name": "models/scripted", "displayName": "Scripted"}]}
            )
        read = await request.content.read()
        asked = Asked(proto(json.loads(read)), request.headers, read)
        self.paths.append(request.path_qs)
        found = faults(asked.body, model)
        if found:
            self.refused.append(found)
        step = refuses(400, "INVALID_ARGUMENT", "; ".join(found)) if found else self._next()
        async with self._came:
            self.requests.append(asked)
            self.count += 1
            self._came.notify_all()
        return await step(Talk(request, asked, self))

    def _next(self) -> Step:
        return self._steps.pop(0) if self._steps else self._default
