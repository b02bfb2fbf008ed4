"""The network of a command in the sandbox, by domain: all that it can reach is a proxy of ours.

Its own network is empty but for one socket: a few lines of ours listen there before the command
runs, and hand that socket out to the daemon. There is no file, no relay, and nothing that a crash
leaves behind. The proxy takes CONNECT and plain HTTP to approved domains; TLS is passed through.
"""

import asyncio
import re
import socket
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from fcntl import F_DUPFD_CLOEXEC, fcntl
from http import HTTPStatus
from io import FileIO
from pathlib import Path

from daemon.core import value
from daemon.tools.base import ToolError
from daemon.tools.web.guard import AddressGuard, AddressRefused, Target, parse_url

# Without the environment that the daemon is installed in.
PYTHON = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
PORT = 3128
WEB_PORTS = (80, 443)
TLS_PORT = 443
LOCAL = ("localhost", "127.0.0.1", "::1")
VARIABLES = ("http_proxy", "https_proxy", "all_proxy")
HAND_OUT = """
import os, socket, sys
fd, port, *words = sys.argv[1:]
with socket.socket(fileno=int(fd)) as out, socket.create_server(("127.0.0.1", int(port))) as mine:
    socket.send_fds(out, [b"\\n"], [mine.fileno()])
os.execv(words[0], words)
"""
LEAST_FD = 100  # shells use the lower ones
MAX_DOMAINS, MAX_REFUSED = 20, 20
MAX_CONNECTIONS, MAX_HEAD, CHUNK_BYTES = 32, 16_384, 65_536
OPEN_S, CONNECT_S, IDLE_S, FLUSH_S, PAUSE_S = 30.0, 10.0, 300.0, 5.0, 1.0
DOMAIN = re.compile(r"(\*\.)?((?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?)", re.IGNORECASE)
REQUEST = re.compile(rb"([A-Z]{1,20}) ([!-~]+) HTTP/(1\.[01])")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[^\r\n\0]*")
# Between two ends of one connection, and the name, which we write.
DROPPED_FIELDS = frozenset(
    (b"host", b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"te",
     b"trailer", b"upgrade")
)  # fmt: skip
HEAD_END = b"\r\n\r\n"
OPENED = b"HTTP/1.1 200 Connection established\r\n\r\n"
HANDSHAKE, CLIENT_HELLO, SERVER_NAME = b"\x16", 1, 0
NOT_APPROVED = "not among the approved domains"
NEEDS_BUBBLEWRAP = (
    "domains need bubblewrap, which does not work on this machine (see aidaemon doctor): nothing"
    " else here keeps a program from other places. Nothing was run"
)

CheckAddress = Callable[[str], Awaitable[None]]


@value
class Domain:
    """Approved: this host, or with "*." in front all below it, at these ports."""

    host: str
    ports: tuple[int, ...]

    def covers(self, target: Target) -> bool:
        """The place is of this domain."""
        below = self.host.startswith("*.") and target.host.endswith(self.host[1:])
        return (below or target.host == self.host) and target.port in self.ports


def parse_domain(text: str) -> Domain:
    """`example.com`, `*.example.com`, or with another port `example.com:8443`. Raises ToolError."""
    found = DOMAIN.fullmatch(text)
    try:
        target = parse_url(f"http://{found[2]}") if found else None
    except AddressRefused:
        target = None
    if not found or not target or (found[1] and (target.address or "." not in target.host)):
        raise ToolError(
            f"{text!r} is no domain: expected a host such as example.com, *.example.com for all"
            " below it, or example.com:8443 for a port other than 80 and 443"
        )
    explicit = target.url.explicit_port
    return Domain(f"{found[1] or ''}{target.host}", (explicit,) if explicit else WEB_PORTS)


def parse_domains(texts: Iterable[str]) -> tuple[Domain, ...]:
    """Raises ToolError."""
    found = tuple(map(parse_domain, texts))
    if len(found) > MAX_DOMAINS:
        raise ToolError(f"at most {MAX_DOMAINS} domains can be approved at a time")
    return found


async def allow_any(_: str) -> None:
    """No rule but the domains."""


