"""All turns at work, each shown in its conversation as it goes (E12); and what is left of what was shown, tidied up."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from daemon.core.clock import Clock
from daemon.core.live import PASSING, Glimpse, Live
from daemon.core.rows import SessionRow
from daemon.delivery.addresses import address_of
from daemon.delivery.errands import Errands
from daemon.delivery.following import LAST_CALL_S, Follower
from daemon.delivery.leftovers import tidy_up
from daemon.delivery.outlet import Outlet
from daemon.store.protocol import Store

FINISH_S = LAST_CALL_S + 1.0
Known = Callable[[str], SessionRow | None]
Task = asyncio.Task[None]


@dataclass(slots=True)
class Drafts:
    """The followers, by turn."""

    store: Store
    clock: Clock
    live: Live
    known: Known
    outlets: Mapping[str, Outlet]
    _at_work: dict[str, tuple[Follower, Task]] = field(default_factory=dict)
    _errands: Errands = field(default_factory=Errands)

    def begin(self) -> None:
        """Look after what a former daemon has left standing."""
        self._errands.start(tidy_up(self.store, self.outlets), "drafts left over")

    def begun(self, session: str, turn: str) -> None:
        """A turn begins, or goes on: whatever happens from now on is seen. Agents that work for others show nothing."""
        row, former = self.known(session), self._at_work.get(turn)
        outlet = self.outlets.get(row.channel) if row and not row.root else None
        if row is None or outlet is None or (former and not former[0].progress.over):
            return
        watch = self.live.watch(turn, None if outlet.channel.can.drafts else _lasting)
        follower = Follower(turn, address_of(row.channel, row.chat), outlet, self.store, self.clock, watch)
        task = self._errands.start(follower.follow(watch.__enter__()), f"drafts {turn}")
        self._at_work[turn] = follower, task
        task.add_done_callback(lambda done: self._ended(done, turn))

    def _ended(self, task: Task, turn: str) -> None:
        if turn in self._at_work and self._at_work[turn][1] is task:
            del self._at_work[turn]

    async def finish(self, turn: str) -> None:
        """No draft of this turn is shown any more once this returns: one that is on its way is waited for, so long at most."""
        at_work = self._at_work.get(turn)
        if at_work is None:
            return
        follower, task = at_work
        follower.progress.over = True
        follower.changed.set()
        if follower.showing:
            await asyncio.wait([task], timeout=FINISH_S)
        task.cancel()

    async def aclose(self) -> None:
        """Stop showing anything."""
        await self._errands.aclose()


def _lasting(glimpse: Glimpse) -> bool:
    return not isinstance(glimpse, PASSING)
