"""What reaches a running turn from outside: stop, pause, and texts that steer it (D5, E7)."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from daemon.core.rows import InboxRow


@dataclass(slots=True)
class TurnControl:
    """One per running turn. `reserved` counts texts on their way to disk that will steer it: it
    does not end before them.
    """

    monotonic: Callable[[], float]
    sender: str = ""
    cancel_reason: str = ""
    accepts_steers: bool = True
    pending_steers: int = 0
    steers: deque[InboxRow] = field(default_factory=deque)
    _active_seconds: float = 0.0
    _active_since: float = -1.0
    _scope: asyncio.Timeout | None = None
    _max_seconds: float = 0.0
    waiting_children: set[str] = field(default_factory=set)
    _steer_settled: asyncio.Event = field(default_factory=asyncio.Event)
    is_paused: bool = False
    _resume_signal: asyncio.Event = field(default_factory=asyncio.Event)

    def pause(self) -> None:
        """Hold before the next step; what runs now is let finish."""
        self.is_paused = not self.cancel_reason

    def resume(self) -> None:
        """Go on."""
        self.is_paused = False
        self._resume_signal.set()

    async def wait_while_paused(self) -> None:
        """Wait while the session is paused; its clock stands still meanwhile."""
        while self.is_paused:
            self.stop_clock()
            self._resume_signal.clear()
            await self._resume_signal.wait()
            self._active_since = self.monotonic()

    def cancel(self, why: str) -> None:
        """Stop: through whatever the turn is doing right now."""
        self.cancel_reason = self.cancel_reason or why
        self.resume()
        self._reschedule(0.0)

    def _reschedule(self, seconds: float | None) -> None:
        """Leave what runs now in so many seconds; the loop then looks again. None: no deadline."""
        if self._scope and not self._scope.expired():
            loop = asyncio.get_running_loop()
            self._scope.reschedule(None if seconds is None else loop.time() + seconds)

    def start_clock(self, worked: float) -> None:
        """The turn works from now on; so many seconds it has worked before."""
        self._active_seconds, self._active_since = worked, self.monotonic()

    @property
    def active_seconds(self) -> float:
        """How long the turn has worked in all."""
        return self._active_seconds + (
            self.monotonic() - self._active_since if self._active_since >= 0 else 0.0
        )

    def stop_clock(self) -> None:
        """The clock of the turn stops: it waits for a person."""
        self._active_seconds, self._active_since = self.active_seconds, -1.0

    def hold_clock(self, name: str) -> None:
        """Somebody below waits for a person: the clock stands still, and so does the deadline of
        what runs now.
        """
        if not self.waiting_children and self._active_since >= 0:
            self.stop_clock()
            if not self.cancel_reason:
                self._reschedule(None)
        self.waiting_children.add(name)

    def release_clock(self, name: str) -> None:
        """They go on, and so does the clock."""
        was_waiting = name in self.waiting_children
        self.waiting_children.discard(name)
        if was_waiting and not self.waiting_children and self._active_since < 0:
            self._active_since = self.monotonic()
            if not self.cancel_reason:
                self._reschedule(max(0.0, self._max_seconds - self.active_seconds))

    @asynccontextmanager
    async def time_limit(self, max_seconds: float) -> AsyncIterator[None]:
        """Run the body until the turn's time is up or somebody interrupts; then it is cancelled
        and simply left.
        """
        self._max_seconds = max_seconds
        try:
            left = 0.0 if self.cancel_reason else max(0.0, max_seconds - self.active_seconds)
            async with asyncio.timeout(left) as self._scope:
                yield
        except TimeoutError:
            if not (self._scope and self._scope.expired()):
                raise
        finally:
            self._scope = None

    @contextmanager
    def reserve_steer(self) -> Iterator[None]:
        """A text that steers this turn is being written down."""
        self.pending_steers += 1
        try:
            yield
        finally:
            self.pending_steers -= 1
            self._steer_settled.set()

    async def has_steers(self) -> bool:
        """Whether texts wait to join the turn; waits for those that are being written."""
        while self.pending_steers:
            self._steer_settled.clear()
            await self._steer_settled.wait()
        return bool(self.steers)
