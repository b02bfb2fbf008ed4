"""Turns at a glance, kept up by their events; how often each was attempted without progress; which were stopped."""

from datetime import datetime
from itertools import takewhile

from daemon.core.label import Label
from daemon.core.messages import Usage
from daemon.core.outcomes import Stop
from daemon.core.rows import TurnRow
from daemon.store.instants import from_db, maybe_from_db, maybe_to_db, to_db
from daemon.store.project import TurnClosed
from daemon.store.tables.rows import Rows

COLUMNS = """id, session, parent, input_id, state, label, started_at, ended_at, stop_reason, detail, reply,
    iterations, input_tokens, output_tokens, cached_tokens, usd, agent"""
INSERT = f"INSERT INTO turns ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
ONE = f"SELECT {COLUMNS} FROM turns WHERE id = ?"
NEWEST = f"SELECT {COLUMNS} FROM turns ORDER BY n DESC LIMIT ?"
NEWEST_OF_SESSION = f"SELECT {COLUMNS} FROM turns WHERE session = ? ORDER BY n DESC LIMIT ?"
UNFINISHED = f"SELECT {COLUMNS} FROM turns WHERE ended_at IS NULL AND session = ? ORDER BY n"
UNFINISHED_SESSIONS = """SELECT session FROM inbox WHERE state = 'new'
    UNION SELECT session FROM turns WHERE ended_at IS NULL ORDER BY session"""
STOPS = """SELECT stop_reason, COUNT(*) FROM turns
    WHERE ended_at >= ? AND stop_reason IS NOT NULL GROUP BY stop_reason"""
RECENT_STOPS = """SELECT stop_reason, EXISTS (SELECT 1 FROM events WHERE turn = id AND kind = 'Alarm') FROM turns
    WHERE agent = ? AND stop_reason IS NOT NULL ORDER BY ended_at DESC, n DESC LIMIT ?"""
STATE = "UPDATE turns SET state = ? WHERE id = ?"
TAINT = "UPDATE turns SET label = 'untrusted' WHERE id = ? AND label <> 'untrusted'"
CHARGE = """UPDATE turns SET iterations = iterations + ?, input_tokens = input_tokens + ?,
    output_tokens = output_tokens + ?, cached_tokens = cached_tokens + ?, usd = usd + ? WHERE id = ?"""
UNCOUNT = "UPDATE turns SET iterations = iterations - 1 WHERE id = ?"
END = "UPDATE turns SET state = ?, stop_reason = ?, detail = ?, reply = ?, ended_at = ? WHERE id = ?"
END_INPUT = "UPDATE inbox SET state = ? WHERE id = (SELECT input_id FROM turns WHERE id = ?)"
ATTEMPT = """INSERT INTO attempts (turn, progress, attempts) VALUES (?1, ?2, 1) ON CONFLICT (turn) DO UPDATE SET
    attempts = CASE WHEN progress = excluded.progress THEN attempts + ?3 ELSE 1 END, progress = excluded.progress"""
ATTEMPTS = "SELECT attempts FROM attempts WHERE turn = ?"
FORGIVE = "DELETE FROM attempts WHERE turn = ?"
CANCEL = "INSERT INTO cancels (turn, why) VALUES (?, ?) ON CONFLICT (turn) DO NOTHING"
CANCELLED = "SELECT why FROM cancels WHERE turn = ?"
DROP_CANCEL = "DELETE FROM cancels WHERE turn = ?"

Columns = tuple[str, str, str, str, str, str, int, int | None, str | None, str, str, int, int, int, int, float | None, str]


class Turns(Rows):
    """The turns, attempts and cancels tables."""

    def turn(self, turn_id: str) -> TurnRow | None:
        """One turn that has begun."""
        found = self._db.execute(ONE, (turn_id,)).fetchone()
        return _row(found) if found else None

    def turns(self, session: str | None, limit: int) -> list[TurnRow]:
        """Turns, newest first; of one session, or of all."""
        if session is None:
            return [_row(found) for found in self._db.execute(NEWEST, (limit,))]
        return [_row(found) for found in self._db.execute(NEWEST_OF_SESSION, (session, limit))]

    def unfinished_turns(self, session: str) -> list[TurnRow]:
        """Turns running or suspended, oldest first."""
        return [_row(found) for found in self._db.execute(UNFINISHED, (session,))]

    def unfinished_sessions(self) -> list[str]:
        """Sessions with a message in state new, or a turn that has not ended."""
        return [str(found[0]) for found in self._db.execute(UNFINISHED_SESSIONS)]

    def stop_counts(self, since: datetime) -> dict[str, int]:
        """How many turns ended since then, by stop reason (D6)."""
        return {str(reason): int(count) for reason, count in self._db.execute(STOPS, (to_db(since),))}

    def recent_stops(self, agent: str, limit: int) -> list[Stop]:
        """Why the latest turns of this agent ended, newest first, back to the one that raised an alarm (D6)."""
        found = takewhile(lambda row: not row[1], self._db.execute(RECENT_STOPS, (agent, limit)))
        return [Stop(reason) for reason, _ in found]

    def insert_turn(self, row: TurnRow) -> None:
        """A new turn."""
        self._db.execute(INSERT, _columns(row))

    def set_turn_state(self, turn_id: str, state: str) -> None:
        """It waits, or goes on."""
        self._db.execute(STATE, (state, turn_id))

    def taint(self, turn_id: str) -> None:
        """It has read something untrusted."""
        self._db.execute(TAINT, (turn_id,))

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

    def cancelled(self, turn_id: str) -> str:
        """Why somebody stopped this turn; "" when nobody did."""
        found = self._db.execute(CANCELLED, (turn_id,)).fetchone()
        return str(found[0]) if found else ""

    def note_cancel(self, turn_id: str, why: str) -> None:
        """Somebody stopped the turn (E7)."""
        self._db.execute(CANCEL, (turn_id, why))

    def drop_cancel(self, turn_id: str) -> None:
        """It is over."""
        self._db.execute(DROP_CANCEL, (turn_id,))

    def attempts(self, turn_id: str) -> float:
        """How often it was taken up without progress."""
        found = self._db.execute(ATTEMPTS, (turn_id,)).fetchone()
        return float(found[0]) if found else 0.0

    def note_attempt(self, turn_id: str, progress: int, blame: float = 1.0) -> float:
        """How often it was taken up at this progress, this time included (B5 #25)."""
        self._db.execute(ATTEMPT, (turn_id, progress, blame))
        return self.attempts(turn_id)

    def forgive_attempts(self, turn_id: str) -> None:
        """The worker let go in good order: start counting anew."""
        self._db.execute(FORGIVE, (turn_id,))


def _columns(row: TurnRow) -> Columns:
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


def _row(found: Columns) -> TurnRow:
    label, started_at, ended_at, stop = found[5:9]
    return TurnRow(
        *found[:5],
        Label(label),
        from_db(started_at),
        maybe_from_db(ended_at),
        None if stop is None else Stop(stop),
        *found[9:],
    )
