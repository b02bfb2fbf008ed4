"""Keeps channels running, each in its own task; knows which work and how fast one may write there,
and tells the owner of one that is down.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from channels.base import Channel, ChannelError, Host, RateLimit, RetryLater, Revoked
from channels.message import Address
from channels.transport import Backoff
from daemon.core.clock import Clock, show_time
from daemon.core.errors import StoreUnavailable
from daemon.store.journal import Store

log = logging.getLogger(__name__)
MOST_WINDOWS = 4096
SLOWED_FOR_S = 60.0
SLOW = RateLimit(25, 1.0)
SILENT_S, FAILING_S = 75.0, 15.0
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
REFUSED_PAUSE, LONGEST_REFUSED = 30.0, 600.0
LOOK_EVERY_S = 5.0
SECONDS = "%d %b %H:%M:%S"
TELL_AFTER_S = 270.0  # with a look every few seconds, within five minutes
STEADY_SHARE = 0.1
CLOSE_S = 5.0
DEAF = "it connects and falls silent again, for {minutes:.0f} minutes now ({why})"


@dataclass
class RateWindow:
    """When the latest messages went: in no stretch of the rate's length are there ever more of
    them than its count.
    """

    rate: RateLimit
    sent: deque[float] = field(default_factory=deque)
    held_until: float = 0.0

    def find_wait(self, now: float) -> float:
        """Seconds until there is room for one."""
        while self.sent and now - self.sent[0] >= self.rate.seconds:
            self.sent.popleft()
        is_full = len(self.sent) >= self.rate.count
        due = self.sent[0] + self.rate.seconds if is_full else 0.0
        return max(0.0, due - now, self.held_until - now)

    def is_used(self, now: float) -> bool:
        """Whether it says more than a new one would."""
        return self.find_wait(now) > 0 or bool(self.sent)


@dataclass
class RateLimiter:
    """As fast as the platform allows, and slower for a while after it has complained. Threads share
    their chat's rate. `monotonic` in seconds; `sleep` takes seconds.
    """

    rate: Callable[[Address], RateLimit]
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _windows: dict[str, RateWindow] = field(default_factory=dict)
    _slow: RateWindow = field(default_factory=lambda: RateWindow(SLOW))
    _slow_until: float = 0.0

    async def acquire(self, address: Address) -> None:
        """Wait until one more message may go there, and take its place."""
        while True:
            now = self.monotonic()
            windows = [self._find_window(address, now)] + [self._slow] * (now < self._slow_until)
            if not (wait := max(window.find_wait(now) for window in windows)):
                break
            await self.sleep(wait)
        for window in windows:
            window.sent.append(now)

    def try_acquire(self, address: Address) -> bool:
        """Whether something that may be left out (a draft, a sign of typing) can go now; takes its
        place if so.

        The last places, one at least, are kept for messages.
        """
        now = self.monotonic()
        window = self._find_window(address, now)
        wait, reserve = window.find_wait(now), max(1, window.rate.count // 4)
        if wait or now < self._slow_until or len(window.sent) + reserve >= window.rate.count:
            return False
        window.sent.append(now)
        return True

    def on_error(self, address: Address, error: Exception, *, spare: bool = False) -> None:
        """The error may say that it was too much: then nothing goes there for so long, and
        everything slowly for a minute. Messages do not wait for what may be left out (`spare`).
        """
        if isinstance(error, RetryLater) and error.after_s:
            now = self.monotonic()
            until = now + error.after_s
            if not spare:
                window = self._find_window(address, now)
                window.held_until = max(window.held_until, until)
            self._slow_until = max(self._slow_until, until + SLOWED_FOR_S)

    def _find_window(self, address: Address, now: float) -> RateWindow:
        if address.chat not in self._windows:
            if len(self._windows) >= MOST_WINDOWS:  # those that may write freely need no window
                windows = self._windows.items()
                self._windows = {chat: one for chat, one in windows if one.is_used(now)}
            self._windows[address.chat] = RateWindow(self.rate(address))
        return self._windows[address.chat]


class ChannelState:
    """A channel and what is known of it. `up` is set while it answers. `refused`: somebody has to
    mend it. `moved_chats`: as the journal has them.

    A channel may be connected and deaf: it answers when it is opened anew, and then no more. So
    trouble is over only when it has answered for a tenth of `tell_after_s`.
    """

    def __init__(
        self,
        channel: Channel,
        clock: Clock,
        silent_s: float = SILENT_S,
        failing_s: float = FAILING_S,
        tell_after_s: float = TELL_AFTER_S,
    ) -> None:
        self.channel, self.name, self.clock = channel, channel.name, clock
        self.silent_s, self.failing_s, self.tell_after_s = silent_s, failing_s, tell_after_s
        self.rate_limit = RateLimiter(channel.rate_limit, clock.monotonic)
        self.up = asyncio.Event()
        self.why, self.refused = "it has not answered yet", False
        self.heard_at, self._heard = clock.now(), clock.monotonic()
        self._failing: float | None = None
        self._troubled: float | None = None
        self._answered, self._relapse = 0.0, ""
        self.moved_chats: Mapping[str, str] = {}

    async def move_chat(self, store: Store, old: str, new: str) -> None:
        """The platform says that this chat has a new id: on disk when it returns. Raises
        StoreUnavailable.
        """
        now = self.clock.now()
        self.moved_chats = await store.write(lambda tx: tx.move_chat(self.name, old, new, now))
        log.info("%s: the chat %s is %s now", self.name, old, new)

    def to_platform(self, address: Address) -> Address:
        """By the id that the platform has for the chat now."""
        chats = [new for new, first in self.moved_chats.items() if first == address.chat]
        return replace(address, chat=chats[-1]) if chats else address

    def to_journal(self, address: Address) -> Address:
        """By the chat's first id, which its conversations keep."""
        return replace(address, chat=self.moved_chats.get(address.chat, address.chat))

    def mark_alive(self) -> None:
        """The platform has answered."""
        self.heard_at, self._heard = self.clock.now(), self.clock.monotonic()
        if not self.up.is_set():
            self.why, self.refused, self._failing = "", False, None
            self._answered = self._heard
            self.up.set()
        elif self._heard - self._answered >= STEADY_SHARE * self.tell_after_s:
            self._troubled, self._relapse = None, ""

    def mark_failing(self, why: str, *, refused: bool = False) -> None:
        """It does not answer as it should; `refused`: and it will not, before somebody mends it."""
        self.why, self.refused = why, refused or self.refused
        if self._troubled is None:
            self._troubled = self._heard
        elif self.up.is_set():
            self._relapse = why
        self.up.clear()
        if self._failing is None:
            self._failing = self.clock.monotonic()

    @property
    def down_for(self) -> float:
        """Seconds that it has not worked for; 0.0 while it works."""
        now = self.clock.monotonic()
        if self._failing is not None:
            return max(now - self._failing, 0.001)
        silent = now - self._heard
        return silent if silent > self.silent_s or not self.up.is_set() else 0.0

    @property
    def is_deaf(self) -> bool:
        """It has answered now and then, but never for a while, for more than `tell_after_s`."""
        return bool(self._relapse) and self._troubled_for > self.tell_after_s

    @property
    def is_lost(self) -> bool:
        """The owner is to be told: it has been down, or deaf, for more than `tell_after_s`."""
        return self.is_deaf or (self.down_for > 0 and self._troubled_for > self.tell_after_s)

    @property
    def is_steady(self) -> bool:
        """It works, and not only since a moment ago."""
        return not self.down_for and self._troubled is None

    @property
    def _troubled_for(self) -> float:
        """Seconds since the platform was heard before it got into trouble."""
        since = self._heard if self._troubled is None else self._troubled
        return self.clock.monotonic() - since

    def describe_problem(self) -> str:
        """What to say of it to those who watch over the daemon; "" while all is well, or has been
        unwell for a moment only.
        """
        if self.is_deaf:
            return f"{self.name}: {DEAF.format(minutes=self._troubled_for / 60, why=self._relapse)}"
        if not self.refused and self.down_for <= self.failing_s:
            return ""
        why = self.why or f"the platform has not answered for {self.down_for:.0f} s"
        return f"{self.name}: {why} (since {show_time(self.heard_at, SECONDS)})"

    def describe(self) -> str:
        """How it is, in one line for a person."""
        if trouble := self.describe_problem():
            return f"down: {trouble}"
        if not self.up.is_set():
            return f"{self.name}: connecting ({self.why})"
        return f"{self.name}: connected, last heard {show_time(self.heard_at, SECONDS)}"


