"""Whether an attempt will do (C3): a pattern in what it said, or a command that succeeds in the workspace.

Loops at work: one task each, which looks in the journal what is next and does that; so a crash anywhere changes nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from daemon.agent.spec.registry import AgentRegistry, unknown_agent
from daemon.core.clock import Clock
from daemon.core.errors import StoreUnavailable
from daemon.core.event_bus import EventBus, LiveItem, Quarantined, TurnFinished
from daemon.core.ids import NewId
from daemon.core.journal import ReadTx, Store, Tx
from daemon.core.rows import (
    REVIEW_QUESTION,
    InboxRow,
    LoopOrder,
    LoopRow,
    LoopStage,
    SessionRow,
    TurnRow,
)
from daemon.loops.config import (
    CriterionChecker,
    CriterionResult,
    LoopBusy,
    LoopNotStarted,
    UnknownAgent,
    new_loop,
    new_root_session,
    resolve_settings,
)
from daemon.loops.events import LoopAgentStatus, LoopEvents, loop_events
from daemon.loops.journal import (
    LoopChange,
    answer_review,
    begin_loop,
    end_loop,
    pause_loop,
    resume_loop,
    settle_attempt,
    settle_review,
)
from daemon.loops.transitions import SHUTDOWN_REASON, AttemptResult, attempt_result
from daemon.sessions.manager import SessionManager

log = logging.getLogger(__name__)
REVIEW_POLL_S = 0.5
STORE_RETRY_S = 2.0
LoopWork = Callable[[Tx], LoopChange | None]


@dataclass(slots=True)
class LoopEngine:
    """The only owner of loops' tasks. What happens is published in `hub`."""

    store: Store
    sessions: SessionManager
    specs: AgentRegistry
    criteria: CriterionChecker
    clock: Clock
    new_id: NewId
    live: EventBus
    new_token: Callable[[], str]
    hub: LoopEvents = field(default_factory=LoopEvents)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _change_signals: dict[str, asyncio.Event] = field(default_factory=dict)
    _closing: bool = False

    async def start(self, order: LoopOrder) -> LoopRow:
        """It is in the journal when this returns, and at work. Raises ConfigError, LoopRefused, UsageError."""
        if self._closing:
            raise LoopNotStarted("the daemon is stopping; start the loop when it runs again")
        if order.agent not in (names := self.specs.names()):
            raise UnknownAgent(unknown_agent(order.agent, names))
        settings = resolve_settings(order, self.specs.get(order.agent).loop)
        name, now = self.new_id(), self.clock.now()

        def work(tx: Tx) -> LoopChange:
            if busy := tx.list_running_loops(order.agent):
                raise LoopBusy(
                    f"the agent {order.agent} is at loop {busy[0].id} already; stop that one first, or resume it"
                )
            root = tx.get_session(order.session) or new_root_session(order.session, now)
            loop = new_loop(order, settings, root, name, now)
            if obstacle := self.criteria.obstacle(loop):
                raise LoopNotStarted(obstacle)
            return begin_loop(tx, loop, root, settings.warnings(), now)

        moved = await self.store.write(work)
        self.hub.publish(LoopAgentStatus(moved.after.id, moved.after.agent, "running"))
        self._deliver(moved)
        self.run_loop(moved.after.id)
        return moved.after

    async def recover(self) -> list[str]:
        """Go on with the loops of a daemon that died, after its sessions were taken up; gives their ids."""
        rows = await self.store.read(lambda tx: tx.list_running_loops())
        for row in rows:
            self.run_loop(row.id)
        return [row.id for row in rows]

    def run_loop(self, loop_id: str) -> None:
        """Work on it in this process until it is over."""
        if loop_id not in self._tasks and not self._closing:
            self._change_signals[loop_id] = asyncio.Event()
            task = self._tasks[loop_id] = asyncio.create_task(
                self._drive(loop_id), name=f"loop {loop_id}"
            )
            task.add_done_callback(lambda done: self._forget_task(loop_id, done))

    async def pause(self, loop_id: str) -> LoopRow | None:
        """Not another attempt; the one that runs is let finish. None when there is nothing to pause."""
        return await self._apply(loop_id, lambda tx: pause_loop(tx, loop_id))

    async def resume(self, loop_id: str) -> LoopRow | None:
        """Go on after a pause, or with what a crash cut off and nobody has taken up. None when it is over, or at work already."""
        resumed = await self._apply(loop_id, lambda tx: resume_loop(tx, loop_id, self.clock.now()))
        if loop_id in self._tasks:
            return resumed
        return await self._take_over(loop_id)

    async def _take_over(self, loop_id: str) -> LoopRow | None:
        """A loop that a former process left, with its lane."""

        def look(tx: ReadTx) -> tuple[LoopRow | None, SessionRow | None]:
            row = tx.get_loop(loop_id)
            return row, tx.get_session(row.session) if row else None

        row, lane = await self.store.read(look)
        if row is None or lane is None or row.is_over:
            return None
        self.sessions.wake_turn(lane, row.turn_id(row.attempt))
        self.run_loop(loop_id)
        return row

    async def review(
        self, loop_id: str, *, approved: bool, by: str, reason: str = ""
    ) -> LoopRow | None:
        """A person says whether the attempt will do; None when that is not asked, or not any more."""
        return await self._apply(
            loop_id, lambda tx: answer_review(tx, loop_id, approved, by, reason, self.clock.now())
        )

    async def stop(self, loop_id: str, why: str) -> LoopRow | None:
        """End it now: its attempt is stopped as by /stop, an open review counts as a no. None when it is over already."""

        def work(tx: Tx) -> LoopChange | None:
            return end_loop(tx, loop_id, why, self.clock.now())

        try:
            moved = await self.store.write(work)
        except StoreUnavailable as exc:
            log.error("loop %s is stopped, but a restart may undo it: %s", loop_id, exc)
            await self._stop_attempt(await self.store.read(lambda tx: tx.get_loop(loop_id)), why)
            raise
        if moved is None:
            return None
        await self._stop_attempt(moved.before, why)
        self._publish(moved)
        self._deliver(moved)
        return moved.after

    async def _stop_attempt(self, loop: LoopRow | None, why: str) -> None:
        """Nothing of it goes on in this process."""
        if loop is None:
            return
        task = self._tasks.get(loop.id)
        if task and task is not asyncio.current_task():
            task.cancel()
        lane = await self.store.read(lambda tx: tx.get_session(loop.session))
        if lane:
            self.sessions.cancel(lane, loop.turn_id(loop.attempt), why)

    async def stop_loops_of(self, session: str, why: str) -> list[str]:
        """End the loops that this conversation started; gives the turns of their attempts."""
        rows = await self.store.read(
            lambda tx: [row for row in tx.list_running_loops() if row.root == session]
        )
        stopped = [await self.stop(row.id, why) for row in rows]
        return [row.turn_id(row.attempt) for row in stopped if row]

    async def aclose(self) -> None:
        """A stop of the daemon in good order ends its loops (C6); only what a crash cut off goes on."""
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
                log.error("loop %s rests: %s", loop_id, exc)
                await asyncio.sleep(STORE_RETRY_S)
            except Exception as error:  # the border of a loop's task: it ends, and says why
                log.error("loop %s broke off", loop_id, exc_info=error)
                await self.stop(
                    loop_id, f"an error in the program itself: {type(error).__name__}: {error}"
                )
                return

    async def _step(self, loop_id: str) -> bool:
        """The one thing that is next, as the journal says; False when the loop is over."""
        moved = self._change_signals[loop_id]
        moved.clear()  # before looking: what moves it meanwhile sets it again
        loop = await self.store.read(lambda tx: tx.get_loop(loop_id))
        if loop is None or loop.is_over:
            return False
        match loop.stage:
            case LoopStage.RUNNING:
                await self._await_attempt(loop)
            case LoopStage.REVIEWING:
                await self._wait_for_review(loop, moved)
            case _:
                await moved.wait()
        return True

    async def _await_attempt(self, loop: LoopRow) -> None:
        """Wait for the end of the attempt, look whether it will do, write down what follows."""
        came = attempt_result(await self._wait_for_turn(loop.turn_id(loop.attempt)))
        verdict = (
            CriterionResult(False) if came.error else await self.criteria.check(loop, came.output)
        )
        if verdict.warning:
            log.warning("loop %s: %s: %s", loop.id, loop.criterion, verdict.warning)
        token, now = self.new_token(), self.clock.now()
        await self._apply(
            loop.id, lambda tx: settle_attempt(tx, loop, came, verdict, token, now), came
        )

    async def _wait_for_turn(self, turn: str) -> TurnRow | None:
        """The attempt's turn once it is over; None when it was set aside before it began."""

        def look(tx: ReadTx) -> tuple[TurnRow | None, InboxRow | None]:
            return tx.get_turn(turn), tx.get_turn_input(turn)

        with self.live.subscribe(turn, _is_turn_over) as glimpses:
            begun, message = await self.store.read(look)
            if not (begun and begun.ended_at) and not (message and message.state == "quarantined"):
                await anext(glimpses)
                begun, _ = await self.store.read(look)
        return begun

    async def _wait_for_review(self, loop: LoopRow, moved: asyncio.Event) -> None:
        """Questions are answered at many doors, so this looks; 30 days at most."""
        now = self.clock.now()
        asked = await self.store.read(
            lambda tx: tx.get_approval(loop.turn_id(loop.attempt), REVIEW_QUESTION)
        )
        if asked is None or asked.state != "pending" or asked.expires <= now:
            await self._apply(loop.id, lambda tx: settle_review(tx, loop.id, now))
            return
        try:
            await asyncio.wait_for(moved.wait(), REVIEW_POLL_S)
        except TimeoutError:
            return

    async def _apply(
        self, loop_id: str, work: LoopWork, came: AttemptResult | None = None
    ) -> LoopRow | None:
        moved = await self.store.write(work)
        if moved is None:
            return None
        self._publish(moved, came)
        self._deliver(moved)
        if loop_id in self._change_signals:
            self._change_signals[loop_id].set()
        return moved.after

    def _publish(self, moved: LoopChange, came: AttemptResult | None = None) -> None:
        for event in loop_events(moved.before, moved.after, came):
            self.hub.publish(event)

    def _deliver(self, moved: LoopChange) -> None:
        """The attempt's message is on disk: its lane takes it up."""
        if moved.session and moved.message and moved.message.state == "new":
            self.sessions.deliver(moved.session, moved.message, stream=False)

    def _forget_task(self, loop_id: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(loop_id, None)
        self._change_signals.pop(loop_id, None)
        if not task.cancelled() and (error := task.exception()):
            log.error("loop %s broke off and goes on at the next start", loop_id, exc_info=error)


def _is_turn_over(item: LiveItem) -> bool:
    return isinstance(item, TurnFinished | Quarantined)
