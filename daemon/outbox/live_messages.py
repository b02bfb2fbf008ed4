"""Messages that change after they were sent: drafts of a running turn (typing, the text as it
grows, the tool that runs; E12), and questions, which lose their buttons when they are settled,
wherever they were put, however they were answered (A15).

A draft that stays at the platform is noted in the journal before it is made: the reply replaces it,
after a crash too.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import inf

from channels.base import ChannelError, DeliveryUnknown, Rejected, RetryLater
from channels.markup.sanitize import escape_markdown
from channels.message import Address, OutboundMessage
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
    Answer,
    ModelReplied,
    RecordedEvent,
    Suspended,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from daemon.core.rows import UNSENT_STATES, ApprovalRow, OutboxRow, SessionRow
from daemon.core.trust import ASK_TOOL, SECRET_TOOL
from daemon.outbox.channel_supervisor import ChannelState
from daemon.outbox.message import GONE, REPLY, message_key, parse_call_id, render_question
from daemon.store.journal import Store, Tx

log = logging.getLogger(__name__)
CALL_S, PAUSES = 20.0, (1.0, 4.0, 15.0)
TYPING_AFTER_S, DRAFT_AFTER_S, LOOK_EVERY_S = 0.4, 1.2, 0.3
STATUS_AFTER_S = 3.0
LAST_CALL_S, CLEANUP_CALL_S = 5.0, 10.0
FADES_S = 20.0
"""What goes away by itself is shown again after so long: Telegram takes it away after thirty."""


OUTCOMES = {
    Answer.ONCE: "✓ Approved once",
    Answer.SESSION: "✓ Approved for this conversation",
    Answer.ALWAYS: "✓ Approved for good",
    Answer.DENY: "✗ Denied",
    Answer.TEXT: "✓ Answered",
    Answer.EXPIRED: "⌛ Nobody answered in time",
}


@dataclass
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
        watch = self.live.subscribe(turn, only)
        address = channel.to_platform(parse_address(row.channel, row.chat))
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
                async with asyncio.timeout(CLEANUP_CALL_S):
                    await channel.channel.delete(channel.to_platform(address), message)
            except (ChannelError, TimeoutError) as error:
                log.info("%s: a draft of before the start stays: %s", channel.name, error)
        await self.store.write(lambda tx: tx.remove_draft(turn))


@dataclass
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
    watch: AbstractContextManager[asyncio.Queue[LiveItem]]
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

    async def follow(self, items: asyncio.Queue[LiveItem]) -> None:
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

    async def _read(self, items: asyncio.Queue[LiveItem]) -> None:
        while not self.is_over:
            item = await items.get()
            match item.event if isinstance(item, RecordedEvent) else item:
                case TextDelta(text=text):
                    self.text = text if self.is_fresh else self.text + text
                    self.is_fresh = False
                case DraftDropped():
                    self.text, self.is_fresh = "", True
                case ModelReplied(text=text):
                    self.text, self.is_fresh = text, True
                case ToolStarted() | ToolFinished() as event:
                    self.busy_since = self.drafts.clock.monotonic()
                    self.running.pop(event.call_id, None)
                    if isinstance(event, ToolStarted):
                        self.running[event.call_id] = event.tool
                case TurnFinished():
                    self.is_over = True
                case Quarantined() | Suspended():
                    self.is_over = self.no_reply = True
                case TurnEnded(reply=reply):
                    self.is_over, self.no_reply = True, not reply

    async def _show_typing(self) -> None:
        channel, can = self.channel.channel, self.channel.channel.capabilities
        now = self.drafts.clock.monotonic()
        is_recent = now - self.typed_at < can.typing_every_s
        if is_recent or not can.typing or not self.channel.up.is_set():
            return
        self.typed_at = now
        status = ", ".join(dict.fromkeys(self.running.values()))
        try:
            async with asyncio.timeout(LAST_CALL_S):
                await channel.show_typing(self.address, status)
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
        async with asyncio.timeout(LAST_CALL_S):
            self.message = await draft
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
                async with asyncio.timeout(LAST_CALL_S):
                    await deleting
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


@dataclass
class ApprovalMessages:
    """Looks at the questions of a turn when it goes on, and when it then stops again. The journal
    has what stands open, so that a crash leaves nothing behind. After a refusal a button stays:
    pressed, it says that it is settled.
    """

    store: Store
    live: EventBus
    channels: Mapping[str, ChannelState]
    open_turns: set[str] = field(default_factory=set)
    _in_hand: set[tuple[str, int]] = field(default_factory=set)
    _tasks: BackgroundTasks = field(default_factory=BackgroundTasks)

    async def start(self) -> None:
        """Continue what a former daemon left. Raises StoreUnavailable."""
        rows = await self.store.read(lambda tx: tx.list_with_buttons())
        for turn in {row.turn for row in rows}:
            self.add_turn(turn)

    def add_turn(self, turn: str) -> None:
        """A question of this turn was posted, or a notice that may settle one: remove its buttons
        if it is settled already, else when it is.
        """
        self.open_turns.add(turn)
        self._tasks.start(self._close(turn), f"closing questions of {turn}")

    def on_turn_start(self, session: str, turn: str) -> None:
        """The turn begins or goes on: somebody has answered it, or stops it."""
        if turn in self.open_turns:
            self._tasks.start(self._follow(turn), f"closing questions of {turn}")

    async def _follow(self, turn: str) -> None:
        with self.live.subscribe(turn, _stops) as items:
            await self._close(turn)
            if turn in self.open_turns:
                await items.get()
                await self._close(turn)

    async def _close(self, turn: str) -> None:
        try:
            is_open, settled = await self.store.read(lambda tx: _load_settled(tx, turn))
            if not is_open:
                self.open_turns.discard(turn)  # before the edits: meanwhile the turn may ask again
            await asyncio.gather(*(self._remove_buttons(row, text) for row, text in settled))
        except StoreUnavailable as error:
            log.debug("the buttons of %s still stand: %s", turn, error)

    async def _remove_buttons(self, row: OutboxRow, text: str) -> None:
        """Once: while one attempt runs, however long it takes, no other begins."""
        channel, key = self.channels.get(row.channel), (row.turn, row.part)
        if key in self._in_hand:
            return
        self._in_hand.add(key)
        try:
            edits = channel is not None and channel.channel.capabilities.edits
            if channel is None or not edits or await _edit(channel, row, text):
                await self.store.write(lambda tx: tx.set_buttons(*key, shown=False))
        finally:
            self._in_hand.discard(key)

    async def aclose(self) -> None:
        """What is not done is left for the next start."""
        await self._tasks.aclose()


async def _edit(channel: ChannelState, row: OutboxRow, text: str) -> bool:
    """Whether there is nothing left to do about it. As long as its channel is down, that can
    wait.
    """
    address = channel.to_platform(parse_address(row.channel, row.chat))
    message_id = row.platform_message_id.split()[-1]
    message = OutboundMessage(address, channel.channel.render(text)[-1])
    for pause in (*PAUSES, 0.0):
        await channel.up.wait()
        await channel.rate_limit.acquire(address)
        try:
            async with asyncio.timeout(CALL_S):
                await channel.channel.edit(message_id, message)
        except Rejected as error:
            log.info("%s: the buttons of a question cannot be removed: %s", channel.name, error)
        except (ChannelError, TimeoutError) as error:
            log.debug("%s: the buttons of a question still stand: %s", channel.name, error)
            channel.rate_limit.on_error(address, error)
            await asyncio.sleep(pause)
            continue
        return True
    return False


def _stops(item: LiveItem) -> bool:
    """The turn is over, or waits again: what was open may be settled now."""
    event = item.event if isinstance(item, RecordedEvent) else item
    return isinstance(event, TurnFinished | Quarantined | Suspended | TurnEnded)


def _load_settled(tx: Tx, turn: str) -> tuple[bool, list[tuple[OutboxRow, str]]]:
    """Whether any question is open still; those with buttons that are not, with their new text."""
    is_open, settled = False, []
    for row in tx.list_turn_outbox(turn):
        asked = tx.get_approval(turn, parse_call_id(row.body)) if row.buttons else None
        if asked and asked.state == "pending":
            is_open = True
        elif asked:
            outcome = describe_outcome(asked, tx.get_display_name(asked.answered_by))
            text = f"{render_question(tx, row, asked)}\n\n**{escape_markdown(outcome)}**"
            settled.append((row, text))
    return is_open, settled


def describe_outcome(asked: ApprovalRow, by: str) -> str:
    """How a question ended, in a line."""
    if asked.answer is None and asked.state == "void":
        return "Settled: the task has ended"
    how = OUTCOMES.get(asked.answer or Answer.EXPIRED, "Settled")
    if asked.answer is Answer.CHOICE:
        how = f"✓ {asked.reason}, chosen"
    elif asked.answer is Answer.DENY and asked.tool == ASK_TOOL:
        how = "✗ Skipped"
    elif asked.answer is Answer.TEXT and asked.tool != ASK_TOOL:
        how = "✗ Denied: a message came instead"
    elif asked.answer is Answer.ONCE and asked.tool == SECRET_TOOL:
        how = "✓ Stored"
    return f"{how} by {by}" if by else how