@dataclass
class ChannelSupervisor:
    """Owner of the channels' tasks. `tell(text, not_on)` reaches the owner on another channel."""

    channels: Mapping[str, ChannelState]
    hosts: Mapping[str, Host]
    tell: Callable[[str, str], Awaitable[object]]
    look_s: float = LOOK_EVERY_S
    refused_pause_s: float = REFUSED_PAUSE
    _reported: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for state in self.channels.values():
                group.create_task(self._keep_running(state), name=f"channel {state.name}")
            group.create_task(self._watch(), name="channels' health")

    async def _keep_running(self, state: ChannelState) -> None:
        """After a refusal it is of no use to try again soon."""
        pause = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        refused_pause = Backoff(self.refused_pause_s, LONGEST_REFUSED)
        try:
            while True:
                began, refused = state.heard_at, False
                why = "it ended by itself and is started again"
                try:
                    await state.channel.run(self.hosts[state.name])
                except ChannelError as error:
                    why, refused = str(error), isinstance(error, Revoked)
                except Exception as error:  # what one channel breaks is its own; the others go on
                    log.exception("channel %s broke off and is started again", state.name)
                    why = f"it broke off: {type(error).__name__}"
                state.mark_failing(why, refused=refused)
                if state.heard_at != began:
                    pause.pause_s = refused_pause.pause_s = 0.0
                if refused:
                    log.error("%s: %s", state.name, why)
                    await self._tell_down(state)
                await (refused_pause if refused else pause).wait()
        finally:
            try:
                async with asyncio.timeout(CLOSE_S):
                    await state.channel.aclose()
            except (ChannelError, TimeoutError, OSError) as error:
                log.warning("%s did not close in order: %s", state.name, error)

    async def _watch(self) -> None:
        """The owner is told of a channel that is down, or deaf, for five minutes, and when it is
        back after that.
        """
        while True:
            await asyncio.sleep(self.look_s)
            for state in self.channels.values():
                if state.is_lost:
                    await self._tell_down(state)
                    continue
                is_news = state.is_steady and state.name in self._reported
                if is_news and await self._tell(f"{state.name} works again.", state):
                    self._reported.discard(state.name)

    async def _tell_down(self, state: ChannelState) -> None:
        if state.name not in self._reported:
            why = state.describe_problem() or f"{state.name}: {state.why}"
            text = f"A channel is down. {why}. Messages to it are kept and sent when it is back. "
            if await self._tell(f"{text}`aidaemon doctor` looks into it.", state):
                self._reported.add(state.name)

    async def _tell(self, text: str, state: ChannelState) -> bool:
        """False when the journal did not take it: then the next look tells it."""
        try:
            await self.tell(text, state.name)
        except StoreUnavailable as error:
            log.error("%s: %s", text, error)
            return False
        return True