@dataclass(slots=True)
class NetworkProxy:
    """What a command reaches of the network: nothing where `fds`, which it is to inherit, is empty.
    `check` raises ToolError for an address; `heard` is told once of each place that is refused.
    """

    domains: tuple[Domain, ...]
    guard: AddressGuard
    check: CheckAddress = allow_any
    heard: Callable[[str], object] = str
    fds: tuple[int, ...] = ()
    _refused: dict[str, str] = field(default_factory=dict)
    _checked: set[str] = field(default_factory=set)
    _looking_up: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def words(self) -> list[str]:
        """What runs in the sandbox before the command."""
        if not self.fds:
            return []
        python = str(PYTHON if PYTHON.exists() else sys.executable)
        return [python, "-I", "-S", "-c", HAND_OUT, str(self.fds[0]), str(PORT)]

    @property
    def places(self) -> list[Path]:
        """What these words read."""
        return [Path(sys.base_prefix)] if self.fds else []

    @property
    def env(self) -> Mapping[str, str]:
        """Tells programs of the proxy."""
        if not self.fds:
            return {}
        own = ",".join(name for name in LOCAL if all(name != one.host for one in self.domains))
        found = {**dict.fromkeys(VARIABLES, f"http://127.0.0.1:{PORT}"), "no_proxy": own}
        upper = {name.upper(): text for name, text in found.items()}
        return {**found, **upper, "NODE_USE_ENV_PROXY": "1"}

    def report(self) -> str:
        """A line for each place that was refused."""
        return "\n".join(f"refused: {place} ({why})" for place, why in self._refused.items())

    async def serve(self, channel: socket.socket) -> None:
        """Take the socket out of the sandbox, and all connections to it."""
        readable, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(channel, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(channel)
        _, fds, *_ = socket.recv_fds(channel, 1, 1)
        if not fds:
            return
        with socket.socket(fileno=fds[0]) as listening:
            listening.setblocking(False)
            async with asyncio.TaskGroup() as group:
                turn = asyncio.Lock()
                for _ in range(MAX_CONNECTIONS):
                    group.create_task(self._work(listening, turn))

    async def _work(self, listening: socket.socket, turn: asyncio.Lock) -> None:
        """One connection after the other; those beyond our number wait in the sandbox."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with turn:
                    client, _ = await loop.sock_accept(listening)
                reader, writer = await asyncio.open_connection(sock=client, limit=MAX_HEAD)
            except OSError:  # no file is free
                await asyncio.sleep(PAUSE_S)
                continue
            try:
                with suppress(ToolError, OSError, EOFError, asyncio.LimitOverrunError):
                    await self._answer(reader, writer)
                    async with asyncio.timeout(FLUSH_S):
                        writer.close()
                        await writer.wait_closed()
            finally:
                writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(OPEN_S):
                target, request = _parse_head(await reader.readuntil(HEAD_END))
                far, server = await self._open(target)
        except (ToolError, TimeoutError) as error:
            status = HTTPStatus.BAD_GATEWAY
            if isinstance(error, AddressRefused):
                status = HTTPStatus.FORBIDDEN
            writer.write(_say(status, str(error) or "it took too long"))
            return
        if not request:
            writer.write(OPENED)
        try:
            # Until the far end has said all, or both are silent for long.
            async with asyncio.timeout(IDLE_S) as limit:
                tunnel = target if not request else None
                server.write(request)
                sending = asyncio.create_task(self._send(reader, server, tunnel, limit))
                try:
                    await _pump(far, writer, limit)
                finally:
                    sending.cancel()
                    await asyncio.gather(sending, return_exceptions=True)
        finally:
            server.transport.abort()

    async def _open(self, target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to an address that was checked. Raises ToolError."""
        place = target.host if target.port in WEB_PORTS else target.host_port
        try:
            if not any(one.covers(target) for one in self.domains):
                raise AddressRefused(NOT_APPROVED)
            self.guard.check(str(target.url))
            if place not in self._checked:
                await self._check_rules(f"{target.url.scheme}://{place}/")
                self._checked.add(place)
            async with self._looking_up:  # else slow names take all threads of the daemon
                addresses = await self.guard.resolve(target)
        except AddressRefused as error:
            self._refuse(place, str(error))
            raise AddressRefused(f"refused: {place} ({error})") from error
        for address in addresses:
            with suppress(OSError):
                async with asyncio.timeout(CONNECT_S):
                    return await asyncio.open_connection(str(address), target.port)
        raise ToolError(f"{target.host_port} takes no connections")

    async def _check_rules(self, url: str) -> None:
        try:
            await self.check(url)
        except ToolError as error:
            raise AddressRefused(str(error)) from error

    async def _send(
        self,
        reader: asyncio.StreamReader,
        server: asyncio.StreamWriter,
        tunnel: Target | None,
        limit: asyncio.Timeout,
    ) -> None:
        """What the command says; the connection ends where a tunnel begins with what is refused."""
        try:
            if tunnel:
                server.write(await self._read_hello(reader, tunnel))
            await _pump(reader, server, limit)
        except (ToolError, OSError, EOFError):
            server.transport.abort()

    async def _read_hello(self, reader: asyncio.StreamReader, target: Target) -> bytes:
        """The beginning: TLS names the host once more. Raises AddressRefused, EOFError."""
        head = await reader.read(1)
        if head != HANDSHAKE:
            if head and target.port == TLS_PORT:
                self._refuse(f"{target.host}:{TLS_PORT}", "what was sent there is no TLS")
                raise AddressRefused(NOT_APPROVED)
            return head
        head += await reader.readexactly(4)
        hello = await reader.readexactly(int.from_bytes(head[3:]))
        name = find_server_name(hello)
        if name != ("" if target.address else target.host):
            shown = name if DOMAIN.fullmatch(name) else "a name that cannot be read"
            self._refuse(shown, f"as the TLS name of a connection to {target.host}")
            raise AddressRefused(NOT_APPROVED)
        return head + hello

    def _refuse(self, place: str, why: str) -> None:
        why = why.removeprefix("Not sent: ").removesuffix(".")
        if place not in self._refused and len(self._refused) < MAX_REFUSED:
            self._refused[place] = why
            self.heard(f"refused: {place} ({why})")


@asynccontextmanager
async def open_proxy(
    domains: Sequence[str],
    guard: AddressGuard,
    check: CheckAddress = allow_any,
    heard: Callable[[str], object] = str,
) -> AsyncIterator[NetworkProxy]:
    """For one command, as long as it runs. Raises ToolError."""
    proxy = NetworkProxy(parse_domains(domains), guard, check, heard)
    if not domains:
        yield proxy
        return
    ours, theirs = socket.socketpair()
    with ours, theirs, FileIO(fcntl(theirs, F_DUPFD_CLOEXEC, LEAST_FD), "wb") as passed:
        ours.setblocking(False)
        proxy.fds = (passed.fileno(),)
        serving = asyncio.create_task(proxy.serve(ours), name="network of a command")
        try:
            yield proxy
        finally:
            serving.cancel()
            await asyncio.wait((serving,))


def find_server_name(hello: bytes) -> str:
    """The name in a TLS ClientHello, without its record's head; "" where there is none."""
    try:
        at = 38 if hello[0] == CLIENT_HELLO else len(hello)
        at += 1 + hello[at]
        at += 2 + int.from_bytes(hello[at : at + 2])
        at += 1 + hello[at] + 2
        while at < len(hello):
            kind, size = struct.unpack_from(">HH", hello, at)
            if kind == SERVER_NAME:
                return hello[at + 9 : at + 4 + size].decode("ascii", "replace").lower()
            at += 4 + size
    except (IndexError, struct.error):
        pass
    return ""


def _parse_head(head: bytes) -> tuple[Target, bytes]:
    """Where a request goes, and what is sent there first: nothing for CONNECT. Raises
    AddressRefused.
    """
    first, *lines = head.removesuffix(HEAD_END).split(b"\r\n")
    found, fields = REQUEST.fullmatch(first), [FIELD.fullmatch(line) for line in lines]
    if not found or None in fields:
        raise AddressRefused("this is no request to a proxy")
    method, place = found[1], found[2].decode()
    if method == b"CONNECT":
        if not DOMAIN.fullmatch(place):
            raise AddressRefused("CONNECT needs host:port")
        return parse_url(f"https://{place}"), b""
    if not place.lower().startswith("http://"):
        raise AddressRefused("this proxy takes http:// addresses and CONNECT")
    target = parse_url(place)
    start = f" {target.url.raw_path_qs} HTTP/{found[3].decode()}\r\n".encode()
    host = f"Host: {target.host_port.removesuffix(':80')}".encode()
    kept = [one[0] for one in fields if one and one[1].lower() not in DROPPED_FIELDS]
    return target, method + start + b"\r\n".join([host, b"Connection: close", *kept]) + HEAD_END


def _say(status: HTTPStatus, text: str) -> bytes:
    """An answer of the proxy itself; many programs show only its first line."""
    plain = " ".join(text.encode("ascii", "replace").decode().split())
    head = f"HTTP/1.1 {status} {plain}\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(plain) + 1}\r\n\r\n{plain}\n".encode()


async def _pump(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, limit: asyncio.Timeout
) -> None:
    while data := await source.read(CHUNK_BYTES):
        limit.reschedule(asyncio.get_running_loop().time() + IDLE_S)
        sink.write(data)
        await sink.drain()
    sink.write_eof()
