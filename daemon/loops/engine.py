"""Loops at work: one task each, which looks in the journal what is next and does that; so a crash anywhere changes nothing."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from daemon.agent.lanes.sessions import Sessions
from daemon.agent.specs.registry import Specs, unknown
from daemon.core.clock import Clock
from daemon.core.errors import StoreUnavailable
from daemon.core.ids import NewId
from daemon.core.live import Glimpse, Live, Over, SetAside
from daemon.core.loops import REVIEW, LoopRow, LoopStage, Order
from daemon.core.rows import InboxRow, SessionRow, TurnRow
from daemon.loops.criteria import Criteria, Verdict
from daemon.loops.events import AgentStatus, Hub
from daemon.loops.orders import LoopBusy, LoopRefused, NoSuchAgent, loop_of, root_of, settings_for
from daemon.loops.settling import SHUTDOWN, Tried, tried
from daemon.loops.telling import events
from daemon.loops.writing import Moved, answer, begin, end, look_at_review, pause, resume, settle
from daemon.store.protocol import ReadTx, Store, Tx

log = logging.getLogger(__name__)
LOOK_EVERY_S = 0.5
REST_S = 2.0
Work = Callable[[Tx], Moved | None]


@dataclass(slots=True)
class Engine:
    """The only owner of loops' tasks. What happens is published in `hub`."""

    store: Store
    sessions: Sessions
    specs: Specs
    criteria: Criteria
    clock: Clock
    new_id: NewId
    live: Live
    new_token: Callable[[], str]
    hub: Hub = field(default_factory=Hub)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _moved: dict[str, asyncio.Event] = field(default_factory=dict)
    _closing: bool = False

    async def start(self, order: Order) -> LoopRow:
        """It is in the journal when this returns, and at work. Raises ConfigError, LoopRefused, UsageError."""
        if self._closing:
            raise LoopRefused("the daemon is stopping; start the loop when it runs again")
        if order.agent not in (names := self.specs.names()):
            raise NoSuchAgent(unknown(order.agent, names))
        settings = settings_for(order, self.specs.get(order.agent).loop)
        name, now = self.new_id(), self.clock.now()

        def work(tx: Tx) -> Moved:
            if busy := tx.loops_at_work(order.agent):
                raise LoopBusy(f"the agent {order.agent} is at loop {busy[0].id} already; stop that one first, or resume it")
            root = tx.session(order.session) or root_of(order.session, now)
            loop = loop_of(order, settings, root, name, now)
            if obstacle := self.criteria.obstacle(loop):
                raise LoopRefused(obstacle)
            return begin(tx, loop, root, settings.warnings(), now)

        moved = await self.store.write(work)
        self.hub.publish(AgentStatus(moved.after.id, moved.after.agent, "running"))
        self._deliver(moved)
        self.take_up(moved.after.id)
        return moved.after

    async def recover(self) -> list[str]:
        """Go on with the loops of a daemon that died, after its sessions were taken up; gives their ids."""
        rows = await self.store.read(lambda tx: tx.loops_at_work())
        for row in rows:
            self.take_up(row.id)
        return [row.id for row in rows]

    def take_up(self, loop_id: str) -> None:
        """Work on it in this process until it is over."""
        if loop_id not in self._tasks and not self._closing:
            self._moved[loop_id] = asyncio.Event()
            task = self._tasks[loop_id] = asyncio.create_task(self._drive(loop_id), name=f"loop {loop_id}")
            task.add_done_callback(lambda done: self._let_go(loop_id, done))

    async def pause(self, loop_id: str) -> LoopRow | None:
        """Not another attempt; the one that runs is let finish. None when there is nothing to pause."""
        return await self._move(loop_id, lambda tx: pause(tx, loop_id))

    async def resume(self, loop_id: str) -> LoopRow | None:
        """Go on after a pause, or with what a crash cut off and nobody has taken up. None when it is over, or at work already."""
        resumed = await self._move(loop_id, lambda tx: resume(tx, loop_id, self.clock.now()))
        if loop_id in self._tasks:
            return resumed
        return await self._adopt(loop_id)

    async def _adopt(self, loop_id: str) -> LoopRow | None:
        """A loop that a former process left, with its lane."""

        def look(tx: ReadTx) -> tuple[LoopRow | None, SessionRow | None]:
            row = tx.loop(loop_id)
            return row, tx.session(row.lane) if row else None

        row, lane = await self.store.read(look)
        if row is None or lane is None or row.over:
            return None
        self.sessions.take_up(lane, row.turn(row.attempt))
        self.take_up(loop_id)
        return row

    async def review(self, loop_id: str, *, approved: bool, by: str, reason: str = "") -> LoopRow | None:
        """A person says whether the attempt will do; None when that is not asked, or not any more."""
        return await self._move(loop_id, lambda tx: answer(tx, loop_id, approved, by, reason, self.clock.now()))

    async def stop(self, loop_id: str, why: str) -> LoopRow | None:
        """End it now: its attempt is stopped as by /stop, an open review counts as a no. None when it is over already."""

        def work(tx: Tx) -> Moved | None:
            return end(tx, loop_id, why, self.clock.now())

        try:
            moved = await self.store.write(work)
        except StoreUnavailable as exc:
            log.error("loop %s is stopped, but a restart may undo it: %s", loop_id, exc)
            await self._halt(await self.store.read(lambda tx: tx.loop(loop_id)), why)
            raise
        if moved is None:
            return None
        await self._halt(moved.before, why)
        self._tell(moved)
        self._deliver(moved)
        return moved.after

    async def _halt(self, loop: LoopRow | None, why: str) -> None:
        """Nothing of it goes on in this process."""
        if loop is None:
            return
        task = self._tasks.get(loop.id)
        if task and task is not asyncio.current_task():
            task.cancel()
        lane = await self.store.read(lambda tx: tx.session(loop.lane))
        if lane:
            self.sessions.cancel(lane, loop.turn(loop.attempt), why)

    async def stop_of(self, session: str, why: str) -> list[str]:
        """End the loops that this conversation started; gives the turns of their attempts."""
        rows = await self.store.read(lambda tx: [row for row in tx.loops_at_work() if row.root == session])
        stopped = [await self.stop(row.id, why) for row in rows]
        return [row.turn(row.attempt) for row in stopped if row]

    async def aclose(self) -> None:
        """A stop of the daemon in good order ends its loops (C6); only what a crash cut off goes on."""
        self._closing = True
        tasks = dict(self._tasks)
        for loop_id in tasks:
            try:
                await self.stop(loop_id, SHUTDOWN)
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
                await asyncio.sleep(REST_S)
            except Exception as error:  # the border of a loop's task: it ends, and says why
                log.error("loop %s broke off", loop_id, exc_info=error)
                await self.stop(loop_id, f"an error in the program itself: {type(error).__name__}: {error}")
                return

    async def _step(self, loop_id: str) -> bool:
        """The one thing that is next, as the journal says; False when the loop is over."""
        moved = self._moved[loop_id]
        moved.clear()  # before looking: what moves it meanwhile sets it again
        loop = await self.store.read(lambda tx: tx.loop(loop_id))
        if loop is None or loop.over:
            return False
        match loop.stage:
            case LoopStage.RUNNING:
                await self._attempt(loop)
            case LoopStage.REVIEWING:
                await self._review(loop, moved)
            case _:
                await moved.wait()
        return True

    async def _attempt(self, loop: LoopRow) -> None:
        """Wait for the end of the attempt, look whether it will do, write down what follows."""
        came = tried(await self._ended(loop.turn(loop.attempt)))
        verdict = Verdict(False) if came.error else await self.criteria.met(loop, came.output)
        if verdict.warning:
            log.warning("loop %s: %s: %s", loop.id, loop.criterion, verdict.warning)
        token, now = self.new_token(), self.clock.now()
        await self._move(loop.id, lambda tx: settle(tx, loop, came, verdict, token, now), came)

    async def _ended(self, turn: str) -> TurnRow | None:
        """The attempt's turn once it is over; None when it was set aside before it began."""

        def look(tx: ReadTx) -> tuple[TurnRow | None, InboxRow | None]:
            return tx.turn(turn), tx.input_of(turn)

        with self.live.watch(turn, _is_over) as glimpses:
            begun, message = await self.store.read(look)
            if not (begun and begun.ended_at) and not (message and message.state == "quarantined"):
                await anext(glimpses)
                begun, _ = await self.store.read(look)
        return begun

    async def _review(self, loop: LoopRow, moved: asyncio.Event) -> None:
        """Questions are answered at many doors, so this looks; 30 days at most."""
        now = self.clock.now()
        asked = await self.store.read(lambda tx: tx.approval(loop.turn(loop.attempt), REVIEW))
        if asked is None or asked.state != "pending" or asked.expires <= now:
            await self._move(loop.id, lambda tx: look_at_review(tx, loop.id, now))
            return
        try:
            await asyncio.wait_for(moved.wait(), LOOK_EVERY_S)
        except TimeoutError:
            return

    async def _move(self, loop_id: str, work: Work, came: Tried | None = None) -> LoopRow | None:
        moved = await self.store.write(work)
        if moved is None:
            return None
        self._tell(moved, came)
        self._deliver(moved)
        if loop_id in self._moved:
            self._moved[loop_id].set()
        return moved.after

    def _tell(self, moved: Moved, came: Tried | None = None) -> None:
        for event in events(moved.before, moved.after, came):
            self.hub.publish(event)

    def _deliver(self, moved: Moved) -> None:
        """The attempt's message is on disk: its lane takes it up."""
        if moved.lane and moved.message and moved.message.state == "new":
            self.sessions.deliver(moved.lane, moved.message, watched=False)

    def _let_go(self, loop_id: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(loop_id, None)
        self._moved.pop(loop_id, None)
        if not task.cancelled() and (error := task.exception()):
            log.error("loop %s broke off and goes on at the next start", loop_id, exc_info=error)


def _is_over(item: Glimpse) -> bool:
    return isinstance(item, Over | SetAside)
