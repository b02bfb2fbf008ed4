"""Where a worker's events go: the journal, fenced by its epoch; then those who watch."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from daemon.core.errors import StoreUnavailable
from daemon.core.events import Recorded, TurnResumed, UserSaid
from daemon.core.live import Live
from daemon.store.protocol import Store, Tx

log = logging.getLogger(__name__)
FIRST_WAIT, LONGEST_WAIT = 0.2, 2.0

Opening = Callable[[Tx, int], None]


@dataclass(slots=True)
class Tenure:
    """One worker's ownership of a session: its epoch, taken with its first write."""

    session: str
    owner: str
    epoch: int = 0

    def claim(self, tx: Tx) -> int:
        """The epoch; claimed now if it was not yet."""
        return self.epoch or tx.claim(self.session, self.owner)


@dataclass(slots=True)
class LaneSink:
    """The sink of one turn. `opening` is done in the transaction of the first events. A full disk is waited out: nothing
    follows from an event that is not written, so no tool runs meanwhile.
    """

    store: Store
    tenure: Tenure
    live: Live
    opening: Opening | None = None
    leaving: asyncio.Event = field(default_factory=asyncio.Event)

    async def append(self, turn_id: str, recorded: Sequence[Recorded]) -> None:
        """Durable when it returns. Raises Fenced; StoreUnavailable only when the daemon leaves."""
        self.tenure.epoch = await self._write(turn_id, recorded)
        self.opening = None
        if any(isinstance(entry.event, UserSaid | TurnResumed) for entry in recorded):
            self.live.begun(self.tenure.session, turn_id)
        for entry in recorded:
            self.live.publish(turn_id, entry)

    async def _write(self, turn_id: str, recorded: Sequence[Recorded]) -> int:
        def work(tx: Tx) -> int:
            epoch = self.tenure.claim(tx)
            if self.opening:
                self.opening(tx, epoch)
            tx.append(self.tenure.session, epoch, turn_id, recorded)
            return epoch

        wait = FIRST_WAIT
        while True:
            try:
                return await self.store.write(work)
            except StoreUnavailable as exc:
                if self.leaving.is_set():
                    raise
                log.error("the journal cannot be written (%s); the turn waits, nothing is lost", exc)
            try:
                await asyncio.wait_for(self.leaving.wait(), wait)
            except TimeoutError:
                wait = min(wait * 2, LONGEST_WAIT)
