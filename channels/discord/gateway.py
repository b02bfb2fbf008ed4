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

from channels.base import Later, Refused, Revoked, Unclear
from channels.discord.calling import BROKEN, UNKNOWN_TOKEN, Calls, Rest, meaning
from channels.discord.config import API
from channels.discord.lib import discord, gateway, http

EVENTS = (
    *("READY", "RESUMED", "GUILD_CREATE", "GUILD_DELETE", "CHANNEL_CREATE", "CHANNEL_DELETE", "INTERACTION_CREATE"),
    *("THREAD_CREATE", "THREAD_UPDATE", "THREAD_DELETE", "THREAD_LIST_SYNC", "THREAD_MEMBER_UPDATE"),
    *("MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_REACTION_ADD", "MESSAGE_REACTION_REMOVE"),
)
AUTHENTICATION_FAILED, INTENTS_REFUSED = 4004, 4014
FATAL = (4010, 4011, 4012, 4013)
INTENTS = (
    "Discord does not give the bot what people write: switch on Message Content Intent in the developer portal (Bot,"
    " Privileged Gateway Intents), and start again. What came in before is kept."
)


@dataclass(frozen=True, slots=True)
class Patience:
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


PATIENCE = Patience()


class Hearer(Protocol):
    """Who is told of what comes."""

    def hear(self, event: str, payload: object) -> None:
        """An event, in order; at once, without waiting."""
        ...

    def broken(self, raw: str, why: str) -> None:
        """Something that is no event at all."""
        ...


class Socket(gateway.DiscordWebSocket):
    """The library's socket, which also knows when a heartbeat was left unanswered, and goes on after what it cannot read."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(socket, loop=loop)
        self.unread: list[tuple[str, str]] = []
        self.limit: asyncio.Timeout | None = None
        self.due: Callable[[], float | None] = lambda: None
        self.beaten: tuple[float, float] | None = None
        self._raw = ""

    def _last_ack(self) -> float:
        return self._keep_alive._last_ack if self._keep_alive else 0.0

    def unanswered(self) -> float | None:
        """When the oldest heartbeat was sent that has no answer yet."""
        if self.beaten and self._last_ack() != self.beaten[1]:
            self.beaten = None
        return self.beaten[0] if self.beaten else None

    def look(self) -> None:
        """Set the time at which this connection is given up."""
        if self.limit is not None and not self.limit.expired():
            self.limit.reschedule(self.due())

    async def send_heartbeat(self, data: object) -> None:
        """As the library's; from now on an answer is due."""
        if self.unanswered() is None:
            self.beaten = (self.loop.time(), self._last_ack())
            self.look()
        await super().send_heartbeat(data)

    def log_receive(self, data: Any, /) -> None:
        """Keep the text, for what cannot be read."""
        self._raw = data

    async def received_message(self, msg: Any, /) -> None:
        """As the library's; what breaks it is set aside."""
        self._raw = msg if isinstance(msg, str) else ""
        try:
            await super().received_message(msg)
        except BROKEN as unread:
            self.unread.append((str(self._raw), f"{type(unread).__name__}: {unread}"))


class Client(discord.Client):
    """What the library's socket wants to know; it never connects by itself."""

    def __init__(self, rest: Rest, hear: Callable[[str, object], None]) -> None:
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


