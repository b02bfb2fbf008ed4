"""Keeps channels running, each in its own task; knows which work, and tells the owner of one that
is down.
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
    """A channel and what is known of it. `up` is set while it answers; who waits for it to come
    back waits on that.
    """

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
        """What to say of it to those who watch over the daemon; "" while all is well, or has been
        unwell for a moment only.
        """
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


@dataclass(slots=True)
class ChannelSupervisor:
    """Owner of the channels' tasks. `tell(text, not_on)` reaches the owner on another channel."""

    channels: Mapping[str, ChannelState]
    hosts: Callable[[ChannelState], Host]
    tell: Callable[[str, str], Awaitable[None]]
    tell_after_s: float = TELL_AFTER_S
    refused_pause_s: float = REFUSED_PAUSE
    _told: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for state in self.channels.values():
                group.create_task(self._keep_running(state), name=f"channel {state.name}")
            group.create_task(self._watch(), name="channels' health")

    async def _keep_running(self, state: ChannelState) -> None:
        host, pause, refused_pause = self.hosts(state), FIRST_PAUSE, self.refused_pause_s
        try:
            while True:
                began = state.alive_at
                refused = await _run_once(state, host)
                if state.alive_at != began:
                    pause, refused_pause = FIRST_PAUSE, self.refused_pause_s
                if refused:
                    await self._tell_down(state)
                    await asyncio.sleep(refused_pause)
                    refused_pause = min(refused_pause * 2, LONGEST_REFUSED)
                else:
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, LONGEST_PAUSE)
        finally:
            try:
                async with asyncio.timeout(CLOSE_S):
                    await state.channel.aclose()
            except (ChannelError, TimeoutError, OSError) as error:
                log.warning("%s did not close in order: %s", state.name, error)

    async def _watch(self) -> None:
        """The owner is told of a channel that is down for five minutes, and when it is back after
        that.
        """
        while True:
            await asyncio.sleep(min(LOOK_EVERY_S, self.tell_after_s))
            for state in self.channels.values():
                if state.down_for > self.tell_after_s:
                    await self._tell_down(state)
                    continue
                is_news = not state.down_for and state.name in self._told
                if is_news and await self._tell(f"{state.name} works again.", state):
                    self._told.discard(state.name)

    async def _tell_down(self, state: ChannelState) -> None:
        if state.name in self._told:
            return
        why = state.describe_problem() or f"{state.name}: {state.why}"
        text = f"A channel is down. {why}. Messages to it are kept and sent when it is back. "
        if await self._tell(f"{text}`aidaemon doctor` looks into it.", state):
            self._told.add(state.name)

    async def _tell(self, text: str, state: ChannelState) -> bool:
        """False when the journal did not take it: then the next look tells it."""
        try:
            await self.tell(text, state.name)
        except StoreUnavailable as error:
            log.error("%s: %s", text, error)
            return False
        return True


async def _run_once(state: ChannelState, host: Host) -> bool:
    """Listen. True where that ended with a refusal, so that trying again soon is of no use."""
    try:
        await state.channel.run(host)
        state.mark_failing("it ended by itself and is started again")
    except Revoked as error:
        log.error("%s: %s", state.name, error)
        state.mark_failing(str(error), refused=True)
        return True
    except ChannelError as error:
        state.mark_failing(str(error))
    except Exception as error:  # what one channel breaks is its own; the others go on
        log.exception("channel %s broke off and is started again", state.name)
        state.mark_failing(f"it broke off: {type(error).__name__}")
    return False
