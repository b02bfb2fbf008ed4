"""The worker of one session: its messages in order, one turn at a time (architecture.md)."""

import asyncio
import logging
import os
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from daemon.agent.context.builder import TurnContext
from daemon.agent.context.history import (
    History,
    load_history,
    load_parent,
    rebuild_turn,
    sum_progress,
)
from daemon.agent.turn_control import TurnControl
from daemon.core.clock import wait_for_stop, wait_to_end
from daemon.core.errors import CONFIG_FAULT, Fenced, StoreUnavailable
from daemon.core.event_bus import Quarantined, TurnFinished
from daemon.core.events import (
    Answer,
    ApprovalAnswered,
    ChildSpawned,
    RecordedEvent,
    Stop,
    TodosSet,
    TurnEnded,
    TurnResumed,
    UserSaid,
)
from daemon.core.messages import FetchedFiles
from daemon.core.provenance import TrustContext
from daemon.core.rows import NO_ROOT, ApprovalRow, InboxRow, SessionRow, TurnRow
from daemon.core.trust import Label, Role
from daemon.core.turn import Turn
from daemon.sessions.brakes import OWNER_RANK, PERSON_RANK, UNTRUSTED_RANK
from daemon.sessions.turn_setup import AGENT, load_inherited_sources, load_news, takes_up_plan
from daemon.store.journal import Tx
from daemon.store.posting import begins_by_itself
from daemon.store.tables.sessions import is_cleared

if TYPE_CHECKING:
    from daemon.sessions.manager import SessionManager

log = logging.getLogger(__name__)
FIRST_WAIT, MAX_WAIT = 0.2, 2.0
MAX_ATTEMPTS = 3
SUSPECT_ATTEMPTS, SUSPECT_DELAY_S = 2, 2.0
QUARANTINE_NOTICE = (
    "This message is set aside: processing it failed {tries} times without progress. Nothing else"
    " is affected. `aidaemon show {turn}` shows how far it came; rephrase it to try again."
)
FETCH_TIMEOUT_S = 120.0
FETCH_TIMED_OUT = "[The files of this message could not be fetched in time. Send them again.]"
FETCH_STOPPED = "[The files of this message were not fetched: it was stopped.]"
LOOP_PREFIX = "loop:"
PROCESS = str(os.getpid())
FetchFiles = Callable[[InboxRow], Awaitable[FetchedFiles]]


