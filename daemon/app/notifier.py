"""Notices to the owner, outside of any turn."""

import logging
from collections.abc import Callable

from daemon.access.chat_ids import NOTICE
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.ids import NewId
from daemon.core.rows import OutboxRow, SessionRow
from daemon.core.trust import Label
from daemon.store.journal import Store, Tx

log = logging.getLogger(__name__)
TERMINAL_CHANNEL = "terminal"


@value
class OwnerNotifier:
    """Posts a notice where the owner was last, on a channel that works if there is one; a log line
    where there is no such place yet.
    """

    store: Store
    clock: Clock
    new_id: NewId
    is_working: Callable[[str], bool] = lambda channel: True

    async def __call__(self, text: str, not_on: str = "") -> None:
        """On disk when this returns. `not_on` names the channel that it is about."""
        if not await self.store.write(lambda tx: self.post_notice(tx, text, not_on)):
            log.warning("nobody to tell yet: %s", text)

    def post_notice(self, tx: Tx, text: str, not_on: str = "") -> bool:
        """The same, together with what it is about; False when there is no such place yet."""
        where = self._find_session(tx, not_on)
        if where:
            name = f"{NOTICE}{self.new_id()}"
            tx.post_delivery(
                OutboxRow(
                    name, -1, where.id, where.channel, where.chat, "notice", text, self.clock.now()
                )
            )
        return where is not None

    def _find_session(self, tx: Tx, not_on: str) -> SessionRow | None:
        """The owner's own chats, those of channels that work first; else their terminal, which
        shows it when it is opened.
        """
        known = [row for chat in tx.list_owner_chats() if (row := tx.get_session(chat.session))]
        rows = [row for row in known if row.channel != not_on]
        working = [row for row in rows if self.is_working(row.channel)]
        terminals = [
            row
            for row in tx.list_channel_sessions(TERMINAL_CHANNEL, 9)
            if row.label is Label.TRUSTED
        ]
        return next(iter([*working, *terminals, *rows]), None)
