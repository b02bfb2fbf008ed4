"""Turns at a glance, kept up by their events; how often each was attempted without progress; which were stopped.

The events themselves: the checkpoint, the audit trail and the replay tape.

The agents that turns set to work (A17).
"""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from itertools import takewhile

from pydantic import TypeAdapter

from daemon.core.events import RecordedEvent
from daemon.core.messages import Usage
from daemon.core.rows import ChildRow, TurnRow
from daemon.core.trust import Label, Stop
from daemon.core.turn_spec import Limits
from daemon.store.codec import decode, encode
from daemon.store.projections import TurnClosed
from daemon.store.tables.base import Table, from_db, maybe_from_db, maybe_to_db, to_db

TURN_COLUMNS = """id, session, parent, input_id, state, label, started_at, ended_at, stop_reason, detail, reply,
    iterations, input_tokens, output_tokens, cached_tokens, usd, agent"""
INSERT_TURN = f"INSERT INTO turns ({TURN_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
ONE_TURN = f"SELECT {TURN_COLUMNS} FROM turns WHERE id = ?"
NEWEST = f"SELECT {TURN_COLUMNS} FROM turns ORDER BY n DESC LIMIT ?"
NEWEST_OF_SESSION = f"SELECT {TURN_COLUMNS} FROM turns WHERE session = ? ORDER BY n DESC LIMIT ?"
UNFINISHED = f"SELECT {TURN_COLUMNS} FROM turns WHERE ended_at IS NULL AND session = ? ORDER BY n"
UNFINISHED_SESSIONS = """SELECT session FROM inbox WHERE state = 'new'
    UNION SELECT session FROM turns WHERE ended_at IS NULL ORDER BY session"""
STOPS = """SELECT stop_reason, COUNT(*) FROM turns
    WHERE ended_at >= ? AND stop_reason IS NOT NULL GROUP BY stop_reason"""
RECENT_STOPS = """SELECT stop_reason, EXISTS (SELECT 1 FROM events WHERE turn = id AND kind = 'Alarm') FROM turns
    WHERE agent = ? AND stop_reason IS NOT NULL ORDER BY ended_at DESC, n DESC LIMIT ?"""
STATE = "UPDATE turns SET state = ? WHERE id = ?"
SET_TAINTED = "UPDATE turns SET label = 'untrusted' WHERE id = ? AND label <> 'untrusted'"
CHARGE = """UPDATE turns SET iterations = iterations + ?, input_tokens = input_tokens + ?,
    output_tokens = output_tokens + ?, cached_tokens = cached_tokens + ?, usd = usd + ? WHERE id = ?"""
UNCOUNT = "UPDATE turns SET iterations = iterations - 1 WHERE id = ?"
END = (
    "UPDATE turns SET state = ?, stop_reason = ?, detail = ?, reply = ?, ended_at = ? WHERE id = ?"
)
END_INPUT = "UPDATE inbox SET state = ? WHERE id = (SELECT input_id FROM turns WHERE id = ?)"
ATTEMPT = """INSERT INTO attempts (turn, progress, attempts) VALUES (?1, ?2, 1) ON CONFLICT (turn) DO UPDATE SET
    attempts = CASE WHEN progress = excluded.progress THEN attempts + ?3 ELSE 1 END, progress = excluded.progress"""
ATTEMPTS = "SELECT attempts FROM attempts WHERE turn = ?"
FORGIVE = "DELETE FROM attempts WHERE turn = ?"
CANCEL = "INSERT INTO cancels (turn, why) VALUES (?, ?) ON CONFLICT (turn) DO NOTHING"
CANCELLED = "SELECT why FROM cancels WHERE turn = ?"
DROP_CANCEL = "DELETE FROM cancels WHERE turn = ?"

TurnColumns = tuple[
    str,
    str,
    str,
    str,
    str,
    str,
    int,
    int | None,
    str | None,
    str,
    str,
    int,
    int,
    int,
    int,
    float | None,
    str,
]