class Connection:
    """Listens until cancelled. Raises Revoked."""

    def __init__(
        self, calls: Calls, hearer: Hearer, api_url: str, gateway_url: str, patience: Patience, *, alive: Callable[[], None]
    ) -> None:
        self._calls, self._hearer, self._api_url, self._patience = calls, hearer, api_url, patience
        self._gateway_url, self._alive = gateway_url, alive
        self._session: _Session | None = None
        self._up_since: float | None = None

    async def listen(self, ailing: Callable[[str], None]) -> None:
        """One connection after another, with pauses that grow while none lasts."""
        tries = 0
        while True:
            why, lasted = await self._once()
            tries = 0 if lasted >= self._patience.calm else tries
            pauses = self._patience.pauses
            if tries or lasted == 0:
                ailing(why)
            await asyncio.sleep(pauses[min(tries, len(pauses) - 1)])
            tries += 1

    async def _once(self) -> tuple[str, float]:
        """From one connection to its end: why, and how long it was of use in seconds."""
        loop = asyncio.get_running_loop()
        self._up_since = None
        try:
            await self._connected()
            why = "Discord closed the connection"
        except Later as later:
            why = str(later)
            await asyncio.sleep(min(later.after_s, max(self._patience.pauses)))
        except (Refused, Unclear) as odd:
            why = str(odd)
        return why, loop.time() - self._up_since if self._up_since is not None else 0.0

    async def _connected(self) -> None:
        rest = await self._calls.enter()
        try:
            await self._used(rest)
        except gateway.ReconnectWebSocket as again:
            if not again.resume:
                self._session = None
                await asyncio.sleep(random.uniform(*self._patience.invalid))
        except discord.ConnectionClosed as closed:
            self._session = None
            _check(closed)
        except asyncio.CancelledError:
            await self._hang_up(rest, 1000)
            raise
        finally:
            await self._hang_up(rest)

    async def _used(self, rest: Rest) -> None:
        """Raises whatever ends the connection."""
        async with meaning(self._patience.ready, sends=False):
            socket = await self._open(rest)
        try:
            async with asyncio.timeout(None) as limit:
                socket.limit, socket.due = limit, lambda: self._due(socket, opened)
                opened = asyncio.get_running_loop().time()
                while True:
                    socket.look()
                    await socket.poll_event()
                    self._heard(socket)
        except TimeoutError as silent:
            raise Later("Discord's gateway says nothing any more") from silent
        except (aiohttp.ClientError, OSError, zlib.error) as lost:
            raise Later(f"the connection to Discord's gateway was lost ({type(lost).__name__})") from lost
        finally:
            self._remember(socket)
            socket.limit = None
            if socket._keep_alive:
                socket._keep_alive.stop()

    def _due(self, socket: Socket, opened: float) -> float | None:
        if self._up_since is None:
            return opened + self._patience.ready
        since = socket.unanswered()
        return None if since is None else since + self._patience.ack

    def _heard(self, socket: Socket) -> None:
        for raw, why in socket.unread:
            self._hearer.broken(raw, why)
        socket.unread.clear()
        if self._up_since is not None:
            self._alive()

    def up(self) -> None:
        """A session has begun, or goes on."""
        self._up_since = asyncio.get_running_loop().time()

    async def _open(self, rest: Rest) -> Socket:
        client = Client(rest, self._hearer.hear)
        session, home = self._session, await self._home(rest)
        try:
            if session is None:
                return await Socket.from_client(client, gateway=home, initial=True)
            url = session.url if _same_house(session.url, home) else home
            self._session = replace(session, url=home)  # should that address be dead, the next try is at the front door
            return await Socket.from_client(client, gateway=url, session=session.id, sequence=session.sequence, resume=True)
        except gateway.ReconnectWebSocket as early:
            raise Later("Discord's gateway did not let us in") from early

    async def _home(self, rest: Rest) -> URL:
        """Where a new session begins: never Discord's own gateway for another server's token."""
        if self._gateway_url:
            return URL(self._gateway_url)
        if self._api_url == API:
            return gateway.DiscordWebSocket.DEFAULT_GATEWAY
        try:
            return URL(str((await rest.request(http.Route("GET", "/gateway")))["url"]))
        except (discord.NotFound, *BROKEN):  # a simple server has it at its own root
            return URL(self._api_url.replace("http", "ws", 1)).with_path("/")

    def _remember(self, socket: Socket) -> None:
        kept = socket.session_id
        self._session = _Session(kept, socket.sequence, socket.gateway) if kept and socket.sequence else None

    async def _hang_up(self, rest: Rest, code: int = 4000) -> None:
        """Bounded: the other side may be long gone."""
        try:
            async with asyncio.timeout(self._patience.close):
                await rest.hang_up(code)
        except (aiohttp.ClientError, OSError):
            return


def _same_house(url: URL, home: URL) -> bool:
    """Whether a token may go to the address that a session is to be resumed at: the same host, or one of the same domain."""
    if url.host is None or home.host is None or url.scheme != home.scheme:
        return False
    domain = home.host.split(".")[-2:]
    named = not home.host.replace(".", "").isdecimal() and len(domain) > 1
    return (url.host, url.port) == (home.host, home.port) or (named and url.host.split(".")[-2:] == domain)


def _check(closed: discord.ConnectionClosed) -> None:
    """Raise what cannot be mended by trying again."""
    if closed.code == AUTHENTICATION_FAILED:
        raise Revoked(UNKNOWN_TOKEN) from closed
    if closed.code == INTENTS_REFUSED:
        raise Revoked(INTENTS) from closed
    if closed.code in FATAL:
        raise Revoked(f"Discord's gateway refuses this bot (close code {closed.code}); it may need an update.") from closed
