"""Packed bodies unpacked piece by piece, never further than there is room: a small packet may hold gigabytes.

Requests to places that the guard lets through: connected to the very addresses it checked, one hop, bounded in every way.

Pages that have moved: every hop goes through the guard, and there are not many.
"""

import asyncio
import socket
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_reqrep import ClientRequest
from aiohttp.tracing import Trace
from yarl import URL

from daemon import VERSION
from daemon.core import value
from daemon.tools.base import RetryableToolError, ServiceUnavailable, ToolError
from daemon.tools.web.config import NetConfig
from daemon.tools.web.guard import Address, AddressGuard, AddressRefused, Target, parse_address

GZIP_BITS, RAW_BITS = 16 + zlib.MAX_WBITS, -zlib.MAX_WBITS
ACCEPT_ENCODING = "gzip, deflate"


@dataclass(slots=True)
class BodyDecoder:
    """A body as it comes in. `cut`: there was more than `limit` bytes of it."""

    encoding: str
    limit: int
    truncated: bool = False
    _decoded: bytearray = field(default_factory=bytearray)
    _decoder: "zlib._Decompress | None" = None
    _first: bytes = b""

    def __post_init__(self) -> None:
        self.encoding = self.encoding.strip().lower()
        if self.encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ToolError("its answer is packed in a way that was not asked for")
        if self.encoding.endswith("gzip"):
            self._decoder = zlib.decompressobj(GZIP_BITS)

    def feed(self, data: bytes) -> None:
        """More of it. Raises ToolError for what cannot be unpacked."""
        room = self.limit - len(self._decoded)
        plain = self._decode(data, room + 1)
        self.truncated = len(plain) > room
        self._decoded += plain[:room]

    def content(self) -> bytes:
        """What has come so far."""
        return bytes(self._decoded)

    def _decode(self, data: bytes, most: int) -> bytes:
        if self.encoding in ("", "identity"):
            return data
        if self._decoder is None:
            self._first = data = self._first + data
            if len(data) < 2:
                return b""
            self._decoder = zlib.decompressobj(
                zlib.MAX_WBITS if _has_zlib_header(data) else RAW_BITS
            )
        try:
            return self._decoder.decompress(data, most)
        except zlib.error as error:
            raise ToolError("its answer is damaged: it cannot be unpacked") from error


def _has_zlib_header(data: bytes) -> bool:
    """Deflate is sent with and without the header it should have."""
    return data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0


CONNECT_S = 10.0
CHUNK_BYTES = 65_536
CONNECT_ERRORS = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
READ_METHODS = ("GET", "HEAD", "OPTIONS")


@value
class WebRequest:
    """One request. `headers` may hold secrets: they are not shown."""

    target: Target
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)


@value
class WebResponse:
    """What came back. Names of headers are lower case; `cut`: the body was longer than what is read."""

    target: Target
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    truncated: bool = False

    @property
    def media_type(self) -> str:
        """The media type, without its parameters; empty if none is told."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class WebClient:
    """Asks. No proxy, no cookies, no redirects followed; every request has a connection of its own, and nothing is left open."""

    def __init__(self, config: NetConfig, *, guard: AddressGuard | None = None) -> None:
        self.guard = guard or AddressGuard(config.allow)
        self._config = config

    async def send(self, ask: WebRequest) -> WebResponse:
        """The answer, whatever its status. Raises Refused, Unavailable, or ToolError that says whether anything was sent."""
        limit = self._config.timeout_s
        scope = asyncio.timeout(limit)
        try:
            async with scope:
                return await self._try_addresses(ask, await self.guard.resolve(ask.target))
        except TimeoutError as error:
            raise ServiceUnavailable(
                f"{ask.target.host} took longer than {limit:g} s.{_maybe_sent(ask)}"
            ) from error

    async def _try_addresses(self, ask: WebRequest, addresses: tuple[Address, ...]) -> WebResponse:
        for address in addresses[:-1]:
            try:
                return await self._exchange(ask, address)
            except CONNECT_ERRORS:
                continue
        try:
            return await self._exchange(ask, addresses[-1])
        except aiohttp.ClientConnectorCertificateError as error:
            raise ToolError(
                f"Not sent: the certificate of {ask.target.host} is not valid."
            ) from error
        except aiohttp.ClientSSLError as error:
            raise ToolError(
                f"Not sent: {ask.target.host_port} has no TLS that can be used."
            ) from error
        except CONNECT_ERRORS as error:
            raise RetryableToolError(
                f"Not sent: {ask.target.host_port} takes no connections."
            ) from error

    async def _exchange(self, ask: WebRequest, address: Address) -> WebResponse:
        """One connection to this address, with the name's own Host and TLS name."""
        target = ask.target
        try:
            async with (
                _open_session() as session,
                session.request(
                    ask.method, target.url.with_host(str(address)), data=ask.body, allow_redirects=False,
                    headers={"Host": _host_header(target), "Accept-Encoding": ACCEPT_ENCODING, **ask.headers},
                    server_hostname=target.host if target.secure else None,
                ) as response,
            ):  # fmt: skip
                return await self._read(ask, response)
        except (*CONNECT_ERRORS, TimeoutError):
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise RetryableToolError(
                f"{target.host} broke off, or answered in no proper HTTP.{_maybe_sent(ask)}"
            ) from error

    async def _read(self, ask: WebRequest, response: aiohttp.ClientResponse) -> WebResponse:
        headers = {name.lower(): value for name, value in reversed(list(response.headers.items()))}
        body = BodyDecoder(headers.get("content-encoding", ""), self._config.max_bytes)
        async for piece in response.content.iter_chunked(CHUNK_BYTES):
            body.feed(piece)
            if body.truncated:
                response.close()
                break
        return WebResponse(ask.target, response.status, headers, body.content(), body.truncated)


