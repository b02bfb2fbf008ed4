"""What the house itself has to say to its owner, outside of any turn."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from daemon.core.clock import Clock
from daemon.core.ids import NewId
from daemon.core.label import Label
from daemon.core.rows import OutboxRow, SessionRow
from daemon.delivery.letters import NOTICE
from daemon.people.places import places
from daemon.store.protocol import ReadTx, Store, Tx

log = logging.getLogger(__name__)
TERMINAL = "terminal"


@dataclass(frozen=True, slots=True)
class Telling:
    """Posts a notice where the owner was last, on a channel that works if there is one; a log line where there is no such place
    yet.
    """

    store: Store
    clock: Clock
    new_id: NewId
    works: Callable[[str], bool] = lambda channel: True

    async def __call__(self, text: str, not_on: str = "") -> None:
        """On disk when this returns. `not_on` names the channel that it is about."""
        if not await self.store.write(lambda tx: self.post(tx, text, not_on)):
            log.warning("nobody to tell yet: %s", text)

    def post(self, tx: Tx, text: str, not_on: str = "") -> bool:
        """The same, together with what it is about; False when there is no such place yet."""
        where = self._place(tx, not_on)
        if where:
            name = f"{NOTICE}{self.new_id()}"
            tx.post(OutboxRow(name, -1, where.id, where.channel, where.chat, "notice", text, self.clock.now()))
        return where is not None

    def _place(self, tx: ReadTx, not_on: str) -> SessionRow | None:
        """The owner's own chats, those of channels that work first; else their terminal, which shows it when it is opened."""
        known = [row for session in places(tx) if (row := tx.session(session))]
        rows = [row for row in known if row.channel != not_on]
        working = [row for row in rows if self.works(row.channel)]
        terminals = [row for row in tx.sessions() if row.channel == TERMINAL and row.label is Label.TRUSTED and not row.root]
        return next(iter([*working, *terminals, *rows]), None)
