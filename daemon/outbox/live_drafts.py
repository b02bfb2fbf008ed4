"""Shows a running turn in its conversation: typing, the text as it grows, the tool that runs
(E12).

A draft that stays at the platform is noted in the journal before it is made: the reply replaces it,
after a crash too.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field

from channels.base import ChannelError, DeliveryUnknown, RetryLater
from channels.message import Address
from daemon.access.chat_ids import parse_address
from daemon.core.clock import BackgroundTasks, Clock
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
    ModelReplied,
    RecordedEvent,
    Suspended,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from daemon.core.rows import UNSENT_STATES, SessionRow
from daemon.outbox.channel_supervisor import ChannelState
from daemon.outbox.message import GONE, REPLY, draft_key
from daemon.store.journal import Store, Tx

log = logging.getLogger(__name__)
TYPING_AFTER_S, DRAFT_AFTER_S, LOOK_EVERY_S = 0.4, 1.2, 0.3
STATUS_AFTER_S = 3.0
LAST_CALL_S, CLEANUP_CALL_S = 5.0, 10.0
FADES_S = 20.0
"""What goes away by itself is shown again after so long: Telegram takes it away after thirty."""


@dataclass(slots=True)
class DraftUpdater:
    """Watches one turn. Nothing here has to succeed.

    `text` is the draft, that of a finished model call until the next one writes (`fresh`);
    `running` the tools at work; `no_reply`: the turn stops without a reply, now at least. `message`
    is the one that shows the draft, "" while none is known; `noted` is what the journal has of it.
    `showing` while the platform is asked to show one; after a refusal, and where it is not known
    whether there is one, no more are tried (`mute`).
    """

    turn: str
    address: Address
    channel: ChannelState
    store: Store
    clock: Clock
    watch: AbstractContextManager[AsyncIterator[LiveItem]]
    text: str = ""
    fresh: bool = True
    running: dict[str, str] = field(default_factory=dict)
    over: bool = False
    no_reply: bool = False
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    began: float = 0.0
    shown_at: float = 0.0
    shown: str = ""
    message: str = ""
    noted: str | None = None
    showing: bool = False
    mute: bool = False
    typed_at: float | None = None
    busy_since: float = 0.0

    async def follow(self, items: AsyncIterator[LiveItem]) -> None:
        """Until the turn has ended, waits for a person, or the reply is about to be sent."""
        self.began = self.busy_since = self.clock.monotonic()
        reading = asyncio.create_task(self._read(items), name=f"draft events {self.turn}")
        pause = TYPING_AFTER_S
        try:
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.stopped.wait(), pause)
                if self.over:
                    break
                await self._show_typing()
                await self._update()
                pause = LOOK_EVERY_S
            if self.no_reply:
                await self._delete()
        finally:
            reading.cancel()
            self.watch.__exit__(None, None, None)

    async def _read(self, items: AsyncIterator[LiveItem]) -> None:
        async for item in items:
            match item.event if isinstance(item, RecordedEvent) else item:
                case TextDelta(text=text):
                    self.text, self.fresh = text if self.fresh else self.text + text, False
                case DraftDropped():
                    self.text, self.fresh = "", True
                case ModelReplied(text=text):
                    self.text, self.fresh = text, True
                case ToolStarted() as event:
                    self.running[event.call_id] = event.tool
                    self.busy_since = self.clock.monotonic()
                case ToolFinished() as event:
                    self.running.pop(event.call_id, None)
                    self.busy_since = self.clock.monotonic()
                case TurnFinished():
                    self.over = True
                case Quarantined() | Suspended():
                    self.over = self.no_reply = True
                case TurnEnded(reply=reply):
                    self.over, self.no_reply = True, not reply
                case _:
                    continue
            if self.over:
                self.stopped.set()
                return

    async def _show_typing(self) -> None:
        can, now = self.channel.channel.capabilities, self.clock.monotonic()
        recent = self.typed_at is not None and now - self.typed_at < can.typing_every_s
        if recent or not can.typing or not self.channel.up.is_set():
            return
        self.typed_at = now
        status = ", ".join(dict.fromkeys(self.running.values()))
        typing = self.channel.channel.show_typing(self.address, status)
        try:
            await asyncio.wait_for(typing, LAST_CALL_S)
        except (ChannelError, TimeoutError) as error:
            log.debug("%s: typing was not shown: %s", self.channel.name, error)
            self.typed_at = now + (error.after_s if isinstance(error, RetryLater) else 0.0)

    async def _update(self) -> None:
        """Show the text so far, and what runs now if it takes its time."""
        can, now = self.channel.channel.capabilities, self.clock.monotonic()
        early = now - self.began < DRAFT_AFTER_S or now - self.shown_at < can.draft_every_s
        if self.mute or not can.drafts or early:
            return
        text = self.text.strip()
        if self.running and now - self.busy_since >= STATUS_AFTER_S:
            text = f"{text}\n\n⏳ _{', '.join(dict.fromkeys(self.running.values()))} …_".lstrip()
        faded = self.noted == GONE and now - self.shown_at >= FADES_S
        if not text or (text == self.shown and not faded) or not self.channel.up.is_set():
            return
        if self.over or not self.channel.rate_limit.try_acquire(self.address):
            return
        self.shown_at, self.shown, self.showing = now, text, True
        try:
            await self._show(text)
        except (ChannelError, TimeoutError, StoreUnavailable) as error:
            log.debug("%s: a draft was not shown: %s", self.channel.name, error)
            self.channel.rate_limit.on_error(self.address, error, spare=True)
            if isinstance(error, DeliveryUnknown | TimeoutError):
                self.mute = not self.message
            else:
                self.mute = not isinstance(error, RetryLater | StoreUnavailable)
        finally:
            self.showing = False

    async def _show(self, text: str) -> None:
        """Noted before it is made; the note holds its id as soon as that is known."""
        if self.noted is None:
            if await self._load() == "":
                # a crash came before its id was known: the reply finds out what became of it
                self.mute = True
                return
            await self._note(self.message)
        draft = self.channel.channel.show_draft(
            self.address, draft_key(self.turn), text, self.message
        )
        self.message = await asyncio.wait_for(draft, LAST_CALL_S)
        await self._note(self.message or GONE)

    async def _load(self) -> str | None:
        """What the journal has of a draft that a former daemon showed."""
        known = await self.store.read(lambda tx: tx.get_draft(self.turn))
        self.message = (known or "").removeprefix(GONE)
        return known

    async def _note(self, shown: str) -> None:
        if self.noted != shown:
            await self.store.write(lambda tx: tx.put_draft(self.turn, shown))
            self.noted = shown

    async def _delete(self) -> None:
        """No reply replaces the draft now: delete it. If that fails, the reply finds it."""
        try:
            if not (self.noted or (self.noted is None and await self._load())):
                return
            if self.message:
                deleting = self.channel.channel.delete(self.address, self.message)
                await asyncio.wait_for(deleting, LAST_CALL_S)
            await self.store.write(lambda tx: tx.remove_draft(self.turn))
        except (ChannelError, TimeoutError, StoreUnavailable) as error:
            log.debug("%s: a draft stays: %s", self.channel.name, error)


@dataclass(slots=True)
class LiveDrafts:
    """The draft updaters, by turn."""

    store: Store
    clock: Clock
    live: EventBus
    get_session: Callable[[str], SessionRow | None]
    channels: Mapping[str, ChannelState]
    _updaters: dict[str, tuple[DraftUpdater, asyncio.Task[None]]] = field(default_factory=dict)
    _tasks: BackgroundTasks = field(default_factory=BackgroundTasks)

    def start(self) -> None:
        """Delete drafts that a crash left and no reply will replace."""
        self._tasks.start(self._delete_leftovers(), "drafts left over")

    def follow_turn(self, session: str, turn: str) -> None:
        """A turn begins, or goes on: show it from now on. Sub-agents show nothing."""
        row, former = self.get_session(session), self._updaters.get(turn)
        channel = self.channels.get(row.channel) if row and not row.root else None
        if row is None or channel is None or (former and not former[0].over):
            return
        only = None if channel.channel.capabilities.drafts else _is_lasting
        watch, address = self.live.subscribe(turn, only), parse_address(row.channel, row.chat)
        updater = DraftUpdater(turn, address, channel, self.store, self.clock, watch)
        task = self._tasks.start(updater.follow(watch.__enter__()), f"drafts {turn}")
        self._updaters[turn] = updater, task
        task.add_done_callback(lambda done: self._forget(done, turn))

    def _forget(self, task: asyncio.Task[None], turn: str) -> None:
        if turn in self._updaters and self._updaters[turn][1] is task:
            del self._updaters[turn]

    async def finish(self, turn: str) -> None:
        """No draft of this turn is shown any more once this returns; one that is being shown is
        waited for, for a while.
        """
        if turn not in self._updaters:
            return
        updater, task = self._updaters[turn]
        updater.over = True
        updater.stopped.set()
        if updater.showing:
            await asyncio.wait([task], timeout=LAST_CALL_S + 1.0)
        task.cancel()

    async def aclose(self) -> None:
        """Stop showing anything."""
        await self._tasks.aclose()

    async def _delete_leftovers(self) -> None:
        """Each as soon as its channel works."""
        try:
            left = await self.store.read(_list_leftovers)
            await asyncio.gather(*(self._delete_leftover(*one) for one in left))
        except StoreUnavailable as error:
            log.warning("drafts of before the start are not deleted: %s", error)

    async def _delete_leftover(self, turn: str, address: Address, message: str) -> None:
        channel = self.channels.get(address.channel)
        if channel is None:
            return
        if message.removeprefix(GONE):
            await channel.up.wait()
            try:
                await asyncio.wait_for(channel.channel.delete(address, message), CLEANUP_CALL_S)
            except (ChannelError, TimeoutError) as error:
                log.info("%s: a draft of before the start stays: %s", channel.name, error)
        await self.store.write(lambda tx: tx.remove_draft(turn))


def _list_leftovers(tx: Tx) -> list[tuple[str, Address, str]]:
    """(turn, address, message) of drafts whose turn has ended without a reply on its way; "" or
    GONE: nothing to delete.
    """
    found = []
    for name, message in tx.list_drafts().items():
        turn, rows = tx.get_turn(name), tx.list_turn_outbox(name)
        waits = any(row.kind == REPLY and row.state in UNSENT_STATES for row in rows)
        session = tx.get_session(turn.session) if turn and turn.ended_at and not waits else None
        if session:
            found.append((name, parse_address(session.channel, session.chat), message))
    return found


def _is_lasting(item: LiveItem) -> bool:
    return not isinstance(item, DROPPABLE)
