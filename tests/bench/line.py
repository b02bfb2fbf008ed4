"""A keep-alive connection that costs next to nothing: client and daemon share two cores."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

LONGEST_S = 120.0
Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Line:
    """One HTTP/1.1 connection, one request at a time."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    head: bytes

    async def ask(self, text: str, session: str) -> Json:
        """Say it, and wait for the end of the run, which must be done."""
        body = json.dumps({"session": session, "text": text}).encode()
        self.writer.write(b"%b%d\r\n\r\n%b" % (self.head, len(body), body))
        async with asyncio.timeout(LONGEST_S):
            headers = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            size = int(headers.partition("content-length:")[2].partition("\r\n")[0])
            answer: Json = json.loads(await self.reader.readexactly(size))
        if answer.get("stop_reason") != "done":
            raise RuntimeError(f"a turn of the bench did not end well: {answer}")
        return answer


@asynccontextmanager
async def line(url: str, token: str) -> AsyncGenerator[Line]:
    """A connection to the daemon at this address."""
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    head = (
        f"POST /v1/messages?wait=1 HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\nContent-Length: "
    )
    try:
        yield Line(reader, writer, head.encode())
    finally:
        writer.close()
