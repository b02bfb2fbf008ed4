"""discord.py, imported in one place: what it has to say about voice, which we never use, is kept quiet, and so is
all that it would log for its own makers: that holds every message, and the tokens that buttons and commands are answered with.

Calls of Discord's REST side: bounded in time, and every failure as what can be done about it (K14).
"""

import asyncio
import logging
import re
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import aiohttp

from channels.base import ChannelError, DeliveryUnknown, Rejected, RetryLater, Revoked
from channels.platform import proxy_for

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import discord
    from discord import gateway, http

TOKEN_PATH = re.compile(r"(/(?:interactions|webhooks)/[^/]+/)[^/\s]+")


def _mask_tokens(record: logging.LogRecord) -> bool:
    """Where it tells of limits it names the address, and so the token that a button or a command is answered with."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            TOKEN_PATH.sub(r"\1…", part) if isinstance(part, str) else part for part in record.args
        )
    return True


logging.getLogger("discord").setLevel(logging.INFO)
logging.getLogger("discord.http").addFilter(_mask_tokens)
discord.VoiceClient.warn_nacl = False
discord.VoiceClient.warn_dave = False

__all__ = ["discord", "gateway", "http"]


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
REPLY_REJECTED = (160002, 160009, 160010)
"""A message may be sent there, but not point at another one: the bot may not read the history."""
TOO_LATE = 50027
UNAVAILABLE = 503
"""Nothing was done; after any other trouble of Discord's it may have been."""
T = TypeVar("T")
WAIT_S = 30.0
"""Longer rate limits are ours to wait for, not the library's."""
CALL_TIMEOUT_S = 60.0
MAX_ERROR_TEXT = 200
MALFORMED = (KeyError, TypeError, ValueError, AttributeError, RecursionError)
"""What discord.py raises when a server answers what it does not know."""


class NotFound(Rejected):
    """What was meant is not there any more."""


class ReplyRejected(Rejected):
    """It may go out, but not as a reply."""


class DiscordHttp(http.HTTPClient):
    """The library's own client, for one API address of its own; `Route.BASE` is for all of a process, so it is left alone."""

    def __init__(self, api_url: str) -> None:
        super().__init__(
            asyncio.get_running_loop(), proxy=proxy_for(api_url), max_ratelimit_timeout=WAIT_S
        )
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

    async def close_socket(self, code: int = 4000) -> None:
        """Close what is open of the gateway."""
        socket, self._socket = self._socket, None
        if socket is not None and not socket.closed:
            await socket.close(code=code)


class DiscordRest:
    """One bot's calls. It logs in at the first one."""

    def __init__(self, token: str, api_url: str, *, longest_s: float = CALL_TIMEOUT_S) -> None:
        self._token, self._api_url, self._longest_s = token, api_url, longest_s
        self._rest: DiscordHttp | None = None
        self._entering = asyncio.Lock()
        self.name = ""
        self.id = ""

    async def login(self) -> DiscordHttp:
        """Logged in. Raises Revoked, Later."""
        async with self._entering:
            if self._rest is None:
                rest = DiscordHttp(self._api_url)
                async with AsyncExitStack() as undo:
                    undo.push_async_callback(rest.close)
                    async with translate_errors(self._longest_s, sends=False):
                        user = await rest.static_login(self._token)
                        self.id, self.name = str(user["id"]), str(user["username"])
                    undo.pop_all()
                self._rest = rest
            return self._rest

    async def get_name(self) -> str:
        """The bot's name, asked now. Raises Revoked, Later."""
        fresh = self._rest is None
        rest = await self.login()
        if not fresh:
            async with translate_errors(self._longest_s, sends=False):
                self.name = str((await rest.request(http.Route("GET", "/users/@me")))["username"])
        return f"@{self.name}"

    async def call(
        self,
        ask: Callable[[DiscordHttp], Awaitable[T]],
        *,
        sends: bool = False,
        within_s: float = 0.0,
    ) -> T:
        """What Discord answers. Raises Refused, Later, Revoked, and Unclear if it `sends` and the answer was lost."""
        rest = await self.login()
        async with translate_errors(within_s or self._longest_s, sends=sends):
            return await ask(rest)

    async def aclose(self) -> None:
        """Let go of the connections."""
        rest, self._rest = self._rest, None
        if rest is not None:
            await rest.close()


@asynccontextmanager
async def translate_errors(seconds: float, *, sends: bool) -> AsyncIterator[None]:
    """What goes wrong within, as what can be done about it."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except discord.RateLimited as limited:
        raise RetryLater("Discord asks us to write less", limited.retry_after) from limited
    except discord.LoginFailure as unknown:
        raise Revoked(UNKNOWN_TOKEN) from unknown
    except discord.HTTPException as answered:
        raise _translate_answer(answered, sends=sends) from answered
    except aiohttp.ClientConnectorError as away:
        raise RetryLater(
            f"Discord cannot be reached: {away.strerror or type(away).__name__}"
        ) from away
    except (aiohttp.ClientError, OSError, *MALFORMED) as lost:
        raise _lost_answer(lost, sends=sends) from lost


def _translate_answer(error: discord.HTTPException, *, sends: bool) -> ChannelError:
    told = HINTS.get(error.code) or f"{error.status} {error.text[:MAX_ERROR_TEXT]}".strip()
    match error.status:
        case _ if error.code in REPLY_REJECTED:
            return ReplyRejected(f"Discord refuses it: {told}")
        case 401 if error.code != TOO_LATE:
            return Revoked(UNKNOWN_TOKEN)
        case 404:
            return NotFound(f"Discord refuses it: {told}")
        case 429:
            return RetryLater("Discord asks us to write less", _retry_after(error))
        case status if status >= 500:
            trouble = f"Discord has trouble of its own ({status})"
            return (
                DeliveryUnknown(trouble) if sends and status != UNAVAILABLE else RetryLater(trouble)
            )
        case _:
            return Rejected(f"Discord refuses it: {told}")


def _retry_after(error: discord.HTTPException) -> float:
    stated = error.response.headers.get("Retry-After", "")
    return float(stated) if stated.replace(".", "", 1).isdecimal() else WAIT_S


def _lost_answer(error: Exception, *, sends: bool) -> ChannelError:
    why = "it took too long" if isinstance(error, TimeoutError) else type(error).__name__
    if sends:
        return DeliveryUnknown(f"Discord's answer was lost ({why})")
    return RetryLater(f"Discord does not answer ({why})")
