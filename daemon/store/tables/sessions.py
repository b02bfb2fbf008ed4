"""Conversations and what was set for them.

Who may write for a session: the epoch rises with every claim and fences former owners (K19).
"""

from daemon.core.errors import Fenced
from daemon.core.journal import UnknownTurn
from daemon.core.rows import SessionRow
from daemon.core.trust import Label
from daemon.store.tables.base import Table, from_db, maybe_from_db, maybe_to_db, to_db

COLUMNS = "id, channel, chat, label, created_at, agent, model, effort, paused, cleared_at, root"
PUT = f"""INSERT INTO sessions ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)
    ON CONFLICT (id) DO UPDATE SET channel = excluded.channel, chat = excluded.chat, label = excluded.label,
    created_at = excluded.created_at, agent = excluded.agent, model = excluded.model, effort = excluded.effort,
    paused = excluded.paused, cleared_at = excluded.cleared_at, root = excluded.root"""
ONE = f"SELECT {COLUMNS} FROM sessions WHERE id = ?"
ALL = f"SELECT {COLUMNS} FROM sessions ORDER BY n DESC"
OF_CHANNEL = f"""SELECT {COLUMNS} FROM sessions WHERE channel = ? AND root = ''
    ORDER BY COALESCE((SELECT MAX(n) FROM inbox WHERE session = sessions.id), 0) DESC, n DESC LIMIT ?"""

Columns = tuple[str, str, str, str, int, str, str, str, int, int | None, str]


class SessionTable(Table):
    """The sessions table."""

    def get_session(self, session: str) -> SessionRow | None:
        """One session."""
        found = self._db.execute(ONE, (session,)).fetchone()
        return _row(found) if found else None

    def list_sessions(self) -> list[SessionRow]:
        """All sessions, newest first."""
        return [_row(found) for found in self._db.execute(ALL)]

    def list_channel_sessions(self, channel: str, limit: int) -> list[SessionRow]:
        """The conversations of this channel, those with the latest message first."""
        return [_row(found) for found in self._db.execute(OF_CHANNEL, (channel, limit))]

    def put_session(self, row: SessionRow) -> None:
        """Insert, or replace what stands there."""
        self._db.execute(
            PUT,
            (
                row.id,
                row.channel,
                row.chat,
                row.label.value,
                to_db(row.created_at),
                row.agent,
                row.model,
                row.effort,
                int(row.paused),
                maybe_to_db(row.cleared_at),
                row.root,
            ),
        )


def _row(found: Columns) -> SessionRow:
    label, created_at, agent, model, effort, paused, cleared_at, root = found[3:]
    return SessionRow(
        *found[:3],
        Label(label),
        from_db(created_at),
        agent=agent,
        model=model,
        effort=effort,
        paused=bool(paused),
        cleared_at=maybe_from_db(cleared_at),
        root=root,
    )


CLAIM = """INSERT INTO lanes (session, owner, epoch) VALUES (?, ?, 1)
    ON CONFLICT (session) DO UPDATE SET owner = excluded.owner, epoch = epoch + 1"""
OF_TURN = """SELECT epoch, turns.n FROM lanes LEFT JOIN turns ON turns.id = ?2 AND turns.session = ?1
    WHERE lanes.session = ?1"""
EPOCH = "SELECT epoch FROM lanes WHERE session = ?"


class LeaseTable(Table):
    """The lanes table."""

    def claim_session(self, session: str, owner: str) -> int:
        """Become the one worker of the session; gives the new epoch."""
        self._db.execute(CLAIM, (session, owner))
        return int(self._db.execute(EPOCH, (session,)).fetchone()[0])

    def check_epoch(self, session: str, epoch: int) -> None:
        """Raises Fenced when another worker has claimed the session since."""
        if self._db.execute(EPOCH, (session,)).fetchone() != (epoch,):
            raise Fenced()

    def check_turn(self, session: str, epoch: int, turn_id: str) -> None:
        """The same for a turn of the session. Raises Fenced, UnknownTurn."""
        found = self._db.execute(OF_TURN, (session, turn_id)).fetchone()
        if found is None or found[0] != epoch:
            raise Fenced()
        if found[1] is None:
            raise UnknownTurn(
                f"turn {turn_id} has not begun in session {session}; nothing was written"
            )
