"""The files of a message are fetched before its turn begins: bounded in time, and left at once when the turn is stopped.

What every lane works with.

The lane of one session: its messages in order, one turn at a time, by one worker (DESIGN 3).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from daemon.agent.budgets import Budgets
from daemon.agent.context.builder import TurnContext, build_turn_context
from daemon.agent.context.history import (
    History,
    is_cleared,
    load_history,
    load_parent,
    rebuild_turn,
    sum_progress,
)
from daemon.agent.final_messages import describe_end
from daemon.agent.subagents.manager import SubagentManager
from daemon.agent.turn_control import TurnControl
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import Fenced, StoreUnavailable
from daemon.core.event_bus import EventBus, Quarantined, TurnFinished
from daemon.core.events import Answer, ApprovalAnswered, Stop, TurnEnded, TurnResumed, UserSaid
from daemon.core.journal import ReadTx, Store, Tx
from daemon.core.provenance import SourcedText
from daemon.core.rows import ApprovalRow, InboxRow, SessionRow, TurnRow
from daemon.core.turn import Turn
from daemon.sessions.recovery import (
    MAX_ATTEMPTS,
    CrashBlame,
    FailureCounts,
    JournalSink,
    Lease,
    Opening,
    delay_suspect,
    quarantine_notice,
    record_attempt,
)
from daemon.sessions.turn_setup import (
    AGENT,
    TurnPreparer,
    first_event,
    load_inherited_sources,
    serves_another,
)

FETCH_TIMEOUT_S = 120.0
FETCH_TIMED_OUT = (
    "[The files of this message could not be fetched in time. They can be sent again.]"
)
FETCH_STOPPED = "[The files of this message were not fetched: it was stopped.]"


@dataclass(slots=True)
class AttachmentFetch:
    """At most one message's files at a time. Until they are there the message is still in the queue: a crash loses nothing."""

    timeout_s: float = FETCH_TIMEOUT_S
    _turn: str = ""
    _control: TurnControl | None = None

    async def fetch(self, row: InboxRow, fetch: Callable[[InboxRow], Awaitable[str]]) -> str:
        """What came of them, in words for the model; "" for a message without any."""
        if not row.attachments:
            return ""
        control = TurnControl(asyncio.get_running_loop().time)
        self._turn, self._control = row.turn, control
        try:
            async with control.time_limit(self.timeout_s):
                return await fetch(row)
            return FETCH_STOPPED if control.cancel_reason else FETCH_TIMED_OUT
        finally:
            self._turn, self._control = "", None

    def stop(self, turn_id: str) -> None:
        """Nobody needs them any more."""
        if turn_id == self._turn and self._control:
            self._control.cancel("stopped")


class TurnRunner(Protocol):
    """The agent loop."""

    async def run(self, turn: Turn, scene: TurnContext, control: TurnControl) -> None:
        """Drive the turn until it ends or waits."""
        ...


async def fetch_nothing(row: InboxRow) -> str:
    """No files can be had here."""
    return ""


@value
class SessionDeps:
    """What every lane works with. `leaving` is set when the daemon stops, `questions` while somebody has been asked something.

    `held` are the turns that this process took in and has not finished. `fetch` brings in the files of a message before its turn
    begins and says what came of it, in words for the model; it may be asked again for the same one. `company` is who shares the
    blame where the former daemon crashed.
    """

    store: Store
    live: EventBus
    clock: Clock
    agent: TurnRunner
    set_up: TurnPreparer
    budgets: Budgets
    children: SubagentManager
    effort: Callable[[], str]
    while_busy: Callable[[], Literal["steer", "queue"]]
    owner: str
    stopping: asyncio.Event
    approvals_pending: asyncio.Event
    owned_turns: set[str] = field(default_factory=set)
    fetch: Callable[[InboxRow], Awaitable[str]] = fetch_nothing
    crash_blame: CrashBlame = field(default_factory=CrashBlame)


log = logging.getLogger(__name__)
LOOP_PREFIX = "loop:"


