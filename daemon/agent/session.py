"""The lane of one session: its messages in order, one turn at a time, by one worker (DESIGN 3)."""

import logging
from collections import deque
from dataclasses import dataclass, field, replace

from daemon.agent.closing import ending
from daemon.agent.lanes.briefing import AGENT, opening_of
from daemon.agent.lanes.control import Control
from daemon.agent.lanes.fetching import Fetching
from daemon.agent.lanes.hearing import heard_above, is_told
from daemon.agent.lanes.sink import LaneSink, Opening, Tenure
from daemon.agent.lanes.tries import TRIES, Failures, note_attempt, on_probation, poison
from daemon.agent.lanes.workshop import Workshop
from daemon.agent.past import Past, is_cleared, kin_of, load_past, progress_of, rebuild, scene_of
from daemon.core.errors import Fenced, StoreUnavailable
from daemon.core.events import Answer, ApprovalAnswered, Stop, TurnEnded, TurnResumed, UserSaid
from daemon.core.live import Over, SetAside
from daemon.core.rows import ApprovalRow, InboxRow, SessionRow, TurnRow
from daemon.core.sources import Said
from daemon.core.turn import Turn
from daemon.store.protocol import ReadTx, Tx

log = logging.getLogger(__name__)
LOOP = "loop:"