class TurnTable(Table):
    """The turns, attempts and cancels tables."""

    def get_turn(self, turn_id: str) -> TurnRow | None:
        """One turn that has begun."""
        found = self._db.execute(ONE_TURN, (turn_id,)).fetchone()
        return _turn_row(found) if found else None

    def list_turns(self, session: str | None, limit: int) -> list[TurnRow]:
        """Turns, newest first; of one session, or of all."""
        if session is None:
            return [_turn_row(found) for found in self._db.execute(NEWEST, (limit,))]
        return [_turn_row(found) for found in self._db.execute(NEWEST_OF_SESSION, (session, limit))]

    def list_unfinished_turns(self, session: str) -> list[TurnRow]:
        """Turns running or suspended, oldest first."""
        return [_turn_row(found) for found in self._db.execute(UNFINISHED, (session,))]

    def list_unfinished_sessions(self) -> list[str]:
        """Sessions with a message in state new, or a turn that has not ended."""
        return [str(found[0]) for found in self._db.execute(UNFINISHED_SESSIONS)]

    def count_stops(self, since: datetime) -> dict[str, int]:
        """How many turns ended since then, by stop reason (D6)."""
        return {
            str(reason): int(count) for reason, count in self._db.execute(STOPS, (to_db(since),))
        }

    def list_recent_stops(self, agent: str, limit: int) -> list[Stop]:
        """Why the latest turns of this agent ended, newest first, back to the one that raised an alarm (D6)."""
        found = takewhile(lambda row: not row[1], self._db.execute(RECENT_STOPS, (agent, limit)))
        return [Stop(reason) for reason, _ in found]

    def insert_turn(self, row: TurnRow) -> None:
        """A new turn."""
        self._db.execute(INSERT_TURN, _turn_columns(row))

    def set_turn_state(self, turn_id: str, state: str) -> None:
        """It waits, or goes on."""
        self._db.execute(STATE, (state, turn_id))

    def taint(self, turn_id: str) -> None:
        """It has read something untrusted."""
        self._db.execute(SET_TAINTED, (turn_id,))

    def charge(self, turn_id: str, usage: Usage, iterations: int) -> None:
        """Add up; an unknown price makes the sum unknown."""
        spent = (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.usd)
        self._db.execute(CHARGE, (iterations, *spent, turn_id))

    def uncount(self, turn_id: str) -> None:
        """Its last iteration was housekeeping (E4)."""
        self._db.execute(UNCOUNT, (turn_id,))

    def close_turn(self, turn_id: str, closed: TurnClosed) -> None:
        """It is over, and so is the message that began it."""
        stop = None if closed.reason is None else closed.reason.value
        state, settled = ("ended", "done") if stop else ("quarantined", "quarantined")
        self._db.execute(END, (state, stop, closed.detail, closed.reply, to_db(closed.at), turn_id))
        self._db.execute(END_INPUT, (settled, turn_id))
        self._db.execute(FORGIVE, (turn_id,))
        self.drop_cancel(turn_id)

    def get_cancel_reason(self, turn_id: str) -> str:
        """Why somebody stopped this turn; "" when nobody did."""
        found = self._db.execute(CANCELLED, (turn_id,)).fetchone()
        return str(found[0]) if found else ""

    def request_cancel(self, turn_id: str, why: str) -> None:
        """Somebody stopped the turn (E7)."""
        self._db.execute(CANCEL, (turn_id, why))

    def drop_cancel(self, turn_id: str) -> None:
        """It is over."""
        self._db.execute(DROP_CANCEL, (turn_id,))

    def count_attempts(self, turn_id: str) -> float:
        """How often it was taken up without progress."""
        found = self._db.execute(ATTEMPTS, (turn_id,)).fetchone()
        return float(found[0]) if found else 0.0

    def add_attempt(self, turn_id: str, progress: int, blame: float = 1.0) -> float:
        """How often it was taken up at this progress, this time included (K25)."""
        self._db.execute(ATTEMPT, (turn_id, progress, blame))
        return self.count_attempts(turn_id)

    def reset_attempts(self, turn_id: str) -> None:
        """The worker let go in good order: start counting anew."""
        self._db.execute(FORGIVE, (turn_id,))


