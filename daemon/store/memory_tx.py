"""Writing into the in-memory journal."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from daemon.core.events import ApprovalAsked, RecordedEvent
from daemon.core.journal import UnknownTurn
from daemon.core.rows import TurnRow
from daemon.core.trust import Label
from daemon.store.memory_rows import MemoryRows
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
    project,
)
from daemon.store.transaction import close_children, create_child, post_to_session


class MemoryTx(MemoryRows):
    """`Tx` over dicts."""

    def begin_turn(self, row: TurnRow, epoch: int) -> None:
        """A new turn; its input becomes taken. Raises Fenced."""
        self.check_epoch(row.session, epoch)
        self._turns.insert(row.id, row)
        self.take_input(row.input_id)

    def append_events(
        self, session: str, epoch: int, turn_id: str, recorded: Sequence[RecordedEvent]
    ) -> None:
        """Write events, and what follows from them in the other tables. Raises Fenced, UnknownTurn."""
        self.check_epoch(session, epoch)
        turn = self.get_turn(turn_id)
        if turn is None or turn.session != session:
            raise UnknownTurn(
                f"turn {turn_id} has not begun in session {session}; nothing was written"
            )
        for one in recorded:
            self.insert_event(turn_id, one)
        for one in recorded:
            for operation in project(one):
                self._follow(turn_id, operation)

    def quarantine(self, turn_id: str, at: datetime, notice: str) -> None:
        """Set the turn and its message aside for good; `notice` goes to the session's outbox."""
        turn, message = self.get_turn(turn_id), self.get_turn_input(turn_id)
        if message:
            self.set_input_state(message.id, "quarantined")
        owner = turn or message
        if owner:
            self._close(owner.session, turn_id, TurnClosed(None, notice, "", at))
            post_to_session(self, owner.session, turn_id, DeliveryPosted("notice", notice, at))

    def open_question(self, turn_id: str, asked: ApprovalAsked, at: datetime) -> None:
        """A question about a turn that has ended (C3). Raises UnknownTurn."""
        if self.get_turn(turn_id) is None:
            raise UnknownTurn()
        for operation in project(RecordedEvent(0, at, asked)):
            self._follow(turn_id, operation)

    def _follow(self, turn_id: str, operation: RowOp) -> None:
        turn = self._turns[turn_id]
        match operation:
            case TurnBegan() | InputSteered():
                self._follow_message(turn_id, operation)
            case ApprovalOpened() | ApprovalClosed():
                self._follow_approval(turn, operation)
            case TurnTainted() | UsageAdded() | IterationUncounted() | TurnStateSet():
                self._follow_turn(turn, operation)
            case DayLimitRaised():
                self.insert_raise(operation)
            case ChildCreated():
                create_child(self, turn.session, turn_id, operation)
            case TurnClosed():
                self._close(turn.session, turn_id, operation)
            case DeliveryPosted():
                post_to_session(self, turn.session, turn_id, operation)
            case _:
                assert_never(operation)

    def _follow_message(self, turn_id: str, operation: MessageOp) -> None:
        match operation:
            case TurnBegan():
                self.take_input(operation.input_id)
            case InputSteered():
                self.set_input_state(operation.input_id, f"steered:{turn_id}")

    def _follow_approval(self, turn: TurnRow, operation: ApprovalOp) -> None:
        match operation:
            case ApprovalOpened():
                self.open_approval(turn, operation)
            case ApprovalClosed():
                self.close_approval(turn.id, operation)

    def _follow_turn(self, turn: TurnRow, operation: TurnOp) -> None:
        match operation:
            case TurnTainted():
                self._turns.put(turn.id, replace(turn, label=Label.UNTRUSTED))
            case UsageAdded():
                self.charge(turn, operation)
            case IterationUncounted():
                self._turns.put(turn.id, replace(turn, iterations=turn.iterations - 1))
            case TurnStateSet():
                self._turns.put(turn.id, replace(turn, state=operation.state))

    def _close(self, session: str, turn_id: str, closed: TurnClosed) -> None:
        turn = self.get_turn(turn_id)
        if turn:
            state, settled = ("ended", "done") if closed.reason else ("quarantined", "quarantined")
            self._turns.put(
                turn_id,
                replace(
                    turn,
                    state=state,
                    stop_reason=closed.reason,
                    detail=closed.detail,
                    reply=closed.reply,
                    ended_at=closed.at,
                ),
            )
            self.set_input_state(turn.input_id, settled)
        self.reset_attempts(turn_id)
        self.drop_cancel(turn_id)
        self.void_approvals(turn_id)
        self.release_steering(session, turn_id)
        close_children(self, turn_id, closed)
