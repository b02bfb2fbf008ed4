"""The connection that Discord's events come by: resumed where Discord allows it, else started anew
(E12).
"""

import asyncio
import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import ClientWebSocketResponse, WSMsgType
from yarl import URL

from channels.base import ChannelError, Host, Rejected, RetryLater, Revoked
from channels.discord.config import DEFAULT_API, DiscordAccount, DiscordTiming
from channels.discord.rest import UNKNOWN_TOKEN, DiscordRest
from channels.json_access import parse_json
from channels.transport import Backoff

DEFAULT_GATEWAY = URL("wss://gateway.discord.gg/")
INTENTS = 1 << 0 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13 | 1 << 15
"""Guilds; messages and reactions there and in direct chats; what messages say."""
HEARTBEAT = 1
FATAL_CODES = (4010, 4011, 4012, 4013)
NOT_RESUMABLE = (1000, 4004, 4014, *FATAL_CODES)
INTENTS_HELP = (
    "Discord does not give the bot what people write: switch on Message Content Intent in the "
    "developer portal (Bot, Privileged Gateway Intents), and start again. What came before is kept."
)


class GatewayConnection:
    """`on_event` gets each event in order, and must not wait; "frame" is what is no event."""

    def __init__(
        self,
        rest: DiscordRest,
        config: DiscordAccount,
        timing: DiscordTiming,
        host: Host,
        on_event: Callable[[str, object], None],
    ) -> None:
        self._rest, self._config, self._timing = rest, config, timing
        self._host, self._on_event = host, on_event
        self._session_id = self._resume_url = self._url = ""
        self._sequence: int | None = None
        self._is_up = False
        self._is_acknowledged = True
        self._up_at = self._due_at = self._sent_at = self._interval_s = 0.0

    async def run(self) -> None:
        """One connection after another, until cancelled. Raises Revoked."""
        backoff = Backoff(self._timing.first_s, self._timing.longest_s)
        loop = asyncio.get_running_loop()
        while True:
            self._is_up = False
            error: ChannelError | None = None
            try:
                why = await self._connect()
            except Revoked:
                raise
            except ChannelError as failure:
                error, why = failure, str(failure)
            lasted_s = loop.time() - self._up_at if self._is_up else 0.0
            if lasted_s >= self._timing.calm_s:
                backoff.reset()
            if backoff.pause_s or not self._is_up:
                self._host.report_trouble(why)
                await backoff.wait(error)
            else:
                backoff.pause_s = self._timing.first_s  # the first new connection comes at once

    async def _connect(self) -> str:
        """From one connection to its end; why it ended. Raises Revoked, RetryLater."""
        timing, address = self._timing, await self._address()
        # a code other than 1000 keeps the session, to be resumed
        opening = self._rest.http.open_socket(address, timing.ready_s, timing.close_s, code=4000)
        async with opening as socket:
            return await self._receive(socket)

    async def _address(self) -> URL:
        """Where to resume, or to start anew: never Discord's own gateway for another server's
        token.
        """
        url = await self._home()
        resume, self._resume_url = (
            self._resume_url,
            "",
        )  # if that is dead, the next try starts at home
        if self._session_id and resume and _may_resume_at(URL(resume), url):
            url = URL(resume)
        self._url = str(url)
        return url.update_query({"v": "10", "encoding": "json"})

    async def _home(self) -> URL:
        if self._config.gateway_url:
            return URL(self._config.gateway_url)
        if self._config.api_url == DEFAULT_API:
            return DEFAULT_GATEWAY
        try:
            return URL((await self._rest.call("GET", "/gateway"))["url"])
        except (
            Rejected,
            RetryLater,
            KeyError,
            TypeError,
            ValueError,
        ):  # a simple server has it at its root
            return URL(self._config.api_url.replace("http", "ws", 1)).with_path("/")

    async def _receive(self, socket: ClientWebSocketResponse) -> str:
        """Until the connection ends; why it ended. Raises Revoked, RetryLater."""
        loop, ends = asyncio.get_running_loop(), ""
        self._due_at = ready_at = loop.time() + self._timing.ready_s
        self._is_acknowledged = True
        while not ends:
            due_at = self._due_at if self._is_up else min(self._due_at, ready_at)
            try:
                async with asyncio.timeout_at(due_at):
                    message = await socket.receive()
            except TimeoutError:
                if not self._is_acknowledged or not (self._is_up or loop.time() < ready_at):
                    raise RetryLater("Discord's gateway does not answer any more") from None
                await socket.send_json({"op": HEARTBEAT, "d": self._sequence})
                self._is_acknowledged, self._sent_at = False, loop.time()
                self._due_at = self._sent_at + self._timing.ack_s
                continue
            if message.type is WSMsgType.BINARY:
                raise RetryLater("Discord's gateway sent something that cannot be read")
            if message.type is not WSMsgType.TEXT:
                return self._on_close(socket.close_code)
            ends = await self._handle_frame(socket, message.data)
            if self._is_up:
                self._host.report_alive()
        return ends

    async def _handle_frame(self, socket: ClientWebSocketResponse, text: str) -> str:
        """Why the connection is to end; "" where it goes on."""
        frame = parse_json(text)
        if not isinstance(frame, dict):
            self._on_event("frame", text)
            return ""
        match frame.get("op"):
            case 0:
                self._dispatch(frame)
            case 1:
                await socket.send_json({"op": HEARTBEAT, "d": self._sequence})
            case 7:
                return "Discord asked for a new connection"
            case 9:
                if not frame.get("d"):
                    self._session_id = ""
                    await asyncio.sleep(random.uniform(*self._timing.invalid_s))
                return "Discord ended the session"
            case 10:
                self._interval_s = frame["d"]["heartbeat_interval"] / 1000
                self._due_at = (
                    asyncio.get_running_loop().time() + self._interval_s * random.random()
                )
                await socket.send_json(self._greeting())
            case 11:
                self._is_acknowledged, self._due_at = True, self._sent_at + self._interval_s
        return ""

    def _greeting(self) -> dict[str, Any]:
        token = self._config.bot_token
        if self._session_id:
            return {
                "op": 6,
                "d": {"token": token, "session_id": self._session_id, "seq": self._sequence},
            }
        about = {"os": sys.platform, "browser": "aidaemon", "device": "aidaemon"}
        return {"op": 2, "d": {"token": token, "properties": about, "intents": INTENTS}}

    def _dispatch(self, frame: Mapping[str, Any]) -> None:
        event, data = str(frame.get("t")), frame.get("d")
        if isinstance(frame.get("s"), int):
            self._sequence = frame["s"]
        if event == "READY" and isinstance(data, dict):
            self._session_id = str(data.get("session_id", ""))
            self._resume_url = str(data.get("resume_gateway_url") or "")
        elif event == "RESUMED":
            self._resume_url = self._url
        if event != "RESUMED":
            self._on_event(event, data)
        if event in ("READY", "RESUMED"):
            self._is_up, self._up_at = True, asyncio.get_running_loop().time()

    def _on_close(self, code: int | None) -> str:
        """Why it ended. Raises Revoked for what no new connection mends."""
        if code in NOT_RESUMABLE:
            self._session_id = ""
        if code == 4004:
            raise Revoked(UNKNOWN_TOKEN)
        if code == 4014:
            raise Revoked(INTENTS_HELP)
        if code in FATAL_CODES:
            raise Revoked(
                f"Discord's gateway rejects this bot (close code {code}); it may need an update."
            )
        return "Discord closed the connection"


def _may_resume_at(url: URL, home: URL) -> bool:
    """Whether the token may go there: the same server, or one of Discord's."""
    if url.scheme != home.scheme or url.host is None:
        return False
    is_discord = home == DEFAULT_GATEWAY and url.host.endswith(".discord.gg")
    return is_discord or (url.host, url.port) == (home.host, home.port)