def _turn_columns(row: TurnRow) -> TurnColumns:
    return (
        row.id,
        row.session,
        row.parent,
        row.input_id,
        row.state,
        row.label.value,
        to_db(row.started_at),
        maybe_to_db(row.ended_at),
        None if row.stop_reason is None else row.stop_reason.value,
        row.detail,
        row.reply,
        row.iterations,
        row.input_tokens,
        row.output_tokens,
        row.cached_tokens,
        row.usd,
        row.agent,
    )


def _turn_row(found: TurnColumns) -> TurnRow:
    label, started_at, ended_at, stop = found[5:9]
    return TurnRow(
        *found[:5],
        Label(label),
        from_db(started_at),
        maybe_from_db(ended_at),
        None if stop is None else Stop(stop),
        *found[9:],
    )


INSERT_EVENT = "INSERT INTO events (turn, seq, at, kind, version, payload) VALUES (?,?,?,?,?,?)"
EVENTS_AFTER = (
    "SELECT seq, at, kind, version, payload FROM events WHERE turn = ? AND seq > ? ORDER BY seq"
)


class EventTable(Table):
    """The events table."""

    def list_events(self, turn_id: str, after: int = 0) -> list[RecordedEvent]:
        """The events of a turn with seq greater than `after`, in order."""
        found = self._db.execute(EVENTS_AFTER, (turn_id, after))
        return [
            RecordedEvent(seq, from_db(at), decode(kind, version, payload))
            for seq, at, kind, version, payload in found
        ]

    def insert_events(self, turn_id: str, recorded: Sequence[RecordedEvent]) -> None:
        """Write them; each payload carries its schema version."""
        for one in recorded:
            self._db.execute(INSERT_EVENT, (turn_id, one.seq, to_db(one.at), *encode(one.event)))


CHILD_COLUMNS = "turn, parent, key, session, parent_session, agent, task, depth, limits, max_chars, report, done"
INSERT_CHILD = f"INSERT INTO children ({CHILD_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
ONE_CHILD = f"SELECT {CHILD_COLUMNS} FROM children WHERE turn = ?"
OF_PARENT = f"SELECT {CHILD_COLUMNS} FROM children WHERE parent = ? ORDER BY n"
RUNNING_CHILDREN = (
    f"SELECT {CHILD_COLUMNS} FROM children WHERE parent_session = ? AND NOT done ORDER BY n"
)
FINISH_CHILD = "UPDATE children SET done = 1 WHERE turn = ?"

ChildColumns = tuple[str, str, str, str, str, str, str, int, str, int, str, int]


class ChildTable(Table):
    """The children table."""

    def get_child(self, turn_id: str) -> ChildRow | None:
        """Whose child this turn is, begun or not; None for one that nobody set to work."""
        found = self._db.execute(ONE_CHILD, (turn_id,)).fetchone()
        return _child_row(found) if found else None

    def list_children(self, turn_id: str) -> list[ChildRow]:
        """The agents that this turn set to work, oldest first."""
        return [_child_row(found) for found in self._db.execute(OF_PARENT, (turn_id,))]

    def list_running_children(self, session: str) -> list[ChildRow]:
        """The agents at work for turns of this session, oldest first."""
        return [_child_row(found) for found in self._db.execute(RUNNING_CHILDREN, (session,))]

    def insert_child(self, row: ChildRow) -> None:
        """An agent is set to work: once for each call or step."""
        self._db.execute(INSERT_CHILD, _child_columns(row))

    def finish_child(self, turn_id: str) -> None:
        """Its turn is over."""
        self._db.execute(FINISH_CHILD, (turn_id,))


@cache
def _limits_adapter() -> TypeAdapter[Limits]:
    return TypeAdapter(Limits)


def _child_columns(row: ChildRow) -> ChildColumns:
    return (
        row.turn,
        row.parent,
        row.key,
        row.session,
        row.parent_session,
        row.agent,
        row.task,
        row.depth,
        _limits_adapter().dump_json(row.limits).decode(),
        row.max_chars,
        row.report,
        int(row.done),
    )


def _child_row(found: ChildColumns) -> ChildRow:
    limits, max_chars, report, done = found[8:]
    return ChildRow(
        *found[:8], _limits_adapter().validate_json(limits), max_chars, report, bool(done)
    )
