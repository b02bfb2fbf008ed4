"""A TCP proxy on loopback that resets connections, or lets bytes vanish."""

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress


class Chaos:
    """Before a server at `port`, its `target`. `heard`: told of whatever clients send there. `forgets`: a client that says this
    is heard no more.
    """

    def __init__(self, port: int, heard: Callable[[bytes], None] | None = None) -> None:
        self._heard = heard
        self.target = port
        self.port, self.taken = 0, 0
        self.refuses = self.swallows = False
        self.forgets = b""
        self._open: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close everything."""
        if self._server:
            self._server.close()
        self.cut()

    def cut(self) -> None:
        """All connections are reset."""
        for writer in self._open:
            raw = writer.transport.get_extra_info("socket")
            if raw is not None and raw.fileno() >= 0:
                with suppress(OSError):
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        self._open.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            writer.transport.abort()
            return
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self.taken += 1
        self._open += [writer, up_writer]
        await asyncio.gather(
            self._copy(reader, up_writer, self._heard), self._copy(up_reader, writer)
        )

    async def _copy(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        heard: Callable[[bytes], None] | None = None,
    ) -> None:
        is_forgotten = False
        with suppress(OSError):
            while data := await reader.read(65_536):
                if heard:
                    heard(data)
                is_forgotten |= self.forgets != b"" and self.forgets in data
                if not (self.swallows or is_forgotten):
                    writer.write(data)
                    await writer.drain()
        if not self.swallows:
            writer.close()
