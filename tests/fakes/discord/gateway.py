"""The fake's gateway: sessions that number what they send, heartbeats, RESUME with replay, and the ways in which it breaks."""

import asyncio
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

from tests.fakes.discord.world import APP, World

Json = dict[str, Any]
CONTENT, DIRECT, GUILDS, REACTIONS = 1 << 15, 1 << 12, 1 << 9, 1 << 10


@dataclass
class Session:
    """What was sent to one client, so that it can be sent again."""

    id: str
    intents: int
    log: list[str | bytes] = field(default_factory=list)
    sent: int = 0
    socket: web.WebSocketResponse | None = None

    def put(self, event: str, data: object) -> None:
        self.log.append(json.dumps({"op": 0, "t": event, "s": len(self.log) + 1, "d": data}))


@dataclass
class Gateway:
    """`seen`: (op, data) of all that clients sent. `acks`: heartbeats are answered. `granted`: the message content intent is.
    `mute`: nobody hears of the session that begins. `absent`: guilds that are down for now.
    """

    world: World
    token: Callable[[], str]
    address: Callable[[], str]
    told: Callable[[str, Json], None]
    heartbeat_ms: int = 5000
    acks: bool = True
    granted: bool = True
    mute: bool = False
    guilds: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    sessions: dict[str, Session] = field(default_factory=dict)
    open: dict[web.WebSocketResponse, web.BaseRequest] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    seen: list[tuple[int, Any]] = field(default_factory=list)

    def emit(self, event: str, data: Json, *, guild: bool = True) -> None:
        """To everybody who is there, or may resume."""
        for session in self.sessions.values():
            if wants(event, session.intents, guild=guild):
                session.put(event, seen_with(session.intents, event, data, guild=guild))
        self._tell()

    def frame(self, text: str | bytes) -> None:
        """These very characters, to everybody; bytes are not sent again."""
        for session in self.sessions.values():
            session.log.append(text)
        self._tell()

    def _tell(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    def reset(self) -> None:
        """The connections are cut without a word."""
        for request in list(self.open.values()):
            if request.transport:
                request.transport.abort()

    async def control(self, op: int, data: object = None) -> None:
        """Op 7 (reconnect) or 9 (invalid session) to everybody."""
        if op == 9 and not data:
            self.sessions.clear()
        for socket in list(self.open):
            if not socket.closed:
                await socket.send_json({"op": op, "d": data, "s": None, "t": None})

    async def close(self, code: int) -> None:
        """Close every connection with this code; nobody can resume."""
        self.sessions.clear()
        for socket in list(self.open):
            await socket.close(code=code)

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(timeout=1.0)
        await socket.prepare(request)
        self.open[socket] = request
        sender: asyncio.Task[None] | None = None
        try:
            await socket.send_json(
                {"op": 10, "d": {"heartbeat_interval": self.heartbeat_ms}, "s": None, "t": None}
            )
            while (heard := await self._hear(socket)) is not None:
                session = await self._answer(socket, heard)
                if session is not None:
                    sender = asyncio.create_task(self._feed(session, socket))
        except (ConnectionError, asyncio.CancelledError):
            pass  # cut, or the fake stops
        finally:
            self.open.pop(socket, None)
            if sender:
                sender.cancel()
                await asyncio.wait([sender])
        return socket

    async def _hear(self, socket: web.WebSocketResponse) -> Json | None:
        """What the client says next; one that lets two heartbeats pass is closed."""
        try:
            message = await socket.receive(timeout=self.heartbeat_ms / 1000 * 2 + 0.5)
        except TimeoutError:
            await socket.close(code=4009, message=b"Session timed out")
            return None
        if message.type is not WSMsgType.TEXT:
            return None
        heard: Json = json.loads(message.data)
        self.seen.append((heard["op"], heard.get("d")))
        self.told(f"op {heard['op']}", heard.get("d") if isinstance(heard.get("d"), dict) else {})
        return heard

    async def _answer(self, socket: web.WebSocketResponse, heard: Json) -> Session | None:
        match heard["op"]:
            case 1:
                if self.acks:
                    await socket.send_json({"op": 11, "d": None, "s": None, "t": None})
            case 2:
                return await self._identify(socket, heard["d"])
            case 6:
                return await self._resume(socket, heard["d"])
            case _:
                await socket.close(code=4001, message=b"Unknown opcode")
        return None

    async def _identify(self, socket: web.WebSocketResponse, data: Json) -> Session | None:
        if data["token"] != self.token():
            await socket.close(code=4004, message=b"Authentication failed.")
            return None
        if data["intents"] & CONTENT and not self.granted:
            await socket.close(code=4014, message=b"Disallowed intent(s).")
            return None
        if self.mute:
            return None
        session = Session(uuid.uuid4().hex, data["intents"], socket=socket)
        guilds = [{"id": guild, "unavailable": True} for guild in self.guilds]
        ready = {
            "v": 10,
            "user": self.world.bot,
            "guilds": guilds,
            "session_id": session.id,
            "private_channels": [],
        }
        ready |= {
            "resume_gateway_url": self.address(),
            "application": {"id": APP, "flags": 0},
            "session_type": "normal",
        }
        session.put("READY", ready)
        for guild in (guild for guild in self.guilds if guild not in self.absent):
            session.put("GUILD_CREATE", self.world.guild(guild))
        self.sessions[session.id] = session
        return session

    async def _resume(self, socket: web.WebSocketResponse, data: Json) -> Session | None:
        if data["token"] != self.token():
            await socket.close(code=4004, message=b"Authentication failed.")
            return None
        session = self.sessions.get(data["session_id"])
        if session is None:
            await socket.send_json({"op": 9, "d": False, "s": None, "t": None})
            return None
        session.sent, session.socket = data["seq"] or 0, socket
        session.put("RESUMED", {})
        return session

    async def _feed(self, session: Session, socket: web.WebSocketResponse) -> None:
        while session.socket is socket and not socket.closed:
            news = self.news
            while session.sent < len(session.log):
                session.sent += 1
                try:
                    await self._send(session, socket)
                except (ConnectionError, RuntimeError):
                    session.sent -= 1
                    return
            await news.wait()

    async def _send(self, session: Session, socket: web.WebSocketResponse) -> None:
        frame = session.log[session.sent - 1]
        if isinstance(frame, str):
            return await socket.send_str(frame)
        session.log[session.sent - 1] = json.dumps({"op": 11})
        return await socket.send_bytes(frame)

    async def stop(self) -> None:
        for socket in list(self.open):
            await socket.close(code=WSCloseCode.GOING_AWAY)


def wants(event: str, intents: int, *, guild: bool) -> bool:
    """Whether a client with these intents gets this kind of event."""
    if event.startswith("MESSAGE_REACTION"):
        return bool(intents & (REACTIONS if guild else 1 << 13))
    if event.startswith("MESSAGE_"):
        return bool(intents & (GUILDS if guild else DIRECT))
    return True


def seen_with(intents: int, event: str, data: Json, *, guild: bool) -> Json:
    """Without the message content intent, what was said in a guild is empty."""
    if not event.startswith("MESSAGE_CREATE") or not guild or intents & CONTENT:
        return data
    return {**data, "content": "", "attachments": [], "embeds": [], "components": []}
