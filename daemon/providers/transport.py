"""Connections to one model service: kept alive, as many as are needed, cut as soon as a call is cancelled."""

import asyncio
import io
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from daemon.core.clock import Clock
from daemon.core.errors import ErrorClass
from daemon.providers.errors import Fault, refused
from daemon.providers.reading import at_most

LARGE = 1_000_000


class Transport:
    """Posts JSON. `timeout_s` is the longest silence, of whichever kind; a long answer that keeps coming may take any time."""

    def __init__(self, *, url: URL, headers: Mapping[str, str], timeout_s: float, clock: Clock) -> None:
        self._url = url
        self._headers = {"Content-Type": "application/json", **headers}
        self._timeout_s = timeout_s
        self._clock = clock
        self._proxy = _proxy(url)
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def post(self, body: bytes, url: URL | None = None) -> AsyncGenerator[aiohttp.ClientResponse]:
        """The response to be read, if its status is a success. Raises Fault, for troubles of reading too.

        `url` is another address of the same server.
        """
        try:
            # Connecting and waiting are two silences; this one also ends an upload that nobody reads.
            async with asyncio.timeout(2 * self._timeout_s):
                to = url or self._url
                response = await self._open().post(to, data=_payload(body), proxy=self._proxy, allow_redirects=False)
            async with response:
                if response.status >= 300:
                    raise await self._refused(response)
                yield response
        except TimeoutError as error:
            raise Fault(ErrorClass.TIMEOUT, f"it was silent for {self._timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError, UnicodeError) as error:  # a name that is none is told as a UnicodeError
            raise Fault(ErrorClass.NETWORK, _trouble(error)) from error

    async def _refused(self, response: aiohttp.ClientResponse) -> Fault:
        if response.status < 400:
            return Fault(ErrorClass.BAD_REQUEST, f"it redirects to {response.headers.get('Location')}", status=response.status)
        try:
            async with asyncio.timeout(self._timeout_s):
                words = await at_most(response, LARGE)
        except TimeoutError:
            words = b""  # the status says enough
        return refused(response.status, response.headers, words, self._clock.now())

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, connect=self._timeout_s, sock_read=self._timeout_s),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
            )
        return self._session

    async def aclose(self) -> None:
        """Let go of the connections."""
        if self._session:
            await self._session.close()


def _proxy(url: URL) -> str | None:
    """What HTTP(S)_PROXY and NO_PROXY say, looked up once: aiohttp would read them, and ~/.netrc, at every call."""
    return None if proxy_bypass(url.host or "") else getproxies().get(url.scheme)


def _payload(body: bytes) -> bytes | io.BytesIO:
    return body if len(body) < LARGE else io.BytesIO(body)  # large bytes would be written in one go


def _trouble(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "its name cannot be resolved"
        case aiohttp.ServerDisconnectedError():
            return "it closed the connection without an answer"
        case aiohttp.ClientPayloadError():
            return "the answer was cut off"
        case aiohttp.ClientOSError():
            return str(getattr(error, "certificate_error", "")) or error.strerror or str(error)
        case _:
            return str(error) or type(error).__name__
