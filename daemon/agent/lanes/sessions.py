"""All lanes: different sessions in parallel, each with one worker; woken by messages, answers, expiry and restarts."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from daemon.agent.lanes.control import Control
from daemon.agent.lanes.sink import Tenure
from daemon.agent.lanes.tries import LEAST_BLAME
from daemon.agent.lanes.workshop import Workshop
from daemon.agent.past import Past
from daemon.agent.session import Lane
from daemon.core.errors import Fenced, StoreUnavailable
from daemon.core.live import SetAside
from daemon.core.rows import ApprovalRow, InboxRow, SessionRow
from daemon.store.protocol import ReadTx

log = logging.getLogger(__name__)
LOOK_EVERY_S = 0.5
KEEP_IDLE_S = 300.0
HEALTH = "health"


@dataclass(slots=True)
class Sessions:
    """The only owner of lanes and their tasks."""

    shop: Workshop
    _lanes: dict[str, Lane] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _idle_since: dict[str, float] = field(default_factory=dict)
    _upkeep: asyncio.Task[None] | None = None

    def lane(self, session: SessionRow) -> Lane:
        """The session's lane, made when it is first needed."""
        if session.id not in self._lanes:
            self._lanes[session.id] = Lane(session, self.shop, Tenure(session.id, self.shop.owner))
        return self._lanes[session.id]

    def known(self, session: str) -> SessionRow | None:
        """The session's settings, when a lane of it is awake."""
        lane = self._lanes.get(session)
        return lane.session if lane and lane.past is not None else None

    def steerable(self, session: str, sender: str) -> Control | None:
        """What a text of this sender would be folded into right now."""
        lane = self._lanes.get(session)
        return lane.steerable(sender) if lane else None

    def running(self, session: str) -> str:
        """The id of the turn that runs in the session now, or ""."""
        lane = self._lanes.get(session)
        return lane.running.id if lane and lane.running else ""

    def deliver(self, session: SessionRow, row: InboxRow, *, watched: bool = True) -> None:
        """A message is on disk: its lane takes it up."""
        lane = self.lane(session)
        if not watched:
            lane.unwatched.add(row.turn)
        self.shop.held.add(row.turn)
        lane.push(row)
        self._wake(lane)

    def holds(self, turn_id: str) -> bool:
        """This process took the turn in, and will say when it is over."""
        return turn_id in self.shop.held

    def drop(self, row: InboxRow, why: str) -> None:
        """A message is not to be worked on any more, and its journal says so. Where it is in no queue, its turn is about to
        begin, when its files are there perhaps: that one is stopped.
        """
        lane = self._lanes.get(row.session)
        if lane is None:
            return
        queues = (lane.inputs, *lane.parked.values(), *([lane.control.steers] if lane.control else []))
        found = [(queue, one) for queue in queues for one in queue if one.id == row.id]
        for queue, waiting in found:
            queue.remove(waiting)
        if found:
            self.shop.held.discard(row.turn)
            self.shop.live.publish(row.turn, SetAside(why))
        else:
            self.cancel(lane.session, row.turn, why)

    def take_up(self, session: SessionRow, turn_id: str) -> None:
        """A suspended turn has something new to look at."""
        lane = self.lane(session)
        if turn_id not in lane.wakes:
            lane.wakes.append(turn_id)
        self._wake(lane)

    def cancel(self, session: SessionRow, turn_id: str, why: str) -> None:
        """Stop a turn, wherever it is: running, suspended or still in the queue."""
        lane = self.lane(session)
        if lane.running and lane.running.id == turn_id and lane.control:
            lane.control.cancel(why)
            return
        lane.cancels[turn_id] = why
        lane.fetching.stop(turn_id)
        self.take_up(session, turn_id)

    def changed(self, session: SessionRow) -> None:
        """Its settings were changed by a command; a cleared session forgets what the model was shown."""
        lane = self.lane(session)
        before, lane.session = lane.session, session
        if session.cleared_at != before.cleared_at and lane.past is not None:
            lane.past = Past()
        if lane.control and lane.running:
            (lane.control.pause if session.paused else lane.control.resume)()
            self.shop.children.changed(lane.running.id)
        if not session.paused:
            self._wake(lane)

    async def recover(self, only: str | None = None) -> list[str]:
        """Take up what a former daemon left unfinished, in all sessions or in one; gives the sessions."""

        def look(tx: ReadTx) -> tuple[list[SessionRow], int]:
            ids = [only] if only else tx.unfinished_sessions()
            rows = [row for session in ids if (row := tx.session(session))]
            return rows, _company(tx, rows)

        rows, self.shop.company.size = await self.shop.store.read(look)
        for row in rows:
            self._wake(self.lane(row))
        self._upkeep = asyncio.create_task(self._keep_up(), name="sessions-upkeep")
        return [row.id for row in rows]

    async def aclose(self, drain_s: float) -> None:
        """Take nothing new, let running turns finish for so long, then cut them: they go on at the next start.

        One that is paused would only sit the time out.
        """
        self.shop.leaving.set()
        if self._upkeep:
            self._upkeep.cancel()
        tasks = list(self._tasks.values())
        going = [task for name, task in self._tasks.items() if not self._held(name)]
        if going:
            await asyncio.wait(going, timeout=drain_s)
        cut = [lane.running.id for lane in self._lanes.values() if lane.running]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *([self._upkeep] if self._upkeep else []), return_exceptions=True)
        await self._forgive(cut)

    def _held(self, session: str) -> bool:
        lane = self._lanes.get(session)
        return bool(lane and lane.control and lane.control.held)

    def _wake(self, lane: Lane) -> None:
        name = lane.session.id
        if name not in self._tasks and not self.shop.leaving.is_set() and not lane.idle:
            self._tasks[name] = asyncio.create_task(self._drive(lane), name=f"lane {name}")

    async def _drive(self, lane: Lane) -> None:
        try:
            await lane.work()
        except Fenced:
            log.warning("session %s is owned by another worker now", lane.session.id)
            self._lanes.pop(lane.session.id, None)
        except StoreUnavailable as exc:
            log.error("session %s rests: %s", lane.session.id, exc)
        except Exception:
            log.exception("session %s cannot be worked on; it is tried again", lane.session.id)
            raise
        finally:
            self._tasks.pop(lane.session.id, None)
            self._idle_since[lane.session.id] = self.shop.clock.monotonic()

    async def _forgive(self, turns: Sequence[str]) -> None:
        """A stop in good order is no crash."""
        if not turns:
            return
        try:
            await self.shop.store.write(lambda tx: [tx.forgive_attempts(turn) for turn in turns])
        except StoreUnavailable:
            log.warning("could not note that %d turns were cut in good order", len(turns))

    async def _keep_up(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self._sweep()
            if not self.shop.store.healthy:
                await self._probe()
            if self.shop.questions.is_set():
                try:
                    await self._expire()
                except StoreUnavailable as exc:
                    log.warning("cannot look for expired approvals: %s", exc)

    async def _probe(self) -> None:
        """A journal that could not be written is tried again, so that it is well as soon as the disk is, traffic or not."""
        try:
            await self.shop.store.write(lambda tx: tx.claim(HEALTH, self.shop.owner))
        except StoreUnavailable as exc:
            log.debug("the journal still cannot be written: %s", exc)
        else:
            log.info("the journal can be written again")

    async def _expire(self) -> None:
        """Questions that nobody answered in time: their turns go on without."""
        self.shop.questions.clear()  # before looking: who asks meanwhile sets it again
        try:
            pending, sessions = await self.shop.store.read(_pending)
        except StoreUnavailable:
            self.shop.questions.set()
            raise
        now = self.shop.clock.now()
        for row in pending:
            if row.expires <= now and row.session in sessions:
                self.take_up(sessions[row.session], row.turn)
        if pending:
            self.shop.questions.set()

    def _sweep(self) -> None:
        """Lanes that had nothing to do for a while are let go; the journal has it all."""
        horizon = self.shop.clock.monotonic() - KEEP_IDLE_S
        for name, since in list(self._idle_since.items()):
            lane = self._lanes.get(name)
            if since < horizon and name not in self._tasks and (lane is None or (lane.idle and not (lane.inputs or lane.wakes))):
                self._lanes.pop(name, None)
                del self._idle_since[name]
            elif lane and name not in self._tasks and not lane.idle:
                self._wake(lane)


def _company(tx: ReadTx, rows: Sequence[SessionRow]) -> int:
    """How many conversations were at work; where that is enough for the least blame, the rest is not looked at."""
    found = set[str]()
    for row in rows:
        if len(found) * LEAST_BLAME >= 1:
            break
        if _was_at_work(tx, row):
            found.add(row.root or row.id)
    return len(found)


def _was_at_work(tx: ReadTx, session: SessionRow) -> bool:
    return bool(tx.waiting_inputs(session.id)) or any(turn.state == "running" for turn in tx.unfinished_turns(session.id))


def _pending(tx: ReadTx) -> tuple[list[ApprovalRow], dict[str, SessionRow]]:
    pending = tx.approvals("pending")
    rows = {row.session: tx.session(row.session) for row in pending}
    return pending, {name: row for name, row in rows.items() if row}
