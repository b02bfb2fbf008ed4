"""The journal's verbs over one SQLite connection: every table's own, and those that touch several."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from daemon.core.events import ApprovalAsked, Recorded
from daemon.core.rows import OutboxRow, TurnRow
from daemon.store.kin import bear, deliver, part
from daemon.store.project import (
    ApprovalClosed,
    ApprovalOpened,
    ChildBorn,
    DayRaised,
    InputSteered,
    InputTaken,
    IterationUncounted,
    OfApproval,
    OfMessage,
    OfTurn,
    Posted,
    RowOp,
    Tainted,
    TurnClosed,
    TurnNow,
    UsageAdded,
    birth_state,
    what_follows,
)
from daemon.store.protocol import UnknownTurn
from daemon.store.tables.approvals import Approvals
from daemon.store.tables.children import Children
from daemon.store.tables.day_raises import DayRaises
from daemon.store.tables.events import Events
from daemon.store.tables.grants import Grants
from daemon.store.tables.inbox import Inbox
from daemon.store.tables.kept import Kept
from daemon.store.tables.lanes import Lanes
from daemon.store.tables.loops import Loops
from daemon.store.tables.outbox import Outbox
from daemon.store.tables.sessions import Sessions
from daemon.store.tables.turns import Turns
from daemon.store.tables.usage import UsageLedger


class SqliteTx(
    Sessions, Inbox, Lanes, Turns, Children, Events, Approvals, Grants, Outbox, UsageLedger, DayRaises, Loops, Kept
):  # fmt: skip
    """`Tx` of SQLite. Transactions are begun and ended outside (store/batch.py)."""

    def begin_turn(self, row: TurnRow, epoch: int) -> None:
        """A new turn; its input becomes taken. Raises Fenced."""
        self.check_epoch(row.session, epoch)
        self.insert_turn(row)
        self.take_input(row.input_id)

    def append(self, session: str, epoch: int, turn_id: str, recorded: Sequence[Recorded]) -> None:
        """Write events, and what follows from them in the other tables. Raises Fenced, UnknownTurn."""
        self.check_turn(session, epoch, turn_id)
        self.insert_events(turn_id, recorded)
        for one in recorded:
            for operation in what_follows(one):
                self._follow(session, turn_id, operation)

    def quarantine(self, turn_id: str, at: datetime, notice: str) -> None:
        """Set the turn and its message aside for good; `notice` goes to the session's outbox (B5 #25)."""
        turn, message = self.turn(turn_id), self.input_of(turn_id)
        if message:
            self.settle_input(message.id, "quarantined")
        owner = turn or message
        if owner:
            self._close(owner.session, turn_id, TurnClosed(None, notice, "", at))
            deliver(self, owner.session, turn_id, Posted("notice", notice, at))

    def ask(self, turn_id: str, asked: ApprovalAsked, at: datetime) -> None:
        """A question about a turn that has ended (C3). Raises UnknownTurn."""
        turn = self.turn(turn_id)
        if turn is None:
            raise UnknownTurn()
        for operation in what_follows(Recorded(0, at, asked)):
            self._follow(turn.session, turn_id, operation)

    def post(self, row: OutboxRow) -> None:
        """Something to deliver that is not the outcome of an event."""
        born = birth_state(row.channel, row.kind) if row.state == "new" else row.state
        self.insert_delivery(replace(row, state=born))

    def _follow(self, session: str, turn_id: str, operation: RowOp) -> None:
        match operation:
            case InputTaken() | InputSteered():
                self._follow_message(turn_id, operation)
            case ApprovalOpened() | ApprovalClosed():
                self._follow_approval(session, turn_id, operation)
            case Tainted() | UsageAdded() | IterationUncounted() | TurnNow():
                self._follow_turn(session, turn_id, operation)
            case DayRaised():
                self.insert_raise(operation)
            case ChildBorn():
                bear(self, session, turn_id, operation)
            case TurnClosed():
                self._close(session, turn_id, operation)
            case Posted():
                deliver(self, session, turn_id, operation)
            case _:
                assert_never(operation)

    def _follow_message(self, turn_id: str, operation: OfMessage) -> None:
        match operation:
            case InputTaken():
                self.take_input(operation.input_id)
            case InputSteered():
                self.settle_input(operation.input_id, f"steered:{turn_id}")

    def _follow_approval(self, session: str, turn_id: str, operation: OfApproval) -> None:
        match operation:
            case ApprovalOpened():
                self.open_approval(session, turn_id, operation.asked, operation.at)
            case ApprovalClosed():
                self.close_approval(turn_id, operation.answered, operation.state)

    def _follow_turn(self, session: str, turn_id: str, operation: OfTurn) -> None:
        match operation:
            case Tainted():
                self.taint(turn_id)
            case UsageAdded():
                self.insert_usage(session, turn_id, operation)
                self.charge(turn_id, operation.usage, operation.iterations)
            case IterationUncounted():
                self.uncount(turn_id)
            case TurnNow():
                self.set_turn_state(turn_id, operation.state)

    def _close(self, session: str, turn_id: str, closed: TurnClosed) -> None:
        self.close_turn(turn_id, closed)
        self.void_approvals(turn_id)
        self.release_steering(session, turn_id)
        part(self, turn_id, closed)
