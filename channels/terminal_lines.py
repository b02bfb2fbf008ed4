"""Lines from standard input, for when there is no screen to draw on."""

import asyncio
import codecs
import os
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

CHUNK = 65536


@dataclass(slots=True)
class Lines:
    """Reads a file descriptor in a thread of its own: files, pipes and terminals alike, and nothing is held at exit."""

    descriptor: int
    _queue: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)

    def start(self) -> None:
        """Begin to read; the thread ends with the input, or with the process."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), daemon=True).start()

    def close(self) -> None:
        """No more lines are wanted."""
        self._queue.put_nowait(None)

    async def next(self) -> str | None:
        """The next line without its end; None after the last."""
        line = await self._queue.get()
        if line is None:
            self._queue.put_nowait(None)
        return line

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self.next()) is not None:
            yield line

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        rest, data = "", b"-"
        while data:
            data = self._chunk()
            *lines, rest = (rest + decoder.decode(data, final=not data)).split("\n")
            if not data and rest:
                lines.append(rest)
            if not self._hand_over(loop, [*lines, *([] if data else [None])]):
                return

    def _chunk(self) -> bytes:
        try:
            return os.read(self.descriptor, CHUNK)
        except OSError:
            return b""

    def _hand_over(self, loop: asyncio.AbstractEventLoop, lines: list[str | None]) -> bool:
        try:
            for line in lines:
                loop.call_soon_threadsafe(self._queue.put_nowait, line.removesuffix("\r") if line else line)
        except RuntimeError:
            return False  # the loop has ended: nobody listens any more
        return True
