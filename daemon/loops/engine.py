"""Loops at work: one task each, which looks in the journal what is next and does that; so a crash
anywhere changes nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from daemon.agent.context.history import rebuild_turn
from daemon.agent.spec.registry import AgentRegistry, unknown_agent
from daemon.core.clock import Clock
from daemon.core.errors import StoreUnavailable
from daemon.core.event_bus import EventBus, is_turn_over
from daemon.core.ids import NewId, parse_session_id
from daemon.core.requests import LoopOrder
from daemon.core.rows import REVIEW_QUESTION, LoopRow, LoopStage, SessionRow, TurnRow
from daemon.core.trust import Label
from daemon.loops.changes import (
    SHUTDOWN_REASON,
    AttemptResult,
    LoopChange,
    LoopEvents,
    answer_review,
    attempt_result,
    begin_loop,
    end_loop,
    loop_event,
    loop_events,
    pause_loop,
    resume_loop,
    settle_attempt,
    settle_review,
)
from daemon.loops.config import (
    LoopNotStarted,
    UnknownAgent,
    check_criterion,
    resolve_settings,
)
from daemon.sessions.manager import SessionManager
from daemon.store.journal import Store, Tx
from daemon.tools.criteria_checks import CriteriaChecker, CriterionResult

log = logging.getLogger(__name__)
REVIEW_POLL_S = 0.5
STORE_RETRY_S = 2.0
LoopWork = Callable[[Tx], LoopChange | None]


@dataclass(slots=True)
class LoopEngine:
    """The only owner of loops' tasks; changes are published in `hub`."""

    store: Store
    sessions: SessionManager
    specs: AgentRegistry
    criteria: CriteriaChecker
    clock: Clock
    new_id: NewId
    live: EventBus
    hub: LoopEvents = field(default_factory=LoopEvents)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _change_signals: dict[str, asyncio.Event] = field(default_factory=dict)
    _closing: bool = False

    async def start(self, order: LoopOrder) -> LoopRow:
        """It is in the journal when this returns, and runs. Raises ConfigError, LoopNotStarted,
        UsageError.
        """
        if self._closing:
            raise LoopNotStarted("the daemon is stopping; start the loop when it runs again")
        if order.agent not in (names := self.specs.names()):
            raise UnknownAgent(unknown_agent(order.agent, names))
        settings = resolve_settings(order, self.specs.get(order.agent).loop)
        name, now = self.new_id(), self.clock.now()

        def work(tx: Tx) -> LoopChange:
            if busy := tx.list_running_loops(order.agent):
                raise LoopNotStarted(
                    f"the agent {order.agent} is at loop {busy[0].id} already; stop that one"
                    " first, or resume it"
                )
            root = tx.get_session(order.session) or SessionRow(
                order.session, *parse_session_id(order.session), Label.TRUSTED, now
            )
            loop = LoopRow(
                name,
                order.agent,
                root.root or root.id,
                order.sender,
                root.label,
                order.message,
                settings.criterion,
                settings.value,
                settings.max_iterations,
                now,
                role=order.role,
                live=order.live,
            )
            if loop.criterion == "test_pass" and self.criteria.obstacle:
                raise LoopNotStarted(self.criteria.obstacle)
            return begin_loop(tx, loop, root, settings.warnings(), now)

        change = await self.store.write(work)
        self.hub.publish(loop_event(change.after, "agent:status", status="running"))
        self._announce(change)
        self.run_loop(change.after.id)
        return change.after

    async def recover(self) -> list[str]:
        """Resume the loops of a daemon that died, after its sessions; returns their ids."""
        rows = await self.store.read(lambda tx: tx.list_running_loops())
        for row in rows:
            self.run_loop(row.id)
        return [row.id for row in rows]

    def run_loop(self, loop_id: str) -> None:
        """Run it in this process until it is over."""
        if loop_id not in self._tasks and not self._closing:
            self._change_signals[loop_id] = asyncio.Event()
            task = self._tasks[loop_id] = asyncio.create_task(
                self._drive(loop_id), name=f"loop {loop_id}"
            )
            task.add_done_callback(lambda done: self._forget_task(loop_id, done))

    async def pause(self, loop_id: str) -> LoopRow | None:
        """No further attempt; the running one finishes. None when there is nothing to pause."""
        return await self._apply(loop_id, lambda tx: pause_loop(tx, loop_id))

    async def resume(self, loop_id: str) -> LoopRow | None:
        """Resume after a pause, or what a crash cut off. None when it is over, or runs already."""
        resumed = await self._apply(loop_id, lambda tx: resume_loop(tx, loop_id, self.clock.now()))
        if loop_id in self._tasks:
            return resumed
        row, session = await self.store.read(
            lambda tx: (
                loop := tx.get_loop(loop_id),
                tx.get_session(loop.session) if loop and not loop.is_over else None,
            )
        )
        if row and session:
            self.sessions.wake_turn(session, row.turn_id(row.attempt))
            self.run_loop(loop_id)
        return row if session else None

    async def review(
        self, loop_id: str, *, approved: bool, by: str, reason: str = ""
    ) -> LoopRow | None:
        """A person says whether the attempt will do; None when that is not asked."""
        return await self._apply(
            loop_id, lambda tx: answer_review(tx, loop_id, approved, by, reason, self.clock.now())
        )

    async def stop(self, loop_id: str, why: str) -> LoopRow | None:
        """End it and its attempt now; an open review counts as a no. None when it is over."""
        now = self.clock.now()
        try:
            change = await self.store.write(lambda tx: end_loop(tx, loop_id, why, now))
        except StoreUnavailable as exc:
            log.error("loop %s is stopped, but a restart may undo it: %s", loop_id, exc)
            if loop := await self.store.read(lambda tx: tx.get_loop(loop_id)):
                await self._stop_attempt(loop, why)
            raise
        if change is None:
            return None
        await self._stop_attempt(change.before, why)
        self._announce(change)
        return change.after

    async def _stop_attempt(self, loop: LoopRow, why: str) -> None:
        task = self._tasks.get(loop.id)
        if task and task is not asyncio.current_task():
            task.cancel()
        if session := await self.store.read(lambda tx: tx.get_session(loop.session)):
            self.sessions.cancel(session, loop.turn_id(loop.attempt), why)

    async def list_live(self) -> list[LoopRow]:
        """Loops at work that a live page started."""
        rows = await self.store.read(lambda tx: tx.list_running_loops())
        return [row for row in rows if row.live]

    async def stop_loops_of(self, session: str, why: str) -> list[str]:
        """End the loops that this conversation started; returns the turns of their attempts."""
        rows = await self.store.read(
            lambda tx: [row for row in tx.list_running_loops() if row.root == session]
        )
        stopped = [await self.stop(row.id, why) for row in rows]
        return [row.turn_id(row.attempt) for row in stopped if row]

    async def aclose(self) -> None:
        """An orderly stop of the daemon ends its loops (C6); a crash does not."""
        self._closing = True
        tasks = dict(self._tasks)
        for loop_id in tasks:
            try:
                await self.stop(loop_id, SHUTDOWN_REASON)
            except StoreUnavailable as exc:
                log.error("loop %s is stopped, but goes on at the next start: %s", loop_id, exc)
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def _drive(self, loop_id: str) -> None:
        while True:
            try:
                if not await self._step(loop_id):
                    return
            except StoreUnavailable as exc:
                log.error("loop %s waits: %s", loop_id, exc)
                await asyncio.sleep(STORE_RETRY_S)
            except Exception as error:  # the border of a loop's task: it ends, and says why
                log.error("loop %s failed", loop_id, exc_info=error)
                await self.stop(
                    loop_id, f"an error in the program itself: {type(error).__name__}: {error}"
                )
                return

    async def _step(self, loop_id: str) -> bool:
        """Do what comes next, by the journal; False when the loop is over."""
        changed = self._change_signals[loop_id]
        changed.clear()  # before the read: a change meanwhile sets it again
        loop = await self.store.read(lambda tx: tx.get_loop(loop_id))
        if loop is None or loop.is_over:
            return False
        match loop.stage:
            case LoopStage.RUNNING:
                await self._await_attempt(loop)
            case LoopStage.REVIEWING:
                await self._wait_for_review(loop, changed)
            case _:
                await changed.wait()
        return True

    async def _await_attempt(self, loop: LoopRow) -> None:
        """Wait for the end of the attempt, check the criterion, record what follows."""
        row = await self._wait_for_turn(loop.turn_id(loop.attempt))
        words = await self.store.read(lambda tx: _find_last_words(tx, row)) if row else ""
        came = attempt_result(row, words)
        verdict = CriterionResult(False)
        if not came.error:
            verdict = await check_criterion(self.criteria, loop, came.output, came.label)
        if verdict.warning:
            log.warning("loop %s: %s: %s", loop.id, loop.criterion, verdict.warning)
        now = self.clock.now()
        await self._apply(loop.id, lambda tx: settle_attempt(tx, loop, came, verdict, now), came)

    async def _wait_for_turn(self, turn: str) -> TurnRow | None:
        """The turn once it is over; None when it was set aside before it began."""
        with self.live.subscribe(turn, is_turn_over) as ends:
            begun, message = await self.store.read(
                lambda tx: (tx.get_turn(turn), tx.get_turn_input(turn))
            )
            if not (begun and begun.ended_at) and not (message and message.state == "quarantined"):
                await ends.get()
                begun = await self.store.read(lambda tx: tx.get_turn(turn))
        return begun

    async def _wait_for_review(self, loop: LoopRow, changed: asyncio.Event) -> None:
        """Answers come by every channel, so this polls the journal; for 30 days at most."""
        now = self.clock.now()
        asked = await self.store.read(
            lambda tx: tx.get_approval(loop.turn_id(loop.attempt), REVIEW_QUESTION)
        )
        if asked is None or asked.state != "pending" or asked.expires <= now:
            await self._apply(loop.id, lambda tx: settle_review(tx, loop.id, now))
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(REVIEW_POLL_S):
                await changed.wait()

    async def _apply(
        self, loop_id: str, work: LoopWork, came: AttemptResult | None = None
    ) -> LoopRow | None:
        change = await self.store.write(work)
        if change is None:
            return None
        self._announce(change, came)
        if loop_id in self._change_signals:
            self._change_signals[loop_id].set()
        return change.after

    def _announce(self, change: LoopChange, came: AttemptResult | None = None) -> None:
        """To watchers, and to the session of its next attempt."""
        for event in loop_events(change.before, change.after, came):
            self.hub.publish(event)
        if change.session and change.message and change.message.state == "new":
            self.sessions.deliver(change.session, change.message, stream=False)

    def _forget_task(self, loop_id: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(loop_id, None)
        self._change_signals.pop(loop_id, None)
        if not task.cancelled() and (error := task.exception()):
            log.error("loop %s failed; the next start resumes it", loop_id, exc_info=error)


def _find_last_words(tx: Tx, row: TurnRow) -> str:
    """The last text of its model that says something."""
    turn = rebuild_turn(row.id, row.session, tx.list_events(row.id))
    return next((one.text for one, _ in reversed(turn.replies) if one.text.strip()), "")
