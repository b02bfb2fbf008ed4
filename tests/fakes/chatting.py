"""What tests of `aidaemon chat` have in common."""

import asyncio
import json
from pathlib import Path

from aiohttp import web

from tests.fakes.openai import Exchange, Step


def write_config(home: Path, config: str) -> None:
    """A home with this config."""
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(config)


def streams(
    first: str, gate: asyncio.Event, second: str, written: asyncio.Event | None = None
) -> Step:
    """Half of an answer, then `written` is set; the other half when the gate opens."""

    def chunk(text: str, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}
        return (
            b"data: "
            + json.dumps(
                {"id": "x", "object": "chat.completion.chunk", "choices": [choice]}
            ).encode()
            + b"\n\n"
        )

    async def step(x: Exchange) -> web.StreamResponse:
        response = await x.open()
        await response.write(chunk(first))
        if written:
            written.set()
        await gate.wait()
        await response.write(chunk(second) + chunk("", "stop") + b"data: [DONE]\n\n")
        return response

    return step
