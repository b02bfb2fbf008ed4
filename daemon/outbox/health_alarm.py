"""Tells the owner of what does not work although the daemon runs: an MCP server, the model, the
machine's clock (H6). Channels and the journal have alarms of their own.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from channels.markup.sanitize import shorten_line
from daemon.core import value
from daemon.core.clock import Clock, FileClock, show_time
from daemon.core.errors import StoreUnavailable

log = logging.getLogger(__name__)
LONGEST_LOOK_S, STEADY_SHARE, MAX_WHY = 10.0, 0.1, 300
CLOCK_JUMP_S = 120.0
BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)
DOWN = "{name} does not work{why}. `aidaemon doctor` looks into it."
WORKS_AGAIN = "{name} works again."
CLOCK_SET = (
    "The machine's clock was set {way} by {minutes:.0f} minutes: it is {now} now. Schedules go by"
    " it; look at the machine's time if that is wrong."
)


@value
class Outage:
    """Why something does not work, and since when, by the monotonic clock; 0.0 for not known."""

    why: str
    since: float = 0.0


def measure_awake() -> float:
    """Seconds that no setting of the clock changes, and that go on while the machine sleeps, where
    it can tell.
    """
    return time.monotonic() if BOOT_CLOCK is None else time.clock_gettime(BOOT_CLOCK)


@dataclass
class HealthAlarm:
    """One notice for each outage of `tell_after_s` or longer, and one when it is over. What works
    for a moment only, a tenth of that, is still out. `find_outages`: of all that is watched now, by
    the name that the owner is told, None for what works; what is gone from it is told no more.
    `tell` gives False where there is nobody to tell yet.
    """

    find_outages: Callable[[], Mapping[str, Outage | None]]
    tell: Callable[[str], Awaitable[bool]]
    clock: Clock
    tell_after_s: float
    measure: Callable[[], float] = measure_awake
    _since: dict[str, float] = field(default_factory=dict)
    _well: dict[str, float] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _ahead: float | None = None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.look()
            except StoreUnavailable as error:  # the next look tells it
                log.error("the owner could not be told: %s", error)
            await asyncio.sleep(min(LONGEST_LOOK_S, self.tell_after_s / 2))

    async def look(self) -> None:
        """Once: tell what is to be told now. Raises StoreUnavailable."""
        await self._look_at_clock()
        now, watched = self.clock.monotonic(), self.find_outages()
        for name, outage in watched.items():
            if outage is None:
                continue
            self._well.pop(name, None)
            since = self._since.setdefault(name, outage.since or now)
            if now - since >= self.tell_after_s and name not in self._told:
                why = f": {shorten_line(outage.why, MAX_WHY).rstrip('.')}" if outage.why else ""
                if await self.tell(DOWN.format(name=name, why=why)):
                    self._told.add(name)
        for name in [one for one in self._since if watched.get(one) is None]:
            well_for = now - self._well.setdefault(name, now)
            if name in watched and well_for < STEADY_SHARE * self.tell_after_s:
                continue
            if name in watched and name in self._told:
                await self.tell(WORKS_AGAIN.format(name=name))
            self._told.discard(name)
            del self._since[name], self._well[name]

    async def _look_at_clock(self) -> None:
        """A clock that a test reads from a file is set as the test likes."""
        if isinstance(self.clock, FileClock):
            return
        now = self.clock.now()
        before, ahead = self._ahead, now.timestamp() - self.measure()
        moved = 0.0 if before is None else ahead - before
        slept = moved > 0 and BOOT_CLOCK is None  # it may only have been asleep
        if abs(moved) >= CLOCK_JUMP_S and not slept:
            way = "on" if moved > 0 else "back"
            shown = show_time(now, "%a %Y-%m-%d %H:%M")
            await self.tell(CLOCK_SET.format(way=way, minutes=abs(moved) / 60, now=shown))
        self._ahead = ahead
