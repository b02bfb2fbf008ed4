"""How fast one may write to a conversation: as the platform has it, and slower for a while after it has complained."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from channels.base import Rate
from channels.message import Address

MOST_BUCKETS = 4096
SLOWED_FOR_S = 60.0
SLOW = Rate(25, 1.0)


@dataclass(slots=True)
class Bucket:
    """So many messages may go at once; after that they go at the rate's pace."""

    rate: Rate
    left: float
    at: float
    held_until: float = 0.0

    def fill(self, now: float) -> None:
        """What has come in since."""
        self.left = min(float(self.rate.count), self.left + (now - self.at) * self.rate.count / self.rate.seconds)
        self.at = now

    def wait(self, now: float) -> float:
        """Seconds until there is room for one."""
        self.fill(now)
        due = 0.0 if self.left >= 1 else (1 - self.left) * self.rate.seconds / self.rate.count
        return max(due, self.held_until - now)


@dataclass(slots=True)
class Pacing:
    """One per channel. `monotonic` in seconds; `sleep` takes seconds."""

    rate: Callable[[Address], Rate]
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    _buckets: dict[Address, Bucket] = field(default_factory=dict)
    _slow: Bucket | None = None
    _slow_until: float = 0.0

    async def turn(self, address: Address) -> None:
        """Wait until one more message may go there, and take its place."""
        while wait := self._wait(address):
            await self.sleep(wait)
        self._take(address)

    def spare(self, address: Address) -> bool:
        """Whether something that may as well be left out (a draft, a sign of typing) can go now; takes its place if so.

        The last place is kept for what has to go.
        """
        now = self.monotonic()
        bucket = self._bucket(address, now)
        bucket.fill(now)
        if self._wait(address) or bucket.left < 2 or now < self._slow_until:
            return False
        self._take(address)
        return True

    def complained(self, address: Address, after_s: float) -> None:
        """The platform said that it was too much: nothing there for so long, and everything slowly for a minute."""
        now = self.monotonic()
        bucket = self._bucket(address, now)
        bucket.held_until = max(bucket.held_until, now + after_s)
        self._slow_until = now + after_s + SLOWED_FOR_S
        self._slow = self._slow or Bucket(SLOW, 1.0, now)

    def _wait(self, address: Address) -> float:
        now = self.monotonic()
        waits = [self._bucket(address, now).wait(now)]
        if self._slow and now < self._slow_until:
            waits.append(self._slow.wait(now))
        return max(0.0, *waits)

    def _take(self, address: Address) -> None:
        self._bucket(address, self.monotonic()).left -= 1
        if self._slow:
            self._slow.left -= 1

    def _bucket(self, address: Address, now: float) -> Bucket:
        if address not in self._buckets:
            if len(self._buckets) >= MOST_BUCKETS:
                self._forget(now)
            rate = self.rate(address)
            self._buckets[address] = Bucket(rate, float(rate.count), now)
        return self._buckets[address]

    def _forget(self, now: float) -> None:
        """Conversations that may write freely again need no bucket."""
        for address, bucket in list(self._buckets.items()):
            bucket.fill(now)
            if bucket.left >= bucket.rate.count and bucket.held_until <= now:
                del self._buckets[address]
