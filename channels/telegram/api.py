"""python-telegram-bot, imported in one place, without the HTTP client that comes with it: requests are made in request.py, and
that client, with all that it imports, is a third of what the library costs at every start.

The library's requests over aiohttp: a third of httpx's work, and failures that tell whether anything was sent.

Telegram's methods, called through the library's Bot; every answer is plain JSON, every failure one of the house's.
"""

import asyncio
import json
import re
import sys
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

import aiohttp

from channels.base import ChannelError, DeliveryUnknown, Rejected, RetryLater, Revoked
from channels.platform import proxy_for

CLIENT = "telegram.request._httpxrequest"


class HTTPXRequest:
    """In place of the library's own client, which is there for whoever makes one all the same."""

    def __new__(cls, *args: object, **options: object) -> object:
        """The library's own."""
        return import_module(CLIENT).HTTPXRequest(*args, **options)


@contextmanager
def _without_httpx() -> Iterator[None]:
    standing_in = ModuleType(CLIENT)
    vars(standing_in)["HTTPXRequest"] = HTTPXRequest
    sys.modules.setdefault(CLIENT, standing_in)
    try:
        yield
    finally:
        if sys.modules[CLIENT] is standing_in:
            del sys.modules[CLIENT]


with _without_httpx():
    from telegram import Bot, InputFile
    from telegram.constants import UpdateType
    from telegram.error import TelegramError
    from telegram.request import BaseRequest, RequestData

__all__ = ["BaseRequest", "Bot", "InputFile", "RequestData", "TelegramError", "UpdateType"]


CONNECT_S, READ_S, FILE_S = 10.0, 30.0, 600.0
CHUNK = 64 << 10
MAX_CONNECTIONS = 100
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
UNSAFE_IN_FILENAME = re.compile(r'[%"\\\x00-\x1f\x7f]')
NOT_CONNECTED = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientProxyConnectionError,
)


class ErrorAnswer(TelegramError):
    """Telegram said no. `status` is HTTP's; `after_s`: when to try again; `moved_to`: the chat's new id."""

    def __init__(
        self, status: int, description: str, after_s: float = 0.0, moved_to: int = 0
    ) -> None:
        super().__init__(description)
        self.status, self.after_s, self.moved_to = status, after_s, moved_to


class NotSent(TelegramError):
    """There was no connection: nothing was sent."""


class AnswerLost(TelegramError):
    """It was sent, and no answer came that can be read: it may have been done or not."""


class AiohttpRequest(BaseRequest):
    """One pool of connections to one server."""

    def __init__(self, root: str) -> None:
        self._proxy = proxy_for(root)
        self._session: aiohttp.ClientSession | None = None

    @property
    def read_timeout(self) -> float:
        """Seconds to wait for an answer, where a call does not say."""
        return READ_S

    async def initialize(self) -> None:
        """Nothing: the connection is made when it is needed."""

    async def shutdown(self) -> None:
        """Let go of the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: object = BaseRequest.DEFAULT_NONE,
        write_timeout: object = None,
        connect_timeout: object = None,
        pool_timeout: object = None,
    ) -> tuple[int, bytes]:
        """One request. Raises Answered, NotSent, Lost."""
        read_s = float(read_timeout) if isinstance(read_timeout, int | float) else READ_S
        body, headers = _body(request_data)
        with _translate_errors():
            async with self._request(
                method, url, read_s, 2 * CONNECT_S + read_s, data=body, headers=headers
            ) as response:
                status, payload = response.status, await response.read()
        if status >= 400:
            raise parse_error(status, payload)
        return status, payload

    async def chunks(self, url: str) -> AsyncGenerator[bytes]:
        """A file, piece by piece. Raises as `do_request`."""
        with _translate_errors():
            async with self._request("GET", url, READ_S, FILE_S) as response:
                if response.status != 200:
                    raise parse_error(response.status, await response.read())
                async for chunk in response.content.iter_chunked(CHUNK):
                    yield chunk

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """The answer's outer object. Raises Lost where it is none: a page of some gateway, or half of it."""
        parsed = _parse_json(payload)
        if not isinstance(parsed, dict) or "result" not in parsed:
            raise AnswerLost("the answer cannot be read")
        return parsed

    def _request(self, method: str, url: str, read_s: float, total_s: float, **more: Any) -> Any:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=True,
            )
        timeout = aiohttp.ClientTimeout(
            total=total_s, connect=CONNECT_S, sock_connect=CONNECT_S, sock_read=read_s
        )
        return self._session.request(
            method, url, proxy=self._proxy, timeout=timeout, allow_redirects=False, **more
        )


@contextmanager
def _translate_errors() -> Iterator[None]:
    """What breaks off within, by whether anything was sent. Raises NotSent, Lost."""
    try:
        yield
    except NOT_CONNECTED as error:
        raise NotSent(f"no connection ({_name(error)})") from None
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise AnswerLost(f"the connection broke off ({_name(error)})") from None