@dataclass(slots=True)
class SessionWorker:
    """One session's queue. It reads the journal once, when it wakes; after that it is told what
    happens.

    `epoch`: its lease on the session, taken with its first write, fences former owners. `opening`:
    the row of a turn that begins, written with its first events. `unattempted`: inputs, and
    `interrupted`: turns, that a former daemon left; it may have died of one. `failures`: how often
    a turn failed in this process, and at which progress. `told_input`: there were no outcomes to
    tell when it came, a moment ago. Each attempt of a loop starts without a history (C1).
    """

    session: SessionRow
    manager: "SessionManager"
    epoch: int = 0
    opening: TurnRow | None = None
    history: History = field(default_factory=History)
    loaded: bool = False
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
    told_input: str = ""
    waiting: asyncio.Future[bool] | None = None
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
        return control if self.manager.preparer.agents.defaults.while_busy == "steer" else None

    @property
    def idle(self) -> bool:
        """Nothing to do now."""
        return self.loaded and not self.running and self._next_job() is None

    async def work(self) -> None:
        """All there is to do, in order. Returns when idle, or when the daemon stops. Raises
        Fenced, StoreUnavailable.
        """
        if not self.loaded:
            await self._load()
        while (job := self._next_job()) and not self.manager.stopping.is_set():
            rank = self._find_rank(job)
            if rank is not None:
                self.waiting = self.manager.places.begin_wait(rank)
                try:
                    if self.waiting:
                        self.told_input = ""
                        if not await self.waiting:
                            continue  # what there is to do has changed meanwhile
                finally:
                    self.waiting = None
            try:
                if job is not self._next_job():
                    continue
                if isinstance(job, str):
                    self.wakes.remove(job)
                    await self._run_guarded(job, None)
                else:
                    self.inputs.remove(job)
                    await self._run_guarded(job.turn, job)
            finally:
                if rank is not None:
                    self.manager.places.leave(rank)

    def _find_rank(self, job: InboxRow | str) -> int | None:
        """Whose place it takes; none for what is only stopped, nor for a sub-agent, whose parent
        has one.
        """
        name = job if isinstance(job, str) else job.turn
        if name in self.cancels or self.session.channel == AGENT:
            return None
        if self.session.label is Label.UNTRUSTED:
            return UNTRUSTED_RANK
        is_owner = isinstance(job, str) or job.role == Role.OWNER.value
        return OWNER_RANK if is_owner else PERSON_RANK

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
                # each attempt of a loop starts without a history (C1)
                in_loop = session.id.startswith(LOOP_PREFIX)
                history = History() if in_loop else load_history(tx, session)
                return session, history, turns, rows, cancels

            found = await self.manager.store.read(look)
            if self.session is before:  # else a command changed it meanwhile
                break
        self.session, self.history, unfinished, rows, cancels = found
        self.loaded, self.cancels = True, cancels | self.cancels
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
        store = self.manager.store
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
            if self.manager.stopping.is_set():
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
            self.running = self.control = self.opening = None

    def _requeue(self, turn_id: str, row: InboxRow | None) -> None:
        if row:
            self.inputs.appendleft(row)
        else:
            self.wakes.appendleft(turn_id)

    async def _quarantine(self, turn_id: str) -> None:
        notice = QUARANTINE_NOTICE.format(tries=MAX_ATTEMPTS, turn=turn_id)
        now = self.manager.clock.now()
        await self.manager.store.write(lambda tx: tx.quarantine(turn_id, now, notice))
        log.error(
            "turn %s of %s is set aside after %d attempts", turn_id, self.session.id, MAX_ATTEMPTS
        )
        self.manager.live.publish(turn_id, Quarantined(notice))
        if self.running:
            self.manager.budgets.close(self.running)
        self._forget_turn(turn_id)
        await self.manager.finish_children(turn_id)

    async def _begin(self, row: InboxRow) -> None:
        manager, files = self.manager, FetchedFiles()
        if row.attachments and row.turn not in self.cancels:
            control = self.fetching[row.turn] = TurnControl(asyncio.get_running_loop().time)
            try:
                files = await fetch_files(row, manager.fetch, control)
            finally:
                del self.fetching[row.turn]
        if row.id in self.unattempted:
            self.unattempted.discard(row.id)
            if not await self._may_start(row.turn, 0, manager.crash_share):
                return
        child, spec = None, None
        if row.channel == AGENT:
            child, spec = await manager.store.read(lambda tx: load_parent(tx, row.turn))
        history, parent = self.history, child.parent if child else ""
        is_told, self.told_input = self.told_input == row.id, ""
        look = partial(load_news, row=row)
        settled, zone = ((), "") if is_told else await manager.store.read(look)
        said, error = await manager.preparer.first_event(
            self.session, row, history, files, child, spec, settled
        )
        if zone:
            said = replace(said, zone=zone)
        now = manager.clock.now()
        turn = Turn(id=row.turn, session=self.session.id, sink=self, parent=parent)
        turn.record(said, now)
        self.opening = TurnRow(
            row.turn, self.session.id, parent, row.id, "running", turn.label, now,
            agent=said.terms.agent, private=turn.private,
        )  # fmt: skip
        if history.plan and takes_up_plan(self.session, said, history):
            turn.record(TodosSet("", history.plan), now)
        if error:
            log.warning("turn %s cannot begin: %s", row.turn, error)
            shown = error if row.role == Role.OWNER else CONFIG_FAULT
            text = f"I cannot begin: {shown}\nYour message is kept."
            turn.record(TurnEnded(Stop.FAILED, "agent", text), now)
        await self._run(turn, row.sender)

    async def _may_start(self, turn_id: str, progress: int, blame: float | None = None) -> bool:
        """Count an attempt at this progress, over restarts too. False when the turn is set aside
        now, or the daemon stops.

        `blame`: the former daemon may have died of this turn. One that it may have died of twice
        waits until others had their turn.
        """
        store, stopping = self.manager.store, self.manager.stopping
        tries = await store.read(lambda tx: tx.count_attempts(turn_id)) if blame else 0.0
        if tries >= SUSPECT_ATTEMPTS and await wait_for_stop(stopping, SUSPECT_DELAY_S):
            return False

        def work(tx: Tx) -> tuple[int, float]:
            epoch = self.epoch or tx.claim_session(self.session.id, PROCESS)
            return epoch, tx.add_attempt(turn_id, progress, blame or 1.0)

        self.epoch, attempts = await store.write(work)
        if attempts > MAX_ATTEMPTS:
            await self._quarantine(turn_id)
        return attempts <= MAX_ATTEMPTS

    async def append(
        self, turn_id: str, recorded: Sequence[RecordedEvent]
    ) -> asyncio.CancelledError | None:
        """Write a turn's events; durable when it returns. On a full disk it retries until the disk
        is writable: no tool runs before its event is written. Raises Fenced; StoreUnavailable only
        when the daemon stops. Returns a cancellation that came meanwhile.
        """
        manager, wait = self.manager, FIRST_WAIT
        cancelled: asyncio.CancelledError | None = None

        def work(tx: Tx) -> int:
            epoch = self.epoch or tx.claim_session(self.session.id, PROCESS)
            if self.opening:
                progress = self.running.progress if self.running else 0
                tx.begin_turn(self.opening, epoch, recorded, progress)
            else:
                tx.append_events(self.session.id, epoch, turn_id, recorded)
            return epoch

        while True:
            try:
                written = manager.store.submit(work)
                try:
                    await written
                except asyncio.CancelledError as exc:
                    cancelled = exc
                self.epoch = written.result()
                break
            except StoreUnavailable as exc:
                if manager.stopping.is_set():
                    raise
                log.error("the journal cannot be written (%s); the turn waits", exc)
            pause = asyncio.ensure_future(wait_for_stop(manager.stopping, wait))
            cancelled = await wait_to_end(pause) or cancelled
            wait = min(wait * 2, MAX_WAIT)
        self.opening = None
        if any(isinstance(entry.event, UserSaid | TurnResumed) for entry in recorded):
            for follow in manager.live.turn_listeners:
                follow(self.session.id, turn_id)
        for entry in recorded:
            manager.live.publish(turn_id, entry)
        for entry in recorded:
            if isinstance(entry.event, ChildSpawned):
                start = asyncio.ensure_future(manager.deliver_child(entry.event.child))
                cancelled = await wait_to_end(start) or cancelled
                start.result()
        return cancelled

    async def _resume(self, turn_id: str) -> None:
        """Continue a turn that a crash cut off or a person answered, or end one that is to be
        stopped.
        """

        def look(tx: Tx) -> tuple[Turn, list[ApprovalRow], int, list[InboxRow]]:
            row, events = tx.get_turn(turn_id), tx.list_events(turn_id)
            parent = row.parent if row else ""
            turn = rebuild_turn(turn_id, self.session.id, events, self, parent)
            asked = [row for name in turn.waiting if (row := tx.get_approval(turn_id, name))]
            return turn, asked, sum_progress(tx, turn), tx.list_inputs(f"typed:{turn_id}")

        turn, approvals, progress, typed = await self.manager.store.read(look)
        if turn.ended or not turn.events:  # or its message, still queued, meets the same cancel
            return
        answers = [answer for row in approvals if (answer := self._answer_event(row))]
        if turn.suspended and not answers and turn_id not in self.cancels:
            return
        blame = self.manager.crash_share if turn_id in self.interrupted else None
        self.interrupted.discard(turn_id)
        if not await self._may_start(turn_id, progress, blame):
            return
        why = "answered" if answers else "stopped" if turn_id in self.cancels else "restart"
        for event in (TurnResumed(why, self.history.label, self.history.private), *answers):
            turn.record(event, self.manager.clock.now())
        for child in turn.children.values():
            if child.returned is None:
                await self.manager.deliver_child(child.spawned.child)
        parked, first = self.parked_steers.setdefault(turn_id, []), turn.events[0].event
        parked += [row for row in typed if row not in parked]
        await self._run(turn, first.sender if isinstance(first, UserSaid) else "")

    def _answer_event(self, row: ApprovalRow) -> ApprovalAnswered | None:
        if row.state == "answered" and row.answer:
            return ApprovalAnswered(row.call_id, row.answer, row.answered_by, row.reason)
        if row.state != "waiting" and row.expires <= self.manager.clock.now():
            return ApprovalAnswered(row.call_id, Answer.EXPIRED, "", "nobody answered in time")
        return None

    async def _run(self, turn: Turn, sender: str) -> None:
        manager, self.told_input = self.manager, ""
        control = TurnControl(manager.clock.monotonic, sender)
        control.start_clock(turn.spent.seconds)
        control.steers.extend(self.parked_steers.pop(turn.id, []))
        if self.session.paused:
            control.pause()
        if why := self.cancels.get(turn.id):
            control.cancel(why)
        self.running, self.control = turn, control
        manager.children.running[turn.id] = control
        if turn.parent:
            manager.children.update_waiting(turn.id)
        account = await manager.budgets.open(turn)
        session, history = self.session, self.history
        texts, work, root_turn = history.texts, (), ""
        in_loop = session.id.startswith(LOOP_PREFIX)
        by_itself = begins_by_itself(session.id)
        if turn.parent or in_loop:
            (texts, work, root_turn), by_itself = await manager.store.read(
                lambda tx: (
                    load_inherited_sources(tx, session, turn),
                    tx.is_begun_by_itself(turn.id),
                )
            )
        can_ask = session.label is Label.TRUSTED or session.root not in ("", NO_ROOT)
        context = TurnContext(
            TrustContext(session.label, texts, can_ask, session.root, root_turn, work, by_itself),
            history.window,
            tuple(history.offers),
            session.model,
            session.effort or turn.spec.effort or manager.preparer.agents.defaults.effort,
            turn.id not in self.unstreamed,
            account,
        )
        await manager.agent.run(turn, context, control)
        if turn.suspended:
            self._park(turn.id)
            manager.approvals_pending = True
            manager.children.hold_ancestors(turn.id)
            if turn.id in self.cancels:
                self.wakes.append(turn.id)
            return
        if not in_loop and not is_cleared(turn.events[0].at, self.session):
            self.history.add(turn)
        manager.budgets.close(turn)
        left, control.steers = control.steers, deque()
        self._forget_turn(turn.id)
        if left:
            self.inputs.extendleft(replace(row, steers="") for row in reversed(left) if row.steers)
            await manager.deliver_typed(turn, left)
        manager.live.publish(turn.id, TurnFinished(turn))
        for tell in manager.live.end_listeners:
            tell()
        if turn.children or turn.parent:
            await self.manager.finish_children(turn.id)
        else:
            manager.children.running.pop(turn.id, None)

    def _park(self, turn_id: str) -> None:
        """Texts to a turn that does not end now, and a stop, wait until it is resumed."""
        if control := self.control:
            control.accepts_steers = False
            self.parked_steers.setdefault(turn_id, []).extend(control.steers)
            control.steers.clear()
            if control.cancel_reason:
                self.cancels[turn_id] = control.cancel_reason

    def _forget_turn(self, turn_id: str) -> None:
        self.manager.owned_turns.discard(turn_id)
        self.cancels.pop(turn_id, None)
        self.failures.pop(turn_id, None)
        self.unstreamed.discard(turn_id)
        self.inputs.extend(row for row in self.parked_steers.pop(turn_id, []) if row.steers)


async def fetch_files(
    row: InboxRow, fetch: FetchFiles, control: TurnControl, timeout_s: float = FETCH_TIMEOUT_S
) -> FetchedFiles:
    """Bounded in time. The message stays in the queue meanwhile: a crash loses nothing."""
    async with control.time_limit(timeout_s):
        return await fetch(row)
    return FetchedFiles(FETCH_STOPPED if control.cancel_reason else FETCH_TIMED_OUT)
