"""One channel at work: what it is, how fast it may write, and how it is (liveness is the platform's last answer).

Channels kept going: each in a task of its own; one that breaks is begun again, one that stays away is told of elsewhere.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from channels.base import Channel, ChannelError, Host, Revoked
from daemon.core.clock import Clock
from daemon.core.errors import StoreUnavailable
from daemon.outbox.rate_limit import RateLimiter

SILENT_S, FAILING_S = 75.0, 15.0


@dataclass(slots=True)
class ChannelState:
    """A channel and what is known of it. `up` is set while it answers; who waits for it to come back waits on that."""

    channel: Channel
    clock: Clock
    rate_limit: RateLimiter
    silent_s: float = SILENT_S
    failing_s: float = FAILING_S
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

    def mark_alive(self) -> None:
        """The platform has answered."""
        self._alive, self.alive_at = self.clock.monotonic(), self.clock.now()
        if not self.up.is_set():
            self.why, self.refused, self._ill, self.since = "", False, None, None
            self.up.set()

    def mark_failing(self, why: str, *, refused: bool = False) -> None:
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

    def describe_problem(self) -> str:
        """What to say of it to those who watch over the daemon; "" while all is well, or has been unwell for a moment only."""
        if self.refused:
            return f"{self.name}: {self.why} (since {_at(self.since)})"
        if self.down_for <= self.failing_s:
            return ""
        why = self.why or f"the platform has not answered for {self.down_for:.0f} s"
        return f"{self.name}: {why} (since {_at(self.since or self.alive_at)})"

    def describe(self) -> str:
        """How it is, in one line for a person."""
        if trouble := self.describe_problem():
            return f"down: {trouble}"
        if not self.up.is_set():
            return f"{self.name}: connecting ({self.why})"
        return f"{self.name}: connected, last heard {_at(self.alive_at)}"


def _at(moment: datetime | None) -> str:
    return f"{moment:%d %b %H:%M:%S} UTC" if moment else "the start"


log = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
REFUSED_PAUSE, LONGEST_REFUSED = 30.0, 600.0
LOOK_EVERY_S = 5.0
TELL_AFTER_S = 300.0
CLOSE_S = 5.0

Tell = Callable[[str, str], Awaitable[None]]
Hosts = Callable[[ChannelState], Host]


@dataclass(slots=True)
class ChannelSupervisor:
    """Owner of the channels' tasks. `tell(text, not_on)` reaches the owner on another channel."""

    channels: Mapping[str, ChannelState]
    hosts: Hosts
    tell: Tell
    tell_after_s: float = TELL_AFTER_S
    refused_pause_s: float = REFUSED_PAUSE
    _told: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for outlet in self.channels.values():
                group.create_task(self._tend(outlet), name=f"channel {outlet.name}")
            group.create_task(self._watch(), name="channels' health")

    async def _tend(self, outlet: ChannelState) -> None:
        host, pause, refused = self.hosts(outlet), FIRST_PAUSE, self.refused_pause_s
        try:
            while True:
                began = outlet.alive_at
                no = await self._refused(outlet, host)
                if outlet.alive_at != began:
                    pause, refused = FIRST_PAUSE, self.refused_pause_s
                if no:
                    await self._told_of(outlet)
                    await asyncio.sleep(refused)
                    refused = min(refused * 2, LONGEST_REFUSED)
                else:
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, LONGEST_PAUSE)
        finally:
            await _closed(outlet)

    @staticmethod
    async def _refused(outlet: ChannelState, host: Host) -> bool:
        """Listen. True where that ended with a refusal, so that trying again soon is of no use."""
        try:
            await outlet.channel.run(host)
            outlet.mark_failing("it ended by itself and is begun again")
        except Revoked as error:
            log.error("%s: %s", outlet.name, error)
            outlet.mark_failing(str(error), refused=True)
            return True
        except ChannelError as error:
            outlet.mark_failing(str(error))
        except Exception as error:  # what one channel breaks is its own; the others go on
            log.exception("channel %s broke off and is begun again", outlet.name)
            outlet.mark_failing(f"it broke off: {type(error).__name__}")
        return False

    async def _watch(self) -> None:
        """Down for five minutes is told of, and so is being back after that."""
        while True:
            await asyncio.sleep(min(LOOK_EVERY_S, self.tell_after_s))
            for outlet in self.channels.values():
                down = outlet.down_for
                if down > self.tell_after_s:
                    await self._told_of(outlet)
                elif (
                    not down
                    and outlet.name in self._told
                    and await self._tell(f"{outlet.name} works again.", outlet)
                ):
                    self._told.discard(outlet.name)

    async def _told_of(self, outlet: ChannelState) -> None:
        if outlet.name in self._told:
            return
        why = outlet.describe_problem() or f"{outlet.name}: {outlet.why}"
        kept = "What was said is kept and goes out when it is back."
        if await self._tell(
            f"A channel is down. {why}. {kept} `aidaemon doctor` looks into it.", outlet
        ):
            self._told.add(outlet.name)

    async def _tell(self, text: str, outlet: ChannelState) -> bool:
        """False when it could not be written down: then it is told at the next look."""
        try:
            await self.tell(text, outlet.name)
        except StoreUnavailable as error:
            log.error("%s: %s", text, error)
            return False
        return True


async def _closed(outlet: ChannelState) -> None:
    try:
        async with asyncio.timeout(CLOSE_S):
            await outlet.channel.aclose()
    except (ChannelError, TimeoutError, OSError) as error:
        log.warning("%s did not close in order: %s", outlet.name, error)
