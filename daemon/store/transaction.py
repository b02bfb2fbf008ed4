"""Agents that work for others, over the verbs of either journal: how they are born, stopped, and heard of (A17).

The journal's verbs over one SQLite connection: every table's own, and those that touch several.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol, assert_never

from daemon.core.events import ApprovalAsked, RecordedEvent
from daemon.core.journal import Tx, UnknownTurn
from daemon.core.rows import (
    EVENT_CHANNEL,
    NO_ROOT,
    ChildRow,
    InboxRow,
    OutboxRow,
    SessionRow,
    TurnRow,
)
from daemon.core.trust import OWNER_NAME, Label, Stop, join_all
from daemon.store.projections import (
    ApprovalClosed,
    ApprovalOp,
    ApprovalOpened,
    ChildCreated,
    DayLimitRaised,
    DeliveryPosted,
    InputSteered,
    IterationUncounted,
    MessageOp,
    RowOp,
    TurnBegan,
    TurnClosed,
    TurnOp,
    TurnStateSet,
    TurnTainted,
    UsageAdded,
    get_initial_state,
    project,
    render_report,
)
from daemon.store.tables.approvals import ApprovalTable, GrantTable
from daemon.store.tables.inbox import InboxTable
from daemon.store.tables.key_value import KeyValueTable
from daemon.store.tables.loops import LoopTable
from daemon.store.tables.outbox import OutboxTable
from daemon.store.tables.sessions import LeaseTable, SessionTable
from daemon.store.tables.turns import ChildTable, EventTable, TurnTable
from daemon.store.tables.usage import DayRaiseTable, UsageTable

AGENT_CHANNEL, REPORT_SUFFIX = "agent", ".report"


class SubagentTx(Tx, Protocol):
    """A journal that can also write down who works for whom."""

    def insert_child(self, row: ChildRow) -> None:
        """An agent is set to work. Raises Conflict when this call or step has set one to work already."""
        ...

    def finish_child(self, turn_id: str) -> None:
        """Its turn is over."""
        ...


def create_child(tx: SubagentTx, session: str, parent: str, born: ChildCreated) -> None:
    """The child's session, the message that begins its turn, and its row."""
    spawned, behind = born.spawned, tx.get_turn_input(parent)
    if tx.get_session(spawned.session) is None:
        tx.put_session(_make_child_session(born, session, tx.get_session(session)))
    tx.accept_input(
        InboxRow(
            spawned.input_id,
            AGENT_CHANNEL,
            "",
            f"{parent}/{spawned.key}",
            spawned.session,
            spawned.sender,
            spawned.task,
            spawned.label,
            spawned.child,
            born.at,
            role=behind.role if behind else OWNER_NAME,
        )
    )
    tx.insert_child(
        ChildRow(
            spawned.child,
            parent,
            spawned.key,
            spawned.session,
            session,
            spawned.agent,
            spawned.task,
            spawned.depth,
            spawned.limits,
            spawned.max_chars,
            spawned.report,
        )
    )


def close_children(tx: SubagentTx, turn_id: str, closed: TurnClosed) -> None:
    """A turn is over: those who still work for it are stopped, and who set it to work hears of it; but a stop is a stop, and
    sets nobody to work again.
    """
    _stop_children(tx, turn_id, closed.reason)
    child = tx.get_child(turn_id)
    if child:
        tx.finish_child(turn_id)
    if child and child.report and closed.reason is not Stop.CANCELLED:
        _post_report(tx, child, closed)


def post_to_session(tx: Tx, session: str, turn_id: str, posted: DeliveryPosted) -> None:
    """To the session's people; those of a session that works for another are the other's, who are told its reply by that one.

    An event has no people of its own: what came of it is a notice where the owner wants to read it, and never an answer to
    its sender (A16).
    """
    own = tx.get_session(session)
    told = tx.get_session(own.root) if own and own.root else own
    works_for_it = told is not own
    event = own.chat if own and own.id.startswith(f"{EVENT_CHANNEL}_") else ""
    if (
        told is None
        or told.channel in ("", EVENT_CHANNEL)
        or (works_for_it and posted.kind == "reply" and not event)
    ):
        return
    kind = "notice" if event and posted.kind == "reply" else posted.kind
    body = (
        f"[{f'{EVENT_CHANNEL} {event}' if event else session}] {posted.body}"
        if works_for_it and kind == "notice"
        else posted.body
    )
    tx.post_delivery(
        OutboxRow(turn_id, -1, told.id, told.channel, told.chat, kind, body, posted.at)
    )


def _make_child_session(
    born: ChildCreated, parent_id: str, parent: SessionRow | None
) -> SessionRow:
    above = parent or SessionRow(parent_id, "", "", Label.UNTRUSTED, born.at)
    return SessionRow(
        born.spawned.session,
        above.channel,
        above.chat,
        above.label,
        born.at,
        agent=born.spawned.agent,
        model=above.model,
        effort=above.effort,
        root=above.root or (NO_ROOT if above.label is Label.UNTRUSTED else above.id),
        paused=above.paused,
    )


