"""The fake's HTTP side: tokens, faults, the cut network, files up and down."""

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import replace

from aiohttp import web

from tests.fakes.platform import Calls, Fault
from tests.fakes.slack.methods import Methods
from tests.fakes.slack.sockets import Sockets
from tests.fakes.slack.workspace import ApiError, Json

BOT_TOKEN, APP_TOKEN = "xoxb-1-fake", "xapp-1-fake"
SENDING = {
    "chat.postMessage",
    "chat.update",
    "chat.postEphemeral",
    "chat.startStream",
    "chat.appendStream",
    "chat.stopStream",
    "files.completeUploadExternal",
}
MOST_RESPONSES = 5
LOGIN_PAGE = "<!DOCTYPE html><html><body>Sign in to your workspace</body></html>"


class Server:
    """Listens on loopback; at the same port again after `stop`. `port` 0: any free one, at first. `tokens`: (path, header) of
    what asked for files; `moved`: where all files are said to be now. `responses`: whom each response_url answers, and what it
    was used for.
    """

    def __init__(
        self,
        methods: Methods,
        sockets: Sockets,
        calls: Calls,
        changed: Callable[[], None],
        port: int,
    ) -> None:
        self._methods, self._sockets, self._calls, self._changed = methods, sockets, calls, changed
        self.port = port
        self.faults: dict[str, list[Fault]] = {}
        self.revoked = self.is_cut = False
        self.pages: list[web.RouteDef] = []
        self.moved = ""
        self.tokens: list[tuple[str, str]] = []
        self.responses: dict[str, list[str]] = {}
        self._runner: web.AppRunner | None = None
        self._pump: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The root."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen."""
        app = web.Application(client_max_size=1 << 30, middlewares=[self._network])
        app.router.add_route("*", "/api/{method}", self._api)
        app.router.add_get("/link", self._link)
        app.router.add_post("/upload/v1/{file}", self._upload)
        app.router.add_post("/response/{secret}", self._response)
        app.router.add_get("/files-pri/{file}/{name}", self._download)
        app.router.add_routes(self.pages)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = int(self._runner.addresses[0][1])
        self._methods.url = self.url
        self._methods.open_socket = lambda: (
            f"ws://127.0.0.1:{self.port}/link?ticket={self._sockets.connected}"
        )
        self._pump = asyncio.create_task(self._sockets.pump())

    async def stop(self) -> None:
        """Reset what is open, listen no more."""
        self.abort()
        if self._pump:
            self._pump.cancel()
            await asyncio.wait([self._pump])
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    def abort(self) -> None:
        """Reset every open connection."""
        if self._runner and self._runner.server:
            for connection in self._runner.server.connections:
                if connection.transport:
                    connection.transport.abort()

    @web.middleware
    async def _network(
        self, request: web.Request, handler: Callable[[web.Request], object]
    ) -> web.StreamResponse:
        return _cut(request) if self.is_cut else await handler(request)  # type: ignore[misc]

    async def _link(self, request: web.Request) -> web.StreamResponse:
        return await self._sockets.serve(request)

    async def _api(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        arguments = await _arguments(request)
        self._calls.made.append((method, arguments))
        fault = self._fault(method)
        try:
            if fault is None:
                return self._answer(request, method, arguments)
            return await self._spoilt(fault, request, method, arguments)
        finally:
            self._changed()

    def _answer(self, request: web.Request, method: str, arguments: Json) -> web.Response:
        try:
            self._authorize(method, request.headers.get("Authorization", ""))
            answer = self._methods.call(method, arguments)
        except ApiError as no:
            answer = no.answer
        return web.json_response(answer)

    def _authorize(self, method: str, header: str) -> None:
        wanted = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
        if not header:
            raise ApiError("not_authed")
        if header != f"Bearer {wanted}":
            raise ApiError("invalid_auth")
        if self.revoked:
            raise ApiError("invalid_auth" if wanted == APP_TOKEN else "token_revoked")

    def _fault(self, method: str) -> Fault | None:
        named = self.faults.get(method) or (self.faults.get("*") if method in SENDING else None)
        if not named:
            return None
        fault = named[0]
        named[0] = replace(fault, times=fault.times - 1)
        if fault.times <= 1:
            named.pop(0)
        return fault

    async def _spoilt(
        self, fault: Fault, request: web.Request, method: str, arguments: Json
    ) -> web.StreamResponse:
        match fault.kind:
            case "status" if fault.status == 200:
                return web.json_response({"ok": False, "error": fault.text or "internal_error"})
            case "status":
                return web.Response(status=fault.status, text=fault.text or "upstream error")
            case "retry":
                after = {"Retry-After": f"{fault.seconds:g}"}
                return web.json_response(
                    {"ok": False, "error": "ratelimited"}, status=429, headers=after
                )
            case "drop":
                return _cut(request)
            case "lost":
                self._answer(request, method, arguments)
                return _cut(request)
            case "slow":
                await asyncio.sleep(fault.seconds)
                return self._answer(request, method, arguments)
            case _:
                return web.Response(text=LOGIN_PAGE, content_type="text/html")

    async def _response(self, request: web.Request) -> web.StreamResponse:
        answer = await _arguments(request)
        self._calls.made.append(("response", answer))
        self.tokens.append(("/response", request.headers.get("Authorization", "")))
        uses = self.responses.get(request.match_info["secret"])
        fault = self._fault("response")
        self._changed()
        if fault:
            return await self._spoilt(fault, request, "response", {})
        if uses is None or len(uses) > MOST_RESPONSES:
            return web.json_response(
                {"ok": False, "error": "used_url" if uses else "expired_url"}, status=404
            )
        uses.append(str(answer["text"]))
        self._methods.whisper(uses[0], uses[-1])
        return web.Response(text="ok")

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        data = await request.read()
        self.tokens.append((request.path, request.headers.get("Authorization", "")))
        name, _ = self._methods.pending[request.match_info["file"]]
        self._methods.pending[request.match_info["file"]] = (name, data)
        fault = self._fault("upload")
        return (
            await self._spoilt(fault, request, "upload", {})
            if fault
            else web.Response(text="OK - " + str(len(data)))
        )

    async def _download(self, request: web.Request) -> web.StreamResponse:
        header = request.headers.get("Authorization", "")
        self.tokens.append((request.path, header))
        fault = self._fault("download")
        if fault:
            return await self._spoilt(fault, request, "download", {})
        if self.moved:
            raise web.HTTPFound(self.moved)
        if header != f"Bearer {BOT_TOKEN}" or self.revoked:
            return web.Response(text=LOGIN_PAGE, content_type="text/html")
        kept = self._methods.work.files.get(request.match_info["file"].partition("-")[2])
        return (
            web.Response(status=404)
            if kept is None
            else web.Response(body=kept[1], content_type=str(kept[0]["mimetype"]))
        )


def _cut(request: web.Request) -> web.Response:
    if request.transport:
        request.transport.abort()
    return web.Response()


async def _arguments(request: web.Request) -> Json:
    if request.content_type == "application/json":
        return await request.json()
    given: Iterable[tuple[str, object]] = [*request.query.items(), *(await request.post()).items()]
    return {key: _structured(value) for key, value in given}


def _structured(value: object) -> object:
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
