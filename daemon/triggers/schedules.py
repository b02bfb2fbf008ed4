"""Work that begins by itself at its time (A16). The journal and our clock decide what is due.

An occurrence, the message that begins its turn, and the next due time are one transaction: whatever
restarts or clock jumps happen, each occurrence begins one turn.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import uuid4

from daemon.access.chat_ids import NOTICE
from daemon.core.clock import BackgroundTasks, Clock, find_local_zone
from daemon.core.errors import StoreUnavailable, UsageError
from daemon.core.ids import NewId, parse_session_id
from daemon.core.messages import defuse
from daemon.core.quoted import find_quoted
from daemon.core.rows import SCHEDULE_CHANNEL, InboxRow, OutboxRow, SessionRow
from daemon.core.trust import OWNER_NAME, Label
from daemon.store.journal import Store, Tx
from daemon.store.tables.base import from_db
from daemon.store.tables.schedules import OccurrenceRow, ScheduleRow
from daemon.triggers.conditions import ConditionChecker, Look
from daemon.triggers.config import ScheduleTask
from daemon.triggers.orders import (
    CONFIG,
    FOLLOW_UP,
    LATE,
    ScheduleOrder,
    check_order,
    describe_delay,
    describe_order,
    list_passed,
    make_name,
    make_row,
    order_of_task,
    plan_next,
    recurrence_of,
)
from daemon.triggers.recurrence import (
    BadRule,
    Due,
    describe_runs,
    parse_rule,
)

log = logging.getLogger(__name__)
T = TypeVar("T")
SECTION = "[[scheduler.tasks]]"
WAKE_S = 1
WEB, TERMINAL, MAIN = "web", "terminal", "terminal:main"
GRACE = timedelta(minutes=1)
BACKWARDS = timedelta(seconds=30)
SHOWN = 10
KEEP_LOOKS = timedelta(days=2)
Fired = tuple[SessionRow, InboxRow] | OccurrenceRow
VERBS = ("pause", "resume", "remove")
MOST_MADE_UP = 500
TOO_MANY_MISSED = (
    f"{MOST_MADE_UP} missed runs were made up for, which are the most; those between then and now"
    " are left out."
)
NOT_RUNNING = "\nIt runs while the daemon does: aidaemon run"
IN_CHAT = "\nIt runs while this chat is open, or the daemon runs: aidaemon run"
STILL_AT_WORK = "the run before is still at work"
MISSED = "it was due while the daemon was not running"
BROKEN_RULE = (
    "The schedule {name} is paused: {error}. Nothing else of it was changed; remove it, or set it"
    " anew."
)


def _open_root(tx: Tx, session: str, now: datetime) -> SessionRow | None:
    """The conversation that is told; made where nothing was said in it yet."""
    if session and tx.get_session(session) is None:
        where = parse_session_id(session)
        tx.put_session(SessionRow(session, *where, Label.TRUSTED, now))
    return tx.get_session(session)


def _find_told(tx: Tx, row: ScheduleRow, now: datetime) -> SessionRow | None:
    """Over HTTP nobody listens: then it goes to where the owner was met last."""
    told = _open_root(tx, row.session, now)
    if told is None or told.channel == WEB:
        chats = (tx.get_session(chat.session) for chat in tx.list_owner_chats())
        told = next(filter(None, chats), None) or _open_root(tx, MAIN, now)
    return told


def _waits_for_daemon(tx: Tx, row: ScheduleRow, now: datetime) -> bool:
    """A chat without a daemon tells reminders of the terminal only."""
    told = _find_told(tx, row, now) if row.remind else None
    return told is not None and told.channel != TERMINAL


def _post_reminder(tx: Tx, row: ScheduleRow, due: Due, now: datetime, key: str) -> None:
    """Its time was chosen by a person: quiet hours do not hold it back; but a question that the
    assistant asks by itself. What it read, or its person pasted, is no word of theirs.
    """
    if told := _find_told(tx, row, now):
        read = row.private or row.label is Label.UNTRUSTED
        text, where = defuse(row.prompt) if read else row.prompt, (told.id, told.channel, told.chat)
        body = text + describe_delay(row, due, now)
        at_once = None if row.origin == FOLLOW_UP else now
        part = tx.post_delivery(OutboxRow(key, -1, *where, "notice", body, now, due=at_once))
        role = "" if read or find_quoted(row.prompt) else row.role
        tx.tell_model(told.id, key, part, role)


@dataclass(slots=True)
class ScheduleEngine:
    """The one owner of what fires, once it is started. `chance` gives seconds of jitter below its
    argument; `add_note` what a run in a lane is told of it; `is_own` says that nobody but the owner
    reads a session; `set_zone` is the owner's, as the config says; `usd_per_run` what a turn cost
    lately; `missing` what is missing for anything to run, "" where the daemon serves.
    """

    store: Store
    deliver: Callable[[SessionRow, InboxRow], None]
    clock: Clock
    new_id: NewId
    chance: Callable[[int], float]
    background: BackgroundTasks
    conditions: ConditionChecker = field(init=False)
    add_note: Callable[[Tx, ScheduleRow], str] = field(init=False)
    is_own: Callable[[str], Awaitable[bool]] = field(init=False)
    set_zone: str = ""
    usd_per_run: float | None = None
    missing: str = NOT_RUNNING
    _made_up: dict[str, int] = field(default_factory=dict)
    _started: bool = False
    _next: datetime | None = None
    _seen: datetime | None = None
    _waker: asyncio.Task[None] | None = None

    async def sync(self, tasks: Sequence[ScheduleTask], session: str) -> None:
        """Bring the table up to the config. `session` is told where a task names none."""
        rows = await self.list_all()
        if tasks or any(row.origin == CONFIG for row in rows):
            await self.store.write(lambda tx: self._sync(tx, tasks, session))
        await self._look()

    async def start(self, missing: str = "") -> None:
        """What is due fires from now on; what was missed, at once."""
        self._started, self.missing = True, missing
        await self.store.write(lambda tx: self._plan_all(tx, self.clock.now()))
        for one in await self.store.read(lambda tx: tx.list_checking()):
            self._go_on(one)
        await self._look()
        await self.tick()

    async def tick(self) -> None:
        """Fire what is due by now; after a jump of the clock backwards, plan anew."""
        now = self.clock.now()
        before, self._seen = self._seen, now
        with suppress(StoreUnavailable):  # what is due stays due
            if before and now < before - BACKWARDS:
                await self.store.write(lambda tx: self._plan_all(tx, now))
                await self._look()
            while self._next and self._next <= now:
                for one in await self.store.write(lambda tx: self._fire(tx, now)):
                    self._go_on(one)
                await self._look()

    def _go_on(self, fired: Fired) -> None:
        """What is on disk now: a message is delivered, a condition looked at."""
        if isinstance(fired, OccurrenceRow):
            self.background.start(self._look_at(fired), f"condition of {fired.schedule}")
        else:
            self.deliver(*fired)

    async def _look_at(self, one: OccurrenceRow) -> None:
        """Look at the condition of an occurrence, and begin its turn if there is something new."""
        row = await self.store.read(lambda tx: tx.get_schedule(one.schedule))
        if row and row.origin == FOLLOW_UP:
            found = Look(await self.is_own(row.session))
        else:
            found = await self.conditions.look(row.condition, row.seen) if row else Look(False)
        with suppress(StoreUnavailable):  # it is looked at again at the next start
            begun = await self.store.write(lambda tx: self._settle(tx, one, found))
            if begun:
                self.deliver(*begun)

    def _settle(
        self, tx: Tx, one: OccurrenceRow, found: Look
    ) -> tuple[SessionRow, InboxRow] | None:
        row, now = tx.get_schedule(one.schedule), self.clock.now()
        known = tx.get_occurrence(one.schedule, one.key)
        if row is None or known is None or known.state != "checking":
            return None
        if found.trouble and found.trouble != row.trouble:
            self._tell(tx, row, found.trouble, now)
        tx.put_schedule(replace(row, seen=found.seen or row.seen, trouble=found.trouble))
        if not found.is_new:
            tx.set_occurrence("nothing new", "", row.id, one.key)
            tx.forget_looks(row.id, now - KEEP_LOOKS)
            return None
        return self._begin(tx, row, Due(one.due, one.key), now, found)

    async def list_all(self) -> list[ScheduleRow]:
        """All but removed ones, oldest first."""
        return await self.store.read(lambda tx: tx.list_schedules())

    async def find(self, name: str) -> tuple[ScheduleRow, list[OccurrenceRow]] | None:
        """The schedule of this name or id, and its latest times."""

        def look(tx: Tx) -> tuple[ScheduleRow, list[OccurrenceRow]] | None:
            row = tx.find_schedule(name, name)
            return (row, tx.list_occurrences(row.id, SHOWN)) if row else None

        return await self.store.read(look)

    async def find_root(self, session: str) -> str:
        """The conversation that is told of what this session sets to work."""
        row = await self.store.read(lambda tx: tx.get_session(session))
        return (row.root or row.id) if row else session

    async def add(self, order: ScheduleOrder, name: str = "") -> ScheduleRow:
        """It is in the journal when this returns; the same `name` again is the same schedule.
        Raises UsageError.
        """
        if name and (known := await self.store.read(lambda tx: tx.get_schedule(name))):
            return known
        taken = {one.name for one in await self.list_all()}
        row = self.prepare(replace(order, name=order.name or make_name(order.prompt, taken)), name)

        def save(tx: Tx) -> None:
            if tx.find_schedule(row.name, row.name):
                raise UsageError(
                    f"there is a schedule {row.name!r} already; nothing was changed. Remove that"
                    " one first, or choose another name"
                )
            tx.put_schedule(row)

        await self.save(save)
        return row

    def prepare(self, order: ScheduleOrder, name: str = "", lane: str = "") -> ScheduleRow:
        """The row of a new schedule, checked and planned, not written yet. Raises UsageError."""
        now = self.clock.now()
        rule = parse_rule(order.rule, order.zone or self.zone, now)
        order = replace(order, rule=rule.text, zone=rule.zone)
        check_order(order)
        row = self.plan(make_row(order, name or self.new_id(), now), now)
        if row.due is None:
            raise UsageError(f"{order.rule!r} lies in the past; nothing was scheduled")
        return replace(row, lane=lane)

    async def save(self, work: Callable[[Tx], T]) -> T:
        """Write it, and see what is due next."""
        done = await self.store.write(work)
        await self._look()
        return done

    def describe(self, row: ScheduleRow) -> str:
        """Its next runs, and what they may cost; what is missing for them."""
        rule, now = recurrence_of(row), self.clock.now()
        cost = None if row.remind else self.usd_per_run
        text = describe_runs(rule, now, cost, once=row.oneshot, until=row.until)
        return f"{text}{self.missing}"

    @property
    def zone(self) -> str:
        """The owner's, else the machine's."""
        return self.set_zone or find_local_zone()

    async def change(self, name: str, verb: str) -> ScheduleRow | None:
        """run, pause, resume or remove the schedule of this name or id; None for no such one.
        Raises UsageError.
        """
        now = self.clock.now()
        if verb == "run":
            return await self._run_now(name)
        if verb not in VERBS:
            raise UsageError(f"{verb!r} is unknown; expected one of run, {', '.join(VERBS)}")

        def work(tx: Tx) -> ScheduleRow | None:
            row = tx.find_schedule(name, name)
            if row is None:
                return None
            if row.lane:
                raise UsageError(f"{row.name} belongs to a goal; nothing was changed. See /goals")
            if verb == "resume" and row.state == "paused":
                row = self.plan(replace(row, state="active"), now, tx)
            elif verb == "resume":
                raise UsageError(f"the schedule {row.name} is not paused; nothing was changed")
            else:
                state = "paused" if verb == "pause" else "removed"
                if verb == "pause" and row.state != "active":
                    raise UsageError(f"the schedule {row.name} is {row.state}; nothing was changed")
                row = replace(row, state=state, due=None, fires_at=None)
            tx.put_schedule(row)
            return row

        return await self.save(work)

    async def _run_now(self, name: str) -> ScheduleRow | None:
        """One more run of the schedule, at once."""
        now = self.clock.now()

        def work(tx: Tx) -> tuple[ScheduleRow, tuple[SessionRow, InboxRow] | None] | None:
            row = tx.find_schedule(name, name)
            due = Due(now, f"by hand {now.isoformat()}")
            return (row, self._begin(tx, row, due, now)) if row else None

        found = await self.store.write(work)
        if found and found[1] and self._started:
            self.deliver(*found[1])
        return found[0] if found else None

    async def aclose(self) -> None:
        """Nothing fires any more."""
        if self._waker:
            self._waker.cancel()

    def _sync(self, tx: Tx, tasks: Sequence[ScheduleTask], session: str) -> None:
        """The tasks of the config are schedules of its own: new ones are planned, changed ones
        anew, those that it names no more are removed. All others keep what they had.
        """
        now, wanted = self.clock.now(), {task.name: task for task in tasks}
        for row in tx.list_schedules():
            if row.origin == CONFIG and row.name not in wanted:
                tx.put_schedule(replace(row, state="removed", due=None, fires_at=None))
        for task in tasks:
            known = tx.find_schedule(task.name, task.name)
            order = order_of_task(task, session, self.zone)
            if known and known.origin != CONFIG:
                text = f"{SECTION}: {task.name!r} is not used, for a schedule has that name already"
                log.warning(text)
                self._tell(tx, known, f"{text}; remove one of them.", now)
                continue
            row = make_row(order, known.id if known else self.new_id(), now)
            if known and describe_order(known) == describe_order(row) and not task.paused:
                row = replace(known, state="active") if known.state == "paused" else known
                if row.due or row.state == "over":
                    continue
            if task.paused:
                tx.put_schedule(replace(row, state="paused"))
            else:
                tx.put_schedule(self.plan(row, now, tx))

    def _tell(self, tx: Tx, row: ScheduleRow, text: str, now: datetime) -> None:
        told = _open_root(tx, row.session, now)
        if told is None:
            log.warning("nobody to tell yet: schedule %s: %s", row.name, text)
            return
        body = f"[{SCHEDULE_CHANNEL} {row.name}] {text}"
        key = f"{NOTICE}{self.new_id()}"
        tx.post_delivery(OutboxRow(key, -1, told.id, told.channel, told.chat, "notice", body, now))

    def plan(self, row: ScheduleRow, now: datetime, tx: Tx | None = None) -> ScheduleRow:
        """With its next due time. Raises BadRule."""

        def known(key: str) -> bool:
            return bool(tx and tx.get_occurrence(row.id, key))

        return plan_next(row, now, self.chance, known)

    def _plan_all(self, tx: Tx, now: datetime) -> None:
        """After a start or a clock set back. An interval counts real time: where its next run lies
        further off than the interval, it counts from now.
        """
        for row in tx.list_schedules():
            if row.state == "active" and row.due and not row.fires_at:
                tx.put_schedule(replace(row, fires_at=row.due))
            elif row.state == "active" and row.due and row.due > now:
                with suppress(BadRule):
                    every = recurrence_of(row).every
                    if every and row.due > now + every:
                        row = replace(row, made_at=now)
                    tx.put_schedule(self.plan(row, now, tx))

    async def _look(self) -> None:
        """When the next one fires; from the first schedule on, somebody wakes us."""
        found, self.usd_per_run = await self.store.read(
            lambda tx: (tx.get_next_fire(), tx.get_usual_cost())
        )
        self._next = None if found is None else from_db(found)
        if self._next and self._started and self._waker is None:
            self._waker = self.background.start(self._wake(), "waker of schedules")

    async def _wake(self) -> None:
        """Waits count monotonic seconds: a wall clock that is set back holds up nothing. Each look
        is a task of its own, so one that fails does not end those after it.
        """
        while True:
            await asyncio.sleep(WAKE_S)
            await asyncio.wait([self.background.start(self.tick(), "schedules")])

    def _fire(self, tx: Tx, now: datetime) -> list[Fired]:
        begun = list[Fired]()
        for row in tx.list_due_schedules(now):
            if self.missing and _waits_for_daemon(tx, row, now):
                tx.put_schedule(replace(row, fires_at=None))  # until the next start
                continue
            try:
                begun += self._fire_one(tx, row, now)
            except BadRule as error:
                text = BROKEN_RULE.format(name=row.name, error=error)
                tx.put_schedule(replace(row, state="paused", due=None, fires_at=None))
                self._tell(tx, row, text, now)
        return begun

    def _fire_one(self, tx: Tx, row: ScheduleRow, now: datetime) -> Iterator[Fired]:
        passed = list_passed(row, now)
        for due in passed:
            why = ""
            if row.misfire == "skip" and now - due.at > GRACE + timedelta(seconds=row.jitter_s):
                why = MISSED
            elif row.misfire != "all" and tx.count_unfinished_runs(row.id):
                why = STILL_AT_WORK
            if why:
                before = [one.detail for one in tx.list_occurrences(row.id, 1)]
                skipped = OccurrenceRow(row.id, due.key, due.at, now, "skipped", detail=why)
                if tx.add_occurrence(skipped) and why == STILL_AT_WORK and before != [why]:
                    self._tell(tx, row, f"It was left out: {why}.", now)  # once, until it has ended
            elif row.condition or row.origin == FOLLOW_UP:
                checking = OccurrenceRow(row.id, due.key, due.at, now, "checking")
                if tx.add_occurrence(checking):
                    yield checking
            elif begun := self._begin(tx, row, due, now):
                yield begun
        after = passed[-1].at if row.misfire == "all" and passed else now
        if self._has_missed_too_many(row, passed, now):
            self._tell(tx, row, TOO_MANY_MISSED, now)
            after = now
        tx.put_schedule(
            replace(row, due=None, fires_at=None, state="over")
            if row.oneshot
            else self.plan(row, after, tx)
        )

    def _has_missed_too_many(self, row: ScheduleRow, passed: Sequence[Due], now: datetime) -> bool:
        """Of `all` the times that passed while nothing ran, so many were made up for by now."""
        late = sum(now - due.at > LATE for due in passed)
        self._made_up[row.id] = self._made_up.get(row.id, 0) + late if late else 0
        return self._made_up[row.id] >= MOST_MADE_UP

    def _begin(
        self, tx: Tx, row: ScheduleRow, due: Due, now: datetime, found: Look | None = None
    ) -> tuple[SessionRow, InboxRow] | None:
        """The occurrence with its session and message; None where it is there already. `found`: its
        condition was looked at.
        """
        if row.remind:
            if found or tx.add_occurrence(OccurrenceRow(row.id, due.key, due.at, now, "told")):
                tx.set_occurrence("told", "", row.id, due.key)
                _post_reminder(tx, row, due, now, f"{NOTICE}{self.new_id()}")
            return None
        turn, session = self.new_id(), row.lane or f"{SCHEDULE_CHANNEL}_{uuid4()}"
        if found:
            tx.set_occurrence("fired", turn, row.id, due.key)
        elif not tx.add_occurrence(OccurrenceRow(row.id, due.key, due.at, now, "fired", turn)):
            return None
        body, label, quoted = row.prompt, row.label, ""
        typed = row.origin == OWNER_NAME  # in a chat, where they may have pasted something
        if found and found.text:
            label = label.join_with(found.label)
            quoted = found.text if found.label is Label.UNTRUSTED else ""
            body += f"\n\n{found.text}"
        body += describe_delay(row, due, now)
        own = (tx.get_session(session) if row.lane else None) or SessionRow(
            session, SCHEDULE_CHANNEL, row.name, label, now, agent=row.agent, root=row.session
        )
        body += self.add_note(tx, row) if row.lane else ""
        message = InboxRow(
            id=self.new_id(),
            channel=SCHEDULE_CHANNEL,
            account=row.id,
            external_id=due.key,
            session=session,
            sender=row.sender,
            body=body,
            label=label,
            turn=turn,
            received_at=now,
            role=row.role,
            private=row.private,
            composed=row.composed,
            quoted=find_quoted(body, [quoted] if quoted else ()) if quoted or typed else (),
        )
        if tx.accept_input(message).id != message.id:
            return None
        _open_root(tx, row.session, now)
        tx.put_session(own)
        return own, message
