"""A command that has the network by domain, in the real sandbox, before a server that answers whatever reaches it."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from daemon.core.events import ToolFinished
from daemon.tools.config import ShellConfig
from daemon.tools.shell.sandbox import Sandbox, SandboxKind
from daemon.tools.shell.tool import Shell, shell_tool
from daemon.tools.web.guard import AddressGuard
from tests.fakes.tools import Bench
from tests.fakes.web import Resolver

# `say(parts, ...)` is what the proxy answers to each part; a part `hello:NAME` is the beginning of TLS.
INSIDE = """
import json, socket, ssl, sys

def encode(part):
    if not part.startswith("hello:"):
        return part.encode("latin-1")
    gone = ssl.MemoryBIO()
    try:
        name = part.removeprefix("hello:") or None
        context = ssl._create_unverified_context()
        context.wrap_bio(ssl.MemoryBIO(), gone, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        return gone.read()

def say(parts, port=3128):
    heard = []
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as one:
            one.settimeout(5)
            for part in parts:
                one.sendall(encode(part))
                heard.append(one.recv(65536).decode("latin-1"))
    except OSError as error:
        heard.append(f"{type(error).__name__}")
    return heard

print("HEARD " + json.dumps([say(*words) for words in json.load(open(sys.argv[1]))]))
"""
PONG = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong"
Saying = Sequence[object]


@dataclass
class Far:
    """A server of the internet, which stands on this machine."""

    port: int = 0
    seen: list[bytes] = field(default_factory=list)
    open: set[asyncio.StreamWriter] = field(default_factory=set)
    most: int = 0

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open.add(writer)
        self.most = max(self.most, len(self.open))
        try:
            while data := await reader.read(65536):
                self.seen.append(data)
                writer.write(PONG)
        except ConnectionError:
            pass
        finally:
            self.open.discard(writer)
            writer.close()


@asynccontextmanager
async def far(port: int = 0) -> AsyncIterator[Far]:
    """As long as the block."""
    made = Far()
    server = await asyncio.start_server(made.accept, "127.0.0.1", port)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for writer in made.open:
            writer.close()
        await asyncio.sleep(0.01)  # their readers come to an end


def fence(
    place: Path,
    allow: Sequence[str] = (),
    names: Mapping[str, Sequence[str]] | None = None,
    kind: SandboxKind = "bubblewrap",
) -> Sandbox:
    """A sandbox whose owner opened some places that are not public; `names` are looked up in this table."""
    place.mkdir(parents=True, exist_ok=True)
    resolver = Resolver({name: [found] for name, found in (names or {}).items()})
    return Sandbox(place.resolve(), kind, guard=AddressGuard(allow, resolve=resolver))


def terminal(sandbox: Sandbox, *, granted: bool = True) -> Bench:
    made = Shell(sandbox, ShellConfig())
    return Bench([shell_tool(made)], {Shell: made}, granted=("shell",) * granted)


async def run(bench: Bench, command: str, domains: Sequence[str], **more: object) -> ToolFinished:
    given = {"command": command, "domains": list(domains), **more}
    async with asyncio.timeout(40):
        return await bench.one("shell", json.dumps(given))


def saying(sandbox: Sandbox, words: Sequence[Saying]) -> str:
    """The command that says this to the proxy; its line names no host."""
    (sandbox.workspace / "say.py").write_text(INSIDE)
    (sandbox.workspace / "words.json").write_text(json.dumps(list(words)))
    return "/usr/bin/python3 say.py words.json"


async def say(
    sandbox: Sandbox, domains: Sequence[str], *words: Saying
) -> tuple[list[list[str]], str]:
    """What a command hears that says this, and the whole result of it."""
    done = await run(terminal(sandbox), saying(sandbox, words), domains)
    line = next((one for one in done.text.splitlines() if one.startswith("HEARD ")), None)
    assert line, done.text
    return json.loads(line.removeprefix("HEARD ")), done.text


def connect(place: str, *more: str) -> Saying:
    return [[f"CONNECT {place} HTTP/1.1\r\n\r\n", *more]]


def get(url: str) -> Saying:
    return [[f"GET {url} HTTP/1.1\r\n\r\n"]]


async def reach(place: Path) -> dict[str, bool]:
    """What a command with one approved domain reaches, by name; the first is what it may."""
    async with far() as server:
        port = server.port
        open_name, inner = f"open.example:{port}", f"inner.example:{port}"
        names = {
            "open.example": ["127.0.0.1"],
            "inner.example": ["127.0.0.1"],
            "meta.example": ["169.254.169.254"],
        }
        words = {
            "an approved domain": get(f"http://{open_name}/"),
            "an approved domain by TLS": connect(open_name, "hello:open.example"),
            "another place through the proxy": get(f"http://{server.place}/"),
            "another TLS name to an approved place": connect(open_name, "hello:evil.example"),
            "an approved name at a private address": get(f"http://{inner}/"),
            "an approved name at a cloud's own address": get("http://meta.example/"),
            "a place without the proxy": [["GET / HTTP/1.0\r\n\r\n"], port],
        }
        sandbox = fence(place, [open_name], names)
        approved = [open_name, inner, "meta.example"]
        heard, _ = await say(sandbox, approved, *words.values())
        return {name: "pong" in said[-1] for name, said in zip(words, heard, strict=True)}


MAY = frozenset(("an approved domain", "an approved domain by TLS"))