@dataclass(slots=True)
class SessionWorker:
    """One session's queue and worker. It reads the journal once, when it wakes; after that it is told."""

    session: SessionRow
    deps: SessionDeps
    lease: Lease
    history: History | None = None
    inputs: deque[InboxRow] = field(default_factory=deque)
    wakes: deque[str] = field(default_factory=deque)
    cancels: dict[str, str] = field(default_factory=dict)
    parked_steers: dict[str, list[InboxRow]] = field(default_factory=dict)
    seen_inputs: set[str] = field(default_factory=set)
    unattempted: set[str] = field(default_factory=set)
    interrupted: set[str] = field(default_factory=set)
    unstreamed: set[str] = field(default_factory=set)
    failures: FailureCounts = field(default_factory=FailureCounts)
    attachments: AttachmentFetch = field(default_factory=AttachmentFetch)
    running: Turn | None = None
    control: TurnControl | None = None

    def push(self, row: InboxRow) -> None:
        """A message to work on; the same one twice is one."""
        if row.id not in self.seen_inputs:
            self.seen_inputs.add(row.id)
            self.inputs.append(row)

    def steerable(self, sender: str) -> TurnControl | None:
        """The running turn, when a text of this sender is to be folded into it: it overtakes nothing that they said before."""
        control = self.control
        mine = (
            control is not None
            and control.accepts_steers
            and not control.cancel_reason
            and control.sender == sender
        )
        waits = any(row.sender == sender for row in self.inputs)
        return control if mine and not waits and self.deps.while_busy() == "steer" else None

    @property
    def idle(self) -> bool:
        """Nothing to do now."""
        return (
            self.history is not None
            and not self.running
            and not self._next_wake()
            and self._next_input() is None
        )

    async def work(self) -> None:
        """Everything there is to do, in order. Returns when idle, or when the daemon leaves. Raises Fenced, StoreUnavailable."""
        if self.history is None:
            await self._load()
        while not self.idle and not self.deps.stopping.is_set():
            if turn := self._next_wake():
                self.wakes.remove(turn)
                await self._run_guarded(turn, None)
            elif row := self._next_input():
                self.inputs.remove(row)
                await self._run_guarded(row.turn, row)

    def _next_wake(self) -> str:
        """The turn to take up again. In a paused session only one that was stopped: one that only waits is no try (K25)."""
        if not self.session.paused:
            return self.wakes[0] if self.wakes else ""
        return next((turn for turn in self.wakes if turn in self.cancels), "")

    def _next_input(self) -> InboxRow | None:
        """The message whose turn it is; in a paused session only one that was stopped, for it ends without a step."""
        if not self.session.paused:
            return self.inputs[0] if self.inputs else None
        return next((row for row in self.inputs if row.turn in self.cancels), None)

    async def _load(self) -> None:
        """Read what a former worker, or a former daemon, left."""

        def look(
            tx: ReadTx,
        ) -> tuple[SessionRow, History, list[TurnRow], list[InboxRow], dict[str, str]]:
            session = tx.get_session(self.session.id) or self.session
            turns, rows = tx.list_unfinished_turns(session.id), tx.list_waiting_inputs(session.id)
            names = [*(turn.id for turn in turns), *(row.turn for row in rows)]
            return (
                session,
                load_history(tx, session),
                turns,
                rows,
                {name: why for name in names if (why := tx.get_cancel_reason(name))},
            )

        seen, found = self.session, await self.deps.store.read(look)
        while (
            self.session is not seen
        ):  # a command changed it meanwhile: what was read may be from before
            seen, found = self.session, await self.deps.store.read(look)
        self.session, self.history, turns, rows, stopped = found
        self.cancels = stopped | self.cancels
        unfinished = self.interrupted = {turn.id for turn in turns}
        self.wakes.extend(turn.id for turn in turns if turn.id not in self.wakes)
        meanwhile = self._empty_queue()
        self.unattempted = {row.id for row in rows}.difference(row.id for row in meanwhile)
        for row in rows:
            if row.steers in unfinished and row.id not in self.seen_inputs:
                self.seen_inputs.add(row.id)
                self.parked_steers.setdefault(row.steers, []).append(row)
            else:
                self.push(row)
        for row in meanwhile:
            self.push(row)

    def _empty_queue(self) -> list[InboxRow]:
        """What was pushed before the journal had been read: it comes after what stands there, though it was heard of first."""
        rows = list(self.inputs)
        self.inputs.clear()
        self.seen_inputs.difference_update(row.id for row in rows)
        return rows

    async def _run_guarded(self, turn_id: str, row: InboxRow | None) -> None:
        """One job. What breaks it is tried again, and set aside when it breaks three times (the border of a session task)."""
        try:
            if row and not await self._has_begun(turn_id):
                await self._begin(row)
            else:
                await self._resume(turn_id)
        except Fenced:
            raise
        except StoreUnavailable:
            self._requeue(turn_id, row)
            raise
        except Exception:  # a poison message must not stop the lane
            log.exception("turn %s broke off", turn_id)
            failed = self.failures.count_failure(
                turn_id, self.running.progress if self.running else None
            )
            self._park(turn_id)
            if self.deps.stopping.is_set():
                raise
            await self._retry_or_quarantine(turn_id, row, failed)
        finally:
            self.running = self.control = None

    async def _has_begun(self, turn_id: str) -> bool:
        """Only after a failure there may be a turn already."""
        return (
            turn_id in self.failures
            and await self.deps.store.read(lambda tx: tx.get_turn(turn_id)) is not None
        )

    async def _retry_or_quarantine(self, turn_id: str, row: InboxRow | None, failed: int) -> None:
        if failed < MAX_ATTEMPTS:
            self._requeue(turn_id, row)
            return
        try:
            await self._quarantine(turn_id)
        except StoreUnavailable:
            self._requeue(turn_id, row)
            raise

    def _requeue(self, turn_id: str, row: InboxRow | None) -> None:
        if row:
            self.inputs.appendleft(row)
        else:
            self.wakes.appendleft(turn_id)

    async def _quarantine(self, turn_id: str) -> None:
        notice = quarantine_notice(turn_id)
        await self.deps.store.write(
            lambda tx: tx.quarantine(turn_id, self.deps.clock.now(), notice)
        )
        log.error(
            "turn %s of %s is set aside after %d tries without any progress",
            turn_id,
            self.session.id,
            MAX_ATTEMPTS,
        )
        self.deps.live.publish(turn_id, Quarantined(notice))
        if self.running:
            self.deps.budgets.close(self.running)
        self._forget_turn(turn_id)
        await self.deps.children.finish_turn(turn_id)

    async def _begin(self, row: InboxRow) -> None:
        files = (
            "" if row.turn in self.cancels else await self.attachments.fetch(row, self.deps.fetch)
        )
        if (
            row.id in self.unattempted
        ):  # by a former daemon, which may have died of it before the turn began
            self.unattempted.discard(row.id)
            if not await delay_suspect(self.deps.store, row.turn, self.deps.stopping):
                return
            if (
                await record_attempt(
                    self.deps.store, self.lease, row.turn, 0, self.deps.crash_blame.share
                )
                > MAX_ATTEMPTS
            ):
                await self._quarantine(row.turn)
                return
        at = self.deps.clock.now()
        child, above = (
            await self.deps.store.read(lambda tx: load_parent(tx, row.turn))
            if row.channel == AGENT
            else (None, None)
        )
        brief = (await self.deps.set_up(self.session, row, child, above, files)).with_reflection(
            self._visible_history().reflection
        )
        opened = first_event(row, brief, self._visible_history().label, files)
        parent = child.parent if child else ""
        begun = TurnRow(
            row.turn,
            self.session.id,
            parent,
            row.id,
            "running",
            opened.initial_label,
            at,
            agent=brief.spec.agent,
        )

        def opening(tx: Tx, epoch: int) -> None:
            tx.begin_turn(begun, epoch)
            tx.add_attempt(row.turn, turn.progress)

        turn = Turn(
            id=row.turn, session=self.session.id, sink=self._make_sink(opening), parent=parent
        )
        turn.record(opened, at)
        if brief.error:
            turn.record(
                TurnEnded(
                    Stop.FAILED, "agent", f"I cannot begin: {brief.error}\nYour message is kept."
                ),
                at,
            )
        await self._run(turn, row.sender)

    def _visible_history(self) -> History:
        """What the model is shown of before; each attempt of a loop begins afresh (C1)."""
        return History() if self.session.id.startswith(LOOP_PREFIX) else self.history or History()

    async def _resume(self, turn_id: str) -> None:
        """Take a turn up again: cut off by a crash, answered by a person, or to be stopped."""

        def look(tx: ReadTx) -> tuple[Turn, list[ApprovalRow], int]:
            row = tx.get_turn(turn_id)
            turn = rebuild_turn(
                turn_id,
                self.session.id,
                tx.list_events(turn_id),
                self._make_sink(),
                row.parent if row else "",
            )
            asked = [tx.get_approval(turn_id, name) for name in turn.waiting]
            return turn, [row for row in asked if row], sum_progress(tx, turn)

        turn, approvals, progress = await self.deps.store.read(look)
        if (
            turn.ended or not turn.events
        ):  # over; or still in the queue, where its message will meet the same cancel
            return
        answers = [answer for row in approvals if (answer := self._answer_event(row))]
        if turn.suspended and not answers and turn_id not in self.cancels:
            return
        survived, self.interrupted = turn_id in self.interrupted, self.interrupted - {turn_id}
        if survived and not await delay_suspect(self.deps.store, turn_id, self.deps.stopping):
            return
        blame = self.deps.crash_blame.share if survived else 1.0
        if (
            await record_attempt(self.deps.store, self.lease, turn_id, progress, blame)
            > MAX_ATTEMPTS
        ):
            await self._quarantine(turn_id)
            return
        why = "answered" if answers else "stopped" if turn_id in self.cancels else "restart"
        for event in (TurnResumed(why, self._visible_history().label), *answers):
            turn.record(event, self.deps.clock.now())
        first = turn.events[0].event
        await self._run(turn, first.sender if isinstance(first, UserSaid) else "")

    def _answer_event(self, row: ApprovalRow) -> ApprovalAnswered | None:
        if row.state == "answered" and row.answer:
            return ApprovalAnswered(row.call_id, row.answer, row.answered_by, row.reason)
        if row.expires <= self.deps.clock.now():
            return ApprovalAnswered(row.call_id, Answer.EXPIRED, "", "nobody answered in time")
        return None

    async def _run(self, turn: Turn, sender: str) -> None:
        control = TurnControl(self.deps.clock.monotonic, sender)
        control.start_clock(turn.spent.seconds)
        control.steers.extend(self.parked_steers.pop(turn.id, []))
        if self.session.paused:
            control.pause()
        if why := self.cancels.get(turn.id):
            control.cancel(why)
        self.running, self.control = turn, control
        self.deps.children.register_running(turn, control)
        account = await self.deps.budgets.open(turn)
        stream = turn.id not in self.unstreamed
        effort = turn.spec.effort or self.deps.effort()
        scene = build_turn_context(
            self.session, self._visible_history(), effort=effort, stream=stream
        )
        heard = (
            await self._load_inherited(turn)
            if serves_another(self.session, turn)
            else scene.trust.earlier
        )
        scene = replace(scene, account=account, trust=replace(scene.trust, earlier=heard))
        await self.deps.agent.run(turn, scene, control)
        await self._finish(turn, control)

    async def _load_inherited(self, turn: Turn) -> tuple[SourcedText, ...]:
        return await self.deps.store.read(lambda tx: load_inherited_sources(tx, self.session, turn))

    async def _finish(self, turn: Turn, control: TurnControl) -> None:
        if turn.suspended:
            self._park(turn.id)
            self.deps.approvals_pending.set()
            self.deps.children.hold_ancestors(turn.id)
            if turn.id in self.cancels:
                self.wakes.append(turn.id)
        else:
            log.info("turn %s of %s ended: %s", turn.id, self.session.id, describe_end(turn))
            if not is_cleared(turn.events[0].at, self.session):
                past = self.history or History()
                past.add(turn)
                past.trim()
            self.deps.budgets.close(turn)
            self.inputs.extendleft(
                reversed([replace(row, steers="") for row in control.take_steers()])
            )
            self._forget_turn(turn.id)
            self.deps.live.publish(turn.id, TurnFinished(turn))
            await self.deps.children.finish_turn(turn.id, alone=not (turn.children or turn.parent))

    def _park(self, turn_id: str) -> None:
        """What people said to a turn that does not end now, a stop too, waits until it is taken up again."""
        control = self.control
        if control:
            control.accepts_steers = False
            self.parked_steers.setdefault(turn_id, []).extend(control.take_steers())
            if control.cancel_reason:
                self.cancels[turn_id] = control.cancel_reason

    def _forget_turn(self, turn_id: str) -> None:
        self.deps.owned_turns.discard(turn_id)
        self.cancels.pop(turn_id, None)
        self.failures.forget(turn_id)
        self.unstreamed.discard(turn_id)
        self.inputs.extend(self.parked_steers.pop(turn_id, []))

    def _make_sink(self, opening: Opening | None = None) -> JournalSink:
        return JournalSink(self.deps.store, self.lease, self.deps.live, opening, self.deps.stopping)
