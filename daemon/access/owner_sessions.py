"""Whose a conversation is: what is the owner's reaches those that nobody else reads (F10)."""

from collections.abc import Callable, Collection

from daemon.core import value
from daemon.core.ids import is_mail_session
from daemon.core.rows import LOOP_CHANNEL, NO_ROOT, SessionRow
from daemon.core.trust import Label
from daemon.store.journal import Store, Tx
from daemon.store.posting import WOKEN_CHANNELS, begins_by_itself

TERMINAL, WEB = "terminal", "web"


@value
class OwnerSessions:
    """`list_shared_names`: of HTTP users, who read `web:NAME`. `list_own`: sessions that the config
    gives the owner's memories, whoever is there.
    """

    store: Store
    list_shared_names: Callable[[], Collection[str]]
    list_own: Callable[[], Collection[str]]

    async def is_own(self, session: str) -> bool:
        """It is a direct chat of an owner, the terminal, of the owner's own token or listed; or it
        works for one.
        """
        return await self.store.read(lambda tx: self.find_own(tx, session))

    async def is_private(self, session: str) -> bool:
        """Nobody but the owner reads its runs: it is theirs, and of a web session only once it
        was shown something of theirs.
        """
        return await self.store.read(lambda tx: self._find_private(tx, session))

    async def is_shared(self, session: str) -> bool:
        """Others are known to read along. A chat in which nobody has written yet is not."""
        return await self.store.read(lambda tx: self._find_shared(tx, session))

    def is_owners(self, tx: Tx, session: str) -> bool:
        """What is used there is the owner's own chat's: it did not begin by itself or outside, and
        a sub-agent's did not either.
        """
        top = tx.find_top_session(session)
        by_itself = begins_by_itself(top) or top.startswith(f"{LOOP_CHANNEL}:")
        return not by_itself and self.find_own(tx, top)

    def find_own(self, tx: Tx, session: str) -> bool:
        """See is_own."""
        row, root = _find_root(tx, session)
        if row is None or root is None:
            return False
        if root.id in {name.removeprefix("telegram:") for name in self.list_own()}:
            return True
        names = {row.id, root.id}
        return (
            row.label is Label.TRUSTED
            and self._is_direct(tx, root)
            and not any(tx.has_other_senders(name) for name in names)
        )

    def _is_direct(self, tx: Tx, root: SessionRow) -> bool:
        """Nobody else reads the conversation; of a chat of a platform, because an owner has written
        there in private.
        """
        if root.label is not Label.TRUSTED or is_mail_session(root.id):
            return False
        if root.channel == WEB:
            return root.chat.partition(".")[0] not in self.list_shared_names()
        if root.channel in (TERMINAL, *WOKEN_CHANNELS):
            return True
        return not tx.is_shared(root.id) and tx.has_private_messages(root.id)

    def _find_shared(self, tx: Tx, session: str) -> bool:
        row, root = _find_root(tx, session)
        listed = {name.removeprefix("telegram:") for name in self.list_own()}
        if row is None or root is None or root.id in listed:
            return False
        is_web = root.channel == WEB
        return (
            root.label is Label.UNTRUSTED
            or (is_web and root.chat.partition(".")[0] in self.list_shared_names())
            or tx.is_shared(root.id)
            or any(tx.has_other_senders(name) for name in {row.id, root.id})
        )

    def _find_private(self, tx: Tx, session: str) -> bool:
        row, root = _find_root(tx, session)
        if row is None or is_mail_session(row.id):
            return row is not None
        if root is None or not self._is_direct(tx, root) or tx.has_other_senders(root.id):
            return False
        return root.channel != WEB or tx.has_private_events(root.id)


def _find_root(tx: Tx, session: str) -> tuple[SessionRow | None, SessionRow | None]:
    """The session, and the conversation that it works for, which may be itself."""
    row = tx.get_session(session)
    if row is None or row.root == NO_ROOT:
        return row, None
    return row, tx.get_session(row.root) if row.root else row
