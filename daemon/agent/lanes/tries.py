"""How often a turn broke off without getting any further: in this process, and over restarts (B5 #25)."""

import asyncio
from dataclasses import dataclass, field

from daemon.agent.lanes.sink import Tenure
from daemon.store.protocol import Store, Tx

TRIES = 3
LEAST_BLAME = 0.25
SUSPECT, PROBATION_S = 2, 2.0
POISON = (
    "I set this message aside: working on it broke off {tries} times without getting any further. "
    "Nothing else is affected. `aidaemon show {turn}` tells how far it came; ask in other words to try again."
)


def poison(turn_id: str) -> str:
    """What its session is told of a turn that is set aside."""
    return POISON.format(tries=TRIES, turn=turn_id)


@dataclass(slots=True)
class Failures:
    """What broke off in this process. Like the journal's count of attempts, it begins anew with each step forward."""

    _counts: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __contains__(self, turn_id: str) -> bool:
        return turn_id in self._counts

    def add(self, turn_id: str, progress: int | None) -> int:
        """It broke off at this progress, or, when that is not known, where it did before. Gives how often it did there."""
        former, count = self._counts.get(turn_id, (0, 0))
        count = 1 if progress not in (None, former) else count + 1
        self._counts[turn_id] = (former if progress is None else progress, count)
        return count

    def forget(self, turn_id: str) -> None:
        """It is over."""
        self._counts.pop(turn_id, None)


@dataclass(slots=True)
class Company:
    """How many conversations were at work when the former daemon ended: if it crashed, nobody knows whose message it died of.

    One that was alone is to blame; of several each takes its share, a quarter at least, or nobody would ever be set aside.
    """

    size: int = 1

    @property
    def blame(self) -> float:
        """Each one's share of a crash."""
        return max(LEAST_BLAME, 1 / max(1, self.size))


async def on_probation(store: Store, turn_id: str, leaving: asyncio.Event) -> bool:
    """A turn that the daemon may have died of twice waits, after a start, until the others have had their say. False when the
    daemon leaves meanwhile.
    """
    if await store.read(lambda tx: tx.attempts(turn_id)) < SUSPECT:
        return True
    try:
        await asyncio.wait_for(leaving.wait(), PROBATION_S)
    except TimeoutError:
        return True
    return False


async def note_attempt(store: Store, tenure: Tenure, turn_id: str, progress: int, blame: float = 1.0) -> float:
    """A worker takes the turn up. Gives how often that happened at this progress, before a crash or since."""

    def work(tx: Tx) -> tuple[int, float]:
        return tenure.claim(tx), tx.note_attempt(turn_id, progress, blame)

    tenure.epoch, attempts = await store.write(work)
    return attempts
