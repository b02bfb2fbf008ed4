"""How fast one may write to a conversation: as the platform has it, and slower for a while after it has complained."""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from channels.base import RateLimit, RetryLater
from channels.message import Address

MOST_WINDOWS = 4096
SLOWED_FOR_S = 60.0
SLOW = RateLimit(25, 1.0)


@dataclass(slots=True)
class RateWindow:
    """When the latest messages went: in no stretch of the rate's length are there ever more of them than its count."""

    rate: RateLimit
    gone: deque[float] = field(default_factory=deque)
    held_until: float = 0.0

    def count_free(self, now: float) -> int:
        """How many may go now, if nothing holds them."""
        while self.gone and now - self.gone[0] >= self.rate.seconds:
            self.gone.popleft()
        return self.rate.count - len(self.gone)

    def wait(self, now: float) -> float:
        """Seconds until there is room for one."""
        due = 0.0 if self.count_free(now) > 0 else self.rate.seconds - (now - self.gone[0])
        return max(0.0, due, self.held_until - now)


@dataclass(slots=True)
class RateLimiter:
    """One per channel, for threads share their chat's rate. `monotonic` in seconds; `sleep` takes seconds."""

    rate: Callable[[Address], RateLimit]
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    _windows: dict[str, RateWindow] = field(default_factory=dict)
    _slow: RateWindow = field(default_factory=lambda: RateWindow(SLOW))
    _slow_until: float = 0.0

    async def acquire(self, address: Address) -> None:
        """Wait until one more message may go there, and take its place."""
        while wait := self._wait(address, self.monotonic()):
            await self.sleep(wait)
        self._take(address)

    def try_acquire(self, address: Address) -> bool:
        """Whether something that may as well be left out (a draft, a sign of typing) can go now; takes its place if so.

        The last places, one at least, are kept for what has to go.
        """
        now = self.monotonic()
        window = self._window(address, now)
        if (
            self._wait(address, now)
            or now < self._slow_until
            or window.count_free(now) <= max(1, window.rate.count // 4)
        ):
            return False
        self._take(address)
        return True

    def on_error(self, address: Address, error: Exception, *, spare: bool = False) -> None:
        """What went wrong there may be that it was too much. What has to go waits for nothing that could be left out."""
        if not (isinstance(error, RetryLater) and error.after_s):
            return
        if spare:
            self._slowly(error.after_s)
        else:
            self.slow_down(address, error.after_s)

    def slow_down(self, address: Address, after_s: float) -> None:
        """The platform said that it was too much: nothing there for so long, and everything slowly for a minute."""
        now = self.monotonic()
        window = self._window(address, now)
        window.held_until = max(window.held_until, now + after_s)
        self._slowly(after_s)

    def _slowly(self, after_s: float) -> None:
        self._slow_until = max(self._slow_until, self.monotonic() + after_s + SLOWED_FOR_S)

    def _wait(self, address: Address, now: float) -> float:
        own = self._window(address, now).wait(now)
        return max(own, self._slow.wait(now)) if now < self._slow_until else own

    def _take(self, address: Address) -> None:
        now = self.monotonic()
        self._window(address, now).gone.append(now)
        if now < self._slow_until:
            self._slow.gone.append(now)

    def _window(self, address: Address, now: float) -> RateWindow:
        found = self._windows.get(address.chat)
        if found is None:
            if len(self._windows) >= MOST_WINDOWS:
                self._forget(now)
            found = self._windows[address.chat] = RateWindow(self.rate(address))
        return found

    def _forget(self, now: float) -> None:
        """Conversations that may write freely again need no window."""
        for chat, window in list(self._windows.items()):
            if window.count_free(now) == window.rate.count and window.held_until <= now:
                del self._windows[chat]
