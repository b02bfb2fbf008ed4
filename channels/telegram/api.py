"""Telegram's methods, called through the library's Bot; every answer is plain JSON, every failure one of the house's."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from channels.base import ChannelError, Later, Refused, Revoked, Unclear
from channels.telegram.lib import Bot, TelegramError
from channels.telegram.request import READ_S, AiohttpRequest, Answered, Lost, NotSent

NEEDED = ("getMe", "getUpdates", "sendMessage")
PACED = ("sendMessage", "sendMessageDraft", "sendDocument", "editMessageText")
CLOSING_S = 5.0
REVOKED = "Telegram does not know the bot's token (any more). Nothing is lost: what was written to it waits there for a day. Ask \
@BotFather for a token and put it into bot_token in [telegram]"


Arguments = Mapping[str, object]


class Throttled(Later):
    """Telegram said how long it wants to be left alone."""


class Conflict(Later):
    """Another program polls with the same token, or a webhook is set."""


class Blocked(Refused):
    """We may not write to this chat."""


class Lacking(Refused):
    """The server does not know this method."""


class Api:
    """One bot at one server. Polls have a connection of their own, so that sending never waits for them."""

    def __init__(self, root: str, token: str, messages_per_second: float = 0.0) -> None:
        self._polls, self._calls = AiohttpRequest(root), AiohttpRequest(root)
        self._files = f"{root}/file/bot{token}/"
        self._bot = Bot(token, f"{root}/bot", f"{root}/file/bot", request=self._calls, get_updates_request=self._polls)
        self._between_s, self._free_at = 1 / messages_per_second if messages_per_second else 0.0, 0.0

    async def call(self, method: str, arguments: Arguments | None = None, *, timeout_s: float = READ_S) -> object:
        """The answer's `result`. Raises Refused (Lacking), Later (Conflict), Unclear, Revoked."""
        if self._between_s and method in PACED:
            await self._pace()
        try:
            # the underscore: of names that it knows the library warns, for it has methods of its own
            return await self._bot.do_api_request(f"{method}_", api_kwargs=dict(arguments or {}), read_timeout=timeout_s)
        except TelegramError as error:
            raise meant(error, method) from None

    async def file(self, path: str) -> AsyncGenerator[bytes]:
        """A file's content, piece by piece. Raises as `call`."""
        try:
            async with aclosing(self._calls.chunks(self._files + path.lstrip("/"))) as chunks:
                async for chunk in chunks:
                    yield chunk
        except TelegramError as error:
            raise meant(error, "this file") from None

    async def aclose(self) -> None:
        """Let go of the connections."""
        try:
            async with asyncio.timeout(CLOSING_S):
                await self._polls.shutdown()
                await self._calls.shutdown()
        except TimeoutError:
            return

    async def _pace(self) -> None:
        now = time.monotonic()
        self._free_at = max(now, self._free_at) + self._between_s
        await asyncio.sleep(self._free_at - self._between_s - now)


def meant(error: TelegramError, method: str) -> ChannelError:
    """What can be done about a failure."""
    match error:
        case Answered():
            return _said(error, method)
        case NotSent():
            return Later(f"Telegram cannot be reached: {error.message}")
        case Lost():
            return Unclear(f"Telegram did not answer {method}: {error.message}")
        case _:
            return Unclear(f"{method} went wrong: {type(error).__name__}")


def refused_for_the_chat(refused: Refused) -> bool:
    """It says something about the chat, and nothing about what the server can do."""
    return isinstance(refused, Blocked) or "not found" in str(refused)


def _said(error: Answered, method: str) -> ChannelError:
    if error.status == 401 or (error.status == 404 and method in NEEDED):
        return Revoked(REVOKED)
    if error.status == 404:
        return Lacking(f"the server does not know {method}")
    if error.status == 429:
        return Throttled(f"Telegram asks for patience: {error.message}", error.after_s or 1.0)
    if error.status == 409:
        return Conflict(error.message, 1.0)
    if error.status >= 500:
        return Later(f"Telegram is out of order: {error.message}")
    if error.status == 403:
        return Blocked(f"Telegram refused {method}: {error.message}")
    if error.moved_to:
        return Refused(f"the group has become a supergroup; its chat is {error.moved_to} now, write to that one")
    return Refused(f"Telegram refused {method}: {error.message}")