class NoResolver(AbstractResolver):
    """Names were looked up before; one that comes this far was not checked."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Always refuses."""
        raise AddressRefused("Not sent: the name was not checked.")

    async def close(self) -> None:
        """Nothing to let go of."""


class PinnedConnector(aiohttp.TCPConnector):
    """Before anything is sent: the other end is the address that was asked for. It connects once: aiohttp would send again."""

    used = False

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - as aiohttp names it
    ) -> aiohttp.connector.Connection:
        """A connection whose other end was looked at. Raises Refused."""
        if self.used:
            raise aiohttp.ClientConnectionError("the connection broke")
        self.used = True
        connection = await super().connect(req, traces, timeout)
        peer = connection.transport.get_extra_info("peername") if connection.transport else None
        if not peer or parse_address(str(peer[0])) != parse_address(req.url.host or ""):
            connection.close()
            raise AddressRefused(
                "Not sent: the connection leads to another address than the one that was checked."
            )
        return connection


def _open_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=PinnedConnector(resolver=NoResolver(), force_close=True, use_dns_cache=False),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": f"aidaemon/{VERSION}"},
        trust_env=False,
        auto_decompress=False,
    )


def _host_header(target: Target) -> str:
    name = f"[{target.host}]" if ":" in target.host else target.host
    return name if target.url.is_default_port() else f"{name}:{target.port}"


def _maybe_sent(ask: WebRequest) -> str:
    """What is not known when a request that changes something gets no answer."""
    return (
        ""
        if ask.method in READ_METHODS
        else " The request may have arrived: look before you send it again."
    )


MAX_REDIRECTS = 5
REDIRECT_STATUSES = (301, 302, 303, 307, 308)


async def follow_redirects(client: WebClient, url: str, headers: Mapping[str, str]) -> WebResponse:
    """What a GET finds in the end. Raises Refused for a place that may not be asked, Unavailable for a server in trouble."""
    target = client.guard.check(url)
    for _ in range(MAX_REDIRECTS + 1):
        answer = await client.send(WebRequest(target, headers=headers))
        if answer.status >= 500 or answer.status == 429:
            raise ServiceUnavailable(
                f"{target.host} is in trouble: HTTP {answer.status}. Nothing was changed; try again later."
            )
        if answer.status not in REDIRECT_STATUSES or not answer.headers.get("location"):
            return answer
        target = client.guard.check_redirect(
            target, _resolve_location(target, answer.headers["location"])
        )
    raise ToolError(f"It was moved more than {MAX_REDIRECTS} times, and not followed any further.")


def _resolve_location(here: Target, location: str) -> str:
    """Where it leads, whole. What is no URL is left as it is, for the guard to refuse."""
    try:
        return str(here.url.join(URL(location, encoded=True))) if "\\" not in location else location
    except ValueError:
        return location
