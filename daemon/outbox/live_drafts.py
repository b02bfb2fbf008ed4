"""Shows a running turn in its conversation: typing, the text as it grows, the tool that runs
(E12).

A draft that stays at the platform is noted in the journal before it is made: the reply replaces it,
after a crash too.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import inf

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
from daemon.outbox.message import GONE, REPLY, message_key
from daemon.store.journal import Store, Tx

log = logging.getLogger(__name__)
TYPING_AFTER_S, DRAFT_AFTER_S, LOOK_EVERY_S = 0.4, 1.2, 0.3
STATUS_AFTER_S = 3.0
LAST_CALL_S, CLEANUP_CALL_S = 5.0, 10.0
FADES_S = 20.0
"""What goes away by itself is shown again after so long: Telegram takes it away after thirty."""


@dataclass(slots=True)
class LiveDrafts:
    """The draft updaters, by turn."""

    store: Store
    clock: Clock
    live: EventBus
    get_session: Callable[[str], SessionRow | None]
    channels: Mapping[str, ChannelState]
    updaters: "dict[str, DraftUpdater]" = field(default_factory=dict)
    _tasks: BackgroundTasks = field(default_factory=BackgroundTasks)

    def start(self) -> None:
        """Delete drafts that a crash left and no reply will replace."""
        self._tasks.start(self._delete_leftovers(), "drafts left over")

    def follow_turn(self, session: str, turn: str) -> None:
        """A turn begins, or goes on: show it from now on. Sub-agents show nothing."""
        row, former = self.get_session(session), self.updaters.get(turn)
        channel = self.channels.get(row.channel) if row and not row.root else None
        if row is None or channel is None or (former and not former.is_over):
            return
        only = None if channel.channel.capabilities.drafts else _is_lasting
        watch, address = self.live.subscribe(turn, only), parse_address(row.channel, row.chat)
        updater = self.updaters[turn] = DraftUpdater(turn, address, channel, self, watch)
        updater.task = self._tasks.start(updater.follow(watch.__enter__()), f"drafts {turn}")

    async def finish(self, turn: str) -> None:
        """No draft of this turn is shown any more once this returns; one that is being shown is
        waited for, for a while.
        """
        updater = self.updaters.get(turn)
        if updater and updater.task:
            updater.is_over = True
            if updater.is_showing:
                await asyncio.wait([updater.task], timeout=LAST_CALL_S + 1.0)
            updater.task.cancel()

    async def aclose(self) -> None:
        """Stop showing anything."""
        await self._tasks.aclose()

    async def _delete_leftovers(self) -> None:
        """Each as soon as its channel works."""
        try:
            found = await self.store.read(_list_leftovers)
            await asyncio.gather(*(self._delete_leftover(*one) for one in found))
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


@dataclass(slots=True)
class DraftUpdater:
    """Watches one turn. Nothing here has to succeed.

    `text` is the draft, that of a finished model call until the next one writes (`is_fresh`);
    `running` the tools at work; `no_reply`: the turn stops without a reply, now at least. `message`
    is the one that shows the draft, "" while none is known; `noted` is what the journal has of it.
    `is_showing` while the platform is asked to show one; after a refusal, and where it is not known
    whether there is one, no more are tried (`mute`).
    """

    turn: str
    address: Address
    channel: ChannelState
    drafts: LiveDrafts
    watch: AbstractContextManager[AsyncIterator[LiveItem]]
    task: asyncio.Task[None] | None = None
    text: str = ""
    is_fresh: bool = True
    running: dict[str, str] = field(default_factory=dict)
    is_over: bool = False
    no_reply: bool = False
    began: float = 0.0
    busy_since: float = 0.0
    typed_at: float = -inf
    shown_at: float = 0.0
    shown: str = ""
    message: str = ""
    noted: str | None = None
    is_showing: bool = False
    mute: bool = False

    async def follow(self, items: AsyncIterator[LiveItem]) -> None:
        """Until the turn has ended, waits for a person, or the reply is about to be sent."""
        self.began = self.busy_since = self.drafts.clock.monotonic()
        reading = asyncio.create_task(self._read(items), name=f"draft events {self.turn}")
        try:
            await asyncio.wait([reading], timeout=TYPING_AFTER_S)
            while not (self.is_over or reading.done()):
                await self._show_typing()
                await self._update()
                if not self.is_over:
                    await asyncio.wait([reading], timeout=LOOK_EVERY_S)
            if self.no_reply:
                await self._delete()
        finally:
            reading.cancel()
            self.watch.__exit__(None, None, None)
            if self.drafts.updaters.get(self.turn) is self:
                del self.drafts.updaters[self.turn]

    async def _read(self, items: AsyncIterator[LiveItem]) -> None:
        while not self.is_over:
            item = await anext(items)
            match item.event if isinstance(item, RecordedEvent) else item:
                case TextDelta(text=text):
                    self.text = text if self.is_fresh else self.text + text
                    self.is_fresh = False
                case DraftDropped():
                    self.text, self.is_fresh = "", True
                case ModelReplied(text=text):
                    self.text, self.is_fresh = text, True
                case ToolStarted() as event:
                    self.running[event.call_id] = event.tool
                    self.busy_since = self.drafts.clock.monotonic()
                case ToolFinished() as event:
                    self.running.pop(event.call_id, None)
                    self.busy_since = self.drafts.clock.monotonic()
                case TurnFinished():
                    self.is_over = True
                case Quarantined() | Suspended():
                    self.is_over = self.no_reply = True
                case TurnEnded(reply=reply):
                    self.is_over, self.no_reply = True, not reply
                case _:
                    pass

    async def _show_typing(self) -> None:
        channel, can = self.channel.channel, self.channel.channel.capabilities
        now = self.drafts.clock.monotonic()
        is_recent = now - self.typed_at < can.typing_every_s
        if is_recent or not can.typing or not self.channel.up.is_set():
            return
        self.typed_at = now
        status = ", ".join(dict.fromkeys(self.running.values()))
        try:
            await asyncio.wait_for(channel.show_typing(self.address, status), LAST_CALL_S)
        except (ChannelError, TimeoutError) as error:
            log.debug("%s: typing was not shown: %s", self.channel.name, error)
            self.typed_at = now + getattr(error, "after_s", 0.0)

    async def _update(self) -> None:
        """Show the text so far, and what runs now if it takes its time."""
        can, now = self.channel.channel.capabilities, self.drafts.clock.monotonic()
        is_early = now - self.began < DRAFT_AFTER_S or now - self.shown_at < can.draft_every_s
        if self.is_over or self.mute or not can.drafts or is_early:
            return
        text = self.text.strip()
        if self.running and now - self.busy_since >= STATUS_AFTER_S:
            text = f"{text}\n\n⏳ _{', '.join(dict.fromkeys(self.running.values()))} …_".lstrip()
        fades = self.noted == GONE and now - self.shown_at >= FADES_S
        if not text or (text == self.shown and not fades) or not self.channel.up.is_set():
            return
        if not self.channel.rate_limit.try_acquire(self.address):
            return
        self.shown_at, self.shown, self.is_showing = now, text, True
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
            self.is_showing = False

    async def _show(self, text: str) -> None:
        """Noted before it is made; the note holds its id as soon as that is known."""
        if self.noted is None:
            if await self._load() == "":
                # a crash came before its id was known: the reply finds out what became of it
                self.mute = True
                return
            await self._note(self.message)
        key, channel = message_key(self.turn, "draft"), self.channel.channel
        draft = channel.show_draft(self.address, key, text, self.message)
        self.message = await asyncio.wait_for(draft, LAST_CALL_S)
        await self._note(self.message or GONE)

    async def _load(self) -> str | None:
        """What the journal has of a draft that a former daemon showed."""
        known = await self.drafts.store.read(lambda tx: tx.get_draft(self.turn))
        self.message = (known or "").removeprefix(GONE)
        return known

    async def _note(self, shown: str) -> None:
        if self.noted != shown:
            await self.drafts.store.write(lambda tx: tx.put_draft(self.turn, shown))
            self.noted = shown

    async def _delete(self) -> None:
        """No reply replaces the draft now: delete it. If that fails, the reply finds it."""
        try:
            if not (await self._load() if self.noted is None else self.noted):
                return
            if self.message:
                deleting = self.channel.channel.delete(self.address, self.message)
                await asyncio.wait_for(deleting, LAST_CALL_S)
            await self.drafts.store.write(lambda tx: tx.remove_draft(self.turn))
        except (ChannelError, TimeoutError, StoreUnavailable) as error:
            log.debug("%s: a draft stays: %s", self.channel.name, error)


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
