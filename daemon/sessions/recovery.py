"""A worker's writes: fenced by its lease, repeated on a full disk, counted over crashes (K25)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from daemon.core.errors import StoreUnavailable
from daemon.core.event_bus import EventBus
from daemon.core.events import ChildSpawned, RecordedEvent, TurnResumed, UserSaid
from daemon.store.journal import Store, Tx

log = logging.getLogger(__name__)
FIRST_WAIT, MAX_WAIT = 0.2, 2.0
MAX_ATTEMPTS = 3
MIN_BLAME = 0.25
SUSPECT_ATTEMPTS, SUSPECT_DELAY_S = 2, 2.0
QUARANTINE_NOTICE = (
    "This message is set aside: processing it failed {tries} times without progress. Nothing else"
    " is affected. `aidaemon show {turn}` shows how far it came; rephrase it to try again."
)

Opening = Callable[[Tx, int], None]
DeliverChild = Callable[[str], Awaitable[None]]


@dataclass(slots=True)
class Lease:
    """A worker's ownership of a session: its epoch, taken with its first write."""

    session: str
    owner: str
    epoch: int = 0

    def claim(self, tx: Tx) -> int:
        """The epoch; claimed now if it was not yet."""
        return self.epoch or tx.claim_session(self.session, self.owner)


@dataclass(slots=True)
class CrashBlame:
    """Number of sessions active at the crash; the blame is divided among them.

    Each gets a quarter at least, or no message would ever be set aside.
    """

    active_sessions: int = 1

    @property
    def share(self) -> float:
        """Of one session."""
        return max(MIN_BLAME, 1 / max(1, self.active_sessions))


@dataclass(slots=True)
class JournalSink:
    """Writes a turn's events. `opening` runs in the transaction of the first ones.

    On a full disk it retries until the disk is writable: no tool runs before its event is written.
    """

    store: Store
    lease: Lease
    live: EventBus
    stopping: asyncio.Event
    deliver_child: DeliverChild
    opening: Opening | None = None

    async def append(self, turn_id: str, recorded: Sequence[RecordedEvent]) -> None:
        """Durable when it returns. Raises Fenced; StoreUnavailable only when the daemon stops."""

        def work(tx: Tx) -> int:
            epoch = self.lease.claim(tx)
            if self.opening:
                self.opening(tx, epoch)
            tx.append_events(self.lease.session, epoch, turn_id, recorded)
            return epoch

        wait = FIRST_WAIT
        while True:
            try:
                self.lease.epoch = await self.store.write(work)
                break
            except StoreUnavailable as exc:
                if self.stopping.is_set():
                    raise
                log.error("the journal cannot be written (%s); the turn waits", exc)
            await wait_for_stop(self.stopping, wait)
            wait = min(wait * 2, MAX_WAIT)
        self.opening = None
        for entry in recorded:
            if isinstance(entry.event, UserSaid | TurnResumed):
                self.live.announce_turn(self.lease.session, turn_id)
                break
        for entry in recorded:
            self.live.publish(turn_id, entry)
        for entry in recorded:
            if isinstance(entry.event, ChildSpawned):
                await self.deliver_child(entry.event.child)


async def wait_for_stop(stopping: asyncio.Event, seconds: float) -> bool:
    """Wait so long; True when the daemon stops meanwhile."""
    try:
        await asyncio.wait_for(stopping.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def start_attempt(
    store: Store,
    lease: Lease,
    turn_id: str,
    progress: int,
    stopping: asyncio.Event,
    blame: CrashBlame | None = None,
) -> float | None:
    """Count an attempt at this progress, over restarts too; returns how many there were.

    `blame`: the former daemon may have died of this turn. One that it may have died of twice
    waits until others had their turn; None when the daemon stops meanwhile.
    """
    suspect = blame and await store.read(lambda tx: tx.count_attempts(turn_id)) >= SUSPECT_ATTEMPTS
    if suspect and await wait_for_stop(stopping, SUSPECT_DELAY_S):
        return None

    def work(tx: Tx) -> tuple[int, float]:
        return lease.claim(tx), tx.add_attempt(turn_id, progress, blame.share if blame else 1.0)

    lease.epoch, attempts = await store.write(work)
    return attempts
