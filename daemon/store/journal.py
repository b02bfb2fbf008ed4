"""The journal: one `Store`, whose work is done in functions over a `Tx`; and what follows from an
event in the tables beside it.

A function given to `write` runs as ONE atomic unit, in the order given, in the writer's own thread;
it may run together with others in one disk commit (group commit), and has been flushed to disk when
`write` returns. It must be quick, must not call back into the event loop, and is rolled back alone
when it raises. Functions given to `read` see what is committed.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Protocol, TypeVar

from daemon.core.clock import Commit, number_day
from daemon.core.errors import UnknownTurn
from daemon.core.events import (
    Alarm,
    ApprovalAnswered,
    ApprovalAsked,
    BudgetRaised,
    ChildSpawned,
    Consulted,
    Event,
    ModelReplied,
    RecordedEvent,
    Steered,
    Suspended,
    ToolFinished,
    TurnEnded,
    TurnResumed,
    UserSaid,
)
from daemon.core.labels import LABELLED, find_label, find_private
from daemon.core.messages import MessageQueued
from daemon.core.rows import (
    LOOP_CHANNEL,
    NO_ROOT,
    OF_GOAL,
    REPORT_SUFFIX,
    ChildRow,
    InboxRow,
    OutboxRow,
    SessionRow,
    TurnRow,
)
from daemon.core.trust import OWNER_NAME, Answer, Label, Outcome, Stop, join_all, join_sources
from daemon.store.charges import Charge, fold_charges
from daemon.store.codec import encode
from daemon.store.posting import Posting
from daemon.store.tables.base import Value, to_db
from daemon.store.tables.messages import OPEN, TYPED
from daemon.store.tables.people import PeopleTables
from daemon.store.tables.schedules import ScheduleTables
from daemon.store.tables.turns import (
    ADD_LOST,
    ADD_RAISE,
    CHILDREN,
    END,
    END_INPUT,
    INSERT_EVENT,
    KEEP_LOST,
    TAKE_INPUT,
    TURNS,
)

T = TypeVar("T")
AGENT_CHANNEL = "agent"
MAX_TASK_CHARS = 500
UNKNOWN_OUTCOME = (
    "I was cut off while {tool} ran: it may or may not have happened, and I did not run it again."
    " Please look."
)  # fmt: skip


PRUNABLE = """SELECT id FROM turns WHERE {} AND ended_at < ? AND state <> 'pruned'
    AND NOT EXISTS (SELECT 1 FROM outbox WHERE turn = turns.id AND state IN ('new', 'sending',
    'uncertain', 'held'))
    AND NOT EXISTS (SELECT 1 FROM approvals WHERE turn = turns.id AND state IN ('pending',
    'answered'))
    AND NOT EXISTS (SELECT 1 FROM events WHERE turn = turns.id AND kind = 'ToolFinished'
        AND iif(json_valid(payload), payload ->> '$.outcome', 'unknown') = 'unknown')
    AND NOT EXISTS (SELECT 1 FROM grant_uses WHERE call >= turns.id || '/' AND call < turns.id ||
    '0')
    AND NOT EXISTS (SELECT 1 FROM turns AS above WHERE id = turns.parent AND ended_at IS NULL)
    AND NOT EXISTS (SELECT 1 FROM loops WHERE 'loop:' || id = turns.session AND ended_at IS NULL)
    AND NOT EXISTS (SELECT 1 FROM goals WHERE session = turns.session AND state IN ('active',
    'paused'))
    ORDER BY n"""
PRUNE = (
    "UPDATE inbox SET body = '' WHERE id IN (SELECT payload ->> '$.input_id' FROM events"
    " WHERE turn = ? AND kind = 'Steered' AND json_valid(payload))",
    "DELETE FROM events WHERE turn = ?",
    "UPDATE inbox SET body = '', attachments = '' WHERE turn = ?",
    "UPDATE outbox SET body = '' WHERE turn = ?",
    "UPDATE approvals SET arguments = '', preview = '' WHERE turn = ?",
    "UPDATE children SET task = '' WHERE turn = ?",
    "UPDATE turns SET reply = '', state = 'pruned' WHERE id = ?",
)


TAINT = "UPDATE turns SET label = 'untrusted' WHERE id = ? AND label <> 'untrusted'"
SHOW_PRIVATE = "UPDATE turns SET private = ? WHERE id = ?"
CHARGE = """UPDATE turns SET iterations = iterations + ?, input_tokens = input_tokens + ?,
    output_tokens = output_tokens + ?, cached_tokens = cached_tokens + ?, usd = usd + ?,
    reserved_tokens = coalesce(?, reserved_tokens), reserved_usd = coalesce(?, reserved_usd)
    WHERE id = ?"""
SETTLED = " AND reserved_tokens = 0 AND reserved_usd = 0"
SET_TURN_STATE = "UPDATE turns SET state = ? WHERE id = ?"
CLOSE_APPROVAL = """UPDATE approvals SET state = ?, answer = ?, answered_by = ?, reason = ? WHERE
    turn = ? AND call_id = ?"""
RELEASE_STEERING = f"""UPDATE inbox SET steers = '' WHERE {OPEN} AND state = 'new' AND session = ?
    AND steers = ?"""
SETTLE_TYPED = f"UPDATE inbox SET state = ?, steers = '' WHERE {TYPED} AND state = ?"
HAS_DEPENDENTS = f"""SELECT EXISTS (SELECT 1 FROM cancels WHERE turn = ?2)
    OR EXISTS (SELECT 1 FROM approvals WHERE turn = ?2)
    OR EXISTS (SELECT 1 FROM inbox WHERE {OPEN} AND state = 'new' AND session = ?1 AND steers = ?2)
    OR EXISTS (SELECT 1 FROM inbox WHERE {TYPED} AND state = 'typed:' || ?2)
    OR EXISTS (SELECT 1 FROM children WHERE parent = ?2)
    OR EXISTS (SELECT 1 FROM children WHERE turn = ?2)"""
FINISH_CHILD = "UPDATE children SET done = 1 WHERE turn = ?"


GOAL_SPENT = "its budget is used up"
GOAL_PAUSED = (
    "So goal {id} is paused; its conversation and its list are kept."
    " /goal {id} budget={more:g} lets it go on, /goal {id} stop ends it."
)


def _make_delivery(session: str, turn: str, said: MessageQueued, at: datetime) -> OutboxRow:
    state = "held" if said.due > at else "new"
    where = (session, said.channel, said.chat)
    return OutboxRow(turn, -1, *where, said.kind, said.body, at, state, due=said.due)


class Tx(Posting, PeopleTables, ScheduleTables):
    """One transaction over all tables, begun and ended outside (store/sqlite.py). On the
    reading connection its writing methods raise.
    """

    count_planned = Value[[str, str], int](
        "SELECT COUNT(*) FROM schedules WHERE origin = ? AND rule LIKE ? || '%'"
    )
    """Schedules of this origin whose rule begins so, removed ones included."""

    def begin_turn(
        self,
        row: TurnRow,
        epoch: int,
        recorded: Sequence[RecordedEvent] = (),
        progress: int = 0,
    ) -> None:
        """A new turn with its first events; its input becomes taken, which is an attempt at this
        progress (see `add_attempt`). Raises Fenced, Conflict.
        """
        self.check_lease(row.session, epoch)
        self._insert(TURNS, "", row)
        self._run(TAKE_INPUT, row.input_id, progress, 1.0)
        self._append(row.session, row.id, recorded)

    def append_events(
        self, session: str, epoch: int, turn_id: str, recorded: Sequence[RecordedEvent]
    ) -> None:
        """Write events, and what follows from them in the other tables.
        Raises Fenced, UnknownTurn.
        """
        self.check_lease(session, epoch, turn_id)
        self._append(session, turn_id, recorded)

    def _append(self, session: str, turn_id: str, recorded: Sequence[RecordedEvent]) -> None:
        rows = [(turn_id, one.seq, to_db(one.at), *encode(one.event)) for one in recorded]
        self._db.executemany(INSERT_EVENT, rows)
        for due in fold_charges(recorded):
            self._charge(turn_id, due)
        for one in recorded:
            # The row has what the turn was shown before anybody can read what came of it.
            labelled = isinstance(one.event, LABELLED)
            if labelled and find_label(one.event) is Label.UNTRUSTED:
                self._run(TAINT, turn_id)
            shown = find_private(one.event) if labelled else ()
            if shown and (turn := self.get_turn(turn_id)):
                self._run(SHOW_PRIVATE, join_sources((turn.private, shown)), turn_id)
            self._project(session, turn_id, one.event, one.at)

    def open_question(self, turn_id: str, asked: ApprovalAsked, at: datetime) -> None:
        """A question about a turn that has ended (C3); put to people like one of a turn. Raises
        UnknownTurn.
        """
        turn = self.get_turn(turn_id)
        if turn is None:
            raise UnknownTurn()
        self._project(turn.session, turn_id, asked, at)

    def quarantine(self, turn_id: str, at: datetime, notice: str) -> None:
        """Set the turn and its message aside for good; `notice` goes to the session's outbox."""
        message = self.get_turn_input(turn_id)
        if message:
            self.set_input_state(message.id, "quarantined")
        owner = self.get_turn(turn_id) or message
        if owner:
            self._close(owner.session, turn_id, None, notice, "", at)
            self.post_to_session(owner.session, turn_id, "notice", notice, at)

    def list_prunable(self, before: datetime, cited: Collection[str], limit: int) -> list[str]:
        """Turns that ended before and whose texts nothing needs any more, oldest first; see
        store/pruning.py.
        """
        found = (turn for (turn,) in self._do(PRUNABLE.format("TRUE"), before))
        return list(islice((turn for turn in found if turn not in cited), limit))

    def is_prunable(self, turn: str, now: datetime) -> bool:
        """Nothing needs its texts any more; see `list_prunable`."""
        return bool(self._value(PRUNABLE.format("id = ?"), turn, now))

    def prune_turns(self, turns: Iterable[str]) -> None:
        """Remove what these turns said; their ids and keys stay."""
        for turn in turns:
            for statement in PRUNE:
                self._run(statement, turn)

    def _project(  # noqa: C901  one flat match
        self, session: str, turn_id: str, event: Event, at: datetime
    ) -> None:
        """What the event changes in the tables beside it; most events change nothing there."""
        match event:
            case UserSaid(settled=settled) if settled:
                self.note_outcomes(settled)
            case Steered(input_id=message):
                self.set_input_state(message, f"steered:{turn_id}")
            case ModelReplied(provider=str(asked)) | Consulted(provider=str(asked)) if asked:
                self.add_usage(session, asked, event.model, event.usage, at)
            case ToolFinished(call_id, tool, Outcome.UNKNOWN):  # whatever the model makes of it
                # the reply of the turn that set a sub-agent to work tells of it, where it is
                # delivered to a person: not that of an agent or of a loop's attempt
                turn, children = self.get_turn(turn_id), self.list_children(turn_id)
                unread = session.startswith(f"{LOOP_CHANNEL}:") or (turn and turn.parent)
                if unread or all(child.key != call_id for child in children):
                    notice = UNKNOWN_OUTCOME.format(tool=tool)
                    self.post_to_session(session, turn_id, "notice", notice, at)
            case MessageQueued():
                self.post_delivery(_make_delivery(session, turn_id, event, at))
            case BudgetRaised(day_tokens=tokens, day_usd=usd) if tokens or usd:
                self._run(ADD_RAISE, number_day(at), tokens, usd)
            case ApprovalAsked():
                self.open_approval(session, turn_id, event, at)
            case ApprovalAnswered(call_id, answer, by, reason):
                state = "expired" if answer is Answer.EXPIRED else "consumed"
                self._run(CLOSE_APPROVAL, state, answer, by, reason, turn_id, call_id)
            case Suspended():
                self._run(SET_TURN_STATE, "suspended", turn_id)
            case TurnResumed():
                self._run(SET_TURN_STATE, "running", turn_id)
            case ChildSpawned():
                self._create_child(session, turn_id, event, at)
            case Alarm(text=text):
                self.post_to_session(session, turn_id, "notice", text, at)
            case TurnEnded(reason, detail, reply):
                self._close(session, turn_id, reason, detail, reply, at)
                of_goal = reason is Stop.OVER_BUDGET and detail.startswith(OF_GOAL)
                reply = self._pause_goal(session, reply) if of_goal else reply
                if reply and not event.quiet:
                    failed = reason not in (Stop.DONE, Stop.CONDITION) and not of_goal
                    self.post_to_session(session, turn_id, "reply", reply, at, failed=failed)

    def _charge(self, turn_id: str, due: Charge) -> None:
        used = due.input_tokens, due.output_tokens, due.cached_tokens, due.usd
        values = (due.iterations, *used, *(due.reserved or (None, None)), turn_id)
        if due.lost_at is None:
            self._run(CHARGE, *values)
        else:
            self._run_settled(CHARGE, due.lost_at, *values)

    def _run_settled(self, statement: str, at: datetime, *values: object) -> None:
        """Change the turn whose id comes last. What it still has reserved was for a call that was
        cut off: nobody will say what that cost, so it is spent first, for the day and the goal.
        """
        if not self._run(statement + SETTLED, *values):
            self._run(ADD_LOST, number_day(at), values[-1])
            self._run(KEEP_LOST, values[-1])
            self._run(statement, *values)

    def _pause_goal(self, session: str, reply: str) -> str:
        """Its budget is used up: what its owner is told, once."""
        goal = self.get_goal_of(session)
        if goal is None or goal.state != "active":
            return "" if goal else reply
        self.halt_goal(goal, "paused", GOAL_SPENT)
        return f"{reply}\n\n{GOAL_PAUSED.format(id=goal.id, more=2 * goal.usd)}"

    def _create_child(self, session: str, parent: str, spawned: ChildSpawned, at: datetime) -> None:
        """The child's session, the message that begins its turn, and its row: with its event or not
        at all.
        """
        behind, above = self.get_turn_input(parent), self.get_turn(parent)
        if self.get_session(spawned.session) is None:
            where = self.get_session(session) or SessionRow(session, "", "", Label.UNTRUSTED, at)
            root = where.root or (NO_ROOT if where.label is Label.UNTRUSTED else session)
            self.put_session(
                replace(
                    where, id=spawned.session, created_at=at, agent=spawned.agent, root=root,
                    cleared_at=None,
                )
            )  # fmt: skip
        role = behind.role if behind else OWNER_NAME
        self.accept_input(
            InboxRow(
                spawned.input_id, AGENT_CHANNEL, "", f"{parent}/{spawned.key}", spawned.session,
                spawned.sender,
                spawned.task, spawned.label, spawned.child, at, role=role,
                private=above.private if above else (), composed=True,
            )
        )  # fmt: skip
        self._insert(
            CHILDREN, "",
            ChildRow(
                spawned.child, parent, spawned.key, spawned.session, session, spawned.agent,
                spawned.task, spawned.depth, spawned.limits, spawned.max_chars, spawned.report,
            )
        )  # fmt: skip

    def _close(
        self, session: str, turn_id: str, reason: Stop | None, detail: str, reply: str, at: datetime
    ) -> None:
        """Its questions are void, its message is done, what meant to steer it becomes a turn of its
        own.

        A background child outlives its parent, unless the parent was stopped or quarantined (no
        `reason`). Who set this turn to work hears of its end; but a stop sets nobody to work again.
        """
        state, settled = ("ended", "done") if reason else ("quarantined", "quarantined")
        self._run_settled(END, at, state, reason, detail, reply, at, turn_id)
        self._run(END_INPUT, settled, turn_id)
        if not self._value(HAS_DEPENDENTS, session, turn_id):
            return  # as most: one look in place of seven
        self._run("DELETE FROM cancels WHERE turn = ?", turn_id)
        self.void_approvals(turn_id)
        self._run(RELEASE_STEERING, session, turn_id)
        # an answer that the turn has not taken in is a message of its own, but after a stop
        left = f"answered:{turn_id}" if reason is Stop.CANCELLED else "new"
        self._run(SETTLE_TYPED, left, f"typed:{turn_id}")
        why = f"its parent has ended: {reason.value if reason else 'quarantined'}"
        for child in self.list_children(turn_id):
            if not child.done and (reason in (Stop.CANCELLED, None) or not child.report):
                self.request_cancel(child.turn, why)
        own = self.get_child(turn_id)
        if own:
            self._run(FINISH_CHILD, turn_id)
            if own.report and reason is not Stop.CANCELLED:
                self._post_report(own, render_report(own, reason, detail, reply), at)

    def _post_report(self, child: ChildRow, text: str, at: datetime) -> None:
        """A message to the parent's session, which may do what the child's own message might.

        A second end of the same child changes nothing: the first message stands (K2).
        """
        began, turn = self.get_turn_input(child.turn), self.get_turn(child.turn)
        if began is None:
            return
        label = join_all(row.label for row in (began, turn) if row)
        self.accept_input(
            InboxRow(
                f"{child.report}{REPORT_SUFFIX}", AGENT_CHANNEL, "", f"{child.turn}/report",
                child.parent_session,
                began.sender, text, label, child.report, at, role=began.role,
                private=turn.private if turn else began.private, composed=True,
            )
        )  # fmt: skip


