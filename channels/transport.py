"""What the channels' connections share: HTTP calls, file transfers, pauses between tries."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from channels.base import ChannelError, DeliveryUnknown, Host, Rejected, RetryLater, Unsupported
from channels.json_access import parse_json
from channels.message import Attachment

LOOPBACK = ("localhost", "127.0.0.1", "::1")
CONNECT_S, CLOSE_S = 10.0, 5.0
DOWNLOAD_S = 120.0
CHUNK = 64 << 10
MAX_REDIRECTS = 3
ESCAPES = {code: f"%{code:02X}" for code in (*range(32), 127, *b'%"\\')}
NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
log = logging.getLogger(__name__)


def proxy_for(address: str) -> str | None:
    """The proxy that the environment sets for this server; None for a server on this machine."""
    url = urlsplit(address)
    host = url.hostname or ""
    return None if host in LOOPBACK or proxy_bypass(host) else getproxies().get(url.scheme)


def lost_answer(text: str, *, sends: bool) -> ChannelError:
    """What to raise when a call may have had its effect: a call that only reads is repeated."""
    return DeliveryUnknown(text) if sends else RetryLater(text)


@dataclass
class Backoff:
    """Pauses between tries, each twice as long as the one before: `pause_s`, 0.0 at first."""

    first_s: float
    longest_s: float
    pause_s: float = 0.0

    def next(self, error: object = None) -> float:
        """The next pause; at least as long as the error asks for."""
        self.pause_s = min(self.pause_s * 2 or self.first_s, self.longest_s)
        return max(self.pause_s, getattr(error, "after_s", 0.0))

    async def wait(self, error: object = None) -> None:
        """Wait for the next pause."""
        await asyncio.sleep(self.next(error))

    async def retry(
        self,
        call: Callable[[], Awaitable[T]],
        errors: type[Exception] | tuple[type[Exception], ...],
        report: Callable[[str], object],
    ) -> T:
        """Call until none of these errors is raised, and report each."""
        while True:
            try:
                return await call()
            except errors as error:
                report(str(error))
                await self.wait(error)

    async def reconnect(
        self, connect: Callable[[], Awaitable[None]], host: Host, calm_s: float
    ) -> None:
        """One connection after another, until cancelled; one that lasts `calm_s` ends a row of
        failures. `connect` returns, or raises RetryLater, when its connection has ended.
        """
        while True:
            began, after_s = time.monotonic(), 0.0
            try:
                await connect()
            except RetryLater as error:
                host.report_trouble(str(error))
                after_s = error.after_s
            lasted_s = time.monotonic() - began
            if lasted_s >= calm_s:
                self.pause_s = 0.0
            await asyncio.sleep(max(self.next() - lasted_s, after_s))


def parse_seconds(value: object, default: float) -> float:
    """A time that a platform asks us to wait."""
    try:
        return max(0.0, float(str(value)))
    except ValueError:
        return default


class RecentDict(dict[K, V]):
    """The latest entries, so many at most."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)
        super().__setitem__(key, value)
        if len(self) > self._limit:
            del self[next(iter(self))]


@dataclass
class OptionalCalls:
    """Calls that the channel can do without; what the platform does not support is asked once."""

    channel: str
    unsupported: set[str] = field(default_factory=set)

    async def attempt(
        self, feature: str, call: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any
    ) -> T | None:
        """The answer; None where the platform rejects the call. Raises RetryLater, Revoked."""
        try:
            return None if feature in self.unsupported else await call(*args, **kwargs)
        except Unsupported as error:
            self.disable(feature, error)
        except Rejected as error:
            log.debug("%s: %s: %s", self.channel, feature, error)
        return None

    def disable(self, feature: str, why: object) -> None:
        """Do not try it again."""
        if feature not in self.unsupported:
            self.unsupported.add(feature)
            log.warning("%s: continues without %s: %s", self.channel, feature, why)


class HttpAnswer(NamedTuple):
    """An HTTP answer. `value`: the JSON in `body`, or None."""

    status: int
    headers: Mapping[str, str]
    value: object
    body: bytes = b""


