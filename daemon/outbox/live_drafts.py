"""What is to be seen of a turn while it works. Pure.

Drafts that no reply will replace: a crash came before they were taken away.

One turn, shown in its conversation while it works: that it types, the text as it grows, one line on what it is at (E12).

A draft that stays at the platform is noted in the journal before it is made: the reply takes its place, after a crash too.

All turns at work, each shown in its conversation as it goes (E12); and what is left of what was shown, tidied up.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from channels.base import ChannelError, DeliveryUnknown, RetryLater
from channels.message import Address
from daemon.core import value
from daemon.core.background import BackgroundTasks
from daemon.core.clock import Clock
from daemon.core.errors import StoreUnavailable
from daemon.core.event_bus import (
    DROPPABLE,
    DraftDropped,
    EventBus,
    LiveItem,
    Quarantined,
    TextDelta,
    TurnFinished,
)
from daemon.core.events import (
    Event,
    ModelReplied,
    RecordedEvent,
    Suspended,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from daemon.core.journal import ReadTx, Store
from daemon.core.rows import UNSENT_STATES, SessionRow
from daemon.outbox.channel_supervisor import ChannelState
from daemon.outbox.message import GONE, REPLY, draft_key, parse_address

STATUS_AFTER_S = 3.0


@dataclass(slots=True)
class TurnProgress:
    """What is to be seen of a turn. The text of a finished model call stays until the next one writes. `unanswered`: it stops
    here without a reply, now at least.
    """

    text: str = ""
    fresh: bool = True
    running: dict[str, str] = field(default_factory=dict)
    over: bool = False
    unanswered: bool = False

    def apply(self, item: LiveItem) -> None:
        """Take one thing in."""
        match item:
            case TextDelta():
                self.text = item.text if self.fresh else self.text + item.text
                self.fresh = False
            case DraftDropped():
                self.text, self.fresh = "", True
            case TurnFinished():
                self.over = True
            case Quarantined():
                self.over = self.unanswered = True
            case RecordedEvent():
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
            case Suspended():
                self.over = self.unanswered = True
            case TurnEnded():
                self.over, self.unanswered = True, not event.reply
            case _:
                return

    def render(self, waited: float) -> str:
        """The draft: the text so far, and what runs now if it takes its time; "" for nothing to show."""
        status = (
            f"⏳ _{', '.join(dict.fromkeys(self.running.values()))} …_"
            if self.running and waited >= STATUS_AFTER_S
            else ""
        )
        return "\n\n".join(part for part in (self.text.strip(), status) if part)


log = logging.getLogger(__name__)
CLEANUP_CALL_S = 10.0


@value
class LeftoverDraft:
    """A draft; `message` is "" or GONE where there is nothing to take away."""

    turn: str
    address: Address
    message: str


async def delete_leftovers(store: Store, outlets: Mapping[str, ChannelState]) -> None:
    """Take them away, each as soon as its channel works."""
    try:
        left = await store.read(_find_leftovers)
        await asyncio.gather(
            *(
                _delete_leftover(store, outlets[one.address.channel], one)
                for one in left
                if one.address.channel in outlets
            )
        )
    except StoreUnavailable as error:
        log.warning("drafts of before are not looked after: %s", error)


async def _delete_leftover(store: Store, outlet: ChannelState, left: LeftoverDraft) -> None:
    if left.message.removeprefix(GONE):
        await outlet.up.wait()
        try:
            await asyncio.wait_for(
                outlet.channel.delete(left.address, left.message), CLEANUP_CALL_S
            )
        except (ChannelError, TimeoutError) as error:
            log.info("%s: a draft of before stays: %s", outlet.name, error)
    await store.write(lambda tx: tx.remove_draft(left.turn))


def _find_leftovers(tx: ReadTx) -> list[LeftoverDraft]:
    found = []
    for name, message in tx.list_drafts().items():
        turn = tx.get_turn(name)
        waits = any(
            row.kind == REPLY and row.state in UNSENT_STATES for row in tx.list_turn_outbox(name)
        )
        session = tx.get_session(turn.session) if turn and turn.ended_at and not waits else None
        if session:
            found.append(LeftoverDraft(name, parse_address(session.channel, session.chat), message))
    return found


TYPING_AFTER_S, DRAFT_AFTER_S, LOOK_EVERY_S = 0.4, 1.2, 0.3
LAST_CALL_S = 5.0
FADES_S = 20.0
"""What goes away by itself is shown again after so long: Telegram takes it away after thirty."""


@dataclass(slots=True)
class DraftUpdater:
    """Watches one turn. Nothing here has to succeed. `message` is the one that shows the draft, "" while there is none that is
    known; `noted` is what the journal has of it. `showing` while the platform is asked to show one; after a refusal, and where
    it is not known whether there is one, no more are tried (`mute`).
    """

    turn: str
    address: Address
    channel: ChannelState
    store: Store
    clock: Clock
    watch: AbstractContextManager[AsyncIterator[LiveItem]]
    progress: TurnProgress = field(default_factory=TurnProgress)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    began: float = 0.0
    shown_at: float = 0.0
    shown: str = ""
    message: str = ""
    private: bool = False
    noted: str | None = None
    showing: bool = False
    mute: bool = False
    typed_at: float | None = None
    busy_since: float = 0.0

    async def follow(self, glimpses: AsyncIterator[LiveItem]) -> None:
        """Until the turn has ended, waits for a person, or the reply is about to go out."""
        self.began = self.busy_since = self.clock.monotonic()
        looking = asyncio.create_task(self._look(glimpses), name=f"look {self.turn}")
        try:
            await self._wait(TYPING_AFTER_S)
            while not self.progress.over:
                await self._type()
                await self._draft()
                await self._wait(LOOK_EVERY_S)
            await self._tidy()
        finally:
            looking.cancel()
            self.watch.__exit__(None, None, None)

    async def _look(self, glimpses: AsyncIterator[LiveItem]) -> None:
        async for item in glimpses:
            before = len(self.progress.running)
            self.progress.apply(item)
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
        can, now = self.channel.channel.capabilities, self.clock.monotonic()
        recent = self.typed_at is not None and now - self.typed_at < can.typing_every_s
        if recent or not can.typing or not self.channel.up.is_set():
            return
        self.typed_at = now
        status = ", ".join(dict.fromkeys(self.progress.running.values()))
        try:
            await asyncio.wait_for(
                self.channel.channel.show_typing(self.address, status), LAST_CALL_S
            )
        except (ChannelError, TimeoutError) as error:
            log.debug("%s: no sign of typing: %s", self.channel.name, error)
            self.typed_at = now + (error.after_s if isinstance(error, RetryLater) else 0.0)

    async def _draft(self) -> None:
        can, now = self.channel.channel.capabilities, self.clock.monotonic()
        if (
            self.mute
            or not can.drafts
            or now - self.began < DRAFT_AFTER_S
            or now - self.shown_at < can.draft_every_s
        ):
            return
        text = self.progress.render(now - self.busy_since)
        stands = text == self.shown and not (self.noted == GONE and now - self.shown_at >= FADES_S)
        if not text or stands or self.progress.over or not self.channel.up.is_set():
            return
        if not self.channel.rate_limit.try_acquire(self.address):
            return
        self.shown_at, self.shown, self.showing = now, text, True
        try:
            await self._show(text)
        except (ChannelError, TimeoutError, StoreUnavailable) as error:
            log.debug("%s: a draft was not shown: %s", self.channel.name, error)
            self.channel.rate_limit.on_error(self.address, error, spare=True)
            unclear = isinstance(error, DeliveryUnknown | TimeoutError)
            self.mute = (
                not self.message
                if unclear
                else not isinstance(error, RetryLater | StoreUnavailable)
            )
        finally:
            self.showing = False

    async def _show(self, text: str) -> None:
        """Noted before it is made; the note holds its id as soon as that is known."""
        if self.noted is None:
            known = await self._left()
            if known == "":
                self.mute = True  # a crash came before its id was known: the reply finds out what became of it
                return
            await self._note(self.message)
        draft = self.channel.channel.show_draft(
            self.address, draft_key(self.turn), text, self.message, private=self.private
        )
        self.message = await asyncio.wait_for(draft, LAST_CALL_S)
        await self._note(self.message or GONE)

    async def _left(self) -> str | None:
        """What the journal has of a draft that a former daemon showed, and whether nobody else reads the chat."""
        known, begun = await self.store.read(
            lambda tx: (tx.get_draft(self.turn), tx.get_turn_input(self.turn))
        )
        self.private, self.message = (
            begun is not None and not begun.message_id,
            (known or "").removeprefix(GONE),
        )
        return known

    async def _note(self, shown: str) -> None:
        if self.noted != shown:
            await self.store.write(lambda tx: tx.put_draft(self.turn, shown))
            self.noted = shown

    async def _tidy(self) -> None:
        """No reply will take the draft's place, not now at least: it goes. What does not go is left for the reply."""
        if not self.progress.unanswered:
            return
        try:
            if not (self.noted or (self.noted is None and await self._left())):
                return
            if self.message:
                await asyncio.wait_for(
                    self.channel.channel.delete(self.address, self.message), LAST_CALL_S
                )
            await self.store.write(lambda tx: tx.remove_draft(self.turn))
        except (ChannelError, TimeoutError, StoreUnavailable) as error:
            log.debug("%s: a draft stays: %s", self.channel.name, error)


