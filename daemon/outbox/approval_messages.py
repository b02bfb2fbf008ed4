"""Questions that are settled lose their buttons, wherever they were put, however they were
answered (A15).
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from channels.base import ChannelError, Rejected
from channels.markup.sanitize import escape_markdown
from channels.message import OutboundMessage
from daemon.access.chat_ids import parse_address
from daemon.core.clock import BackgroundTasks
from daemon.core.errors import StoreUnavailable
from daemon.core.event_bus import EventBus, LiveItem, Quarantined, TurnFinished
from daemon.core.events import Answer, RecordedEvent, Suspended, TurnEnded
from daemon.core.rows import ApprovalRow, OutboxRow
from daemon.outbox.channel_supervisor import ChannelState
from daemon.outbox.message import parse_call_id, render_question
from daemon.store.journal import Store, Tx

log = logging.getLogger(__name__)
CALL_S, PAUSES = 20.0, (1.0, 4.0, 15.0)
OUTCOMES = {
    Answer.ONCE: "✓ Approved once",
    Answer.SESSION: "✓ Approved for this conversation",
    Answer.ALWAYS: "✓ Approved for good",
    Answer.DENY: "✗ Denied",
    Answer.EXPIRED: "⌛ Nobody answered in time",
}


@dataclass(slots=True)
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
                await anext(items)
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
    address, message_id = parse_address(row.channel, row.chat), row.platform_message_id.split()[-1]
    message = OutboundMessage(address, channel.channel.render(text)[-1])
    for pause in (*PAUSES, 0.0):
        await channel.up.wait()
        await channel.rate_limit.acquire(address)
        try:
            await asyncio.wait_for(channel.channel.edit(message_id, message), CALL_S)
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
    return f"{how} by {by}" if by else how