@dataclass(slots=True)
class Lane:
    """One session's queue and worker. It reads the journal once, when it wakes; after that it is told."""

    session: SessionRow
    shop: Workshop
    tenure: Tenure
    past: Past | None = None
    inputs: deque[InboxRow] = field(default_factory=deque)
    wakes: deque[str] = field(default_factory=deque)
    cancels: dict[str, str] = field(default_factory=dict)
    parked: dict[str, list[InboxRow]] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    survivors: set[str] = field(default_factory=set)
    unwatched: set[str] = field(default_factory=set)
    failures: Failures = field(default_factory=Failures)
    fetching: Fetching = field(default_factory=Fetching)
    running: Turn | None = None
    control: Control | None = None

    def push(self, row: InboxRow) -> None:
        """A message to work on; the same one twice is one."""
        if row.id not in self.known:
            self.known.add(row.id)
            self.inputs.append(row)

    def steerable(self, sender: str) -> Control | None:
        """The running turn, when a text of this sender is to be folded into it: it overtakes nothing that they said before."""
        control = self.control
        mine = control is not None and control.open and not control.cancelled and control.sender == sender
        waits = any(row.sender == sender for row in self.inputs)
        return control if mine and not waits and self.shop.while_busy() == "steer" else None

    @property
    def idle(self) -> bool:
        """Nothing to do now."""
        return self.past is not None and not self.running and not self._next_wake() and self._next() is None

    async def work(self) -> None:
        """Everything there is to do, in order. Returns when idle, or when the daemon leaves. Raises Fenced, StoreUnavailable."""
        if self.past is None:
            await self._take_up()
        while not self.idle and not self.shop.leaving.is_set():
            if turn := self._next_wake():
                self.wakes.remove(turn)
                await self._guarded(turn, None)
            elif row := self._next():
                self.inputs.remove(row)
                await self._guarded(row.turn, row)

    def _next_wake(self) -> str:
        """The turn to take up again. In a paused session only one that was stopped: one that only waits is no try (B5 #25)."""
        if not self.session.paused:
            return self.wakes[0] if self.wakes else ""
        return next((turn for turn in self.wakes if turn in self.cancels), "")

    def _next(self) -> InboxRow | None:
        """The message whose turn it is; in a paused session only one that was stopped, for it ends without a step."""
        if not self.session.paused:
            return self.inputs[0] if self.inputs else None
        return next((row for row in self.inputs if row.turn in self.cancels), None)

    async def _take_up(self) -> None:
        """Read what a former worker, or a former daemon, left."""

        def look(tx: ReadTx) -> tuple[SessionRow, Past, list[TurnRow], list[InboxRow], dict[str, str]]:
            session = tx.session(self.session.id) or self.session
            turns, rows = tx.unfinished_turns(session.id), tx.waiting_inputs(session.id)
            names = [*(turn.id for turn in turns), *(row.turn for row in rows)]
            return session, load_past(tx, session), turns, rows, {name: why for name in names if (why := tx.cancelled(name))}

        seen, found = self.session, await self.shop.store.read(look)
        while self.session is not seen:  # a command changed it meanwhile: what was read may be from before
            seen, found = self.session, await self.shop.store.read(look)
        self.session, self.past, turns, rows, stopped = found
        self.cancels = stopped | self.cancels
        unfinished = self.survivors = {turn.id for turn in turns}
        self.wakes.extend(turn.id for turn in turns if turn.id not in self.wakes)
        meanwhile = self._empty_queue()
        self.left = {row.id for row in rows}.difference(row.id for row in meanwhile)
        for row in rows:
            if row.steers in unfinished and row.id not in self.known:
                self.known.add(row.id)
                self.parked.setdefault(row.steers, []).append(row)
            else:
                self.push(row)
        for row in meanwhile:
            self.push(row)

    def _empty_queue(self) -> list[InboxRow]:
        """What was pushed before the journal had been read: it comes after what stands there, though it was heard of first."""
        rows = list(self.inputs)
        self.inputs.clear()
        self.known.difference_update(row.id for row in rows)
        return rows

    async def _guarded(self, turn_id: str, row: InboxRow | None) -> None:
        """One job. What breaks it is tried again, and set aside when it breaks three times (the border of a session task)."""
        try:
            if row and not await self._began(turn_id):
                await self._begin(row)
            else:
                await self._resume(turn_id)
        except Fenced:
            raise
        except StoreUnavailable:
            self._again(turn_id, row)
            raise
        except Exception:  # a poison message must not stop the lane
            log.exception("turn %s broke off", turn_id)
            failed = self.failures.add(turn_id, self.running.progress if self.running else None)
            self._keep_for_later(turn_id)
            if self.shop.leaving.is_set():
                raise
            await self._retry_or_quarantine(turn_id, row, failed)
        finally:
            self.running = self.control = None

    async def _began(self, turn_id: str) -> bool:
        """Only after a failure there may be a turn already."""
        return turn_id in self.failures and await self.shop.store.read(lambda tx: tx.turn(turn_id)) is not None

    async def _retry_or_quarantine(self, turn_id: str, row: InboxRow | None, failed: int) -> None:
        if failed < TRIES:
            self._again(turn_id, row)
            return
        try:
            await self._quarantine(turn_id)
        except StoreUnavailable:
            self._again(turn_id, row)
            raise

    def _again(self, turn_id: str, row: InboxRow | None) -> None:
        if row:
            self.inputs.appendleft(row)
        else:
            self.wakes.appendleft(turn_id)

    async def _quarantine(self, turn_id: str) -> None:
        notice = poison(turn_id)
        await self.shop.store.write(lambda tx: tx.quarantine(turn_id, self.shop.clock.now(), notice))
        log.error("turn %s of %s is set aside after %d tries without any progress", turn_id, self.session.id, TRIES)
        self.shop.live.publish(turn_id, SetAside(notice))
        if self.running:
            self.shop.budgets.close(self.running)
        self._let_go(turn_id)
        await self.shop.children.ended(turn_id)

    async def _begin(self, row: InboxRow) -> None:
        files = "" if row.turn in self.cancels else await self.fetching.files_of(row, self.shop.fetch)
        if row.id in self.left:  # by a former daemon, which may have died of it before the turn began
            self.left.discard(row.id)
            if not await on_probation(self.shop.store, row.turn, self.shop.leaving):
                return
            if await note_attempt(self.shop.store, self.tenure, row.turn, 0, self.shop.company.blame) > TRIES:
                await self._quarantine(row.turn)
                return
        at = self.shop.clock.now()
        child, above = await self.shop.store.read(lambda tx: kin_of(tx, row.turn)) if row.channel == AGENT else (None, None)
        brief = (await self.shop.brief(self.session, row, child, above, files)).after(self._shown().reflection)
        opened = opening_of(row, brief, self._shown().label, files)
        parent = child.parent if child else ""
        begun = TurnRow(row.turn, self.session.id, parent, row.id, "running", opened.taint, at, agent=brief.terms.agent)

        def opening(tx: Tx, epoch: int) -> None:
            tx.begin_turn(begun, epoch)
            tx.note_attempt(row.turn, turn.progress)

        turn = Turn(id=row.turn, session=self.session.id, sink=self._sink(opening), parent=parent)
        turn.record(opened, at)
        if brief.fault:
            turn.record(TurnEnded(Stop.FAILED, "agent", f"I cannot begin: {brief.fault}\nYour message is kept."), at)
        await self._run(turn, row.sender)

    def _shown(self) -> Past:
        """What the model is shown of before; each attempt of a loop begins afresh (C1)."""
        return Past() if self.session.id.startswith(LOOP) else self.past or Past()

    async def _resume(self, turn_id: str) -> None:
        """Take a turn up again: cut off by a crash, answered by a person, or to be stopped."""

        def look(tx: ReadTx) -> tuple[Turn, list[ApprovalRow], int]:
            row = tx.turn(turn_id)
            turn = rebuild(turn_id, self.session.id, tx.events(turn_id), self._sink(), row.parent if row else "")
            asked = [tx.approval(turn_id, name) for name in turn.waiting]
            return turn, [row for row in asked if row], progress_of(tx, turn)

        turn, approvals, progress = await self.shop.store.read(look)
        if turn.ended or not turn.events:  # over; or still in the queue, where its message will meet the same cancel
            return
        answers = [answer for row in approvals if (answer := self._answer(row))]
        if turn.suspended and not answers and turn_id not in self.cancels:
            return
        survived, self.survivors = turn_id in self.survivors, self.survivors - {turn_id}
        if survived and not await on_probation(self.shop.store, turn_id, self.shop.leaving):
            return
        blame = self.shop.company.blame if survived else 1.0
        if await note_attempt(self.shop.store, self.tenure, turn_id, progress, blame) > TRIES:
            await self._quarantine(turn_id)
            return
        why = "answered" if answers else "stopped" if turn_id in self.cancels else "restart"
        for event in (TurnResumed(why, self._shown().label), *answers):
            turn.record(event, self.shop.clock.now())
        first = turn.events[0].event
        await self._run(turn, first.sender if isinstance(first, UserSaid) else "")

    def _answer(self, row: ApprovalRow) -> ApprovalAnswered | None:
        if row.state == "answered" and row.answer:
            return ApprovalAnswered(row.call_id, row.answer, row.answered_by, row.reason)
        if row.expires <= self.shop.clock.now():
            return ApprovalAnswered(row.call_id, Answer.EXPIRED, "", "nobody answered in time")
        return None

    async def _run(self, turn: Turn, sender: str) -> None:
        control = Control(self.shop.clock.monotonic, sender)
        control.started(turn.spent.seconds)
        control.steers.extend(self.parked.pop(turn.id, []))
        if self.session.paused:
            control.pause()
        if why := self.cancels.get(turn.id):
            control.cancel(why)
        self.running, self.control = turn, control
        self.shop.children.runs(turn, control)
        account = await self.shop.budgets.open(turn)
        stream = turn.id not in self.unwatched
        effort = turn.terms.effort or self.shop.effort()
        scene = scene_of(self.session, self._shown(), effort=effort, stream=stream)
        heard = await self._heard(turn) if is_told(self.session, turn) else scene.setting.earlier
        scene = replace(scene, account=account, setting=replace(scene.setting, earlier=heard))
        await self.shop.agent.run(turn, scene, control)
        await self._after(turn, control)

    async def _heard(self, turn: Turn) -> tuple[Said, ...]:
        return await self.shop.store.read(lambda tx: heard_above(tx, self.session, turn))

    async def _after(self, turn: Turn, control: Control) -> None:
        if turn.suspended:
            self._keep_for_later(turn.id)
            self.shop.questions.set()
            self.shop.children.waits(turn.id)
            if turn.id in self.cancels:
                self.wakes.append(turn.id)
        else:
            log.info("turn %s of %s ended: %s", turn.id, self.session.id, ending(turn))
            if not is_cleared(turn.events[0].at, self.session):
                past = self.past or Past()
                past.add(turn)
                past.trim()
            self.shop.budgets.close(turn)
            self.inputs.extendleft(reversed([replace(row, steers="") for row in control.take_steers()]))
            self._let_go(turn.id)
            self.shop.live.publish(turn.id, Over(turn))
            await self.shop.children.ended(turn.id, alone=not (turn.children or turn.parent))

    def _keep_for_later(self, turn_id: str) -> None:
        """What people said to a turn that does not end now, a stop too, waits until it is taken up again."""
        control = self.control
        if control:
            control.open = False
            self.parked.setdefault(turn_id, []).extend(control.take_steers())
            if control.cancelled:
                self.cancels[turn_id] = control.cancelled

    def _let_go(self, turn_id: str) -> None:
        self.shop.held.discard(turn_id)
        self.cancels.pop(turn_id, None)
        self.failures.forget(turn_id)
        self.unwatched.discard(turn_id)
        self.inputs.extend(self.parked.pop(turn_id, []))

    def _sink(self, opening: Opening | None = None) -> LaneSink:
        return LaneSink(self.shop.store, self.tenure, self.shop.live, opening, self.shop.leaving)
