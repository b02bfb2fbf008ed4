"""Conversations and what was set for them."""

from daemon.core.label import Label
from daemon.core.rows import SessionRow
from daemon.store.instants import from_db, maybe_from_db, maybe_to_db, to_db
from daemon.store.tables.rows import Rows

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


class Sessions(Rows):
    """The sessions table."""

    def session(self, session: str) -> SessionRow | None:
        """One session."""
        found = self._db.execute(ONE, (session,)).fetchone()
        return _row(found) if found else None

    def sessions(self) -> list[SessionRow]:
        """All sessions, newest first."""
        return [_row(found) for found in self._db.execute(ALL)]

    def sessions_of(self, channel: str, limit: int) -> list[SessionRow]:
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
