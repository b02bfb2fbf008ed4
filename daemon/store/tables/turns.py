"""Turns at a glance, their events, which agents they set to work; attempts without progress; which
turns were stopped.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile

from daemon.core.events import RecordedEvent
from daemon.core.messages import Usage
from daemon.core.rows import ChildRow, TurnRow
from daemon.core.trust import Stop
from daemon.store.codec import decode, encode
from daemon.store.tables.base import RowMapper, Table, from_db, to_db

TURNS = RowMapper(TurnRow, "turns")
UNFINISHED_SESSIONS = """SELECT session FROM inbox WHERE state IN ('new', 'ordered') AND state =
    'new'
    UNION SELECT session FROM turns WHERE ended_at IS NULL ORDER BY session"""
COUNT_STOPS = """WITH RECURSIVE agents(agent) AS (
        SELECT MIN(agent) FROM turns WHERE stop_reason IS NOT NULL
        UNION ALL SELECT (SELECT MIN(t.agent) FROM turns AS t WHERE t.stop_reason IS NOT NULL AND
        t.agent > agents.agent)
        FROM agents WHERE agents.agent IS NOT NULL)
    SELECT stop_reason, COUNT(*) FROM agents JOIN turns USING (agent)
    WHERE stop_reason IS NOT NULL AND ended_at >= ? GROUP BY stop_reason"""
RECENT_STOPS = """SELECT stop_reason, EXISTS (SELECT 1 FROM events WHERE turn = id AND kind =
    'Alarm') FROM turns
    WHERE agent = ? AND stop_reason IS NOT NULL ORDER BY ended_at DESC, n DESC LIMIT ?"""
SET_STATE = "UPDATE turns SET state = ? WHERE id = ?"
TAINT = "UPDATE turns SET label = 'untrusted' WHERE id = ? AND label <> 'untrusted'"
RESERVE = "UPDATE turns SET reserved_tokens = ?, reserved_usd = ? WHERE id = ?"
CHARGE = """UPDATE turns SET iterations = iterations + ?, input_tokens = input_tokens + ?,
    output_tokens = output_tokens + ?, cached_tokens = cached_tokens + ?, usd = usd + ?,
    reserved_tokens = 0, reserved_usd = 0 WHERE id = ?"""
REFUND = "UPDATE turns SET iterations = iterations - 1 WHERE id = ?"
END = """UPDATE turns SET state = ?, stop_reason = ?, detail = ?, reply = ?, ended_at = ?,
    reserved_tokens = 0,
    reserved_usd = 0 WHERE id = ?"""
END_INPUT = "UPDATE inbox SET state = ? WHERE id = (SELECT input_id FROM turns WHERE id = ?)"
ADD_ATTEMPT = """UPDATE inbox SET attempts = CASE WHEN progress = ?2 THEN attempts + ?3 ELSE 1
    END, progress = ?2
    WHERE turn = ?1"""
ATTEMPTS = "SELECT attempts FROM inbox WHERE turn = ?"
RESET_ATTEMPTS = "UPDATE inbox SET attempts = 0, progress = NULL WHERE turn = ? AND attempts > 0"
CANCEL = "INSERT INTO cancels (turn, why) VALUES (?, ?) ON CONFLICT (turn) DO NOTHING"
CANCEL_REASON = "SELECT why FROM cancels WHERE turn = ?"
DELETE_CANCEL = "DELETE FROM cancels WHERE turn = ?"

INSERT_EVENT = "INSERT INTO events (turn, seq, at, kind, version, payload) VALUES (?,?,?,?,?,?)"
EVENTS_AFTER = (
    "SELECT seq, at, kind, version, payload FROM events WHERE turn = ? AND seq > ? ORDER BY seq"
)

CHILDREN = RowMapper(ChildRow, "children")
FINISH_CHILD = "UPDATE children SET done = 1 WHERE turn = ?"


class TurnTable(Table):
    """The turns and cancels tables; attempts are counted beside the message that began the turn."""

    def get_turn(self, turn_id: str) -> TurnRow | None:
        """One turn that has begun."""
        return self._one(TURNS, "WHERE id = ?", turn_id)

    def list_turns(self, session: str | None, limit: int) -> list[TurnRow]:
        """Turns, newest first; of one session, or of all."""
        if session is None:
            return self._all(TURNS, "ORDER BY n DESC LIMIT ?", limit)
        return self._all(TURNS, "WHERE session = ? ORDER BY n DESC LIMIT ?", session, limit)

    def list_unfinished_turns(self, session: str) -> list[TurnRow]:
        """Turns running or suspended, oldest first."""
        return self._all(TURNS, "WHERE ended_at IS NULL AND session = ? ORDER BY n", session)

    def list_unfinished_sessions(self) -> list[str]:
        """Sessions with a message in state new, or a turn that has not ended: what a start has to
        take up again.
        """
        return [found[0] for found in self._db.execute(UNFINISHED_SESSIONS)]

    def count_stops(self, since: datetime) -> dict[str, int]:
        """How many turns ended since then, by stop reason (D6)."""
        return dict(self._db.execute(COUNT_STOPS, (to_db(since),)))

    def list_recent_stops(self, agent: str, limit: int) -> list[Stop]:
        """Why the latest turns of this agent ended, newest first, back to the one that raised an
        alarm (D6).
        """
        found = self._db.execute(RECENT_STOPS, (agent, limit))
        return [Stop(reason) for reason, _ in takewhile(lambda row: not row[1], found)]

    def insert_turn(self, row: TurnRow) -> None:
        self._insert(TURNS, row)

    def set_turn_state(self, turn_id: str, state: str) -> None:
        self._run(SET_STATE, state, turn_id)

    def taint(self, turn_id: str) -> None:
        """It has read something untrusted."""
        self._run(TAINT, turn_id)

    def reserve(self, turn_id: str, tokens: int, usd: float) -> None:
        """A model call is open."""
        self._run(RESERVE, tokens, usd, turn_id)

    def charge(self, turn_id: str, usage: Usage, iterations: int) -> None:
        """The open call is settled; an unknown price makes the sum unknown."""
        spent = usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.usd
        self._run(CHARGE, iterations, *spent, turn_id)

    def refund_iteration(self, turn_id: str) -> None:
        self._run(REFUND, turn_id)

    def close_turn(
        self, turn_id: str, reason: Stop | None, detail: str, reply: str, at: datetime
    ) -> None:
        """It is over, and so is the message that began it. Without a reason it was quarantined."""
        state, settled = ("ended", "done") if reason else ("quarantined", "quarantined")
        self._run(END, state, reason and reason.value, detail, reply, to_db(at), turn_id)
        self._run(END_INPUT, settled, turn_id)
        self._run(RESET_ATTEMPTS, turn_id)
        self._run(DELETE_CANCEL, turn_id)

    def get_cancel_reason(self, turn_id: str) -> str:
        """Why somebody stopped this turn, which has not ended yet; "" when nobody did."""
        return self._text(CANCEL_REASON, turn_id) or ""

    def request_cancel(self, turn_id: str, why: str) -> None:
        """Somebody stopped the turn, begun or not; the first word stands until it ends or is set
        aside.
        """
        self._run(CANCEL, turn_id, why)

    def count_attempts(self, turn_id: str) -> float:
        """How often it was taken up without progress since it made some last; 0 for never."""
        found = self._db.execute(ATTEMPTS, (turn_id,)).fetchone()
        return float(found[0]) if found else 0.0

    def add_attempt(self, turn_id: str, progress: int, blame: float = 1.0) -> float:
        """A worker takes the turn up at this progress; gives how often that happened at the same
        one: 1, then `blame` more.
        """
        self._run(ADD_ATTEMPT, turn_id, progress, blame)
        return self.count_attempts(turn_id)

    def reset_attempts(self, turn_id: str) -> None:
        """The worker let go in good order: start counting anew."""
        self._run(RESET_ATTEMPTS, turn_id)


class EventTable(Table):
    """The events table: the checkpoint, the audit trail and the replay tape."""

    def list_events(self, turn_id: str, after: int = 0) -> list[RecordedEvent]:
        """The events of a turn with seq greater than `after`, in order."""
        found = self._db.execute(EVENTS_AFTER, (turn_id, after))
        return [RecordedEvent(seq, from_db(at), decode(*stored)) for seq, at, *stored in found]

    def insert_events(self, turn_id: str, recorded: Sequence[RecordedEvent]) -> None:
        rows = [(turn_id, one.seq, to_db(one.at), *encode(one.event)) for one in recorded]
        self._db.executemany(INSERT_EVENT, rows)


class ChildTable(Table):
    """The children table: agents that turns set to work (A17)."""

    def get_child(self, turn_id: str) -> ChildRow | None:
        """Whose child this turn is, begun or not; None for one that nobody set to work."""
        return self._one(CHILDREN, "WHERE turn = ?", turn_id)

    def list_children(self, turn_id: str) -> list[ChildRow]:
        """The agents that this turn set to work, oldest first."""
        return self._all(CHILDREN, "WHERE parent = ? ORDER BY n", turn_id)

    def list_running_children(self, session: str) -> list[ChildRow]:
        """The agents at work for turns of this session, oldest first."""
        return self._all(CHILDREN, "WHERE parent_session = ? AND NOT done ORDER BY n", session)

    def insert_child(self, row: ChildRow) -> None:
        self._insert(CHILDREN, row)

    def finish_child(self, turn_id: str) -> None:
        self._run(FINISH_CHILD, turn_id)
