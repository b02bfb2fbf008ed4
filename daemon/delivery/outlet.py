"""One channel at work: what it is, how fast it may write, and how it is (liveness is the platform's last answer)."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime

from channels.base import Channel
from daemon.core.clock import Clock
from daemon.delivery.pacing import Pacing

SILENT_S, AILING_S = 75.0, 15.0


@dataclass(slots=True)
class Outlet:
    """A channel and what is known of it. `up` is set while it answers; who waits for it to come back waits on that."""

    channel: Channel
    clock: Clock
    pacing: Pacing
    silent_s: float = SILENT_S
    ailing_s: float = AILING_S
    why: str = "it has not answered yet"
    refused: bool = False
    alive_at: datetime | None = None
    since: datetime | None = None
    up: asyncio.Event = field(default_factory=asyncio.Event)
    _alive: float = 0.0
    _ill: float | None = None

    def __post_init__(self) -> None:
        self._alive = self.clock.monotonic()
        self.since = self.clock.now()

    @property
    def name(self) -> str:
        """The channel's name."""
        return self.channel.name

    def alive(self) -> None:
        """The platform has answered."""
        self._alive, self.alive_at = self.clock.monotonic(), self.clock.now()
        if not self.up.is_set():
            self.why, self.refused, self._ill, self.since = "", False, None, None
            self.up.set()

    def ailing(self, why: str, *, refused: bool = False) -> None:
        """It does not answer as it should; `refused`: and it will not, before somebody mends it."""
        self.why, self.refused = why, refused or self.refused
        if self.up.is_set() or self._ill is None:
            self.up.clear()
            self._ill = self.clock.monotonic()
            self.since = self.alive_at or self.since

    @property
    def down_for(self) -> float:
        """Seconds that it has not worked for; 0.0 while it works."""
        now = self.clock.monotonic()
        if self._ill is not None:
            return max(now - self._ill, 0.001)
        silent = now - self._alive
        return silent if silent > self.silent_s or not self.up.is_set() else 0.0

    def problem(self) -> str:
        """What to say of it to those who watch over the daemon; "" while all is well, or has been unwell for a moment only."""
        if self.refused:
            return f"{self.name}: {self.why} (since {_at(self.since)})"
        if self.down_for <= self.ailing_s:
            return ""
        why = self.why or f"the platform has not answered for {self.down_for:.0f} s"
        return f"{self.name}: {why} (since {_at(self.since or self.alive_at)})"

    def line(self) -> str:
        """How it is, in one line for a person."""
        if trouble := self.problem():
            return f"down: {trouble}"
        if not self.up.is_set():
            return f"{self.name}: connecting ({self.why})"
        return f"{self.name}: connected, last heard {_at(self.alive_at)}"


def _at(moment: datetime | None) -> str:
    return f"{moment:%d %b %H:%M:%S} UTC" if moment else "the start"