class PlatformClient:
    """Connections to one platform. Errors name no address: it may hold a token. `hosts`: the ends
    of the names of its file servers, such as ".example.com".
    """

    def __init__(self, platform: str, base_url: str, hosts: tuple[str, ...] = ()) -> None:
        self.platform, self.proxy = platform, proxy_for(base_url)
        self._home, self._hosts = URL(base_url), hosts
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """Opened when first used."""
        if self._session is None or self._session.closed:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
            self._session = aiohttp.ClientSession(
                timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session

    def is_own(self, address: URL | str) -> bool:
        """The server that we talk to, or a file server of the platform over https."""
        try:
            url = URL(address)
            is_home = url.origin() == self._home.origin()
        except ValueError:
            return False
        is_public = url.scheme == "https" and url.port == 443
        return is_home or (is_public and f".{url.host}".endswith(self._hosts))

    async def request(
        self,
        method: str,
        url: str | URL,
        *,
        what: str,
        timeout_s: float,
        sends: bool,
        **options: Any,
    ) -> HttpAnswer:
        """One try. Raises RetryLater; DeliveryUnknown where it `sends` and the answer is lost."""
        options.setdefault("proxy", self.proxy)
        with self.translate_errors(what, sends=sends):
            async with (
                asyncio.timeout(timeout_s),
                self.session.request(method, url, allow_redirects=False, **options) as answer,
            ):
                body = await answer.read()
                return HttpAnswer(answer.status, answer.headers, parse_json(body), body)

    @asynccontextmanager
    async def open_socket(
        self,
        url: str | URL,
        within_s: float,
        close_s: float,
        *,
        heartbeat: float | None = None,
        code: int = 1000,
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A WebSocket; lost without an answer to a `heartbeat`, of which the caller is given each
        PING and PONG; closed with `code`, with 1000 when cancelled. Raises RetryLater when lost.
        """
        ending = aiohttp.ClientWSTimeout(ws_close=close_s)
        with self.translate_errors("when events were asked for", sends=False):
            async with asyncio.timeout(within_s):
                socket = await self.session.ws_connect(
                    url,
                    proxy=self.proxy,
                    max_msg_size=0,
                    heartbeat=heartbeat,
                    autoping=not heartbeat,
                    timeout=ending,
                )
            try:
                yield socket
            except asyncio.CancelledError:
                code = 1000
                raise
            finally:
                await socket.close(code=code)

    async def download(
        self,
        url: str,
        attachment: Attachment,
        into: BinaryIO,
        limit: int,
        *,
        headers: Mapping[str, str] | None = None,
        login_page: str = "",
    ) -> None:
        """Copy a file, from allowed addresses only. `login_page`: what to say when the platform
        answers with a page instead of the file. Raises Rejected, RetryLater.
        """
        name = attachment.name
        if attachment.size > limit:
            raise too_large(name, limit)
        try:
            address = URL(url)
            with self.translate_errors(name, sends=False):
                async with asyncio.timeout(DOWNLOAD_S):
                    for _ in range(MAX_REDIRECTS):
                        if not self.is_own(address):
                            raise Rejected(
                                f"{name} is not at {self.platform}; it is not downloaded"
                            )
                        proxy = proxy_for(str(address))
                        async with self.session.get(
                            address, headers=headers, proxy=proxy, allow_redirects=False
                        ) as answer:
                            if answer.status not in (301, 302, 303, 307, 308):
                                if (
                                    login_page
                                    and answer.content_type == "text/html" != attachment.mime
                                ):
                                    raise Rejected(f"{self.platform}: {name}: {login_page}")
                                return await self._copy(answer, name, into, limit)
                            address = address.join(URL(answer.headers.get("Location", "")))
        except ValueError:
            raise Rejected(f"{self.platform}: {name}: the address cannot be read") from None
        raise Rejected(f"{self.platform}: {name} is redirected too often; it is not downloaded")

    async def _copy(
        self, answer: aiohttp.ClientResponse, name: str, into: BinaryIO, limit: int
    ) -> None:
        check_status(answer.status, f"{self.platform}: {name}")
        size = 0
        async for chunk in answer.content.iter_chunked(CHUNK):
            size += len(chunk)
            if size > limit:
                raise too_large(name, limit)
            try:
                into.write(chunk)
            except OSError as error:  # no fault of the platform's
                raise Rejected(f"it cannot be kept: {error.strerror or error}") from error

    async def aclose(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await session.close()

    @contextmanager
    def translate_errors(self, what: str, *, sends: bool) -> Iterator[None]:
        """Network errors by whether the call may have had its effect."""
        try:
            yield
        except NOT_CONNECTED as error:
            raise RetryLater(
                f"{self.platform} cannot be reached ({type(error).__name__})"
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            why = "it took too long" if isinstance(error, TimeoutError) else type(error).__name__
            raise lost_answer(
                f"{self.platform} did not answer {what} ({why})", sends=sends
            ) from None


def make_form(
    fields: Mapping[str, str], files: Mapping[str, tuple[str, Any, str | None]]
) -> aiohttp.FormData:
    """A form; each file is (name, content, media type)."""
    form = aiohttp.FormData(fields, quote_fields=False)
    for key, (name, content, mime) in files.items():
        # only what has to be is escaped: simple servers do not read %20 as a space
        form.add_field(key, content, filename=name.translate(ESCAPES), content_type=mime)
    return form


def check_status(status: int, what: str) -> None:
    """Raises RetryLater, Rejected."""
    if status >= 500 or status == 429:
        raise RetryLater(f"{what}: HTTP {status}", 1.0)
    if status >= 300:
        raise Rejected(f"{what}: HTTP {status}; it is gone, or not for the bot")


def too_large(name: str, limit: int) -> Rejected:
    """The error for a file that is not downloaded."""
    return Rejected(f"{name} is bigger than {limit >> 20} MB; it is not downloaded")


async def check_size(file: Path, name: str, limit: int, platform: str) -> int:
    """Its size in bytes; people call it `name`. Raises Rejected where the platform does not take
    it.
    """
    try:
        size = (await asyncio.to_thread(file.stat)).st_size
    except OSError as error:
        raise Rejected(f"{name} cannot be read ({error.strerror}); it was not sent") from error
    if size > limit:
        raise Rejected(
            f"{name} has {size / (1 << 20):.1f} MB; {platform} takes {limit >> 20} MB from a bot"
        )
    return size
