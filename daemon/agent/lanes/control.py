"""What reaches a running turn from outside: stop, pause, and texts that steer it (D5, E7)."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from daemon.core.rows import InboxRow


@dataclass(slots=True)
class Control:
    """One per running turn. `reserved` counts texts on their way to disk that will steer it: it does not end before them."""

    monotonic: Callable[[], float]
    sender: str = ""
    cancelled: str = ""
    open: bool = True
    reserved: int = 0
    steers: deque[InboxRow] = field(default_factory=deque)
    _worked: float = 0.0
    _since: float = -1.0
    _scope: asyncio.Timeout | None = None
    _most: float = 0.0
    _holders: set[str] = field(default_factory=set)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _paused: bool = False
    _resumed: asyncio.Event = field(default_factory=asyncio.Event)

    def pause(self) -> None:
        """Hold before the next step; what runs now is let finish."""
        self._paused = True

    def resume(self) -> None:
        """Go on."""
        self._paused = False
        self._resumed.set()

    @property
    def held(self) -> bool:
        """The session is paused: not another step."""
        return self._paused and not self.cancelled

    async def going(self) -> None:
        """Wait while the session is paused; its clock stands still meanwhile."""
        while self.held:
            self.stand_still()
            self._resumed.clear()
            await self._resumed.wait()
            self._since = self.monotonic()

    def cancel(self, why: str) -> None:
        """Stop: through whatever the turn is doing right now."""
        self.cancelled = self.cancelled or why
        self._resumed.set()
        self.interrupt()

    def interrupt(self) -> None:
        """Leave the model call or the tools that run now; the loop then looks again."""
        if self._scope and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    def started(self, worked: float) -> None:
        """The turn works from now on; so many seconds it has worked before."""
        self._worked, self._since = worked, self.monotonic()

    @property
    def seconds(self) -> float:
        """How long the turn has worked in all."""
        return self._worked + (self.monotonic() - self._since if self._since >= 0 else 0.0)

    def stand_still(self) -> None:
        """The clock of the turn stops: it waits for a person."""
        self._worked, self._since = self.seconds, -1.0

    def hold(self, name: str) -> None:
        """Somebody below waits for a person: the clock stands still, and so does the deadline of what runs now."""
        if not self._holders and self._since >= 0:
            self.stand_still()
            if self._scope and not self.cancelled and not self._scope.expired():
                self._scope.reschedule(None)
        self._holders.add(name)

    @property
    def stands(self) -> bool:
        """Somebody below waits for a person."""
        return bool(self._holders)

    def release(self, name: str) -> None:
        """They go on, and so does the clock."""
        if name not in self._holders:
            return
        self._holders.discard(name)
        if not self._holders and self._since < 0:
            self._since = self.monotonic()
            if self._scope and not self.cancelled and not self._scope.expired():
                self._scope.reschedule(asyncio.get_running_loop().time() + max(0.0, self._most - self.seconds))

    @asynccontextmanager
    async def within(self, max_seconds: float) -> AsyncIterator[None]:
        """Run the body until the turn's time is up or somebody interrupts; then it is cancelled and simply left."""
        self._most = max_seconds
        try:
            async with asyncio.timeout(max(0.0, max_seconds - self.seconds)) as self._scope:
                if self.cancelled:
                    self.interrupt()
                yield
        except TimeoutError:
            if not (self._scope and self._scope.expired()):
                raise
        finally:
            self._scope = None

    @contextmanager
    def reserve(self) -> Iterator[None]:
        """A text that steers this turn is being written down."""
        self.reserved += 1
        try:
            yield
        finally:
            self.reserved -= 1
            self._arrived.set()

    def steer(self, row: InboxRow) -> None:
        """The text is on disk: fold it in before the next model call."""
        self.steers.append(row)

    async def steered(self) -> bool:
        """Whether texts are waiting to be folded in; waits for those that are being written down."""
        while self.reserved:
            self._arrived.clear()
            await self._arrived.wait()
        return bool(self.steers)

    def take_steers(self) -> list[InboxRow]:
        """The texts to fold in, oldest first."""
        rows = list(self.steers)
        self.steers.clear()
        return rows
