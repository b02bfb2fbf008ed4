"""Web servers on loopback that say exactly what a test wants, byte by byte."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field

Handler = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Site:
    """A server. `pages` maps a path to whole responses, given one after the other, the last one again and again."""

    port: int = 0
    pages: dict[str, list[bytes | Handler]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.place}"

    def put(self, path: str, *answers: bytes | Handler) -> str:
        """What this path answers; gives its URL."""
        self.pages[path] = list(answers)
        return self.url + path

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(ConnectionError, asyncio.IncompleteReadError):
            seen = await _request(reader)
            self.seen.append(seen)
            answers = self.pages.get(
                seen.path.partition("?")[0], [response("nothing here", status="404 Not Found")]
            )
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if isinstance(answer, bytes):
                head, end, body = answer.partition(b"\r\n\r\n")
                writer.write(head + end + body * (seen.method != "HEAD"))
                await writer.drain()
            else:
                await answer(writer)


@asynccontextmanager
async def site() -> AsyncGenerator[Site]:
    """A server that lives as long as the block."""
    made = Site()
    server = await asyncio.start_server(made.accept, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for task in made.tasks:
            task.cancel()
        await asyncio.gather(*made.tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the transports close on the next round


@dataclass
class Resolver:
    """Names that are made up. Each name's answers are given one after the other, the last one again and again."""

    answers: dict[str, list[Sequence[str]]]
    asked: list[str] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        told = self.answers[host]
        return told.pop(0) if len(told) > 1 else told[0]


def response(
    body: bytes | str,
    *,
    kind: str = "text/html; charset=utf-8",
    status: str = "200 OK",
    headers: Sequence[str] = (),
) -> bytes:
    """A whole HTTP response."""
    data = body.encode() if isinstance(body, str) else body
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(data)}",
        *headers,
        "Connection: close",
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + data


def moved(to: str, status: str = "302 Found") -> bytes:
    """A redirect."""
    return response("", status=status, headers=[f"Location: {to}"])


async def _request(reader: asyncio.StreamReader) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ")
    headers = {
        name.lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Seen(method, path, headers, body)