def parse_error(status: int, payload: bytes) -> ErrorAnswer:
    """What Telegram says, or the gateway before it."""
    parsed = _parse_json(payload)
    said = parsed if isinstance(parsed, dict) else {}
    more = said.get("parameters")
    numbers = more if isinstance(more, dict) else {}
    description = str(said.get("description") or f"status {status}")
    return ErrorAnswer(
        status,
        description[:300],
        _float_of(numbers.get("retry_after")),
        int(_float_of(numbers.get("migrate_to_chat_id"))),
    )


def _body(data: RequestData | None) -> tuple[bytes | aiohttp.FormData | None, dict[str, str]]:
    if data is None:
        return None, {}
    if not data.contains_files:
        return data.url_encoded_parameters().encode(), FORM
    form = aiohttp.FormData(data.json_parameters, quote_fields=False)
    for name, (filename, content, mime) in data.multipart_data.items():
        form.add_field(name, content, filename=_quote_filename(filename), content_type=mime)
    return form, {}


def _quote_filename(filename: str) -> str:
    """Telegram reads %20 as a space, simpler servers as those three letters: only what has to be is written so."""
    return UNSAFE_IN_FILENAME.sub(lambda found: f"%{ord(found[0]):02X}", filename)


def _parse_json(payload: bytes) -> object:
    try:
        return json.loads(payload.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _float_of(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _name(error: BaseException) -> str:
    return type(error).__name__  # its words may hold the address, and with it the token


REQUIRED_METHODS = ("getMe", "getUpdates", "sendMessage")
RATE_LIMITED = ("sendMessage", "sendMessageDraft", "sendDocument", "editMessageText")
CLOSING_S = 5.0
REVOKED = (
    "Telegram does not know the bot's token (any more). Nothing is lost: what was written to it waits there for a day. Ask \
@BotFather for a token and put it into bot_token in [telegram]"
)


Arguments = Mapping[str, object]


class TelegramThrottled(RetryLater):
    """Telegram said how long it wants to be left alone."""


class PollConflict(RetryLater):
    """Another program polls with the same token, or a webhook is set."""


class ChatBlocked(Rejected):
    """We may not write to this chat."""


class MethodMissing(Rejected):
    """The server does not know this method."""


class TelegramApi:
    """One bot at one server. Polls have a connection of their own, so that sending never waits for them."""

    def __init__(self, root: str, token: str, messages_per_second: float = 0.0) -> None:
        self._polls, self._calls = AiohttpRequest(root), AiohttpRequest(root)
        self._files = f"{root}/file/bot{token}/"
        self._bot = Bot(
            token,
            f"{root}/bot",
            f"{root}/file/bot",
            request=self._calls,
            get_updates_request=self._polls,
        )
        self._between_s, self._free_at = (
            1 / messages_per_second if messages_per_second else 0.0,
            0.0,
        )

    async def call(
        self, method: str, arguments: Arguments | None = None, *, timeout_s: float = READ_S
    ) -> object:
        """The answer's `result`. Raises Refused (Lacking), Later (Conflict), Unclear, Revoked."""
        if self._between_s and method in RATE_LIMITED:
            await self._pace()
        try:
            # the underscore: of names that it knows the library warns, for it has methods of its own
            return await self._bot.do_api_request(
                f"{method}_", api_kwargs=dict(arguments or {}), read_timeout=timeout_s
            )
        except TelegramError as error:
            raise translate_error(error, method) from None

    async def file(self, path: str) -> AsyncGenerator[bytes]:
        """A file's content, piece by piece. Raises as `call`."""
        try:
            async with aclosing(self._calls.chunks(self._files + path.lstrip("/"))) as chunks:
                async for chunk in chunks:
                    yield chunk
        except TelegramError as error:
            raise translate_error(error, "this file") from None

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


def translate_error(error: TelegramError, method: str) -> ChannelError:
    """What can be done about a failure."""
    match error:
        case ErrorAnswer():
            return _translate_answer(error, method)
        case NotSent():
            return RetryLater(f"Telegram cannot be reached: {error.message}")
        case AnswerLost():
            return DeliveryUnknown(f"Telegram did not answer {method}: {error.message}")
        case _:
            return DeliveryUnknown(f"{method} went wrong: {type(error).__name__}")


def is_about_chat(refused: Rejected) -> bool:
    """It says something about the chat, and nothing about what the server can do."""
    return isinstance(refused, ChatBlocked) or "not found" in str(refused)


def _translate_answer(error: ErrorAnswer, method: str) -> ChannelError:
    if error.status == 401 or (error.status == 404 and method in REQUIRED_METHODS):
        return Revoked(REVOKED)
    if error.status == 404:
        return MethodMissing(f"the server does not know {method}")
    if error.status == 429:
        return TelegramThrottled(
            f"Telegram asks for patience: {error.message}", error.after_s or 1.0
        )
    if error.status == 409:
        return PollConflict(error.message, 1.0)
    if error.status >= 500:
        return RetryLater(f"Telegram is out of order: {error.message}")
    if error.status == 403:
        return ChatBlocked(f"Telegram refused {method}: {error.message}")
    if error.moved_to:
        return Rejected(
            f"the group has become a supergroup; its chat is {error.moved_to} now, write to that one"
        )
    return Rejected(f"Telegram refused {method}: {error.message}")