FINISH_S = LAST_CALL_S + 1.0
Known = Callable[[str], SessionRow | None]
Task = asyncio.Task[None]


@dataclass(slots=True)
class LiveDrafts:
    """The followers, by turn."""

    store: Store
    clock: Clock
    live: EventBus
    get_session: Known
    channels: Mapping[str, ChannelState]
    _at_work: dict[str, tuple[DraftUpdater, Task]] = field(default_factory=dict)
    _errands: BackgroundTasks = field(default_factory=BackgroundTasks)

    def start(self) -> None:
        """Look after what a former daemon has left standing."""
        self._errands.start(delete_leftovers(self.store, self.channels), "drafts left over")

    def follow_turn(self, session: str, turn: str) -> None:
        """A turn begins, or goes on: whatever happens from now on is seen. Agents that work for others show nothing."""
        row, former = self.get_session(session), self._at_work.get(turn)
        outlet = self.channels.get(row.channel) if row and not row.root else None
        if row is None or outlet is None or (former and not former[0].progress.over):
            return
        watch = self.live.subscribe(turn, None if outlet.channel.capabilities.drafts else _lasting)
        follower = DraftUpdater(
            turn, parse_address(row.channel, row.chat), outlet, self.store, self.clock, watch
        )
        task = self._errands.start(follower.follow(watch.__enter__()), f"drafts {turn}")
        self._at_work[turn] = follower, task
        task.add_done_callback(lambda done: self._ended(done, turn))

    def _ended(self, task: Task, turn: str) -> None:
        if turn in self._at_work and self._at_work[turn][1] is task:
            del self._at_work[turn]

    async def finish(self, turn: str) -> None:
        """No draft of this turn is shown any more once this returns: one that is on its way is waited for, so long at most."""
        at_work = self._at_work.get(turn)
        if at_work is None:
            return
        follower, task = at_work
        follower.progress.over = True
        follower.changed.set()
        if follower.showing:
            await asyncio.wait([task], timeout=FINISH_S)
        task.cancel()

    async def aclose(self) -> None:
        """Stop showing anything."""
        await self._errands.aclose()


def _lasting(glimpse: LiveItem) -> bool:
    return not isinstance(glimpse, DROPPABLE)