def _stop_children(tx: SubagentTx, parent: str, reason: Stop | None) -> None:
    """A background one outlives its parent, unless the parent was stopped or set aside."""
    everyone = reason in (Stop.CANCELLED, None)
    why = f"its parent has ended: {reason.value if reason else 'quarantined'}"
    for child in tx.list_children(parent):
        if not child.done and (everyone or not child.report):
            tx.request_cancel(child.turn, why)


def _post_report(tx: SubagentTx, child: ChildRow, closed: TurnClosed) -> None:
    """A message to the parent's session, with the child's end or not at all; it may do what the child's own message might.

    A second end of the same child changes nothing: the first message stands (K2).
    """
    began, turn = tx.get_turn_input(child.turn), tx.get_turn(child.turn)
    if began is None:
        return
    label = join_all(row.label for row in (began, turn) if row)
    tx.accept_input(
        InboxRow(
            f"{child.report}{REPORT_SUFFIX}",
            AGENT_CHANNEL,
            "",
            f"{child.turn}/report",
            child.parent_session,
            began.sender,
            render_report(child, closed),
            label,
            child.report,
            closed.at,
            role=began.role,
        )
    )


class SqliteTx(
    SessionTable, InboxTable, LeaseTable, TurnTable, ChildTable, EventTable, ApprovalTable, GrantTable, OutboxTable, UsageTable, DayRaiseTable, LoopTable, KeyValueTable
):  # fmt: skip
    """`Tx` of SQLite. Transactions are begun and ended outside (store/batch.py)."""

    def begin_turn(self, row: TurnRow, epoch: int) -> None:
        """A new turn; its input becomes taken. Raises Fenced."""
        self.check_epoch(row.session, epoch)
        self.insert_turn(row)
        self.take_input(row.input_id)

    def append_events(
        self, session: str, epoch: int, turn_id: str, recorded: Sequence[RecordedEvent]
    ) -> None:
        """Write events, and what follows from them in the other tables. Raises Fenced, UnknownTurn."""
        self.check_turn(session, epoch, turn_id)
        self.insert_events(turn_id, recorded)
        for one in recorded:
            for operation in project(one):
                self._apply(session, turn_id, operation)

    def quarantine(self, turn_id: str, at: datetime, notice: str) -> None:
        """Set the turn and its message aside for good; `notice` goes to the session's outbox (K25)."""
        turn, message = self.get_turn(turn_id), self.get_turn_input(turn_id)
        if message:
            self.set_input_state(message.id, "quarantined")
        owner = turn or message
        if owner:
            self._close(owner.session, turn_id, TurnClosed(None, notice, "", at))
            post_to_session(self, owner.session, turn_id, DeliveryPosted("notice", notice, at))

    def open_question(self, turn_id: str, asked: ApprovalAsked, at: datetime) -> None:
        """A question about a turn that has ended (C3). Raises UnknownTurn."""
        turn = self.get_turn(turn_id)
        if turn is None:
            raise UnknownTurn()
        for operation in project(RecordedEvent(0, at, asked)):
            self._apply(turn.session, turn_id, operation)

    def post_delivery(self, row: OutboxRow) -> None:
        """Something to deliver that is not the outcome of an event."""
        born = get_initial_state(row.channel, row.kind) if row.state == "new" else row.state
        self.insert_delivery(replace(row, state=born))

    def _apply(self, session: str, turn_id: str, operation: RowOp) -> None:
        match operation:
            case TurnBegan() | InputSteered():
                self._apply_message_op(turn_id, operation)
            case ApprovalOpened() | ApprovalClosed():
                self._apply_approval_op(session, turn_id, operation)
            case TurnTainted() | UsageAdded() | IterationUncounted() | TurnStateSet():
                self._apply_turn_op(session, turn_id, operation)
            case DayLimitRaised():
                self.insert_raise(operation)
            case ChildCreated():
                create_child(self, session, turn_id, operation)
            case TurnClosed():
                self._close(session, turn_id, operation)
            case DeliveryPosted():
                post_to_session(self, session, turn_id, operation)
            case _:
                assert_never(operation)

    def _apply_message_op(self, turn_id: str, operation: MessageOp) -> None:
        match operation:
            case TurnBegan():
                self.take_input(operation.input_id)
            case InputSteered():
                self.set_input_state(operation.input_id, f"steered:{turn_id}")

    def _apply_approval_op(self, session: str, turn_id: str, operation: ApprovalOp) -> None:
        match operation:
            case ApprovalOpened():
                self.open_approval(session, turn_id, operation.asked, operation.at)
            case ApprovalClosed():
                self.close_approval(turn_id, operation.answered, operation.state)

    def _apply_turn_op(self, session: str, turn_id: str, operation: TurnOp) -> None:
        match operation:
            case TurnTainted():
                self.taint(turn_id)
            case UsageAdded():
                self.insert_usage(session, turn_id, operation)
                self.charge(turn_id, operation.usage, operation.iterations)
            case IterationUncounted():
                self.uncount(turn_id)
            case TurnStateSet():
                self.set_turn_state(turn_id, operation.state)

    def _close(self, session: str, turn_id: str, closed: TurnClosed) -> None:
        self.close_turn(turn_id, closed)
        self.void_approvals(turn_id)
        self.release_steering(session, turn_id)
        close_children(self, turn_id, closed)
