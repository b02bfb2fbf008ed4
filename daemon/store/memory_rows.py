"""The rows of the in-memory journal, one table at a time."""

from dataclasses import replace
from datetime import datetime

from daemon.core.errors import Fenced
from daemon.core.events import Answer, RecordedEvent
from daemon.core.journal import Conflict
from daemon.core.rows import (
    ApprovalRow,
    ChildRow,
    GrantRow,
    InboxRow,
    LoopRow,
    OutboxRow,
    SessionRow,
    TurnRow,
    UsageRow,
)
from daemon.store.memory_read import MemoryReadTx
from daemon.store.memory_table import MemoryTable, Undo
from daemon.store.projections import (
    ApprovalClosed,
    ApprovalOpened,
    DayLimitRaised,
    UsageAdded,
    get_initial_state,
)


class MemoryRows(MemoryReadTx):
    """Writing into one table; `store/memory_tx.py` adds what touches several."""

    def __init__(self, undo: Undo) -> None:
        super().__init__(undo)
        self.posted = False
        self._external: MemoryTable[tuple[str, str, str], str] = MemoryTable(undo)
        self._epochs: MemoryTable[str, int] = MemoryTable(undo)
        self._attempts: MemoryTable[str, tuple[int, float]] = MemoryTable(undo)

    def put_session(self, row: SessionRow) -> None:
        """Insert, or replace what stands there."""
        self._sessions.put(row.id, row)

    def accept_input(self, row: InboxRow) -> InboxRow:
        """Insert the message; the same external id again changes nothing and gives the first one's row."""
        first = self._external.get((row.channel, row.account, row.external_id))
        known = self._inbox.get(first) if first else None
        if known:
            return known
        self._inbox.insert(row.id, row)
        self._external.put((row.channel, row.account, row.external_id), row.id)
        return row

    def set_input_state(self, input_id: str, state: str) -> None:
        """The message has come to this state; `steers` is emptied when the state is new again."""
        row = self._inbox.get(input_id)
        if row:
            self._inbox.put(
                input_id, replace(row, state=state, steers="" if state == "new" else row.steers)
            )

    def claim_session(self, session: str, owner: str) -> int:
        """Become the one worker of the session; gives the new epoch."""
        epoch = (self._epochs.get(session) or 0) + 1
        self._epochs.put(session, epoch)
        return epoch

    def count_attempts(self, turn_id: str) -> float:
        """How often it was taken up without progress."""
        return (self._attempts.get(turn_id) or (0, 0.0))[1]

    def add_attempt(self, turn_id: str, progress: int, blame: float = 1.0) -> float:
        """How often the turn was taken up at this progress, this time included."""
        former, attempts = self._attempts.get(turn_id) or (None, 0.0)
        attempts = attempts + blame if former == progress else 1.0
        self._attempts.put(turn_id, (progress, attempts))
        return attempts

    def reset_attempts(self, turn_id: str) -> None:
        """The worker let go in good order: start counting anew."""
        self._attempts.drop(turn_id)

    def request_cancel(self, turn_id: str, why: str) -> None:
        """Somebody stopped the turn (E7)."""
        if self._cancels.get(turn_id) is None:
            self._cancels.put(turn_id, why)

    def drop_cancel(self, turn_id: str) -> None:
        """It is over."""
        self._cancels.drop(turn_id)

    def answer_approval(
        self, turn_id: str, call_id: str, answer: Answer, by: str, reason: str, now: datetime
    ) -> ApprovalRow | None:
        """Answer once: None when it is not pending any more or has expired."""
        row = self.get_approval(turn_id, call_id)
        if row is None or row.state != "pending":
            return None
        if row.expires <= now:
            self._approvals.put((turn_id, call_id), replace(row, state="expired"))
            return None
        answered = replace(row, state="answered", answer=answer, answered_by=by, reason=reason)
        self._approvals.put((turn_id, call_id), answered)
        return answered

    def set_approval_state(self, turn_id: str, call_id: str, state: str) -> None:
        """The question has come to this state."""
        row = self.get_approval(turn_id, call_id)
        if row:
            self._approvals.put((turn_id, call_id), replace(row, state=state))

    def put_loop(self, row: LoopRow) -> None:
        """Insert, or bring up what stands there. Raises Conflict where the agent is at another loop (C7)."""
        if row.ended_at is None and any(
            other.id != row.id for other in self.list_running_loops(row.agent)
        ):
            raise Conflict()
        self._loops.put(row.id, row)

    def add_grant(self, row: GrantRow) -> None:
        """A standing permission."""
        self._grants.insert(row.id, row)

    def revoke_grant(self, grant_id: str) -> bool:
        """Take it back; False when there is none of that id."""
        for call in [
            call for call in self._grant_uses.names() if self._grant_uses[call] == grant_id
        ]:
            self._grant_uses.drop(call)
        return self._grants.drop(grant_id)

    def use_grant(self, grant_id: str, call: str, now: datetime) -> bool:
        """One use more; False when there is none left."""
        row = self._grants.get(grant_id)
        if (
            row is None
            or self.is_grant_used(call)
            or row.uses_left == 0
            or (row.expires and row.expires <= now)
        ):
            return False
        left = None if row.uses_left is None else row.uses_left - 1
        self._grants.put(grant_id, replace(row, uses_left=left, uses=row.uses + 1))
        self._grant_uses.put(call, grant_id)
        return True

    def keep(self, kind: str, name: str, value: str) -> None:
        """Keep it, instead of what was there."""
        self._kept.put((kind, name), value)

    def drop(self, kind: str, name: str) -> bool:
        """Keep it no more; False when nothing was there."""
        return self._kept.drop((kind, name))

    def post_delivery(self, row: OutboxRow) -> None:
        """Something to deliver that is not the outcome of an event."""
        born = get_initial_state(row.channel, row.kind) if row.state == "new" else row.state
        part = row.part
        if part < 0:
            part = (
                max((other.part for other in self._outbox if other.turn == row.turn), default=0) + 1
            )
        self._outbox.insert((row.turn, part), replace(row, part=part, state=born))
        self.posted |= born == "new"

    def mark_delivery(
        self, turn_id: str, part: int, state: str, platform_message_id: str = "", error: str = ""
    ) -> None:
        """The delivery has come to this state; `sending` counts one attempt more."""
        row = self._outbox.get((turn_id, part))
        if row:
            message_id = platform_message_id or row.platform_message_id
            attempts = row.attempts + (state == "sending")
            marked = replace(
                row, state=state, platform_message_id=message_id, attempts=attempts, error=error
            )
            self._outbox.put((turn_id, part), marked)

    def check_epoch(self, session: str, epoch: int) -> None:
        """Raises Fenced when another worker has claimed the session since."""
        if self._epochs.get(session) != epoch:
            raise Fenced()

    def insert_event(self, turn_id: str, recorded: RecordedEvent) -> None:
        """One event, in its place. Raises Conflict when there is one."""
        events = self._events.get(turn_id) or ()
        if any(one.seq == recorded.seq for one in events):
            raise Conflict()
        self._events.put(turn_id, tuple(sorted((*events, recorded), key=lambda one: one.seq)))

    def take_input(self, input_id: str) -> None:
        """Its turn has begun."""
        row = self._inbox.get(input_id)
        if row and row.state == "new":
            self.set_input_state(input_id, "taken")

    def release_steering(self, session: str, turn_id: str) -> None:
        """What meant to steer this turn and came too late becomes a turn of its own."""
        for row in [row for row in self.list_waiting_inputs(session) if row.steers == turn_id]:
            self._inbox.put(row.id, replace(row, steers=""))

    def charge(self, turn: TurnRow, added: UsageAdded) -> None:
        """A settled model call: a row of its own, and added up in its turn."""
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

    def open_approval(self, turn: TurnRow, opened: ApprovalOpened) -> None:
        """The wait is a row; its label is what the turn had read when it asked."""
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
            preview=asked.preview,
            paths=asked.paths,
        )
        self._approvals.drop((turn.id, asked.call_id))
        self._approvals.put((turn.id, asked.call_id), row)

    def close_approval(self, turn_id: str, closed: ApprovalClosed) -> None:
        """The turn has taken the answer in."""
        row, answered = self.get_approval(turn_id, closed.answered.call_id), closed.answered
        if row:
            said = replace(
                row,
                state=closed.state,
                answer=answered.answer,
                answered_by=answered.by,
                reason=answered.reason,
            )
            self._approvals.put((turn_id, answered.call_id), said)

    def insert_child(self, row: ChildRow) -> None:
        """An agent is set to work: once for each call or step."""
        if any((other.parent, other.key) == (row.parent, row.key) for other in self._children):
            raise Conflict()
        self._children.insert(row.turn, row)

    def finish_child(self, turn_id: str) -> None:
        """Its turn is over."""
        self._children.put(turn_id, replace(self._children[turn_id], done=True))

    def insert_raise(self, raised: DayLimitRaised) -> None:
        """One yes to a dearer day."""
        self._raises.put(len(self._raises), raised)

    def void_approvals(self, turn_id: str) -> None:
        """The turn is over: nobody waits for an answer any more."""
        for row in [
            row
            for row in self._approvals
            if row.turn == turn_id and row.state in ("pending", "answered")
        ]:
            self._approvals.put((turn_id, row.call_id), replace(row, state="void"))
