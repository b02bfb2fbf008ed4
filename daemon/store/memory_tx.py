"""Writing into the in-memory journal."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from daemon.core.errors import Fenced
from daemon.core.events import Answer, Recorded, Stop
from daemon.core.label import Label
from daemon.core.rows import ApprovalRow, GrantRow, InboxRow, OutboxRow, SessionRow, TurnRow, UsageRow
from daemon.store.memory_read import MemoryReadTx
from daemon.store.memory_table import MemoryTable, Undo
from daemon.store.project import (
    ApprovalClosed,
    ApprovalOpened,
    InputSteered,
    InputTaken,
    Posted,
    RowOp,
    Tainted,
    TurnClosed,
    TurnNow,
    UsageAdded,
    birth_state,
    what_follows,
)
from daemon.store.protocol import Conflict, UnknownTurn


class MemoryTx(MemoryReadTx):
    """`Tx` over dicts."""

    def __init__(self, undo: Undo) -> None:
        super().__init__(undo)
        self._external: MemoryTable[tuple[str, str, str], str] = MemoryTable(undo)
        self._epochs: MemoryTable[str, int] = MemoryTable(undo)
        self._attempts: MemoryTable[str, tuple[int, int]] = MemoryTable(undo)

    def put_session(self, row: SessionRow) -> None:
        """Insert, or replace what stands there."""
        self._sessions.put(row.id, row)

    def accept(self, row: InboxRow) -> InboxRow:
        """Insert the message; the same external id again changes nothing and gives the first one's row."""
        first = self._external.get((row.channel, row.account, row.external_id))
        known = self._inbox.get(first) if first else None
        if known:
            return known
        self._inbox.insert(row.id, row)
        self._external.put((row.channel, row.account, row.external_id), row.id)
        return row

    def settle_input(self, input_id: str, state: str) -> None:
        """The message has come to this state; `steers` is emptied when the state is new again."""
        row = self._inbox.get(input_id)
        if row:
            self._inbox.put(input_id, replace(row, state=state, steers="" if state == "new" else row.steers))

    def claim(self, session: str, owner: str) -> int:
        """Become the one worker of the session; gives the new epoch."""
        epoch = (self._epochs.get(session) or 0) + 1
        self._epochs.put(session, epoch)
        return epoch

    def begin_turn(self, row: TurnRow, epoch: int) -> None:
        """A new turn; its input becomes taken. Raises Fenced."""
        self._check_epoch(row.session, epoch)
        self._turns.insert(row.id, row)
        self._take(row.input_id)

    def note_attempt(self, turn_id: str, progress: int) -> int:
        """How often the turn was taken up at this progress, this time included."""
        former, attempts = self._attempts.get(turn_id) or (progress, 0)
        attempts = attempts + 1 if former == progress else 1
        self._attempts.put(turn_id, (progress, attempts))
        return attempts

    def forgive_attempts(self, turn_id: str) -> None:
        """The worker let go in good order: start counting anew."""
        self._attempts.drop(turn_id)

    def note_cancel(self, turn_id: str, why: str) -> None:
        """Somebody stopped the turn (E7)."""
        if self._cancels.get(turn_id) is None:
            self._cancels.put(turn_id, why)

    def drop_cancel(self, turn_id: str) -> None:
        """It is over."""
        self._cancels.drop(turn_id)

    def append(self, session: str, epoch: int, turn_id: str, recorded: Sequence[Recorded]) -> None:
        """Write events, and what follows from them in the other tables. Raises Fenced, UnknownTurn."""
        self._check_epoch(session, epoch)
        turn = self.turn(turn_id)
        if turn is None or turn.session != session:
            raise UnknownTurn(f"turn {turn_id} has not begun in session {session}; nothing was written")
        for one in recorded:
            self._insert_event(turn_id, one)
        for one in recorded:
            for operation in what_follows(one):
                self._follow(turn_id, operation)

    def quarantine(self, turn_id: str, at: datetime, notice: str) -> None:
        """Set the turn and its message aside for good; `notice` goes to the session's outbox."""
        turn, message = self.turn(turn_id), self.input_of(turn_id)
        if turn:
            self._end(turn, "quarantined", None, notice, "", at)
        if message:
            self.settle_input(message.id, "quarantined")
            self.forgive_attempts(turn_id)
            self.drop_cancel(turn_id)
        owner = turn or message
        if owner:
            self._release_steering(turn_id)
            self._deliver(owner.session, turn_id, Posted("notice", notice, at))

    def answer_approval(
        self, turn_id: str, call_id: str, answer: Answer, by: str, reason: str, now: datetime
    ) -> ApprovalRow | None:
        """Answer once: None when it is not pending any more or has expired."""
        row = self.approval(turn_id, call_id)
        if row is None or row.state != "pending":
            return None
        if row.expires <= now:
            self._approvals.put((turn_id, call_id), replace(row, state="expired"))
            return None
        answered = replace(row, state="answered", answer=answer, answered_by=by, reason=reason)
        self._approvals.put((turn_id, call_id), answered)
        return answered

    def add_grant(self, row: GrantRow) -> None:
        """A standing permission."""
        self._grants.insert(row.id, row)

    def revoke_grant(self, grant_id: str) -> bool:
        """Take it back; False when there is none of that id."""
        return self._grants.drop(grant_id)

    def post(self, row: OutboxRow) -> None:
        """Something to deliver that is not the outcome of an event."""
        born = birth_state(row.channel, row.kind) if row.state == "new" else row.state
        part = row.part
        if part < 0:
            part = max((other.part for other in self._outbox if other.turn == row.turn), default=0) + 1
        self._outbox.insert((row.turn, part), replace(row, part=part, state=born))

    def mark_outbox(self, turn_id: str, part: int, state: str, platform_message_id: str = "") -> None:
        """The delivery has come to this state; `sending` counts one attempt more."""
        row = self._outbox.get((turn_id, part))
        if row:
            message_id = platform_message_id or row.platform_message_id
            attempts = row.attempts + (state == "sending")
            marked = replace(row, state=state, platform_message_id=message_id, attempts=attempts)
            self._outbox.put((turn_id, part), marked)

    def _follow(self, turn_id: str, operation: RowOp) -> None:
        turn = self._turns[turn_id]
        match operation:
            case InputTaken():
                self._take(operation.input_id)
            case InputSteered():
                self.settle_input(operation.input_id, f"steered:{turn_id}")
            case Tainted():
                self._turns.put(turn_id, replace(turn, label=Label.UNTRUSTED))
            case UsageAdded():
                self._charge(turn, operation)
            case ApprovalOpened():
                self._ask(turn, operation)
            case ApprovalClosed():
                self._close_approval(turn_id, operation)
            case TurnNow():
                self._turns.put(turn_id, replace(turn, state=operation.state))
            case TurnClosed():
                self._end(turn, "ended", operation.reason, operation.detail, operation.reply, operation.at)
                self._release_steering(turn_id)
            case Posted():
                self._deliver(turn.session, turn_id, operation)
            case _:
                assert_never(operation)

    def _check_epoch(self, session: str, epoch: int) -> None:
        if self._epochs.get(session) != epoch:
            raise Fenced()

    def _insert_event(self, turn_id: str, recorded: Recorded) -> None:
        events = self._events.get(turn_id) or ()
        if any(one.seq == recorded.seq for one in events):
            raise Conflict()
        self._events.put(turn_id, tuple(sorted((*events, recorded), key=lambda one: one.seq)))

    def _take(self, input_id: str) -> None:
        row = self._inbox.get(input_id)
        if row and row.state == "new":
            self.settle_input(input_id, "taken")

    def _release_steering(self, turn_id: str) -> None:
        for row in [row for row in self._inbox if row.steers == turn_id and row.state == "new"]:
            self._inbox.put(row.id, replace(row, steers=""))

    def _charge(self, turn: TurnRow, added: UsageAdded) -> None:
        usage = added.usage
        spent = (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.usd)
        row = UsageRow(added.provider, added.model, 1, *spent)
        self._charges.put(len(self._charges), (turn.session, added.at, row))
        charged = replace(
            turn,
            iterations=turn.iterations + added.iterations,
            input_tokens=turn.input_tokens + usage.input_tokens,
            output_tokens=turn.output_tokens + usage.output_tokens,
            cached_tokens=turn.cached_tokens + usage.cached_tokens,
            usd=None if turn.usd is None or usage.usd is None else turn.usd + usage.usd,
        )
        self._turns.put(turn.id, charged)

    def _ask(self, turn: TurnRow, opened: ApprovalOpened) -> None:
        asked = opened.asked
        row = ApprovalRow(
            turn.id,
            asked.call_id,
            turn.session,
            asked.tool,
            asked.arguments,
            asked.args_hash,
            asked.effect,
            turn.label,
            asked.token_hash,
            opened.at,
            asked.expires,
        )
        self._approvals.drop((turn.id, asked.call_id))
        self._approvals.put((turn.id, asked.call_id), row)

    def _close_approval(self, turn_id: str, closed: ApprovalClosed) -> None:
        row, answered = self.approval(turn_id, closed.answered.call_id), closed.answered
        if row:
            said = replace(row, state=closed.state, answer=answered.answer, answered_by=answered.by, reason=answered.reason)
            self._approvals.put((turn_id, answered.call_id), said)

    def _end(self, turn: TurnRow, state: str, reason: Stop | None, detail: str, reply: str, at: datetime) -> None:
        ended = replace(turn, state=state, stop_reason=reason, detail=detail, reply=reply, ended_at=at)
        self._turns.put(turn.id, ended)
        self.settle_input(turn.input_id, "done" if state == "ended" else state)
        self.forgive_attempts(turn.id)
        self.drop_cancel(turn.id)
        for row in [row for row in self._approvals if row.turn == turn.id and row.state in ("pending", "answered")]:
            self._approvals.put((turn.id, row.call_id), replace(row, state="void"))

    def _deliver(self, session: str, turn_id: str, posted: Posted) -> None:
        row = self.session(session)
        if row and row.channel:
            self.post(OutboxRow(turn_id, -1, session, row.channel, row.chat, posted.kind, posted.body, posted.at))
