"""The connection that Discord's events come by: resumed where Discord allows it, else started anew
(E12).

discord.py speaks the protocol. When to give up a connection, and when to try again, is decided
here. Its parsers are left out: `on_event` sees the bare payloads, in the order in which they came.
"""

import asyncio
import contextlib
import logging
import random
import warnings
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from aiohttp import ClientWebSocketResponse
from yarl import URL

from channels.base import Host, Rejected, RetryLater, Revoked
from channels.discord.config import DEFAULT_API
from channels.discord.rest import UNKNOWN_TOKEN, DiscordRest
from channels.json_access import find_text, parse_json
from channels.transport import Backoff

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import discord
    from discord.gateway import DiscordWebSocket, ReconnectWebSocket

logging.getLogger("discord").setLevel(logging.INFO)  # DEBUG holds every message, and tokens
discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # no voice here

DEFAULT_GATEWAY = DiscordWebSocket.DEFAULT_GATEWAY
MALFORMED = (KeyError, TypeError, ValueError, AttributeError, RecursionError)
INTENTS_HELP = (
    "Discord does not give the bot what people write: switch on Message Content Intent in the "
    "developer portal (Bot, Privileged Gateway Intents), and start again. What came before is kept."
)

FATAL = {
    code: f"Discord's gateway rejects this bot (close code {code}); it may need an update."
    for code in (4010, 4011, 4012, 4013)
}
"""No new connection mends these."""
FATAL |= {4004: UNKNOWN_TOKEN, 4014: INTENTS_HELP}
INTENTS = discord.Intents(guilds=True, messages=True, message_content=True, reactions=True)


class _Socket(DiscordWebSocket):
    """It tells of heartbeats, keeps the text of each frame, and goes on after what it cannot
    read.
    """

    on_beat: Callable[[], None] | None = None
    is_readable = True
    text = ""

    @property
    def last_ack(self) -> float:
        return self._keep_alive._last_ack if self._keep_alive else 0.0

    async def send_heartbeat(self, data: Any) -> None:
        if self.on_beat:
            self.on_beat()
        await super().send_heartbeat(data)

    def log_receive(self, data: Any, /) -> None:
        self.text = str(data)

    async def received_message(self, msg: Any, /) -> None:
        self.text, self.is_readable = "", True
        try:
            await super().received_message(msg)
        except Exception as error:
            if isinstance(msg, bytes) and not self.text:  # zlib's errors, or zstandard's
                raise RetryLater("Discord's gateway sent something that cannot be read") from None
            if not isinstance(error, MALFORMED):
                raise
            self.is_readable = False


class GatewayConnection:
    """`on_event` gets each event in order, and must not wait; "frame" is what is no event."""

    def __init__(
        self, rest: DiscordRest, host: Host, on_event: Callable[[str, object], None]
    ) -> None:
        self._rest, self._host, self._on_event = rest, host, on_event
        self._timing = rest.timing
        self._session_id: str | None = None
        self._sequence: int | None = None
        self._resume_url: URL | None = None
        self._is_up = False

    async def run(self) -> None:
        """One connection after another, until cancelled. Raises Revoked."""
        backoff = Backoff(self._timing.first_s, self._timing.longest_s)
        await backoff.reconnect(self._connect, self._host, self._timing.calm_s)

    async def _connect(self) -> None:
        """From one connection to its end. Raises Revoked, RetryLater."""
        self._is_up = False
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._timing.ready_s) as limit:
                    await self._receive(stack, limit)
            except ReconnectWebSocket as again:
                if not again.resume:
                    self._session_id = None
                    await asyncio.sleep(random.uniform(*self._timing.invalid_s))
            except discord.ConnectionClosed as closed:
                self._session_id = None
                if closed.code in FATAL:
                    raise Revoked(FATAL[closed.code]) from None
            except TimeoutError:
                raise RetryLater("Discord's gateway does not answer any more") from None
        if not self._is_up:
            raise RetryLater("Discord closed the connection")

    async def _receive(self, stack: AsyncExitStack, limit: asyncio.Timeout) -> None:
        """Raises whatever ends the connection."""
        loop, timing = asyncio.get_running_loop(), self._timing

        async def connect(url: str) -> ClientWebSocketResponse:
            # a code other than 1000 keeps the session, to be resumed
            opening = self._rest.http.open_socket(url, timing.ready_s, timing.close_s, code=4000)
            return await stack.enter_async_context(opening)

        def on_beat() -> None:
            if limit.when() is None:
                limit.reschedule(loop.time() + timing.ack_s)

        client: Any = discord.Client(
            intents=INTENTS, max_messages=None, chunk_guilds_at_startup=False
        )
        client.loop, client._connection.parsers = loop, {}  # ours sees the bare payloads
        client.http.token, client.http.ws_connect = self._rest.config.bot_token, connect
        home, session, resume = await self._home(), self._session_id, self._resume_url
        self._resume_url = None  # if that is dead, the next try starts at home
        socket = await _Socket.from_client(
            client,
            gateway=resume if session and resume and _may_resume_at(resume, home) else home,
            session=session,
            sequence=self._sequence,
            resume=bool(session),
            initial=not session,
        )
        socket.on_beat = on_beat
        try:
            while True:
                before = self._is_up, socket.last_ack
                await socket.poll_event()
                self._dispatch(socket)
                if self._is_up:
                    self._host.report_alive()
                    if before != (True, socket.last_ack):
                        limit.reschedule(None)
        finally:
            self._session_id, self._sequence = socket.session_id, socket.sequence
            self._resume_url = socket.gateway if self._is_up else None
            if socket._keep_alive:
                socket._keep_alive.stop()

    async def _home(self) -> URL:
        config = self._rest.config
        if config.gateway_url:
            return URL(config.gateway_url)
        if config.api_url == DEFAULT_API:
            return DEFAULT_GATEWAY
        with contextlib.suppress(Rejected, RetryLater):
            if url := find_text(await self._rest.call("GET", "/gateway"), "url"):
                return URL(url)
        # a simple server has it at its root
        return URL(config.api_url.replace("http", "ws", 1)).with_path("/")

    def _dispatch(self, socket: _Socket) -> None:
        frame = parse_json(socket.text)
        if not socket.is_readable:
            self._on_event("frame", socket.text)
        elif isinstance(frame, dict) and (event := frame.get("t")):
            if event != "RESUMED":
                self._on_event(event, frame.get("d"))
            if event in ("READY", "RESUMED"):
                self._is_up = True


def _may_resume_at(url: URL, home: URL) -> bool:
    """Whether the token may go there: the same server, or one of Discord's."""
    if url.scheme != home.scheme or url.host is None:
        return False
    is_discord = home == DEFAULT_GATEWAY and url.host.endswith(".discord.gg")
    return is_discord or (url.host, url.port) == (home.host, home.port)
