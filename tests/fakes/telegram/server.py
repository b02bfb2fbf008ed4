"""Telegram's Bot API as a real HTTP server on loopback, and the people who use it."""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import web

from tests.fakes.platform import OTHER, OWNER, Calls, Fault, Shown, lose_what_was_sent
from tests.fakes.telegram.arguments import KNOWN, arguments, checked, decoded, number
from tests.fakes.telegram.methods import METHODS
from tests.fakes.telegram.people import People
from tests.fakes.telegram.refusals import Refusal
from tests.fakes.telegram.world import BOT, World

SENDING = (
    "sendMessage",
    "sendDocument",
    "sendPhoto",
    "sendVoice",
    "editMessageText",
    "editMessageReplyMarkup",
)
MOST_AT_ONCE, BODY = 100, 60 << 20
CONFLICT = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
WEBHOOK = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
Given = dict[str, Any]


class FakeTelegram:
    """tests.fakes.platform.Platform. `world` is all there is; `people` can do more than the platform's interface says.
    `lacks`: methods that this server does not know; "file": nor does it hand out files, as one with --local. `pace`: at most
    so many messages in so many seconds to a chat, then 429.
    """

    name = "telegram"

    def __init__(
        self, *, port: int = 0, token: str = "7001:house-of-cards", lacks: Sequence[str] = ()
    ) -> None:
        self.token, self.port, self.lacks = token, port, set(lacks)
        self.world = World()
        self.people = People(self.world)
        self.calls: Calls = self.world.calls
        self.pace: tuple[int, float] | None = None
        self.pages: list[web.RouteDef] = []
        self._faults: dict[str, deque[Fault]] = {}
        self._sent: dict[int, deque[float]] = {}
        self._revoked = self._down = False
        self._poll: asyncio.Event | None = None
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> "FakeTelegram":
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """The server's root."""
        return f"http://127.0.0.1:{self.port}"

    def config(self) -> dict[str, object]:
        ann, bob = (self.world.person(name)["id"] for name in (OWNER, OTHER))
        return {
            "bot_token": self.token,
            "base_url": self.url,
            "owner_ids": [ann],
            "allowed_user_ids": [bob],
        }

    async def start(self) -> None:
        app = web.Application(client_max_size=BODY)
        app.router.add_route("*", "/bot{token}/{method}", self._call)
        app.router.add_get("/file/bot{token}/{path:.*}", self._file)
        app.router.add_routes(self.pages)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        listening = socket.create_server(("127.0.0.1", self.port), backlog=512)
        self.port = listening.getsockname()[1]
        await web.SockSite(self._runner, listening).start()

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            for site in list(runner.sites):
                await site.stop()
            self._reset(runner)
            await runner.cleanup()

    def person(self, name: str) -> str:
        return str(self.world.person(name)["id"])

    def private(self, person: str) -> str:
        return str(self.world.private(person)["id"])

    def group(self, *people: str) -> str:
        return str(self.world.group(people)["id"])

    def mention(self, text: str) -> str:
        return f"@{BOT} {text}"

    def say(
        self,
        person: str,
        chat: str,
        text: str,
        *,
        thread: str = "",
        files: Sequence[tuple[str, bytes]] = (),
    ) -> str:
        return self.people.say(person, chat, text, thread, files)

    def again(self, message_id: str) -> None:
        self.world.push_again(int(message_id))

    def poison(self) -> None:
        self.people.poison()

    def press(self, person: str, message_id: str, data: str) -> None:
        self.people.press(person, message_id, data)

    def pressed(self) -> list[str]:
        return list(self.world.toasts)

    def react(self, person: str, message_id: str, emoji: str) -> None:
        self.people.react(person, message_id, emoji)

    def shown(self, chat: str, thread: str = "") -> list[Shown]:
        return self.world.shown(int(chat), thread)

    async def until(self, holds: Callable[[], bool], seconds: float = 20.0) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    await self.world.news.wait()
        except TimeoutError as late:
            calls = [(method, given) for method, given in self.calls.made if method != "getUpdates"]
            raise TimeoutError(
                f"the last calls were {calls[-12:]}, pending {self.world.pending[:5]}"
            ) from late

    def fail(self, method: str, *faults: Fault) -> None:
        self._faults.setdefault(method, deque()).extend(
            fault for fault in faults for _ in range(fault.times)
        )

    def revoke(self) -> None:
        self._revoked = True
        self.world.tell()

    def admit(self) -> None:
        self._revoked = False

    def cut(self) -> None:
        self._down = True
        if self._runner is not None:
            self._reset(self._runner)
        self.world.tell()

    async def mend(self) -> None:
        await lose_what_was_sent()
        self._down = False

    def _reset(self, runner: web.AppRunner) -> None:
        for connection in list(runner.server.connections) if runner.server else []:
            if connection.transport is not None:
                connection.transport.abort()

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        if self._down:
            return _drop(request)
        given = await arguments(request)
        self.calls.made.append((method, given))
        self.world.tell()
        fault = self._fault(method)
        if fault is None:
            return await self._answered(request, method, given)
        match fault.kind:
            case "drop":
                return _drop(request)
            case "status":
                return _no(Refusal(fault.status, fault.text or "Internal Server Error"))
            case "retry":
                seconds = max(1, round(fault.seconds))
                return _no(
                    Refusal(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)
                )
            case "garbage":
                return web.Response(
                    text=fault.text or "<html>Bad gateway</html>", content_type="text/html"
                )
            case "slow":
                await asyncio.sleep(fault.seconds)
        answer = await self._answered(request, method, given)
        return _drop(request) if fault.kind == "lost" else answer

    def _fault(self, method: str) -> Fault | None:
        names = (method, "*") if method in SENDING else (method,)
        return next(
            (self._faults[name].popleft() for name in names if self._faults.get(name)), None
        )

    async def _answered(
        self, request: web.Request, method: str, given: Given
    ) -> web.StreamResponse:
        try:
            self._admits(request)
            if method not in KNOWN or method in self.lacks:
                raise Refusal(404, "Not Found: method not found")
            given = checked(method, given)
            if method == "getUpdates":
                return web.json_response(
                    {"ok": True, "result": await self._updates(request, given)}
                )
            if method in SENDING:
                self._paced(given)
            return web.json_response({"ok": True, "result": METHODS[method](self.world, given)})
        except Refusal as refusal:
            return _no(refusal)

    def _admits(self, request: web.Request) -> None:
        if request.match_info["token"] != self.token or self._revoked:
            raise Refusal(401, "Unauthorized")

    async def _updates(self, request: web.Request, given: Given) -> list[object]:
        """Long poll. Another poll ends the one that waits, with a conflict."""
        if self.world.webhook:
            raise Refusal(409, WEBHOOK)
        if self._poll is not None:
            self._poll.set()
            self.world.tell()
        mine = self._poll = asyncio.Event()
        self.world.acknowledge(number(given, "offset", 0))
        allowed = set(decoded(given, "allowed_updates") or [])
        ends = asyncio.get_running_loop().time() + number(given, "timeout", 0)
        limit = min(number(given, "limit", MOST_AT_ONCE), MOST_AT_ONCE)
        try:
            while not (found := self.world.hand_out(limit, allowed)):
                left = ends - asyncio.get_running_loop().time()
                if left <= 0 or not await self._something(left, request):
                    return []
                self._admits(request)
                if mine.is_set():
                    raise Refusal(409, CONFLICT)
        finally:
            if self._poll is mine:
                self._poll = None
        return found

    async def _something(self, seconds: float, request: web.Request) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.world.news.wait()
        except TimeoutError:
            return False
        return request.transport is not None and not request.transport.is_closing()

    def _paced(self, given: Given) -> None:
        if self.pace is None:
            return
        count, seconds = self.pace
        now = asyncio.get_running_loop().time()
        sent = self._sent.setdefault(number(given, "chat_id"), deque())
        while sent and sent[0] <= now - seconds:
            sent.popleft()
        if len(sent) >= count:
            wait = max(1, round(sent[0] + seconds - now))
            raise Refusal(429, f"Too Many Requests: retry after {wait}", retry_after=wait)
        sent.append(now)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        if self._down:
            return _drop(request)
        if request.match_info["token"] != self.token or self._revoked:
            return web.Response(status=401)
        files = {} if "file" in self.lacks else dict(self.world.files.values())
        content = files.get(request.match_info["path"])
        return web.Response(status=404) if content is None else web.Response(body=content)


def _drop(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _no(refusal: Refusal) -> web.Response:
    body: Given = {"ok": False, "error_code": refusal.status, "description": refusal.description}
    if refusal.parameters:
        body["parameters"] = refusal.parameters
    return web.json_response(body, status=refusal.status)
