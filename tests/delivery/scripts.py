"""Models that take their time, and tools that ask or wait."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web

from daemon.app.daemon import Overrides
from daemon.core.trust import Effect
from daemon.tools.signature import bind, tool
from tests.fakes.openai import Exchange, FakeOpenAI, Step, by, calls, says

HEAD = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}


def echo(model: FakeOpenAI) -> None:
    """What it is told, it says."""
    model.otherwise(by(lambda body: says(f"re: {body['messages'][-1]['content']}")))


@dataclass
class Slowly:
    """A model call that says its text in two or three parts, and goes on when it is told to; then it may want a tool."""

    first: str
    second: str = ""
    wants: str = ""
    rest: str = ""
    go: asyncio.Event = field(default_factory=asyncio.Event)
    end: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, x: Exchange) -> web.StreamResponse:
        response = await x.open()
        await response.write(_chunk({"content": self.first}))
        await self.go.wait()
        await response.write(_chunk({"content": self.second}))
        if self.rest:
            await self.end.wait()
            await response.write(_chunk({"content": self.rest}))
        if self.wants:
            call = {
                "index": 0,
                "id": "c",
                "type": "function",
                "function": {"name": "smash", "arguments": self.wants},
            }
            await response.write(_chunk({"tool_calls": [call]}))
        await response.write(
            _chunk({}, "tool_calls" if self.wants else "stop") + b"data: [DONE]\n\n"
        )
        return response


def _chunk(delta: Mapping[str, object], finish: str | None = None) -> bytes:
    return (
        b"data: "
        + json.dumps(
            {**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        ).encode()
        + b"\n\n"
    )


def hammer(struck: list[str], gate: asyncio.Event | None = None) -> Overrides:
    """A tool that has to be asked about, and one that waits."""

    @tool(effect=Effect.DESTRUCTIVE)
    async def smash(what: str) -> str:
        """Break something."""
        struck.append(what)
        return "broken"

    @tool(effect=Effect.READ)
    async def ponder() -> str:
        """Think for a while."""
        await (gate or asyncio.Event()).wait()
        return "thought"

    return Overrides(tools=bind([smash, ponder], {}))


def smash(what: str = "pots") -> Step:
    """The model wants to break it."""
    return calls(("smash", {"what": what}))
