"""All lanes: different sessions in parallel, each with one worker; woken by messages, answers, expiry and restarts."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from daemon.agent.context.history import History
from daemon.agent.turn_control import TurnControl
from daemon.core.errors import Fenced, StoreUnavailable
from daemon.core.event_bus import Quarantined
from daemon.core.journal import ReadTx
from daemon.core.rows import ApprovalRow, InboxRow, SessionRow
from daemon.sessions.recovery import MIN_BLAME, Lease
from daemon.sessions.worker import SessionDeps, SessionWorker

log = logging.getLogger(__name__)
MAINTENANCE_INTERVAL_S = 0.5
IDLE_WORKER_S = 300.0
HEALTH_LEASE = "health"


@dataclass(slots=True)
class SessionManager:
    """The only owner of lanes and their tasks."""

    deps: SessionDeps
    _workers: dict[str, SessionWorker] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _idle_since: dict[str, float] = field(default_factory=dict)
    _upkeep: asyncio.Task[None] | None = None

    def worker_of(self, session: SessionRow) -> SessionWorker:
        """The session's lane, made when it is first needed."""
        if session.id not in self._workers:
            self._workers[session.id] = SessionWorker(
                session, self.deps, Lease(session.id, self.deps.owner)
            )
        return self._workers[session.id]

    def find_awake(self, session: str) -> SessionRow | None:
        """The session's settings, when a lane of it is awake."""
        lane = self._workers.get(session)
        return lane.session if lane and lane.history is not None else None

    def steerable(self, session: str, sender: str) -> TurnControl | None:
        """What a text of this sender would be folded into right now."""
        lane = self._workers.get(session)
        return lane.steerable(sender) if lane else None

    def running_turn(self, session: str) -> str:
        """The id of the turn that runs in the session now, or ""."""
        lane = self._workers.get(session)
        return lane.running.id if lane and lane.running else ""

    def deliver(self, session: SessionRow, row: InboxRow, *, watched: bool = True) -> None:
        """A message is on disk: its lane takes it up."""
        lane = self.worker_of(session)
        if not watched:
            lane.unstreamed.add(row.turn)
        self.deps.owned_turns.add(row.turn)
        lane.push(row)
        self._wake(lane)

    def owns_turn(self, turn_id: str) -> bool:
        """This process took the turn in, and will say when it is over."""
        return turn_id in self.deps.owned_turns

    def drop(self, row: InboxRow, why: str) -> None:
        """A message is not to be worked on any more, and its journal says so. Where it is in no queue, its turn is about to
        begin, when its files are there perhaps: that one is stopped.
        """
        lane = self._workers.get(row.session)
        if lane is None:
            return
        queues = (
            lane.inputs,
            *lane.parked_steers.values(),
            *([lane.control.steers] if lane.control else []),
        )
        found = [(queue, one) for queue in queues for one in queue if one.id == row.id]
        for queue, waiting in found:
            queue.remove(waiting)
        if found:
            self.deps.owned_turns.discard(row.turn)
            self.deps.live.publish(row.turn, Quarantined(why))
        else:
            self.cancel(lane.session, row.turn, why)

    def wake_turn(self, session: SessionRow, turn_id: str) -> None:
        """A suspended turn has something new to look at."""
        lane = self.worker_of(session)
        if turn_id not in lane.wakes:
            lane.wakes.append(turn_id)
        self._wake(lane)

    def cancel(self, session: SessionRow, turn_id: str, why: str) -> None:
        """Stop a turn, wherever it is: running, suspended or still in the queue."""
        lane = self.worker_of(session)
        if lane.running and lane.running.id == turn_id and lane.control:
            lane.control.cancel(why)
            return
        lane.cancels[turn_id] = why
        lane.attachments.stop(turn_id)
        self.wake_turn(session, turn_id)

    def update_session(self, session: SessionRow) -> None:
        """Its settings were changed by a command; a cleared session forgets what the model was shown."""
        lane = self.worker_of(session)
        before, lane.session = lane.session, session
        if session.cleared_at != before.cleared_at and lane.history is not None:
            lane.history = History()
        if lane.control and lane.running:
            (lane.control.pause if session.paused else lane.control.resume)()
            self.deps.children.update_waiting(lane.running.id)
        if not session.paused:
            self._wake(lane)

    async def recover(self, only: str | None = None) -> list[str]:
        """Take up what a former daemon left unfinished, in all sessions or in one; gives the sessions."""

        def look(tx: ReadTx) -> tuple[list[SessionRow], int]:
            ids = [only] if only else tx.list_unfinished_sessions()
            rows = [row for session in ids if (row := tx.get_session(session))]
            return rows, _count_active_sessions(tx, rows)

        rows, self.deps.crash_blame.active_sessions = await self.deps.store.read(look)
        for row in rows:
            self._wake(self.worker_of(row))
        self._upkeep = asyncio.create_task(self._maintain(), name="sessions-upkeep")
        return [row.id for row in rows]

    async def aclose(self, drain_s: float) -> None:
        """Take nothing new, let running turns finish for so long, then cut them: they go on at the next start.

        One that is paused would only sit the time out.
        """
        self.deps.stopping.set()
        if self._upkeep:
            self._upkeep.cancel()
        tasks = list(self._tasks.values())
        going = [task for name, task in self._tasks.items() if not self._is_paused(name)]
        if going:
            await asyncio.wait(going, timeout=drain_s)
        cut = [lane.running.id for lane in self._workers.values() if lane.running]
        for task in tasks:
            task.cancel()
        await asyncio.gather(
            *tasks, *([self._upkeep] if self._upkeep else []), return_exceptions=True
        )
        await self._forgive_attempts(cut)

    def _is_paused(self, session: str) -> bool:
        lane = self._workers.get(session)
        return bool(lane and lane.control and lane.control.is_paused)

    def _wake(self, lane: SessionWorker) -> None:
        name = lane.session.id
        if name not in self._tasks and not self.deps.stopping.is_set() and not lane.idle:
            self._tasks[name] = asyncio.create_task(self._drive(lane), name=f"lane {name}")

    async def _drive(self, lane: SessionWorker) -> None:
        try:
            await lane.work()
        except Fenced:
            log.warning("session %s is owned by another worker now", lane.session.id)
            self._workers.pop(lane.session.id, None)
        except StoreUnavailable as exc:
            log.error("session %s rests: %s", lane.session.id, exc)
        except Exception:
            log.exception("session %s cannot be worked on; it is tried again", lane.session.id)
            raise
        finally:
            self._tasks.pop(lane.session.id, None)
            self._idle_since[lane.session.id] = self.deps.clock.monotonic()

    async def _forgive_attempts(self, turns: Sequence[str]) -> None:
        """A stop in good order is no crash."""
        if not turns:
            return
        try:
            await self.deps.store.write(lambda tx: [tx.reset_attempts(turn) for turn in turns])
        except StoreUnavailable:
            log.warning("could not note that %d turns were cut in good order", len(turns))

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(MAINTENANCE_INTERVAL_S)
            self._drop_idle_workers()
            if not self.deps.store.healthy:
                await self._probe_store()
            if self.deps.approvals_pending.is_set():
                try:
                    await self._wake_expired()
                except StoreUnavailable as exc:
                    log.warning("cannot look for expired approvals: %s", exc)

    async def _probe_store(self) -> None:
        """A journal that could not be written is tried again, so that it is well as soon as the disk is, traffic or not."""
        try:
            await self.deps.store.write(lambda tx: tx.claim_session(HEALTH_LEASE, self.deps.owner))
        except StoreUnavailable as exc:
            log.debug("the journal still cannot be written: %s", exc)
        else:
            log.info("the journal can be written again")

    async def _wake_expired(self) -> None:
        """Questions that nobody answered in time: their turns go on without."""
        self.deps.approvals_pending.clear()  # before looking: who asks meanwhile sets it again
        try:
            pending, sessions = await self.deps.store.read(_load_pending)
        except StoreUnavailable:
            self.deps.approvals_pending.set()
            raise
        now = self.deps.clock.now()
        for row in pending:
            if row.expires <= now and row.session in sessions:
                self.wake_turn(sessions[row.session], row.turn)
        if pending:
            self.deps.approvals_pending.set()

    def _drop_idle_workers(self) -> None:
        """Lanes that had nothing to do for a while are let go; the journal has it all."""
        horizon = self.deps.clock.monotonic() - IDLE_WORKER_S
        for name, since in list(self._idle_since.items()):
            lane = self._workers.get(name)
            if (
                since < horizon
                and name not in self._tasks
                and (lane is None or (lane.idle and not (lane.inputs or lane.wakes)))
            ):
                self._workers.pop(name, None)
                del self._idle_since[name]
            elif lane and name not in self._tasks and not lane.idle:
                self._wake(lane)


def _count_active_sessions(tx: ReadTx, rows: Sequence[SessionRow]) -> int:
    """How many conversations were at work; where that is enough for the least blame, the rest is not looked at."""
    found = set[str]()
    for row in rows:
        if len(found) * MIN_BLAME >= 1:
            break
        if _was_active(tx, row):
            found.add(row.root or row.id)
    return len(found)


def _was_active(tx: ReadTx, session: SessionRow) -> bool:
    return bool(tx.list_waiting_inputs(session.id)) or any(
        turn.state == "running" for turn in tx.list_unfinished_turns(session.id)
    )


def _load_pending(tx: ReadTx) -> tuple[list[ApprovalRow], dict[str, SessionRow]]:
    pending = tx.list_approvals("pending")
    rows = {row.session: tx.get_session(row.session) for row in pending}
    return pending, {name: row for name, row in rows.items() if row}
