"""Questions that are settled lose their buttons, wherever they were put, however they were answered (A15)."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from channels.base import ChannelError, Rejected
from channels.markup.sanitize import escape_markdown
from daemon.core import value
from daemon.core.background import BackgroundTasks
from daemon.core.errors import StoreUnavailable
from daemon.core.event_bus import EventBus, LiveItem, Quarantined, TurnFinished
from daemon.core.events import Answer, RecordedEvent, Suspended, TurnEnded
from daemon.core.journal import ReadTx, Store
from daemon.core.rows import ApprovalRow, OutboxRow
from daemon.outbox.channel_supervisor import ChannelState
from daemon.outbox.message import parse_address
from daemon.outbox.render import describe_origin, parse_call_id, render_question

log = logging.getLogger(__name__)
CALL_S, PAUSES = 20.0, (1.0, 4.0, 15.0)
OUTCOMES = {
    Answer.ONCE: "✓ Approved once",
    Answer.SESSION: "✓ Approved for this conversation",
    Answer.ALWAYS: "✓ Approved for good",
    Answer.DENY: "✗ Denied",
    Answer.EXPIRED: "⌛ Nobody answered in time",
}


@value
class PostedQuestion:
    """A question with its buttons, as it stands somewhere, whose it is, and who answered it."""

    row: OutboxRow
    asked: ApprovalRow
    whose: str
    by: str


@dataclass(slots=True)
class ApprovalMessages:
    """Looks at the questions of a turn when it goes on, and when it then stops again. What stands open is in the journal, so
    that a crash leaves nothing behind; a platform that refuses is let be: a stale button says so itself.
    """

    store: Store
    live: EventBus
    channels: Mapping[str, ChannelState]
    _open: set[str] = field(default_factory=set)
    _in_hand: set[tuple[str, int]] = field(default_factory=set)
    _errands: BackgroundTasks = field(default_factory=BackgroundTasks)

    async def start(self) -> None:
        """What a former daemon left. Raises StoreUnavailable."""
        rows = await self.store.read(lambda tx: tx.list_with_buttons())
        for turn in {row.turn for row in rows}:
            self.add_turn(turn)

    def add_turn(self, turn: str) -> None:
        """A question of this turn stands somewhere: take its buttons away if it is settled already, else when it is."""
        self._open.add(turn)
        self._start(turn)

    def on_delivery(self, turn: str) -> None:
        """The house has said something about this turn: with a notice ends what was asked after the turn itself was over."""
        if turn in self._open:
            self._start(turn)

    def on_turn_start(self, session: str, turn: str) -> None:
        """The turn begins or goes on: somebody has answered it, or stops it."""
        if turn in self._open:
            self._start(turn, follow=True)

    def _start(self, turn: str, *, follow: bool = False) -> None:
        self._errands.start(
            self._follow(turn) if follow else self._close(turn), f"closing questions of {turn}"
        )

    async def _follow(self, turn: str) -> None:
        with self.live.subscribe(turn, _stops) as glimpses:
            await self._close(turn)
            if turn in self._open:
                await anext(glimpses)
                await self._close(turn)

    async def _close(self, turn: str) -> None:
        try:
            left, put = await self.store.read(lambda tx: _settled(tx, turn))
            (self._open.add if left else self._open.discard)(
                turn
            )  # now: while these go, the turn may ask anew
            await asyncio.gather(*map(self._settle, put))
        except StoreUnavailable as error:
            log.debug("the buttons of %s still stand: %s", turn, error)

    async def _settle(self, put: PostedQuestion) -> None:
        """Once: what is being tried already, however long that takes, is not tried beside it."""
        outlet, name = self.channels.get(put.row.channel), (put.row.turn, put.row.part)
        if name in self._in_hand:
            return
        self._in_hand.add(name)
        try:
            if not (outlet and outlet.channel.capabilities.edits) or await self._edited(
                outlet, put
            ):
                await self.store.write(lambda tx: tx.set_buttons(*name, shown=False))
        finally:
            self._in_hand.discard(name)

    async def _edited(self, outlet: ChannelState, put: PostedQuestion) -> bool:
        """Whether there is nothing left to do about it. As long as its channel is down, that can wait."""
        pieces = outlet.channel.render(
            f"{render_question(put.asked, put.whose)}\n\n**{escape_markdown(describe_outcome(put.asked, put.by))}**"
        )
        where, message = (
            parse_address(outlet.name, put.row.chat),
            put.row.platform_message_id.split()[-1],
        )
        for pause in (*PAUSES, 0.0):
            await outlet.up.wait()
            await outlet.rate_limit.acquire(where)
            try:
                await asyncio.wait_for(outlet.channel.edit(where, message, pieces[-1]), CALL_S)
            except Rejected as error:
                log.info(
                    "%s: the buttons of a question cannot be taken away: %s", outlet.name, error
                )
            except (ChannelError, TimeoutError) as error:
                log.debug("%s: the buttons of a question are still there: %s", outlet.name, error)
                outlet.rate_limit.on_error(where, error)
                await asyncio.sleep(pause)
                continue
            return True
        return False

    async def aclose(self) -> None:
        """Leave the rest."""
        await self._errands.aclose()


def _stops(glimpse: LiveItem) -> bool:
    """The turn is over, or waits again: what was open may be settled now."""
    event = glimpse.event if isinstance(glimpse, RecordedEvent) else None
    return isinstance(glimpse, TurnFinished | Quarantined) or isinstance(
        event, Suspended | TurnEnded
    )


def _settled(tx: ReadTx, turn: str) -> tuple[bool, list[PostedQuestion]]:
    """Whether any is open still; those with buttons that are not."""
    rows = [row for row in tx.list_turn_outbox(turn) if row.buttons]
    questions = [
        (row, asked) for row in rows if (asked := tx.get_approval(turn, parse_call_id(row.body)))
    ]
    found = [
        PostedQuestion(
            row, asked, describe_origin(tx, row, asked), tx.get_display_name(asked.answered_by)
        )
        for row, asked in questions
    ]
    settled = [put for put in found if put.asked.state != "pending"]
    return len(settled) < len(found), settled


def describe_outcome(asked: ApprovalRow, by: str) -> str:
    """How a question ended, in a line."""
    if asked.answer is None and asked.state == "void":
        return "Settled: the task has ended"
    how = OUTCOMES.get(asked.answer or Answer.EXPIRED, "Settled")
    return f"{how} by {by}" if by else how
