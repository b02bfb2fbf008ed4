"""What the house itself has to say to its owner, outside of any turn."""

import logging
from dataclasses import dataclass

from daemon.core.clock import Clock
from daemon.core.ids import NewId
from daemon.core.label import Label
from daemon.core.rows import OutboxRow, SessionRow
from daemon.store.protocol import Store, Tx

log = logging.getLogger(__name__)
OF_THE_HOUSE = ("", "agent", "loop", "web")


@dataclass(frozen=True, slots=True)
class Telling:
    """Posts a notice where the owner was last; a log line where there is no such place yet."""

    store: Store
    clock: Clock
    new_id: NewId

    async def __call__(self, text: str) -> None:
        """On disk when this returns."""
        at, name = self.clock.now(), f"notice-{self.new_id()}"

        def work(tx: Tx) -> bool:
            where = next((row for row in tx.sessions() if _is_owners(row)), None)
            if where:
                tx.post(OutboxRow(name, -1, where.id, where.channel, where.chat, "notice", text, at))
            return where is not None

        if not await self.store.write(work):
            log.warning("nobody to tell yet: %s", text)


def _is_owners(row: SessionRow) -> bool:
    return row.label is Label.TRUSTED and not row.root and row.channel not in OF_THE_HOUSE
