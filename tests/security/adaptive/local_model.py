"""The embedded model behind an address of the OpenAI kind, on loopback: for measuring by hand only."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from daemon.providers.local.engine import open_llama


@asynccontextmanager
async def serving(path: Path) -> AsyncGenerator[str]:
    """Its address, with /v1; the model is loaded first."""
    engine = await asyncio.to_thread(open_llama, path)
    one_by_one = asyncio.Lock()

    async def complete(request: web.Request) -> web.Response:
        asked, said = await request.json(), list[str]()
        body = {**asked, "stream": True, "cache_prompt": True}

        def take(chunk: dict[str, object]) -> bool:
            choices = chunk.get("choices")
            for choice in choices if isinstance(choices, list) else ():
                said.append((choice.get("delta") or {}).get("content") or "")
            return False

        async with one_by_one:
            await asyncio.to_thread(engine, body, take)
        message = {"role": "assistant", "content": "".join(said)}
        return web.json_response({"choices": [{"index": 0, "message": message}]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", complete)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()
