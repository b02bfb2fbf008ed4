"""The connection that Discord's events come by: resumed where Discord allows it, else started anew
(E12).

discord.py speaks the protocol. When to give up a connection, and when to try again, is decided
here. Its parsers are replaced: `on_event` sees the bare payloads, in the order in which they came.
"""

import asyncio
import logging
import random
import warnings
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from aiohttp import ClientWebSocketResponse
from yarl import URL

from channels.base import ChannelError, Host, Rejected, RetryLater, Revoked
from channels.discord.config import DEFAULT_API
from channels.discord.rest import UNKNOWN_TOKEN, DiscordRest
from channels.transport import Backoff

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import discord
    from discord.gateway import DiscordWebSocket, ReconnectWebSocket

logging.getLogger("discord").setLevel(logging.INFO)  # DEBUG holds every message, and tokens
discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # no voice here

DEFAULT_GATEWAY = DiscordWebSocket.DEFAULT_GATEWAY
FATAL_CODES = (4010, 4011, 4012, 4013)
MALFORMED = (KeyError, TypeError, ValueError, AttributeError, RecursionError)
INTENTS_HELP = (
    "Discord does not give the bot what people write: switch on Message Content Intent in the "
    "developer portal (Bot, Privileged Gateway Intents), and start again. What came before is kept."
)


class _Parsers(dict[str, Callable[[Any], None]]):
    """One for every event."""

    def __init__(self, on_event: Callable[[str, object], None]) -> None:
        super().__init__()
        self._on_event = on_event

    def __missing__(self, event: str) -> Callable[[Any], None]:
        return partial(self._on_event, event)


class _Client(discord.Client):
    """What the library's socket wants to know; it never connects by itself."""

    def __init__(
        self,
        token: str,
        connect: Callable[[str], Awaitable[ClientWebSocketResponse]],
        on_event: Callable[[str, object], None],
    ) -> None:
        intents = discord.Intents(guilds=True, messages=True, message_content=True, reactions=True)
        super().__init__(intents=intents, max_messages=None, chunk_guilds_at_startup=False)
        self.loop = asyncio.get_running_loop()
        self.http: Any = self.http
        self.http.token, self.http.ws_connect = token, connect
        self._connection.parsers = _Parsers(on_event)

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
        """Nobody listens to the library's own events."""


class _Socket(DiscordWebSocket):
    """It tells of heartbeats, and goes on after what it cannot read."""

    on_beat: Callable[[], None] | None = None
    unreadable: str | None = None
    _text = ""

    @property
    def last_ack(self) -> float:
        return self._keep_alive._last_ack if self._keep_alive else 0.0

    async def send_heartbeat(self, data: Any) -> None:
        if self.on_beat:
            self.on_beat()
        await super().send_heartbeat(data)

    def log_receive(self, data: Any, /) -> None:
        self._text = str(data)

    async def received_message(self, msg: Any, /) -> None:
        self._text = ""
        try:
            await super().received_message(msg)
        except Exception as error:
            if isinstance(msg, bytes) and not self._text:  # zlib's errors, or zstandard's
                raise RetryLater("Discord's gateway sent something that cannot be read") from None
            if not isinstance(error, MALFORMED):
                raise
            self.unreadable = self._text


class GatewayConnection:
    """`on_event` gets each event in order, and must not wait; "frame" is what is no event."""

    def __init__(
        self, rest: DiscordRest, host: Host, on_event: Callable[[str, object], None]
    ) -> None:
        self._rest, self._host, self._on_event = rest, host, on_event
        self._config, self._timing = rest.config, rest.timing
        self._session_id: str | None = None
        self._sequence: int | None = None
        self._resume_url: URL | None = None
        self._is_up = False
        self._up_at = 0.0

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
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._timing.ready_s) as limit:
                    await self._receive(stack, limit)
            except ReconnectWebSocket as again:
                if again.resume:
                    return "Discord asked for a new connection"
                self._session_id = None
                await asyncio.sleep(random.uniform(*self._timing.invalid_s))
                return "Discord ended the session"
            except discord.ConnectionClosed as closed:
                self._session_id = None
                _raise_if_fatal(closed.code)
            except TimeoutError:
                raise RetryLater("Discord's gateway does not answer any more") from None
        return "Discord closed the connection"

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

        home, session, resume = await self._home(), self._session_id, self._resume_url
        self._resume_url = None  # if that is dead, the next try starts at home
        socket = await _Socket.from_client(
            _Client(self._config.bot_token, connect, self._dispatch),
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
                if self._is_up and before != (True, socket.last_ack):
                    limit.reschedule(None)
                if socket.unreadable is not None:
                    self._on_event("frame", socket.unreadable)
                    socket.unreadable = None
                if self._is_up:
                    self._host.report_alive()
        finally:
            self._session_id, self._sequence = socket.session_id, socket.sequence
            self._resume_url = socket.gateway if self._is_up else None
            if socket._keep_alive:
                socket._keep_alive.stop()

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

    def _dispatch(self, event: str, data: object) -> None:
        if event != "RESUMED":
            self._on_event(event, data)
        if event in ("READY", "RESUMED"):
            self._is_up, self._up_at = True, asyncio.get_running_loop().time()


def _raise_if_fatal(code: int) -> None:
    """Raises Revoked for what no new connection mends."""
    if code == 4004:
        raise Revoked(UNKNOWN_TOKEN) from None
    if code == 4014:
        raise Revoked(INTENTS_HELP) from None
    if code in FATAL_CODES:
        raise Revoked(
            f"Discord's gateway rejects this bot (close code {code}); it may need an update."
        ) from None


def _may_resume_at(url: URL, home: URL) -> bool:
    """Whether the token may go there: the same server, or one of Discord's."""
    if url.scheme != home.scheme or url.host is None:
        return False
    is_discord = home == DEFAULT_GATEWAY and url.host.endswith(".discord.gg")
    return is_discord or (url.host, url.port) == (home.host, home.port)
