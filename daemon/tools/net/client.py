"""Requests to places that the guard lets through: connected to the very addresses it checked, one hop, bounded in every way."""

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_reqrep import ClientRequest
from aiohttp.tracing import Trace

from daemon import VERSION
from daemon.tools.base import RetryableToolError, ToolError, Unavailable
from daemon.tools.net.addresses import Address, parse_address
from daemon.tools.net.config import NetConfig
from daemon.tools.net.errors import Refused
from daemon.tools.net.guard import Guard
from daemon.tools.net.unpack import ACCEPTED, Body
from daemon.tools.net.urls import Target

CONNECT_S = 10.0
PIECE = 65_536
UNCONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
READS = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. `headers` may hold secrets: they are not shown."""

    target: Target
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back. Names of headers are lower case; `cut`: the body was longer than what is read."""

    target: Target
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    cut: bool = False

    @property
    def kind(self) -> str:
        """The media type, without its parameters; empty if none is told."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class WebClient:
    """Asks. No proxy, no cookies, no redirects followed; every request has a connection of its own, and nothing is left open."""

    def __init__(self, config: NetConfig, *, guard: Guard | None = None) -> None:
        self.guard = guard or Guard(config.allow)
        self._config = config

    async def send(self, ask: Ask) -> Answered:
        """The answer, whatever its status. Raises Refused, Unavailable, or ToolError that says whether anything was sent."""
        limit = self._config.timeout_s
        scope = asyncio.timeout(limit)
        try:
            async with scope:
                return await self._first_that_connects(ask, await self.guard.admit(ask.target))
        except TimeoutError as error:
            raise Unavailable(f"{ask.target.host} took longer than {limit:g} s.{_doubt(ask)}") from error

    async def _first_that_connects(self, ask: Ask, addresses: tuple[Address, ...]) -> Answered:
        for address in addresses[:-1]:
            try:
                return await self._exchange(ask, address)
            except UNCONNECTED:
                continue
        try:
            return await self._exchange(ask, addresses[-1])
        except aiohttp.ClientConnectorCertificateError as error:
            raise ToolError(f"Not sent: the certificate of {ask.target.host} is not valid.") from error
        except aiohttp.ClientSSLError as error:
            raise ToolError(f"Not sent: {ask.target.place} has no TLS that can be used.") from error
        except UNCONNECTED as error:
            raise RetryableToolError(f"Not sent: {ask.target.place} takes no connections.") from error

    async def _exchange(self, ask: Ask, address: Address) -> Answered:
        """One connection to this address, with the name's own Host and TLS name."""
        target = ask.target
        try:
            async with (
                _session() as session,
                session.request(
                    ask.method, target.url.with_host(str(address)), data=ask.body, allow_redirects=False,
                    headers={"Host": _host_header(target), "Accept-Encoding": ACCEPTED, **ask.headers},
                    server_hostname=target.host if target.secure else None,
                ) as response,
            ):  # fmt: skip
                return await self._read(ask, response)
        except (*UNCONNECTED, TimeoutError):
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise RetryableToolError(f"{target.host} broke off, or answered in no proper HTTP.{_doubt(ask)}") from error

    async def _read(self, ask: Ask, response: aiohttp.ClientResponse) -> Answered:
        headers = {name.lower(): value for name, value in reversed(list(response.headers.items()))}
        body = Body(headers.get("content-encoding", ""), self._config.max_bytes)
        async for piece in response.content.iter_chunked(PIECE):
            body.feed(piece)
            if body.cut:
                response.close()
                break
        return Answered(ask.target, response.status, headers, body.plain(), body.cut)


class NoNames(AbstractResolver):
    """Names were looked up before; one that comes this far was not checked."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Always refuses."""
        raise Refused("Not sent: the name was not checked.")

    async def close(self) -> None:
        """Nothing to let go of."""


class Pinned(aiohttp.TCPConnector):
    """Before anything is sent: the other end is the address that was asked for. It connects once: aiohttp would send again."""

    used = False

    async def connect(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout  # noqa: ASYNC109 - as aiohttp names it
    ) -> aiohttp.connector.Connection:
        """A connection whose other end was looked at. Raises Refused."""
        if self.used:
            raise aiohttp.ClientConnectionError("the connection broke")
        self.used = True
        connection = await super().connect(req, traces, timeout)
        peer = connection.transport.get_extra_info("peername") if connection.transport else None
        if not peer or parse_address(str(peer[0])) != parse_address(req.url.host or ""):
            connection.close()
            raise Refused("Not sent: the connection leads to another address than the one that was checked.")
        return connection


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=Pinned(resolver=NoNames(), force_close=True, use_dns_cache=False),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": f"aidaemon/{VERSION}"},
        trust_env=False,
        auto_decompress=False,
    )


def _host_header(target: Target) -> str:
    name = f"[{target.host}]" if ":" in target.host else target.host
    return name if target.url.is_default_port() else f"{name}:{target.port}"


def _doubt(ask: Ask) -> str:
    """What is not known when a request that changes something gets no answer."""
    return "" if ask.method in READS else " The request may have arrived: look before you send it again."
