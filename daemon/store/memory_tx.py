"""Writing into the in-memory journal."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from daemon.core.events import ApprovalAsked, Recorded
from daemon.core.label import Label
from daemon.core.rows import TurnRow
from daemon.store.kin import bear, deliver, part
from daemon.store.memory_rows import MemoryRows
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
    what_follows,
)
from daemon.store.protocol import UnknownTurn


class MemoryTx(MemoryRows):
    """`Tx` over dicts."""

    def begin_turn(self, row: TurnRow, epoch: int) -> None:
        """A new turn; its input becomes taken. Raises Fenced."""
        self.check_epoch(row.session, epoch)
        self._turns.insert(row.id, row)
        self.take_input(row.input_id)

    def append(self, session: str, epoch: int, turn_id: str, recorded: Sequence[Recorded]) -> None:
        """Write events, and what follows from them in the other tables. Raises Fenced, UnknownTurn."""
        self.check_epoch(session, epoch)
        turn = self.turn(turn_id)
        if turn is None or turn.session != session:
            raise UnknownTurn(f"turn {turn_id} has not begun in session {session}; nothing was written")
        for one in recorded:
            self.insert_event(turn_id, one)
        for one in recorded:
            for operation in what_follows(one):
                self._follow(turn_id, operation)

    def quarantine(self, turn_id: str, at: datetime, notice: str) -> None:
        """Set the turn and its message aside for good; `notice` goes to the session's outbox."""
        turn, message = self.turn(turn_id), self.input_of(turn_id)
        if message:
            self.settle_input(message.id, "quarantined")
        owner = turn or message
        if owner:
            self._close(owner.session, turn_id, TurnClosed(None, notice, "", at))
            deliver(self, owner.session, turn_id, Posted("notice", notice, at))

    def ask(self, turn_id: str, asked: ApprovalAsked, at: datetime) -> None:
        """A question about a turn that has ended (C3). Raises UnknownTurn."""
        if self.turn(turn_id) is None:
            raise UnknownTurn()
        for operation in what_follows(Recorded(0, at, asked)):
            self._follow(turn_id, operation)

    def _follow(self, turn_id: str, operation: RowOp) -> None:
        turn = self._turns[turn_id]
        match operation:
            case InputTaken() | InputSteered():
                self._follow_message(turn_id, operation)
            case ApprovalOpened() | ApprovalClosed():
                self._follow_approval(turn, operation)
            case Tainted() | UsageAdded() | IterationUncounted() | TurnNow():
                self._follow_turn(turn, operation)
            case DayRaised():
                self.insert_raise(operation)
            case ChildBorn():
                bear(self, turn.session, turn_id, operation)
            case TurnClosed():
                self._close(turn.session, turn_id, operation)
            case Posted():
                deliver(self, turn.session, turn_id, operation)
            case _:
                assert_never(operation)

    def _follow_message(self, turn_id: str, operation: OfMessage) -> None:
        match operation:
            case InputTaken():
                self.take_input(operation.input_id)
            case InputSteered():
                self.settle_input(operation.input_id, f"steered:{turn_id}")

    def _follow_approval(self, turn: TurnRow, operation: OfApproval) -> None:
        match operation:
            case ApprovalOpened():
                self.open_approval(turn, operation)
            case ApprovalClosed():
                self.close_approval(turn.id, operation)

    def _follow_turn(self, turn: TurnRow, operation: OfTurn) -> None:
        match operation:
            case Tainted():
                self._turns.put(turn.id, replace(turn, label=Label.UNTRUSTED))
            case UsageAdded():
                self.charge(turn, operation)
            case IterationUncounted():
                self._turns.put(turn.id, replace(turn, iterations=turn.iterations - 1))
            case TurnNow():
                self._turns.put(turn.id, replace(turn, state=operation.state))

    def _close(self, session: str, turn_id: str, closed: TurnClosed) -> None:
        turn = self.turn(turn_id)
        if turn:
            state, settled = ("ended", "done") if closed.reason else ("quarantined", "quarantined")
            self._turns.put(
                turn_id,
                replace(
                    turn, state=state, stop_reason=closed.reason, detail=closed.detail, reply=closed.reply, ended_at=closed.at
                ),
            )
            self.settle_input(turn.input_id, settled)
        self.forgive_attempts(turn_id)
        self.drop_cancel(turn_id)
        self.void_approvals(turn_id)
        self.release_steering(session, turn_id)
        part(self, turn_id, closed)
