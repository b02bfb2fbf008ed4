"""The connection that Discord's events come by: kept up, supervised, resumed where Discord can, begun anew where not (E12).

discord.py speaks the protocol (HELLO, IDENTIFY, RESUME, heartbeats, compression); when to give up on a connection, and how long
to wait before the next, is decided here: its own waits grow to a quarter of an hour. Its parsers are replaced by ours, which see
the bare payloads in the order in which they came, so none can break what stands behind it, and nothing of the guilds is kept.
"""

import asyncio
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import aiohttp
from yarl import URL

from channels.base import DeliveryUnknown, Rejected, RetryLater, Revoked
from channels.discord.config import API
from channels.discord.rest import (
    MALFORMED,
    UNKNOWN_TOKEN,
    DiscordHttp,
    DiscordRest,
    discord,
    gateway,
    http,
    translate_errors,
)

EVENTS = (
    *(
        "READY",
        "RESUMED",
        "GUILD_CREATE",
        "GUILD_DELETE",
        "CHANNEL_CREATE",
        "CHANNEL_DELETE",
        "INTERACTION_CREATE",
    ),
    *(
        "THREAD_CREATE",
        "THREAD_UPDATE",
        "THREAD_DELETE",
        "THREAD_LIST_SYNC",
        "THREAD_MEMBER_UPDATE",
    ),
    *("MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_REACTION_ADD", "MESSAGE_REACTION_REMOVE"),
)
AUTHENTICATION_FAILED, INTENTS_REFUSED = 4004, 4014
FATAL_CODES = (4010, 4011, 4012, 4013)
INTENTS_HELP = (
    "Discord does not give the bot what people write: switch on Message Content Intent in the developer portal (Bot,"
    " Privileged Gateway Intents), and start again. What came in before is kept."
)


@dataclass(frozen=True, slots=True)
class DiscordTiming:
    """How long things may take, in seconds. `pauses`: before each new connection, while none lasts for `calm`; `invalid`: least
    and most after a session was refused, as Discord asks; `keep`: how often the place read up to is noted.
    """

    ready: float = 30.0
    ack: float = 15.0
    close: float = 2.0
    calm: float = 60.0
    keep: float = 3.0
    call: float = 60.0
    invalid: tuple[float, float] = (1.0, 5.0)
    pauses: tuple[float, ...] = (0.0, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 15.0, 30.0, 30.0, 60.0, 90.0)
    retries: tuple[float, ...] = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


TIMING = DiscordTiming()


class EventSink(Protocol):
    """Who is told of what comes."""

    def on_event(self, event: str, payload: object) -> None:
        """An event, in order; at once, without waiting."""
        ...

    def on_unreadable(self, raw: str, why: str) -> None:
        """Something that is no event at all."""
        ...


