"""What a process prints, in bounded memory: the beginning and the end are kept, watchers see it as it comes."""

import asyncio
import codecs
import re
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

    def text(self, max_chars: int, clean: Callable[[str], str] = str) -> str:
        """What is left of it, printable, cleaned, and no longer than this."""
        tail = bytes(self._tail[-self.limit :])
        missing = self.total - len(self._head) - len(tail)
        if not missing:
            return head_and_tail(clean(printable(_decoded(bytes(self._head) + tail))), max_chars)
        mark = f"\n[... about {missing} bytes left out ...]\n"
        half = max((max_chars - len(mark)) // 2, 0)
        head, end = clean(printable(_decoded(bytes(self._head)))), clean(printable(_decoded(tail)))
        return head[:half] + mark + end[len(end) - min(half, len(end)) :]


@dataclass(slots=True)
class Ticker:
    """Shows what is printed in pieces, ten a second at most, each of bounded size."""

    show: Callable[[str], None]
    _pending: bytes = b""
    _timer: asyncio.TimerHandle | None = None

    def feed(self, data: bytes) -> None:
        """More was printed."""
        self._pending = _newest(self._pending + data, LIVE_BYTES)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY_S, self.flush)

    def flush(self) -> None:
        """Show what has come since the last time."""
        if self._timer:
            self._timer.cancel()
        self._timer, pending, self._pending = None, self._pending, b""
        if pending:
            self.show(printable(_decoded(pending)))


@dataclass(slots=True)
class Unread:
    """What was printed since somebody last looked: the newest of it, and how much is gone."""

    limit: int
    lost: int = 0
    _pending: bytes = b""

    def feed(self, data: bytes) -> None:
        """More was printed."""
        whole = self._pending + data
        self._pending = _newest(whole, self.limit)
        self.lost += len(whole) - len(self._pending)

    def take(self, over: bool) -> str:
        """All of it, printable; a character that has only come in part waits for its rest, unless all is `over`."""
        text, used = codecs.utf_8_decode(self._pending, "replace", over)
        mark = f"[... about {self.lost} bytes left out ...]\n" if self.lost else ""
        self._pending, self.lost = self._pending[used:], 0
        return mark + printable(text)


def _newest(data: bytes, limit: int) -> bytes:
    """The end, from a whole word on: half a secret could not be known for one."""
    if len(data) <= limit:
        return data
    end = data[-limit:]
    at = re.search(rb"\s", end)
    return end[at.end() :] if at else end


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")
