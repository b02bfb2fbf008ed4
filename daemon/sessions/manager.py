"""All sessions: side by side, one worker each; woken by messages, answers, expiry and restarts."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from daemon.agent.budgets import Budgets
from daemon.agent.context.history import CHARS_PER_TOKEN, History
from daemon.agent.loop import AgentLoop
from daemon.agent.subagents.manager import SubagentManager
from daemon.agent.turn_control import TurnControl
from daemon.core.clock import Clock
from daemon.core.errors import Fenced, StoreUnavailable
from daemon.core.event_bus import EventBus, Quarantined
from daemon.core.rows import InboxRow, SessionRow
from daemon.core.trust import Label, Stop
from daemon.core.turn import Turn
from daemon.sessions.brakes import Places
from daemon.sessions.turn_setup import TurnPreparer
from daemon.sessions.worker import PROCESS, FetchFiles, SessionWorker
from daemon.store.journal import Store, Tx

log = logging.getLogger(__name__)
MAINTENANCE_INTERVAL_S = 0.5
IDLE_WORKER_S = 300.0
MAX_IDLE_BYTES = 32_000_000  # some 5,000 short conversations
WORKER_BYTES, MESSAGE_BYTES = 5_000, 500  # of an idle worker, as measured, beside the texts
MIN_BLAME = 0.25
HEALTH_LEASE = "health"
NOT_IDLE = (0.0, 0)


@dataclass(slots=True)
class SessionManager:
    """The only owner of workers and their tasks.

    `fetch` brings in the files of a message and describes them for the model; it may be called
    again for the same message. `owned_turns`: accepted by this process, which publishes their end.
    `crash_share`: the blame for a crash is divided among the sessions that were active, each has
    a quarter at least, or no message would ever be set aside.
    """

    store: Store
    live: EventBus
    clock: Clock
    agent: AgentLoop
    preparer: TurnPreparer
    budgets: Budgets
    children: SubagentManager
    fetch: FetchFiles
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    approvals_pending: bool = True
    owned_turns: set[str] = field(default_factory=set)
    crash_share: float = 1.0
    max_idle_bytes: int = MAX_IDLE_BYTES
    places: Places = field(init=False)
    _workers: dict[str, SessionWorker] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _idle: dict[str, tuple[float, int]] = field(default_factory=dict)
    _idle_bytes: int = 0
    _stalled: set[str] = field(default_factory=set)
    _maintenance: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.places = Places(lambda: self.preparer.agents.defaults)

    def worker_of(self, session: SessionRow, *, is_new: bool = False) -> SessionWorker:
        """Made when it is first needed. The journal has nothing more of a new session to read."""
        worker = self._workers.get(session.id)
        if worker is None:
            worker = self._workers[session.id] = SessionWorker(session, self, loaded=is_new)
        return worker

    def find_awake(self, session: str) -> SessionRow | None:
        """The session's settings, where its worker has loaded them."""
        worker = self._workers.get(session)
        return worker.session if worker and worker.loaded else None

    def find_steerable(self, session: str, sender: str) -> tuple[TurnControl | None, str]:
        """The running turn that a text of this sender would join now, and its id."""
        worker = self._workers.get(session)
        control = worker.find_steerable(sender) if worker else None
        return control, worker.running.id if control and worker and worker.running else ""

    def running_turn(self, session: str) -> str:
        """The id of the turn that runs in the session now, or ""."""
        worker = self._workers.get(session)
        return worker.running.id if worker and worker.running else ""

    def deliver(
        self,
        session: SessionRow,
        row: InboxRow,
        *,
        stream: bool = True,
        is_new: bool = False,
        is_told: bool = False,
    ) -> None:
        """A message is on disk: its worker takes it up. `is_new`: it has begun its session;
        `is_told`: there was nothing to look for, such as outcomes.
        """
        worker = self.worker_of(session, is_new=is_new)
        if not stream:
            worker.unstreamed.add(row.turn)
        self.owned_turns.add(row.turn)
        is_at_work = session.id in self._tasks or worker.session.paused
        if is_told and worker.idle and not is_at_work:  # it begins now
            worker.told_input = row.id
        worker.push(row)
        self._wake(worker)

    async def deliver_typed(self, turn: Turn, rows: Sequence[InboxRow]) -> None:
        """Answers that their turn did not take in are messages now, on disk already, but after a
        stop.
        """
        left = turn.ended is not None and turn.ended.reason is not Stop.CANCELLED
        for row in (one for one in rows if left and not one.steers):
            if session := await self.store.read(lambda tx, row=row: tx.get_session(row.session)):
                self.deliver(session, replace(row, state="new"))

    async def deliver_child(self, turn_id: str) -> None:
        """Start a sub-agent, or deliver its report, unless that has happened."""

        def look(tx: Tx) -> tuple[InboxRow | None, SessionRow | None]:
            row = tx.get_turn_input(turn_id)
            return row, tx.get_session(row.session) if row else None

        row, session = await self.store.read(look)
        if row and session and row.state == "new":
            self.deliver(session, row, stream=False)

    async def finish_children(self, turn_id: str) -> None:
        """The turn has ended, on disk: its sub-agents are stopped now, and the report that it
        makes is delivered.
        """
        self.children.running.pop(turn_id, None)

        def look(tx: Tx) -> tuple[list[tuple[SessionRow, str]], str]:
            children = [row for row in tx.list_children(turn_id) if not row.done]
            stopped = [row for row in children if tx.get_cancel_reason(row.turn)]
            found = [
                (session, row.turn) for row in stopped if (session := tx.get_session(row.session))
            ]
            own = tx.get_child(turn_id)
            return found, own.report if own else ""

        stopped, report = await self.store.read(look)
        for session, child in stopped:
            self.cancel(session, child, "its parent has ended")
        if report:
            await self.deliver_child(report)

    def drop(self, row: InboxRow, why: str) -> None:
        """A message is not to be worked on, and the journal says so. One in no queue is about to
        begin: it is stopped.
        """
        worker = self._workers.get(row.session)
        if worker is None:
            return
        queues = [worker.inputs, *worker.parked_steers.values()]
        if worker.control:
            queues.append(worker.control.steers)
        for queue in queues:
            for waiting in [one for one in queue if one.id == row.id]:
                queue.remove(waiting)
                self.owned_turns.discard(row.turn)
                self.live.publish(row.turn, Quarantined(why))
                return
        self.cancel(worker.session, row.turn, why)

    def wake_turn(self, session: SessionRow, turn_id: str) -> None:
        """A suspended turn has something new to look at."""
        worker = self.worker_of(session)
        if turn_id not in worker.wakes:
            worker.wakes.append(turn_id)
        self._wake(worker)

    def cancel(self, session: SessionRow, turn_id: str, why: str) -> None:
        """Stop a turn, wherever it is: running, suspended or queued."""
        worker = self.worker_of(session)
        if worker.running and worker.running.id == turn_id and worker.control:
            worker.control.cancel(why)
            return
        worker.cancels[turn_id] = why
        if worker.waiting and not worker.waiting.done():
            worker.waiting.set_result(False)  # what is only stopped needs no place
        if fetching := worker.fetching.get(turn_id):
            fetching.cancel("stopped")
        self.wake_turn(session, turn_id)

    def cancel_sender(self, sender: str, why: str) -> None:
        """Stop the running turns of this person."""
        for worker in list(self._workers.values()):
            if worker.control and worker.running and worker.control.sender == sender:
                worker.control.cancel(why)

    def update_session(self, session: SessionRow) -> None:
        """A command has changed its settings; a cleared session starts a new history."""
        worker = self.worker_of(session)
        before, worker.session = worker.session, session
        if session.cleared_at != before.cleared_at:
            worker.history = History()
            self.agent.models.adaptations.forget_session(session.id)
        if worker.control and worker.running:
            if session.paused:
                worker.control.pause()
            else:
                worker.control.resume()
            self.children.update_waiting(worker.running.id)
        if not session.paused:
            self._wake(worker)

    def reload_histories(self, sessions: Collection[str] | None = None) -> set[str]:
        """What turns of these, or of all, said was removed: the next ones are shown what is left.
        Gives those that are at work, and are still to be reloaded.
        """
        awake = {name for name in self._workers if sessions is None or name in sessions}
        ready = {name for name in awake if self._may_drop(name)}
        for name in ready:
            self._drop(name)
        return awake - ready

    async def recover(self, only: str | None = None, *, also: str = "") -> list[str]:
        """Resume what a former daemon left unfinished, in all sessions, or in one and those whose
        ids begin with `also`; returns the sessions.
        """

        def look(tx: Tx) -> tuple[list[SessionRow], int]:
            ids = tx.list_unfinished_sessions() if also or not only else []
            if only:
                ids = [only, *(one for one in ids if one.startswith(also) and one != only)]
            rows = [row for session in ids if (row := tx.get_session(session))]
            return rows, _count_active_sessions(tx, rows)

        rows, active = await self.store.read(look)
        self.crash_share = max(MIN_BLAME, 1 / max(1, active))
        for row in rows:
            self._wake(self.worker_of(row))
        self._maintenance = asyncio.create_task(self._maintain(), name="sessions-maintenance")
        return [row.id for row in rows]

    async def aclose(self, drain_s: float) -> None:
        """Start nothing new, let running turns finish for so long, then cut them: the next start
        resumes them.
        """
        self.stopping.set()
        self.places.aclose()
        if self._maintenance:
            self._maintenance.cancel()
        tasks, running = list(self._tasks.values()), []
        for name, task in self._tasks.items():
            worker = self._workers.get(name)
            if not (worker and worker.control and worker.control.is_paused):
                running.append(task)  # a paused one would only use up the time
        if running:
            await asyncio.wait(running, timeout=drain_s)
        cut = [worker.running.id for worker in self._workers.values() if worker.running]
        for task in tasks:
            task.cancel()
        maintenance = [self._maintenance] if self._maintenance else []
        await asyncio.gather(*tasks, *maintenance, return_exceptions=True)
        if not cut:
            return
        try:  # an orderly stop is no crash
            await self.store.write(lambda tx: [tx.reset_attempts(turn) for turn in cut])
        except StoreUnavailable:
            log.warning("the orderly stop of %d turns could not be written", len(cut))

    def _wake(self, worker: SessionWorker) -> None:
        name = worker.session.id
        if name not in self._tasks and not self.stopping.is_set() and not worker.idle:
            self._tasks[name] = asyncio.create_task(self._drive(worker), name=f"session {name}")

    async def _drive(self, worker: SessionWorker) -> None:
        name = worker.session.id
        try:
            await worker.work()
        except Fenced:
            log.warning("session %s is owned by another worker now", name)
            self._workers.pop(name, None)
        except StoreUnavailable as exc:
            log.error("session %s waits: %s", name, exc)
        except Exception:
            log.exception("session %s failed; it is tried again", name)
            raise
        finally:
            self._tasks.pop(name, None)
            shown = worker.history.window
            size = WORKER_BYTES + MESSAGE_BYTES * len(shown.messages)
            size += CHARS_PER_TOKEN * shown.tokens
            self._idle_bytes += size - self._idle.pop(name, NOT_IDLE)[1]  # it is the latest now
            self._idle[name] = self.clock.monotonic(), size
            if not worker.idle:
                self._stalled.add(name)

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(MAINTENANCE_INTERVAL_S)
            self._sweep_workers()
            try:
                if self.store.problem:  # retried without traffic, so that it is well soon
                    await self.store.write(lambda tx: tx.claim_session(HEALTH_LEASE, PROCESS))
                if self.approvals_pending:
                    await self._wake_expired()
            except StoreUnavailable as exc:
                log.debug("the journal is not available: %s", exc)

    async def _wake_expired(self) -> None:
        """Turns whose question nobody answered in time continue without an answer, and questions
        that wait are put where there is room again.
        """
        self.approvals_pending = False  # before the read: a new question sets it again

        now = self.clock.now()

        def look(tx: Tx) -> tuple[bool, list[tuple[SessionRow, str]], bool]:
            pending = tx.list_approvals("pending")
            rows = [(tx.get_session(row.session), row) for row in pending if row.expires <= now]
            expired = [(session, row.turn) for session, row in rows if session]
            return bool(pending), expired, tx.is_due(now)

        pending = True
        try:
            pending, expired, is_due = await self.store.read(look)
            if is_due:
                until = self.budgets.times.find_expiry(now, Label.UNTRUSTED, by_itself=True)
                await self.store.write(
                    lambda tx: (tx.ask_waiting(now, until), tx.tell_of_waiting(now))
                )
        finally:
            self.approvals_pending |= pending
        for session, turn in expired:
            self.wake_turn(session, turn)

    def _sweep_workers(self) -> None:
        """Drop workers that were idle for a while, and the oldest where all need too much memory,
        for the journal has it all; wake those that failed.
        """
        stalled, self._stalled = self._stalled, set[str]()
        for name in stalled:
            if worker := self._workers.get(name):
                self._wake(worker)
        horizon, gone = self.clock.monotonic() - IDLE_WORKER_S, list[str]()
        spare = self._idle_bytes - self.max_idle_bytes
        for name, (since, size) in self._idle.items():
            if since >= horizon and spare <= 0:
                break  # those behind it were busy later
            if self._may_drop(name):
                gone.append(name)
                spare -= size
        for name in gone:
            self._drop(name)

    def _may_drop(self, name: str) -> bool:
        worker = self._workers.get(name)
        return name not in self._tasks and not (worker and (worker.inputs or worker.wakes))

    def _drop(self, name: str) -> None:
        self._workers.pop(name, None)
        self._idle_bytes -= self._idle.pop(name, NOT_IDLE)[1]


def _count_active_sessions(tx: Tx, rows: Sequence[SessionRow]) -> int:
    """Stops counting where the least blame is reached."""
    found = set[str]()
    for row in rows:
        if len(found) * MIN_BLAME >= 1:
            break
        turns = tx.list_unfinished_turns(row.id)
        if tx.list_waiting_inputs(row.id) or any(turn.state == "running" for turn in turns):
            found.add(row.root or row.id)
    return len(found)
