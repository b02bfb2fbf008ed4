"""Standing permissions, as the journal has them: looked for, and used up."""

from collections.abc import Sequence
from dataclasses import dataclass

from daemon.core.clock import Clock
from daemon.core.rows import OUTSIDE, GrantRow
from daemon.store.protocol import ReadTx, Store, Tx
from daemon.tools.grants import Wanted, in_order_of_use


@dataclass(frozen=True, slots=True)
class StoredGrants:
    """Those of the session, of the chat that it works for, and of everywhere. What came from outside works for nobody's chat, and
    nothing holds there but what was allowed there.
    """

    store: Store
    clock: Clock

    async def granted(
        self, session: str, tool: str, args_hash: str, *, paths: Sequence[str], untrusted: bool, call: str
    ) -> bool:
        """A person has allowed this; one use of the permission is gone, in the same transaction."""
        wanted, now = Wanted(tool, args_hash, paths, untrusted), self.clock.now()

        def candidates(tx: ReadTx) -> list[GrantRow]:
            if untrusted:
                held = [row for row in tx.grants(OUTSIDE) + tx.grants(session) if row.session]
            else:
                own = tx.session(session)
                held = tx.grants(session) + (tx.grants(own.root) if own and own.root else [])
            return in_order_of_use(held, wanted, now)

        def use(tx: Tx) -> bool:
            return tx.grant_used(call) or any(tx.use_grant(row.id, call, now) for row in candidates(tx))

        if not await self.store.read(lambda tx: tx.grant_used(call) or candidates(tx)):
            return False  # nothing to write: the journal's disk is spared
        return await self.store.write(use)
