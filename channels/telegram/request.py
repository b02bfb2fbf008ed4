"""The library's requests over aiohttp: a third of httpx's work, and failures that tell whether anything was sent."""

import json
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp

from channels.proxy import proxy_for
from channels.telegram.lib import BaseRequest, RequestData, TelegramError

CONNECT_S, READ_S, FILE_S = 10.0, 30.0, 600.0
CHUNK = 64 << 10
MOST_AT_ONCE = 100
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
AMISS = re.compile(r'[%"\\\x00-\x1f\x7f]')
BEFORE = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientProxyConnectionError)


class Answered(TelegramError):
    """Telegram said no. `status` is HTTP's; `after_s`: when to try again; `moved_to`: the chat's new id."""

    def __init__(self, status: int, description: str, after_s: float = 0.0, moved_to: int = 0) -> None:
        super().__init__(description)
        self.status, self.after_s, self.moved_to = status, after_s, moved_to


class NotSent(TelegramError):
    """There was no connection: nothing was sent."""


class Lost(TelegramError):
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
        with _meaning():
            async with self._request(method, url, read_s, 2 * CONNECT_S + read_s, data=body, headers=headers) as response:
                status, payload = response.status, await response.read()
        if status >= 400:
            raise answered(status, payload)
        return status, payload

    async def chunks(self, url: str) -> AsyncGenerator[bytes]:
        """A file, piece by piece. Raises as `do_request`."""
        with _meaning():
            async with self._request("GET", url, READ_S, FILE_S) as response:
                if response.status != 200:
                    raise answered(response.status, await response.read())
                async for chunk in response.content.iter_chunked(CHUNK):
                    yield chunk

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """The answer's outer object. Raises Lost where it is none: a page of some gateway, or half of it."""
        parsed = _json(payload)
        if not isinstance(parsed, dict) or "result" not in parsed:
            raise Lost("the answer cannot be read")
        return parsed

    def _request(self, method: str, url: str, read_s: float, total_s: float, **more: Any) -> Any:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=MOST_AT_ONCE), cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=True
            )
        timeout = aiohttp.ClientTimeout(total=total_s, connect=CONNECT_S, sock_connect=CONNECT_S, sock_read=read_s)
        return self._session.request(method, url, proxy=self._proxy, timeout=timeout, allow_redirects=False, **more)


@contextmanager
def _meaning() -> Iterator[None]:
    """What breaks off within, by whether anything was sent. Raises NotSent, Lost."""
    try:
        yield
    except BEFORE as error:
        raise NotSent(f"no connection ({_name(error)})") from None
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Lost(f"the connection broke off ({_name(error)})") from None


def answered(status: int, payload: bytes) -> Answered:
    """What Telegram says, or the gateway before it."""
    parsed = _json(payload)
    said = parsed if isinstance(parsed, dict) else {}
    more = said.get("parameters")
    numbers = more if isinstance(more, dict) else {}
    description = str(said.get("description") or f"status {status}")
    return Answered(
        status, description[:300], _number(numbers.get("retry_after")), int(_number(numbers.get("migrate_to_chat_id")))
    )


def _body(data: RequestData | None) -> tuple[bytes | aiohttp.FormData | None, dict[str, str]]:
    if data is None:
        return None, {}
    if not data.contains_files:
        return data.url_encoded_parameters().encode(), FORM
    form = aiohttp.FormData(data.json_parameters, quote_fields=False)
    for name, (filename, content, mime) in data.multipart_data.items():
        form.add_field(name, content, filename=_quoted(filename), content_type=mime)
    return form, {}


def _quoted(filename: str) -> str:
    """Telegram reads %20 as a space, simpler servers as those three letters: only what has to be is written so."""
    return AMISS.sub(lambda found: f"%{ord(found[0]):02X}", filename)


def _json(payload: bytes) -> object:
    try:
        return json.loads(payload.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _name(error: BaseException) -> str:
    return type(error).__name__  # its words may hold the address, and with it the token
