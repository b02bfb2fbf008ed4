"""How fast one may write to a conversation: as the platform has it, and slower for a while after
it has complained.
"""

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
    """When the latest messages went: in no stretch of the rate's length are there ever more of
    them than its count.
    """

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
    """One per channel, for threads share their chat's rate. `monotonic` in seconds; `sleep` takes
    seconds.
    """

    rate: Callable[[Address], RateLimit]
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    _windows: dict[str, RateWindow] = field(default_factory=dict)
    _slow: RateWindow = field(default_factory=lambda: RateWindow(SLOW))
    _slow_until: float = 0.0

    async def acquire(self, address: Address) -> None:
        """Wait until one more message may go there, and take its place."""
        while True:
            now = self.monotonic()
            window, wait = self._find_wait(address, now)
            if not wait:
                return self._take(window, now)
            await self.sleep(wait)

    def try_acquire(self, address: Address) -> bool:
        """Whether something that may be left out (a draft, a sign of typing) can go now; takes its
        place if so.

        The last places, one at least, are kept for messages.
        """
        now = self.monotonic()
        window, wait = self._find_wait(address, now)
        kept = max(1, window.rate.count // 4)
        if wait or now < self._slow_until or window.count_free(now) <= kept:
            return False
        self._take(window, now)
        return True

    def on_error(self, address: Address, error: Exception, *, spare: bool = False) -> None:
        """The error may be that it was too much. Messages do not wait for what may be left out
        (`spare`).
        """
        if isinstance(error, RetryLater) and error.after_s:
            self.slow_down(address, error.after_s, hold=not spare)

    def slow_down(self, address: Address, after_s: float, *, hold: bool = True) -> None:
        """The platform said that it was too much: nothing there for so long, and everything slowly
        for a minute.
        """
        now = self.monotonic()
        if hold:
            window, _ = self._find_wait(address, now)
            window.held_until = max(window.held_until, now + after_s)
        self._slow_until = max(self._slow_until, now + after_s + SLOWED_FOR_S)

    def _find_wait(self, address: Address, now: float) -> tuple[RateWindow, float]:
        window = self._windows.get(address.chat)
        if window is None:
            if len(self._windows) >= MOST_WINDOWS:  # those that may write freely need no window
                for chat, one in list(self._windows.items()):
                    if one.count_free(now) == one.rate.count and one.held_until <= now:
                        del self._windows[chat]
            window = self._windows[address.chat] = RateWindow(self.rate(address))
        wait = window.wait(now)
        return window, max(wait, self._slow.wait(now)) if now < self._slow_until else wait

    def _take(self, window: RateWindow, now: float) -> None:
        window.gone.append(now)
        if now < self._slow_until:
            self._slow.gone.append(now)
