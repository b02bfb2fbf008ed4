"""Questions that are settled lose their buttons, wherever they were put, however they were answered (A15)."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from channels.base import ChannelError
from daemon.core.errors import StoreUnavailable
from daemon.core.events import Answer
from daemon.core.rows import ApprovalRow, OutboxRow
from daemon.delivery.addresses import address_of
from daemon.delivery.letters import APPROVAL, literal
from daemon.delivery.outlet import Outlet
from daemon.delivery.writing import call_of, text_of
from daemon.people.places import called
from daemon.store.protocol import ReadTx, Store

log = logging.getLogger(__name__)
MOST_S = 20.0
OUTCOMES = {
    Answer.ONCE: "✓ Approved once",
    Answer.SESSION: "✓ Approved for this conversation",
    Answer.ALWAYS: "✓ Approved for good",
    Answer.DENY: "✗ Denied",
    Answer.EXPIRED: "⌛ Nobody answered in time",
}


@dataclass(slots=True)
class Closing:
    """Looks at a turn's questions whenever it is taken up again. Nothing here has to succeed: a stale button says so itself."""

    store: Store
    outlets: Mapping[str, Outlet]
    _closed: set[tuple[str, int]] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def resumed(self, session: str, turn: str) -> None:
        """The turn begins or goes on; one that begins has no questions yet."""
        task = asyncio.create_task(self._close(turn), name=f"closing questions of {turn}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close(self, turn: str) -> None:
        def look(tx: ReadTx) -> list[tuple[OutboxRow, ApprovalRow, str]]:
            rows = [row for row in tx.outbox_of(turn) if row.kind == APPROVAL and row.platform_message_id]
            found = [(row, tx.approval(turn, call_of(row.body))) for row in rows]
            return [(row, asked, called(tx, asked.answered_by)) for row, asked in found if asked and asked.state != "pending"]

        try:
            async with asyncio.timeout(MOST_S):
                for row, asked, by in await self.store.read(look):
                    await self._settle(row, asked, by)
        except (ChannelError, StoreUnavailable, TimeoutError) as error:
            log.debug("the buttons of %s still stand: %s", turn, error)

    async def _settle(self, row: OutboxRow, asked: ApprovalRow, by: str) -> None:
        outlet = self.outlets.get(row.channel)
        if outlet is None or (row.turn, row.part) in self._closed or not outlet.channel.can.edits:
            return
        self._closed.add((row.turn, row.part))
        pieces = outlet.channel.render(f"{text_of(asked)}\n\n**{literal(outcome(asked, by))}**")
        await outlet.channel.edit(address_of(outlet.name, row.chat), row.platform_message_id.split()[-1], pieces[-1])

    async def aclose(self) -> None:
        """Leave the rest."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def outcome(asked: ApprovalRow, by: str) -> str:
    """How a question ended, in a line."""
    how = OUTCOMES.get(asked.answer or Answer.EXPIRED, "Settled")
    return f"{how} by {by}" if by else how