def render_report(child: ChildRow, reason: Stop | None, detail: str, reply: str) -> str:
    """What the parent's session is told of a background agent: task, end and answer."""
    stop = reason.value if reason else "quarantined"
    how = f"{stop}: {detail}" if detail else stop
    task = _truncate(child.task, MAX_TASK_CHARS)
    answer = _truncate(reply, child.max_chars) or "It gave no answer."
    head = f"The background sub-agent {child.agent} ({child.session}) has ended ({how})."
    return f"{head}\nIts task was: {task}\n\n{answer}"


def _truncate(text: str, chars: int) -> str:
    cut = len(text) - chars
    return f"{text[:chars]}\n[cut here: {cut} more characters]" if cut > 0 else text


class Store(Protocol):
    """The journal."""

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run as one atomic unit; on disk when this returns. Raises what `work` raised, or
        StoreUnavailable.
        """
        ...

    def submit(self, work: Callable[[Tx], T]) -> Commit[T]:
        """Like `write`; who is cancelled while it waits learns the outcome all the same."""
        ...

    async def read(self, look: Callable[[Tx], T]) -> T:
        """Run over what is committed."""
        ...

    def watch_outbox(self, told: Callable[[], None]) -> Callable[[], None]:
        """Call `told` soon after each commit that holds something new to deliver, in the event
        loop; gives what ends that.
        """
        ...

    @property
    def problem(self) -> str:
        """What is wrong with it; "" while the last commit worked and no damage was found."""
        ...

    async def aclose(self) -> None:
        """Finish what is queued, then close."""
        ...
