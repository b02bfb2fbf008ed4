"""The worker of one session: its messages in order, one turn at a time (architecture.md)."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from daemon.agent.budgets import Budgets
from daemon.agent.context.builder import TurnContext
from daemon.agent.context.history import (
    History,
    is_cleared,
    load_history,
    load_parent,
    rebuild_turn,
    sum_progress,
)
from daemon.agent.final_messages import describe_end
from daemon.agent.loop import AgentLoop
from daemon.agent.subagents.manager import SubagentManager
from daemon.agent.turn_control import TurnControl
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import Fenced, StoreUnavailable
from daemon.core.event_bus import EventBus, Quarantined, TurnFinished
from daemon.core.events import Answer, ApprovalAnswered, Stop, TurnEnded, TurnResumed, UserSaid
from daemon.core.provenance import TrustContext
from daemon.core.rows import ApprovalRow, InboxRow, SessionRow, TurnRow
from daemon.core.turn import Turn
from daemon.sessions.recovery import (
    MAX_ATTEMPTS,
    QUARANTINE_NOTICE,
    CrashBlame,
    DeliverChild,
    JournalSink,
    Lease,
    Opening,
    start_attempt,
)
from daemon.sessions.turn_setup import (
    AGENT,
    TurnPreparer,
    load_inherited_sources,
    serves_another,
)
from daemon.store.journal import Store, Tx

log = logging.getLogger(__name__)
FETCH_TIMEOUT_S = 120.0
FETCH_TIMED_OUT = (
    "[The files of this message could not be fetched in time. They can be sent again.]"
)
FETCH_STOPPED = "[The files of this message were not fetched: it was stopped.]"
LOOP_PREFIX = "loop:"
FetchFiles = Callable[[InboxRow], Awaitable[str]]


@value
class SessionDeps:
    """What every worker needs. `stopping` is set when the daemon stops, `approvals_pending` while
    a question is open.

    `owned_turns`: accepted by this process and not finished. `fetch` brings in the files of a
    message and describes them for the model; it may be called again for the same message.
    """

    store: Store
    live: EventBus
    clock: Clock
    agent: AgentLoop
    preparer: TurnPreparer
    budgets: Budgets
    children: SubagentManager
    effort: Callable[[], str]
    while_busy: Callable[[], Literal["steer", "queue"]]
    owner: str
    stopping: asyncio.Event
    approvals_pending: asyncio.Event
    fetch: FetchFiles
    owned_turns: set[str] = field(default_factory=set)
    crash_blame: CrashBlame = field(default_factory=CrashBlame)


@dataclass(slots=True)
class SessionWorker:
    """One session's queue. It reads the journal once, when it wakes; after that it is told what
    happens.

    `unattempted`: inputs, and `interrupted`: turns, that a former daemon left; it may have died
    of one. `failures`: how often a turn failed in this process, and at which progress.
    """

    session: SessionRow
    deps: SessionDeps
    lease: Lease
    deliver_child: DeliverChild
    finish_children: DeliverChild
    history: History | None = None
    inputs: deque[InboxRow] = field(default_factory=deque)
    wakes: deque[str] = field(default_factory=deque)
    cancels: dict[str, str] = field(default_factory=dict)
    parked_steers: dict[str, list[InboxRow]] = field(default_factory=dict)
    seen_inputs: set[str] = field(default_factory=set)
    unattempted: set[str] = field(default_factory=set)
    interrupted: set[str] = field(default_factory=set)
    unstreamed: set[str] = field(default_factory=set)
    failures: dict[str, tuple[int, int]] = field(default_factory=dict)
    fetching: dict[str, TurnControl] = field(default_factory=dict)
    running: Turn | None = None
    control: TurnControl | None = None

    def push(self, row: InboxRow) -> None:
        """A message to work on; the same one twice is one."""
        if row.id not in self.seen_inputs:
            self.seen_inputs.add(row.id)
            self.inputs.append(row)

    def find_steerable(self, sender: str) -> TurnControl | None:
        """The running turn, when a text of this sender may join it; it overtakes none of their
        earlier messages.
        """
        control = self.control
        if control is None or control.cancel_reason or not control.accepts_steers:
            return None
        if control.sender != sender or any(row.sender == sender for row in self.inputs):
            return None
        return control if self.deps.while_busy() == "steer" else None

    @property
    def idle(self) -> bool:
        """Nothing to do now."""
        return self.history is not None and not self.running and self._next_job() is None

    async def work(self) -> None:
        """All there is to do, in order. Returns when idle, or when the daemon stops. Raises
        Fenced, StoreUnavailable.
        """
        if self.history is None:
            await self._load()
        while (job := self._next_job()) and not self.deps.stopping.is_set():
            if isinstance(job, str):
                self.wakes.remove(job)
                await self._run_guarded(job, None)
            else:
                self.inputs.remove(job)
                await self._run_guarded(job.turn, job)

    def _next_job(self) -> InboxRow | str | None:
        """A turn to resume, else a message. In a paused session only one that was stopped, for it
        ends without a step.
        """
        if not self.session.paused:
            return self.wakes[0] if self.wakes else self.inputs[0] if self.inputs else None
        stopped = (turn for turn in self.wakes if turn in self.cancels)
        return next(stopped, None) or next(
            (row for row in self.inputs if row.turn in self.cancels), None
        )

    async def _load(self) -> None:
        """Read what a former worker, or a former daemon, left."""
        while True:
            before = self.session

            def look(
                tx: Tx,
            ) -> tuple[SessionRow, History, list[str], list[InboxRow], dict[str, str]]:
                session = tx.get_session(self.session.id) or self.session
                turns = [turn.id for turn in tx.list_unfinished_turns(session.id)]
                rows = tx.list_waiting_inputs(session.id)
                names = (*turns, *(row.turn for row in rows))
                cancels = {name: why for name in names if (why := tx.get_cancel_reason(name))}
                return session, load_history(tx, session), turns, rows, cancels

            found = await self.deps.store.read(look)
            if self.session is before:  # else a command changed it meanwhile
                break
        self.session, self.history, unfinished, rows, cancels = found
        self.cancels = cancels | self.cancels
        self.interrupted = set(unfinished)
        self.wakes.extend(turn for turn in unfinished if turn not in self.wakes)
        pushed = list(self.inputs)  # meanwhile: they come after those in the journal
        self.inputs.clear()
        self.seen_inputs.difference_update(row.id for row in pushed)
        self.unattempted = {row.id for row in rows}.difference(row.id for row in pushed)
        for row in rows:
            if row.steers in unfinished and row.id not in self.seen_inputs:
                self.seen_inputs.add(row.id)
                self.parked_steers.setdefault(row.steers, []).append(row)
            else:
                self.push(row)
        for row in pushed:
            self.push(row)

    async def _run_guarded(self, turn_id: str, row: InboxRow | None) -> None:
        """Run one job; one that fails is tried again, and set aside after three failures without
        progress.
        """
        store = self.deps.store
        try:
            known = turn_id in self.failures and await store.read(lambda tx: tx.get_turn(turn_id))
            if row and not known:
                await self._begin(row)
            else:
                await self._resume(turn_id)
        except Fenced:
            raise
        except StoreUnavailable:
            self._park(turn_id)
            self.failures.setdefault(turn_id, (0, 0))  # it may have begun
            self._requeue(turn_id, row)
            raise
        except Exception:  # a message that crashes its turn must not stop the session
            log.exception("turn %s failed", turn_id)
            before, count = self.failures.get(turn_id, (0, 0))
            progress = self.running.progress if self.running else before
            count = count + 1 if progress == before else 1
            self.failures[turn_id] = (progress, count)
            self._park(turn_id)
            if self.deps.stopping.is_set():
                raise
            if count < MAX_ATTEMPTS:
                self._requeue(turn_id, row)
                return
            try:
                await self._quarantine(turn_id)
            except StoreUnavailable:
                self._requeue(turn_id, row)
                raise
        finally:
            self.running = self.control = None

    def _requeue(self, turn_id: str, row: InboxRow | None) -> None:
        if row:
            self.inputs.appendleft(row)
        else:
            self.wakes.appendleft(turn_id)

    async def _quarantine(self, turn_id: str) -> None:
        notice = QUARANTINE_NOTICE.format(tries=MAX_ATTEMPTS, turn=turn_id)
        now = self.deps.clock.now()
        await self.deps.store.write(lambda tx: tx.quarantine(turn_id, now, notice))
        log.error(
            "turn %s of %s is set aside after %d attempts", turn_id, self.session.id, MAX_ATTEMPTS
        )
        self.deps.live.publish(turn_id, Quarantined(notice))
        if self.running:
            self.deps.budgets.close(self.running)
        self._forget_turn(turn_id)
        await self.finish_children(turn_id)

    async def _begin(self, row: InboxRow) -> None:
        deps, files = self.deps, ""
        if row.attachments and row.turn not in self.cancels:
            control = self.fetching[row.turn] = TurnControl(asyncio.get_running_loop().time)
            try:
                files = await fetch_files(row, deps.fetch, control)
            finally:
                del self.fetching[row.turn]
        if row.id in self.unattempted:
            self.unattempted.discard(row.id)
            if not await self._may_start(row.turn, 0, deps.crash_blame):
                return
        child, spec = None, None
        if row.channel == AGENT:
            child, spec = await deps.store.read(lambda tx: load_parent(tx, row.turn))
        history, parent = self._visible_history(), child.parent if child else ""
        said, error = await deps.preparer.first_event(
            self.session, row, history, files, child, spec
        )
        now = deps.clock.now()
        begun = TurnRow(
            row.turn,
            self.session.id,
            parent,
            row.id,
            "running",
            said.initial_label,
            now,
            agent=said.terms.agent,
        )

        def opening(tx: Tx, epoch: int) -> None:
            tx.begin_turn(begun, epoch)
            tx.add_attempt(row.turn, turn.progress)

        turn = Turn(
            id=row.turn, session=self.session.id, sink=self._make_sink(opening), parent=parent
        )
        turn.record(said, now)
        if error:
            text = f"I cannot begin: {error}\nYour message is kept."
            turn.record(TurnEnded(Stop.FAILED, "agent", text), now)
        await self._run(turn, row.sender)

    async def _may_start(self, turn_id: str, progress: int, blame: CrashBlame | None) -> bool:
        """False when it is set aside now, or the daemon stops."""
        deps = self.deps
        attempts = await start_attempt(
            deps.store, self.lease, turn_id, progress, deps.stopping, blame
        )
        if attempts is not None and attempts > MAX_ATTEMPTS:
            await self._quarantine(turn_id)
        return attempts is not None and attempts <= MAX_ATTEMPTS

    def _visible_history(self) -> History:
        """Each attempt of a loop starts without one (C1)."""
        return History() if self.session.id.startswith(LOOP_PREFIX) else self.history or History()

    async def _resume(self, turn_id: str) -> None:
        """Continue a turn that a crash cut off or a person answered, or end one that is to be
        stopped.
        """

        def look(tx: Tx) -> tuple[Turn, list[ApprovalRow], int]:
            row, events = tx.get_turn(turn_id), tx.list_events(turn_id)
            parent = row.parent if row else ""
            turn = rebuild_turn(turn_id, self.session.id, events, self._make_sink(), parent)
            asked = [row for name in turn.waiting if (row := tx.get_approval(turn_id, name))]
            return turn, asked, sum_progress(tx, turn)

        turn, approvals, progress = await self.deps.store.read(look)
        if (
            turn.ended or not turn.events
        ):  # over; or its message, still queued, meets the same cancel
            return
        answers = [answer for row in approvals if (answer := self._answer_event(row))]
        if turn.suspended and not answers and turn_id not in self.cancels:
            return
        blame = self.deps.crash_blame if turn_id in self.interrupted else None
        self.interrupted.discard(turn_id)
        if not await self._may_start(turn_id, progress, blame):
            return
        why = "answered" if answers else "stopped" if turn_id in self.cancels else "restart"
        for event in (TurnResumed(why, self._visible_history().label), *answers):
            turn.record(event, self.deps.clock.now())
        for child in turn.children.values():
            if child.returned is None:
                await self.deliver_child(child.spawned.child)
        first = turn.events[0].event
        await self._run(turn, first.sender if isinstance(first, UserSaid) else "")

    def _answer_event(self, row: ApprovalRow) -> ApprovalAnswered | None:
        if row.state == "answered" and row.answer:
            return ApprovalAnswered(row.call_id, row.answer, row.answered_by, row.reason)
        if row.expires <= self.deps.clock.now():
            return ApprovalAnswered(row.call_id, Answer.EXPIRED, "", "nobody answered in time")
        return None

    async def _run(self, turn: Turn, sender: str) -> None:
        deps = self.deps
        control = TurnControl(deps.clock.monotonic, sender)
        control.start_clock(turn.spent.seconds)
        control.steers.extend(self.parked_steers.pop(turn.id, []))
        if self.session.paused:
            control.pause()
        if why := self.cancels.get(turn.id):
            control.cancel(why)
        self.running, self.control = turn, control
        deps.children.register_running(turn, control)
        account = await deps.budgets.open(turn)
        session, history = self.session, self._visible_history()
        texts = history.texts
        if serves_another(session, turn):
            texts = await deps.store.read(lambda tx: load_inherited_sources(tx, session, turn))
        context = TurnContext(
            TrustContext(session.label, texts, not session.has_no_approver, session.root),
            history.window,
            tuple(history.offers),
            session.model,
            session.effort or turn.spec.effort or deps.effort(),
            turn.id not in self.unstreamed,
            account,
        )
        await deps.agent.run(turn, context, control)
        if turn.suspended:
            self._park(turn.id)
            deps.approvals_pending.set()
            deps.children.hold_ancestors(turn.id)
            if turn.id in self.cancels:
                self.wakes.append(turn.id)
            return
        log.info("turn %s of %s ended: %s", turn.id, self.session.id, describe_end(turn))
        if self.history and not is_cleared(turn.events[0].at, self.session):
            self.history.add(turn)
        deps.budgets.close(turn)
        self.inputs.extendleft(reversed([replace(row, steers="") for row in control.take_steers()]))
        self._forget_turn(turn.id)
        deps.live.publish(turn.id, TurnFinished(turn))
        if turn.children or turn.parent:
            await self.finish_children(turn.id)
        else:
            deps.children.running.pop(turn.id, None)

    def _park(self, turn_id: str) -> None:
        """Texts to a turn that does not end now, and a stop, wait until it is resumed."""
        if control := self.control:
            control.accepts_steers = False
            self.parked_steers.setdefault(turn_id, []).extend(control.take_steers())
            if control.cancel_reason:
                self.cancels[turn_id] = control.cancel_reason

    def _forget_turn(self, turn_id: str) -> None:
        self.deps.owned_turns.discard(turn_id)
        self.cancels.pop(turn_id, None)
        self.failures.pop(turn_id, None)
        self.unstreamed.discard(turn_id)
        self.inputs.extend(self.parked_steers.pop(turn_id, []))

    def _make_sink(self, opening: Opening | None = None) -> JournalSink:
        deps = self.deps
        return JournalSink(
            deps.store, self.lease, deps.live, deps.stopping, self.deliver_child, opening
        )


async def fetch_files(
    row: InboxRow, fetch: FetchFiles, control: TurnControl, timeout_s: float = FETCH_TIMEOUT_S
) -> str:
    """Bounded in time. The message stays in the queue meanwhile: a crash loses nothing."""
    async with control.time_limit(timeout_s):
        return await fetch(row)
    return FETCH_STOPPED if control.cancel_reason else FETCH_TIMED_OUT
