"""Deliveries, in order of creation; parts of a turn count from 1."""

from daemon.core.rows import UNSENT_STATES, OutboxRow
from daemon.store.tables.base import Table, from_db, to_db

COLUMNS = "turn, part, session, channel, chat, kind, body, created_at, state, platform_message_id, attempts, error"
INSERT = f"INSERT INTO outbox ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
NEXT = "SELECT COALESCE(MAX(part), 0) + 1 FROM outbox WHERE turn = ?"
BY_STATE = f"""SELECT {COLUMNS} FROM outbox WHERE state = ?1 AND (?2 IS NULL OR channel = ?2)
    AND (?3 IS NULL OR session = ?3) ORDER BY n"""
OF_TURN = f"SELECT {COLUMNS} FROM outbox WHERE turn = ? ORDER BY part"
ONE = f"SELECT {COLUMNS} FROM outbox WHERE turn = ? AND part = ?"
ON_THE_WAY = (
    f"SELECT {COLUMNS} FROM outbox WHERE state IN {UNSENT_STATES} AND channel = ? ORDER BY n"
)
AS = f"""SELECT {COLUMNS} FROM outbox WHERE channel = ?1 AND (chat = ?2 OR (chat >= ?2 || ':' AND chat < ?2 || ';'))
    AND instr(' ' || platform_message_id || ' ', ' ' || ?3 || ' ') ORDER BY n DESC LIMIT 1"""
MARK = """UPDATE outbox SET state = ?1, attempts = attempts + (?1 = 'sending'), error = ?5,
    platform_message_id = CASE WHEN ?2 = '' THEN platform_message_id ELSE ?2 END WHERE turn = ?3 AND part = ?4"""

Columns = tuple[str, int, str, str, str, str, str, int, str, str, int, str]


class OutboxTable(Table):
    """The outbox table."""

    def list_outbox(
        self, state: str, channel: str | None = None, session: str | None = None
    ) -> list[OutboxRow]:
        """Deliveries in this state, in order of creation."""
        return [_row(found) for found in self._db.execute(BY_STATE, (state, channel, session))]

    def list_turn_outbox(self, turn_id: str) -> list[OutboxRow]:
        """All deliveries of one turn, in order of part."""
        return [_row(found) for found in self._db.execute(OF_TURN, (turn_id,))]

    def get_delivery(self, turn_id: str, part: int) -> OutboxRow | None:
        """One delivery."""
        found = self._db.execute(ONE, (turn_id, part)).fetchone()
        return _row(found) if found else None

    def list_unsent(self, channel: str) -> list[OutboxRow]:
        """What this channel still has to deliver or to make sure of, in order of creation."""
        return [_row(found) for found in self._db.execute(ON_THE_WAY, (channel,))]

    def find_delivery(self, channel: str, chat: str, message_id: str) -> OutboxRow | None:
        """The latest delivery that became this message of the chat, or of a thread in it."""
        if not message_id or " " in message_id:
            return None
        found = self._db.execute(AS, (channel, chat, message_id)).fetchone()
        return _row(found) if found else None

    def insert_delivery(self, row: OutboxRow) -> None:
        """Something to deliver; a negative part becomes the turn's next."""
        part = row.part if row.part >= 0 else int(self._db.execute(NEXT, (row.turn,)).fetchone()[0])
        where = (row.turn, part, row.session, row.channel, row.chat)
        what = (
            row.kind,
            row.body,
            to_db(row.created_at),
            row.state,
            row.platform_message_id,
            row.attempts,
        )
        self._db.execute(INSERT, (*where, *what, row.error))
        self.posted |= row.state == "new"

    def mark_delivery(
        self, turn_id: str, part: int, state: str, platform_message_id: str = "", error: str = ""
    ) -> None:
        """The delivery has come to this state; `sending` counts one attempt more."""
        self._db.execute(MARK, (state, platform_message_id, turn_id, part, error))


def _row(found: Columns) -> OutboxRow:
    return OutboxRow(*found[:7], from_db(found[7]), *found[8:])
