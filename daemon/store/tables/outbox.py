"""Deliveries, in order of creation; parts of a turn count from 1."""

from daemon.core.rows import OutboxRow
from daemon.store.instants import from_db, to_db
from daemon.store.tables.rows import Rows

COLUMNS = "turn, part, session, channel, chat, kind, body, created_at, state, platform_message_id, attempts"
INSERT = f"INSERT INTO outbox ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
NEXT = "SELECT COALESCE(MAX(part), 0) + 1 FROM outbox WHERE turn = ?"
BY_STATE = f"""SELECT {COLUMNS} FROM outbox WHERE state = ?1 AND (?2 IS NULL OR channel = ?2)
    AND (?3 IS NULL OR session = ?3) ORDER BY n"""
MARK = """UPDATE outbox SET state = ?1, attempts = attempts + (?1 = 'sending'),
    platform_message_id = CASE WHEN ?2 = '' THEN platform_message_id ELSE ?2 END WHERE turn = ?3 AND part = ?4"""

Columns = tuple[str, int, str, str, str, str, str, int, str, str, int]


class Outbox(Rows):
    """The outbox table."""

    def outbox(self, state: str, channel: str | None = None, session: str | None = None) -> list[OutboxRow]:
        """Deliveries in this state, in order of creation."""
        return [_row(found) for found in self._db.execute(BY_STATE, (state, channel, session))]

    def insert_delivery(self, row: OutboxRow) -> None:
        """Something to deliver; a negative part becomes the turn's next."""
        part = row.part if row.part >= 0 else int(self._db.execute(NEXT, (row.turn,)).fetchone()[0])
        where = (row.turn, part, row.session, row.channel, row.chat)
        what = (row.kind, row.body, to_db(row.created_at), row.state, row.platform_message_id, row.attempts)
        self._db.execute(INSERT, (*where, *what))

    def mark_outbox(self, turn_id: str, part: int, state: str, platform_message_id: str = "") -> None:
        """The delivery has come to this state; `sending` counts one attempt more."""
        self._db.execute(MARK, (state, platform_message_id, turn_id, part))


def _row(found: Columns) -> OutboxRow:
    return OutboxRow(*found[:7], from_db(found[7]), *found[8:])
