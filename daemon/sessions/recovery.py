"""Where a worker's events go: the journal, fenced by its epoch; then those who watch.

How often a turn broke off without getting any further: in this process, and over restarts (K25).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from daemon.core.errors import StoreUnavailable
from daemon.core.event_bus import EventBus
from daemon.core.events import RecordedEvent, TurnResumed, UserSaid
from daemon.core.journal import Store, Tx

log = logging.getLogger(__name__)
FIRST_WAIT, MAX_WAIT = 0.2, 2.0

Opening = Callable[[Tx, int], None]


@dataclass(slots=True)
class Lease:
    """One worker's ownership of a session: its epoch, taken with its first write."""

    session: str
    owner: str
    epoch: int = 0

    def claim(self, tx: Tx) -> int:
        """The epoch; claimed now if it was not yet."""
        return self.epoch or tx.claim_session(self.session, self.owner)


@dataclass(slots=True)
class JournalSink:
    """The sink of one turn. `opening` is done in the transaction of the first events. A full disk is waited out: nothing
    follows from an event that is not written, so no tool runs meanwhile.
    """

    store: Store
    lease: Lease
    live: EventBus
    opening: Opening | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def append(self, turn_id: str, recorded: Sequence[RecordedEvent]) -> None:
        """Durable when it returns. Raises Fenced; StoreUnavailable only when the daemon leaves."""
        self.lease.epoch = await self._write(turn_id, recorded)
        self.opening = None
        if any(isinstance(entry.event, UserSaid | TurnResumed) for entry in recorded):
            self.live.announce_turn(self.lease.session, turn_id)
        for entry in recorded:
            self.live.publish(turn_id, entry)

    async def _write(self, turn_id: str, recorded: Sequence[RecordedEvent]) -> int:
        def work(tx: Tx) -> int:
            epoch = self.lease.claim(tx)
            if self.opening:
                self.opening(tx, epoch)
            tx.append_events(self.lease.session, epoch, turn_id, recorded)
            return epoch

        wait = FIRST_WAIT
        while True:
            try:
                return await self.store.write(work)
            except StoreUnavailable as exc:
                if self.stopping.is_set():
                    raise
                log.error(
                    "the journal cannot be written (%s); the turn waits, nothing is lost", exc
                )
            try:
                await asyncio.wait_for(self.stopping.wait(), wait)
            except TimeoutError:
                wait = min(wait * 2, MAX_WAIT)


MAX_ATTEMPTS = 3
MIN_BLAME = 0.25
SUSPECT_ATTEMPTS, SUSPECT_DELAY_S = 2, 2.0
QUARANTINE_NOTICE = (
    "I set this message aside: working on it broke off {tries} times without getting any further. "
    "Nothing else is affected. `aidaemon show {turn}` tells how far it came; ask in other words to try again."
)


def quarantine_notice(turn_id: str) -> str:
    """What its session is told of a turn that is set aside."""
    return QUARANTINE_NOTICE.format(tries=MAX_ATTEMPTS, turn=turn_id)


@dataclass(slots=True)
class FailureCounts:
    """What broke off in this process. Like the journal's count of attempts, it begins anew with each step forward."""

    _counts: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __contains__(self, turn_id: str) -> bool:
        return turn_id in self._counts

    def count_failure(self, turn_id: str, progress: int | None) -> int:
        """It broke off at this progress, or, when that is not known, where it did before. Gives how often it did there."""
        former, count = self._counts.get(turn_id, (0, 0))
        count = 1 if progress not in (None, former) else count + 1
        self._counts[turn_id] = (former if progress is None else progress, count)
        return count

    def forget(self, turn_id: str) -> None:
        """It is over."""
        self._counts.pop(turn_id, None)


@dataclass(slots=True)
class CrashBlame:
    """How many conversations were at work when the former daemon ended: if it crashed, nobody knows whose message it died of.

    One that was alone is to blame; of several each takes its share, a quarter at least, or nobody would ever be set aside.
    """

    active_sessions: int = 1

    @property
    def share(self) -> float:
        """Each one's share of a crash."""
        return max(MIN_BLAME, 1 / max(1, self.active_sessions))


async def delay_suspect(store: Store, turn_id: str, leaving: asyncio.Event) -> bool:
    """A turn that the daemon may have died of twice waits, after a start, until the others have had their say. False when the
    daemon leaves meanwhile.
    """
    if await store.read(lambda tx: tx.count_attempts(turn_id)) < SUSPECT_ATTEMPTS:
        return True
    try:
        await asyncio.wait_for(leaving.wait(), SUSPECT_DELAY_S)
    except TimeoutError:
        return True
    return False


async def record_attempt(
    store: Store, tenure: Lease, turn_id: str, progress: int, blame: float = 1.0
) -> float:
    """A worker takes the turn up. Gives how often that happened at this progress, before a crash or since."""

    def work(tx: Tx) -> tuple[int, float]:
        return tenure.claim(tx), tx.add_attempt(turn_id, progress, blame)

    tenure.epoch, attempts = await store.write(work)
    return attempts
