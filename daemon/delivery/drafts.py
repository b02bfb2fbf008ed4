"""What a conversation sees of a turn while it works: that it types, the text as it grows, one line on what it is at (E12).

A draft that stays at the platform is noted in the journal before it is made: the reply takes its place, after a crash too.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from channels.base import ChannelError, Refused
from channels.message import Address
from daemon.core.clock import Clock
from daemon.core.errors import StoreUnavailable
from daemon.core.events import Event, ModelReplied, Recorded, Suspended, ToolFinished, ToolStarted, TurnEnded
from daemon.core.live import DraftDropped, Glimpse, Live, Over, SetAside, TextDelta
from daemon.core.rows import SessionRow
from daemon.delivery.addresses import address_of
from daemon.delivery.letters import draft_key
from daemon.delivery.outlet import Outlet
from daemon.store.protocol import Store

log = logging.getLogger(__name__)
DRAFT = "draft"
TYPING_AFTER_S, DRAFT_AFTER_S, STATUS_AFTER_S = 0.4, 1.2, 3.0
LAST_CALL_S = 10.0
Known = Callable[[str], SessionRow | None]


@dataclass(slots=True)
class Progress:
    """What is to be seen of a turn. The text of a finished model call stays until the next one writes."""

    text: str = ""
    fresh: bool = True
    running: dict[str, str] = field(default_factory=dict)
    over: bool = False

    def see(self, item: Glimpse) -> None:
        """Take one thing in."""
        match item:
            case TextDelta():
                self.text = item.text if self.fresh else self.text + item.text
                self.fresh = False
            case DraftDropped():
                self.text, self.fresh = "", True
            case Over() | SetAside():
                self.over = True
            case Recorded():
                self._happened(item.event)
            case _:
                return

    def _happened(self, event: Event) -> None:
        match event:
            case ModelReplied():
                self.text, self.fresh = event.text, True
            case ToolStarted():
                self.running[event.call_id] = event.tool
            case ToolFinished():
                self.running.pop(event.call_id, None)
            case Suspended() | TurnEnded():
                self.over = True
            case _:
                return

    def shown(self, waited: float) -> str:
        """The draft: the text so far, and what runs now if it takes its time; "" for nothing to show."""
        status = f"⏳ _{', '.join(dict.fromkeys(self.running.values()))} …_" if self.running and waited >= STATUS_AFTER_S else ""
        return "\n\n".join(part for part in (self.text.strip(), status) if part)


@dataclass(slots=True)
class Follower:
    """Watches one turn and shows it in its conversation. Nothing here has to succeed."""

    turn: str
    address: Address
    outlet: Outlet
    store: Store
    clock: Clock
    watch: AbstractContextManager[AsyncIterator[Glimpse]]
    glimpses: AsyncIterator[Glimpse]
    progress: Progress = field(default_factory=Progress)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    began: float = 0.0
    shown_at: float = 0.0
    shown: str = ""
    message: str = ""
    private: bool = False
    noted: bool = False
    typed_at: float = 0.0
    busy_since: float = 0.0

    async def follow(self) -> None:
        """Until the turn has ended, waits for a person, or the reply is about to go out."""
        self.began = self.busy_since = self.clock.monotonic()
        looking = asyncio.create_task(self._look(), name=f"look {self.turn}")
        try:
            await self._wait(TYPING_AFTER_S)
            while not self.progress.over:
                await self._type()
                await self._draft()
                await self._wait(0.3)
        finally:
            looking.cancel()
            self.watch.__exit__(None, None, None)

    async def _look(self) -> None:
        async for item in self.glimpses:
            before = len(self.progress.running)
            self.progress.see(item)
            if len(self.progress.running) != before:
                self.busy_since = self.clock.monotonic()
            if self.progress.over:
                self.changed.set()
                return

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self.changed.wait(), seconds)
        except TimeoutError:
            return

    async def _type(self) -> None:
        can, now = self.outlet.channel.can, self.clock.monotonic()
        if not can.typing or now - self.typed_at < can.typing_every_s or not self.outlet.up.is_set():
            return
        self.typed_at = now
        status = ", ".join(dict.fromkeys(self.progress.running.values()))
        try:
            await asyncio.wait_for(self.outlet.channel.typing(self.address, status), LAST_CALL_S)
        except (ChannelError, TimeoutError) as error:
            log.debug("%s: no sign of typing: %s", self.outlet.name, error)

    async def _draft(self) -> None:
        can, now = self.outlet.channel.can, self.clock.monotonic()
        text = self.progress.shown(now - self.busy_since)
        wanted = can.drafts and text and text != self.shown and self.outlet.up.is_set()
        if not wanted or now - self.began < DRAFT_AFTER_S or now - self.shown_at < can.draft_every_s:
            return
        if not self.outlet.pacing.spare(self.address):
            return
        self.shown_at, self.shown = now, text
        try:
            await self._show(text)
        except (ChannelError, TimeoutError, StoreUnavailable) as error:
            log.debug("%s: a draft was not shown: %s", self.outlet.name, error)
            if isinstance(error, Refused):
                self.message = ""

    async def _show(self, text: str) -> None:
        """Noted before it is made; the note holds its id as soon as that is known."""
        if not self.noted:
            known, begun = await self.store.read(lambda tx: (tx.kept(DRAFT, self.turn), tx.input_of(self.turn)))
            self.private = begun is not None and not begun.message_id
            self.message, self.noted = known or "", True
            await self.store.write(lambda tx: tx.keep(DRAFT, self.turn, self.message))
        draft = self.outlet.channel.draft(self.address, draft_key(self.turn), text, self.message, private=self.private)
        message = await asyncio.wait_for(draft, LAST_CALL_S)
        if message and message != self.message:
            await self.store.write(lambda tx: tx.keep(DRAFT, self.turn, message))
        self.message = message


@dataclass(slots=True)
class Drafts:
    """All followers, by turn."""

    store: Store
    clock: Clock
    live: Live
    known: Known
    outlets: Mapping[str, Outlet]
    _at_work: dict[str, tuple[Follower, asyncio.Task[None]]] = field(default_factory=dict)

    def begun(self, session: str, turn: str) -> None:
        """A turn begins, or goes on: whatever happens from now on is seen."""
        row = self.known(session)
        outlet = self.outlets.get(row.channel) if row else None
        if row is None or outlet is None or turn in self._at_work:
            return
        watch = self.live.watch(turn)
        address = address_of(row.channel, row.chat)
        follower = Follower(turn, address, outlet, self.store, self.clock, watch, watch.__enter__())
        task = asyncio.create_task(follower.follow(), name=f"drafts {turn}")
        self._at_work[turn] = follower, task
        task.add_done_callback(lambda done: self._at_work.pop(turn, None))

    async def finish(self, turn: str) -> None:
        """No draft of this turn is shown any more once this returns: what is on its way is waited for."""
        at_work = self._at_work.get(turn)
        if at_work:
            follower, task = at_work
            follower.progress.over = True
            follower.changed.set()
            await asyncio.wait([task], timeout=2 * LAST_CALL_S)

    async def aclose(self) -> None:
        """Stop showing anything."""
        tasks = [task for _, task in self._at_work.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
