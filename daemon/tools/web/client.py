"""HTTP requests to addresses that the guard checked: exactly these, one hop, bounded in size."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import field

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

CONNECT_S = 10.0
CHUNK_BYTES = 65_536
CONNECT_ERRORS = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
READ_METHODS = ("GET", "HEAD", "OPTIONS")
ENCODINGS = ("gzip", "deflate")
MAX_REDIRECTS = 5
REDIRECT_STATUSES = (301, 302, 303, 307, 308)


@value
class WebRequest:
    """`headers` and `body` may hold secrets: they are not shown."""

    target: Target
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)


@value
class WebResponse:
    """Header names are lower case; `truncated`: the body is longer than what was read."""

    target: Target
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    truncated: bool = False

    @property
    def media_type(self) -> str:
        """Without its parameters; empty if none is given."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class WebClient:
    """No proxy, no cookies, no redirects; each request has a connection of its own."""

    def __init__(self, config: NetConfig, *, guard: AddressGuard | None = None) -> None:
        self.guard = guard or AddressGuard(config.allow)
        self._config = config

    async def send(self, request: WebRequest) -> WebResponse:
        """The response, whatever its status. Raises ToolError, and ServiceUnavailable."""
        limit, target = self._config.timeout_s, request.target
        try:
            async with asyncio.timeout(limit):
                *others, last = await self.guard.resolve(target)
                for address in others:
                    with suppress(*CONNECT_ERRORS):
                        return await self._exchange(request, address)
                return await self._exchange(request, last)
        except aiohttp.ClientConnectorCertificateError as error:
            raise ToolError(f"Not sent: the certificate of {target.host} is not valid.") from error
        except aiohttp.ClientSSLError as error:
            raise ToolError(f"Not sent: {target.host_port} has no TLS that can be used.") from error
        except CONNECT_ERRORS as error:
            raise RetryableToolError(
                f"Not sent: {target.host_port} takes no connections."
            ) from error
        except TimeoutError as error:
            raise ServiceUnavailable(
                f"{target.host} took longer than {limit:g} s.{_maybe_sent(request)}"
            ) from error

    async def _exchange(self, request: WebRequest, address: Address) -> WebResponse:
        """One connection to this address, with the name's own Host header and TLS name."""
        target, url = request.target, request.target.url
        name = f"[{target.host}]" if ":" in target.host else target.host
        host = name if url.is_default_port() else f"{name}:{target.port}"
        try:
            async with (
                aiohttp.ClientSession(
                    connector=PinnedConnector(
                        resolver=NoResolver(), force_close=True, use_dns_cache=False
                    ),
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
                    cookie_jar=aiohttp.DummyCookieJar(),
                    headers={
                        "User-Agent": f"aidaemon/{VERSION}",
                        "Accept-Encoding": ", ".join(ENCODINGS),
                    },
                    trust_env=False,
                ) as session,
                session.request(
                    request.method,
                    url.with_host(str(address)),
                    data=request.body,
                    allow_redirects=False,
                    headers={"Host": host, **request.headers},
                    server_hostname=target.host if target.secure else None,
                ) as response,
            ):
                return await self._read(target, response)
        except (*CONNECT_ERRORS, TimeoutError):
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise RetryableToolError(
                f"{target.host} broke off, or answered in no proper HTTP.{_maybe_sent(request)}"
            ) from error

    async def _read(self, target: Target, response: aiohttp.ClientResponse) -> WebResponse:
        fields = reversed(list(response.headers.items()))
        headers = {name.lower(): text for name, text in fields}
        encoding = headers.get("content-encoding", "").strip().lower()
        if encoding not in ("", "identity", *ENCODINGS):
            raise ToolError("its answer is compressed in a way that was not asked for")
        body, limit = bytearray(), self._config.max_bytes
        async for chunk in response.content.iter_chunked(CHUNK_BYTES):
            body += chunk
            if len(body) > limit:
                response.close()
                break
        return WebResponse(
            target, response.status, headers, bytes(body[:limit]), truncated=len(body) > limit
        )


class NoResolver(AbstractResolver):
    """Names are resolved before; one that gets this far was not checked."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Always refuses."""
        raise AddressRefused("Not sent: the name was not checked.")

    async def close(self) -> None:
        """Nothing to release."""


class PinnedConnector(aiohttp.TCPConnector):
    """Checks the other end before anything is sent. Connects once: aiohttp would send again."""

    used = False

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's signature
    ) -> aiohttp.connector.Connection:
        """Raises AddressRefused."""
        if self.used:
            raise aiohttp.ClientConnectionError("the connection broke")
        self.used = True
        connection = await super().connect(req, traces, timeout)
        transport = connection.transport
        peer = transport.get_extra_info("peername") if transport else None
        if not peer or parse_address(str(peer[0])) != parse_address(req.url.host or ""):
            connection.close()
            raise AddressRefused(
                "Not sent: the connection leads to another address than the one that was checked."
            )
        return connection


CheckAddress = Callable[[str], Awaitable[None]]


async def check_first(client: WebClient, url: str, check: CheckAddress) -> Target:
    """The place of a URL that the gate has judged as it was written. A host that is written
    otherwise than it is looked up is judged once more. Raises AddressRefused, ToolError.
    """
    target = client.guard.check(url)
    if target.host not in url.lower():
        await check(str(target.url))
    return target


async def follow_redirects(
    client: WebClient, url: str, headers: Mapping[str, str], check: CheckAddress
) -> WebResponse:
    """GET; the guard and `check` look at every hop. Raises AddressRefused, ServiceUnavailable,
    ToolError.
    """
    target = await check_first(client, url, check)
    for _ in range(MAX_REDIRECTS + 1):
        response = await client.send(WebRequest(target, headers=headers))
        if response.status >= 500 or response.status == 429:
            raise ServiceUnavailable(
                f"{target.host} is in trouble: HTTP {response.status}."
                " Nothing was changed; try again later."
            )
        location = response.headers.get("location")
        if response.status not in REDIRECT_STATUSES or not location:
            return response
        if "\\" not in location:  # else the guard refuses it
            with suppress(ValueError):
                location = str(target.url.join(URL(location, encoded=True)))
        target = client.guard.check(location, target)
        await check(str(target.url))
    raise ToolError(f"It was moved more than {MAX_REDIRECTS} times, and not followed any further.")


def _maybe_sent(request: WebRequest) -> str:
    """A request that changes something and gets no answer may still have been carried out."""
    if request.method in READ_METHODS:
        return ""
    return " The request may have arrived: look before you send it again."
