"""Calls of Discord's REST side: bounded in time, and every failure as what can be done about it (B5 #14)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import aiohttp

from channels.base import ChannelError, Later, Refused, Revoked, Unclear
from channels.discord.lib import discord, http
from channels.proxy import proxy_for

UNKNOWN_TOKEN = (
    "Discord does not accept bot_token (any more). What came in before is kept; make a new token in the developer portal"
    " (Bot, Reset Token), put it into config.toml, and start again."
)
HINTS = {
    10003: "the channel is gone",
    10008: "the message is gone",
    50001: "the bot may not see this channel: give it View Channel there, or invite it to the server again",
    50007: "this person takes no direct messages from the bot",
    50013: "the bot may not do this in the channel: give it Send Messages, Attach Files, Add Reactions, Read History there",
    50027: "a button or command can be answered for 15 minutes only",
    50035: "Discord finds the message malformed",
    40005: "the file is too big for Discord",
}
NO_REPLY = (160002, 160009, 160010)
"""A message may be sent there, but not point at another one: the bot may not read the history."""
TOO_LATE = 50027
UNAVAILABLE = 503
"""Nothing was done; after any other trouble of Discord's it may have been."""
Told = TypeVar("Told")
WAIT_S = 30.0
"""Longer rate limits are ours to wait for, not the library's."""
LONGEST_S = 60.0
MOST_TOLD = 200
BROKEN = (KeyError, TypeError, ValueError, AttributeError, RecursionError)
"""What discord.py raises when a server answers what it does not know."""


class Gone(Refused):
    """What was meant is not there any more."""


class Unrelated(Refused):
    """It may go out, but not as a reply."""


class Rest(http.HTTPClient):
    """The library's own client, for one API address of its own; `Route.BASE` is for all of a process, so it is left alone."""

    def __init__(self, api_url: str) -> None:
        super().__init__(asyncio.get_running_loop(), proxy=proxy_for(api_url), max_ratelimit_timeout=WAIT_S)
        self._api_url = api_url
        self._socket: aiohttp.ClientWebSocketResponse | None = None

    async def request(self, route: http.Route, **how: Any) -> Any:
        """As the library's, at our address."""
        if route.url.startswith(http.Route.BASE):
            route.url = self._api_url + route.url[len(http.Route.BASE) :]
        try:
            return await super().request(route, **how)
        except asyncio.CancelledError:
            self._global_over.set()  # given up while it waits for a global limit, the library would hold back all calls for ever
            raise

    async def ws_connect(self, url: str, *, compress: int = 0) -> aiohttp.ClientWebSocketResponse:
        """As the library's; remembered, so that it is closed whatever becomes of it."""
        self._socket = await super().ws_connect(url, compress=compress)
        return self._socket

    async def hang_up(self, code: int = 4000) -> None:
        """Close what is open of the gateway."""
        socket, self._socket = self._socket, None
        if socket is not None and not socket.closed:
            await socket.close(code=code)


class Calls:
    """One bot's calls. It logs in at the first one."""

    def __init__(self, token: str, api_url: str, *, longest_s: float = LONGEST_S) -> None:
        self._token, self._api_url, self._longest_s = token, api_url, longest_s
        self._rest: Rest | None = None
        self._entering = asyncio.Lock()
        self.name = ""
        self.id = ""

    async def enter(self) -> Rest:
        """Logged in. Raises Revoked, Later."""
        async with self._entering:
            if self._rest is None:
                rest = Rest(self._api_url)
                async with AsyncExitStack() as undo:
                    undo.push_async_callback(rest.close)
                    async with meaning(self._longest_s, sends=False):
                        user = await rest.static_login(self._token)
                        self.id, self.name = str(user["id"]), str(user["username"])
                    undo.pop_all()
                self._rest = rest
            return self._rest

    async def who(self) -> str:
        """The bot's name, asked now. Raises Revoked, Later."""
        fresh = self._rest is None
        rest = await self.enter()
        if not fresh:
            async with meaning(self._longest_s, sends=False):
                self.name = str((await rest.request(http.Route("GET", "/users/@me")))["username"])
        return f"@{self.name}"

    async def call(self, ask: Callable[[Rest], Awaitable[Told]], *, sends: bool = False, within_s: float = 0.0) -> Told:
        """What Discord answers. Raises Refused, Later, Revoked, and Unclear if it `sends` and the answer was lost."""
        rest = await self.enter()
        async with meaning(within_s or self._longest_s, sends=sends):
            return await ask(rest)

    async def aclose(self) -> None:
        """Let go of the connections."""
        rest, self._rest = self._rest, None
        if rest is not None:
            await rest.close()


@asynccontextmanager
async def meaning(seconds: float, *, sends: bool) -> AsyncIterator[None]:
    """What goes wrong within, as what can be done about it."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except discord.RateLimited as limited:
        raise Later("Discord asks us to write less", limited.retry_after) from limited
    except discord.LoginFailure as unknown:
        raise Revoked(UNKNOWN_TOKEN) from unknown
    except discord.HTTPException as answered:
        raise _answered(answered, sends=sends) from answered
    except aiohttp.ClientConnectorError as away:
        raise Later(f"Discord cannot be reached: {away.strerror or type(away).__name__}") from away
    except (aiohttp.ClientError, OSError, *BROKEN) as lost:
        raise _lost(lost, sends=sends) from lost


def _answered(error: discord.HTTPException, *, sends: bool) -> ChannelError:
    told = HINTS.get(error.code) or f"{error.status} {error.text[:MOST_TOLD]}".strip()
    match error.status:
        case _ if error.code in NO_REPLY:
            return Unrelated(f"Discord refuses it: {told}")
        case 401 if error.code != TOO_LATE:
            return Revoked(UNKNOWN_TOKEN)
        case 404:
            return Gone(f"Discord refuses it: {told}")
        case 429:
            return Later("Discord asks us to write less", _seconds(error))
        case status if status >= 500:
            trouble = f"Discord has trouble of its own ({status})"
            return Unclear(trouble) if sends and status != UNAVAILABLE else Later(trouble)
        case _:
            return Refused(f"Discord refuses it: {told}")


def _seconds(error: discord.HTTPException) -> float:
    stated = error.response.headers.get("Retry-After", "")
    return float(stated) if stated.replace(".", "", 1).isdecimal() else WAIT_S


def _lost(error: Exception, *, sends: bool) -> ChannelError:
    why = "it took too long" if isinstance(error, TimeoutError) else type(error).__name__
    if sends:
        return Unclear(f"Discord's answer was lost ({why})")
    return Later(f"Discord does not answer ({why})")