class GatewaySocket(gateway.DiscordWebSocket):
    """The library's socket, which also knows when a heartbeat was left unanswered, and goes on after what it cannot read."""

    def __init__(
        self, socket: aiohttp.ClientWebSocketResponse, *, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(socket, loop=loop)
        self.unparsed: list[tuple[str, str]] = []
        self.timeout: asyncio.Timeout | None = None
        self.deadline: Callable[[], float | None] = lambda: None
        self._pending_beat: tuple[float, float] | None = None
        self._raw = ""

    def _last_ack(self) -> float:
        return self._keep_alive._last_ack if self._keep_alive else 0.0

    def oldest_unanswered(self) -> float | None:
        """When the oldest heartbeat was sent that has no answer yet."""
        if self._pending_beat and self._last_ack() != self._pending_beat[1]:
            self._pending_beat = None
        return self._pending_beat[0] if self._pending_beat else None

    def reset_deadline(self) -> None:
        """Set the time at which this connection is given up."""
        if self.timeout is not None and not self.timeout.expired():
            self.timeout.reschedule(self.deadline())

    async def send_heartbeat(self, data: object) -> None:
        """As the library's; from now on an answer is due."""
        if self.oldest_unanswered() is None:
            self._pending_beat = (self.loop.time(), self._last_ack())
            self.reset_deadline()
        await super().send_heartbeat(data)

    def log_receive(self, data: Any, /) -> None:
        """Keep the text, for what cannot be read."""
        self._raw = data

    async def received_message(self, msg: Any, /) -> None:
        """As the library's; what breaks it is set aside."""
        self._raw = msg if isinstance(msg, str) else ""
        try:
            await super().received_message(msg)
        except MALFORMED as unread:
            self.unparsed.append((str(self._raw), f"{type(unread).__name__}: {unread}"))


class GatewayClient(discord.Client):
    """What the library's socket wants to know; it never connects by itself."""

    def __init__(self, rest: DiscordHttp, hear: Callable[[str, object], None]) -> None:
        intents = discord.Intents(guilds=True, messages=True, message_content=True, reactions=True)
        super().__init__(intents=intents, max_messages=None, chunk_guilds_at_startup=False)
        self.loop, self.http = asyncio.get_running_loop(), rest
        self._connection.parsers = {event: _parser(hear, event) for event in EVENTS}

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
        """Nobody listens to the library's own events."""


def _parser(hear: Callable[[str, object], None], event: str) -> Callable[[Any], None]:
    return lambda payload: hear(event, payload)


@dataclass(frozen=True, slots=True)
class _Session:
    """Where to go on."""

    id: str
    sequence: int | None
    url: URL


class GatewayConnection:
    """Listens until cancelled. Raises Revoked."""

    def __init__(
        self,
        calls: DiscordRest,
        hearer: EventSink,
        api_url: str,
        gateway_url: str,
        patience: DiscordTiming,
        *,
        alive: Callable[[], None],
    ) -> None:
        self._calls, self._hearer, self._api_url, self._patience = calls, hearer, api_url, patience
        self._gateway_url, self._alive = gateway_url, alive
        self._session: _Session | None = None
        self._up_since: float | None = None

    async def run(self, ailing: Callable[[str], None]) -> None:
        """One connection after another, with pauses that grow while none lasts."""
        tries = 0
        while True:
            why, lasted = await self._run_once()
            tries = 0 if lasted >= self._patience.calm else tries
            pauses = self._patience.pauses
            if tries or lasted == 0:
                ailing(why)
            await asyncio.sleep(pauses[min(tries, len(pauses) - 1)])
            tries += 1

    async def _run_once(self) -> tuple[str, float]:
        """From one connection to its end: why, and how long it was of use in seconds."""
        loop = asyncio.get_running_loop()
        self._up_since = None
        try:
            await self._run_session()
            why = "Discord closed the connection"
        except RetryLater as later:
            why = str(later)
            await asyncio.sleep(min(later.after_s, max(self._patience.pauses)))
        except (Rejected, DeliveryUnknown) as odd:
            why = str(odd)
        return why, loop.time() - self._up_since if self._up_since is not None else 0.0

    async def _run_session(self) -> None:
        rest = await self._calls.login()
        try:
            await self._receive(rest)
        except gateway.ReconnectWebSocket as again:
            if not again.resume:
                self._session = None
                await asyncio.sleep(random.uniform(*self._patience.invalid))
        except discord.ConnectionClosed as closed:
            self._session = None
            _raise_if_fatal(closed)
        except asyncio.CancelledError:
            await self._close(rest, 1000)
            raise
        finally:
            await self._close(rest)

    async def _receive(self, rest: DiscordHttp) -> None:
        """Raises whatever ends the connection."""
        async with translate_errors(self._patience.ready, sends=False):
            socket = await self._open(rest)
        try:
            async with asyncio.timeout(None) as limit:
                socket.timeout, socket.deadline = limit, lambda: self._next_deadline(socket, opened)
                opened = asyncio.get_running_loop().time()
                while True:
                    socket.reset_deadline()
                    await socket.poll_event()
                    self._after_event(socket)
        except TimeoutError as silent:
            raise RetryLater("Discord's gateway says nothing any more") from silent
        except (aiohttp.ClientError, OSError, zlib.error) as lost:
            raise RetryLater(
                f"the connection to Discord's gateway was lost ({type(lost).__name__})"
            ) from lost
        finally:
            self._save_session(socket)
            socket.timeout = None
            if socket._keep_alive:
                socket._keep_alive.stop()

    def _next_deadline(self, socket: GatewaySocket, opened: float) -> float | None:
        if self._up_since is None:
            return opened + self._patience.ready
        since = socket.oldest_unanswered()
        return None if since is None else since + self._patience.ack

    def _after_event(self, socket: GatewaySocket) -> None:
        for raw, why in socket.unparsed:
            self._hearer.on_unreadable(raw, why)
        socket.unparsed.clear()
        if self._up_since is not None:
            self._alive()

    def on_session_up(self) -> None:
        """A session has begun, or goes on."""
        self._up_since = asyncio.get_running_loop().time()

    async def _open(self, rest: DiscordHttp) -> GatewaySocket:
        client = GatewayClient(rest, self._hearer.on_event)
        session, home = self._session, await self._gateway_address(rest)
        try:
            if session is None:
                return await GatewaySocket.from_client(client, gateway=home, initial=True)
            url = session.url if _is_same_domain(session.url, home) else home
            self._session = replace(
                session, url=home
            )  # should that address be dead, the next try is at the front door
            return await GatewaySocket.from_client(
                client, gateway=url, session=session.id, sequence=session.sequence, resume=True
            )
        except gateway.ReconnectWebSocket as early:
            raise RetryLater("Discord's gateway did not let us in") from early

    async def _gateway_address(self, rest: DiscordHttp) -> URL:
        """Where a new session begins: never Discord's own gateway for another server's token."""
        if self._gateway_url:
            return URL(self._gateway_url)
        if self._api_url == API:
            return gateway.DiscordWebSocket.DEFAULT_GATEWAY
        try:
            return URL(str((await rest.request(http.Route("GET", "/gateway")))["url"]))
        except (discord.NotFound, *MALFORMED):  # a simple server has it at its own root
            return URL(self._api_url.replace("http", "ws", 1)).with_path("/")

    def _save_session(self, socket: GatewaySocket) -> None:
        kept = socket.session_id
        self._session = (
            _Session(kept, socket.sequence, socket.gateway) if kept and socket.sequence else None
        )

    async def _close(self, rest: DiscordHttp, code: int = 4000) -> None:
        """Bounded: the other side may be long gone."""
        try:
            async with asyncio.timeout(self._patience.close):
                await rest.close_socket(code)
        except (aiohttp.ClientError, OSError):
            return


def _is_same_domain(url: URL, home: URL) -> bool:
    """Whether a token may go to the address that a session is to be resumed at: the same host, or one of the same domain."""
    if url.host is None or home.host is None or url.scheme != home.scheme:
        return False
    domain = home.host.split(".")[-2:]
    named = not home.host.replace(".", "").isdecimal() and len(domain) > 1
    return (url.host, url.port) == (home.host, home.port) or (
        named and url.host.split(".")[-2:] == domain
    )


def _raise_if_fatal(closed: discord.ConnectionClosed) -> None:
    """Raise what cannot be mended by trying again."""
    if closed.code == AUTHENTICATION_FAILED:
        raise Revoked(UNKNOWN_TOKEN) from closed
    if closed.code == INTENTS_REFUSED:
        raise Revoked(INTENTS_HELP) from closed
    if closed.code in FATAL_CODES:
        raise Revoked(
            f"Discord's gateway refuses this bot (close code {closed.code}); it may need an update."
        ) from closed
