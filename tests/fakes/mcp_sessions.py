"""A scripted MCP server of the older kind over HTTP: it has sessions, and refuses lost ones as it is told."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Json = dict[str, Any]
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("look", "send")]
SESSION = "Mcp-Session-Id"


@dataclass
class SessionServer:
    """`refusal`: status and body for a session that it does not know; $ID is the request's id.
    `runs_first`: the tool is run before the refusal; `refuses_calls`: in new sessions too.
    """

    refusal: tuple[int, str] = (404, "")
    runs_first: bool = False
    refuses_calls: bool = False
    port: int = 0
    sessions: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    executed: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def restart(self) -> None:
        """It forgets its sessions."""
        self.known.clear()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        sent = await request.json()
        method, number = sent.get("method"), sent.get("id")
        if method == "initialize":
            return self.begin(number)
        if method == "server/discover":
            error = {"code": -32601, "message": "no such method"}
            return web.json_response({"jsonrpc": "2.0", "id": number, "error": error})
        is_call = method == "tools/call"
        if request.headers.get(SESSION) not in self.known or (is_call and self.refuses_calls):
            if is_call and self.runs_first:
                self.executed.append(sent["params"]["name"])
            return self.refuse(number)
        if number is None:
            return web.Response(status=202)
        result: Json = {"tools": TOOLS}
        if is_call:
            self.executed.append(sent["params"]["name"])
            result = {"content": [{"type": "text", "text": "done"}]}
        return web.json_response({"jsonrpc": "2.0", "id": number, "result": result})

    def begin(self, number: int) -> web.Response:
        session = f"session-{len(self.sessions)}"
        self.sessions.append(session)
        self.known.add(session)
        result = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "sessions", "version": "1"},
        }
        answer = {"jsonrpc": "2.0", "id": number, "result": result}
        return web.json_response(answer, headers={SESSION: session})

    def refuse(self, number: object) -> web.Response:
        status, body = self.refusal
        text = body.replace("$ID", json.dumps(number))
        kind = "application/json" if body.startswith("{") else "text/plain"
        return web.Response(status=status, text=text, content_type=kind)


@asynccontextmanager
async def serving_sessions(server: SessionServer) -> AsyncIterator[SessionServer]:
    """The server, listening."""
    app = web.Application()
    app.router.add_route("*", "/mcp", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await asyncio.wait_for(runner.cleanup(), 10)
