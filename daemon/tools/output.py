"""What a process prints, in bounded memory: the beginning and the end are kept, watchers see it as it comes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from daemon.tools.results import head_and_tail, printable

EVERY_S = 0.1
LIVE_BYTES = 4000


@dataclass(slots=True)
class HeadTail:
    """The first and the last bytes of a stream of any length."""

    limit: int
    total: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> None:
        """The stream goes on."""
        self.total += len(data)
        room = self.limit - len(self._head)
        self._head += data[: max(room, 0)]
        self._tail += data[max(room, 0) :][-self.limit :]
        if len(self._tail) > 2 * self.limit:
            del self._tail[: -self.limit]

    def text(self, max_chars: int) -> str:
        """What is left of it, printable and no longer than this."""
        tail = bytes(self._tail[-self.limit :])
        missing = self.total - len(self._head) - len(tail)
        if not missing:
            return head_and_tail(printable(_decoded(bytes(self._head) + tail)), max_chars)
        mark = f"\n[... about {missing} bytes left out ...]\n"
        half = max((max_chars - len(mark)) // 2, 0)
        head, end = printable(_decoded(bytes(self._head))), printable(_decoded(tail))
        return head[:half] + mark + end[len(end) - min(half, len(end)) :]


@dataclass(slots=True)
class Ticker:
    """Shows what is printed in pieces, ten a second at most, each of bounded size."""

    show: Callable[[str], None]
    _pending: bytes = b""
    _timer: asyncio.TimerHandle | None = None

    def feed(self, data: bytes) -> None:
        """More was printed."""
        self._pending = (self._pending + data)[-LIVE_BYTES:]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY_S, self.flush)

    def flush(self) -> None:
        """Show what has come since the last time."""
        if self._timer:
            self._timer.cancel()
        self._timer, pending, self._pending = None, self._pending, b""
        if pending:
            self.show(printable(_decoded(pending)))


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")
