"""Accepted messages, in order of acceptance."""

from daemon.core.rows import InboxRow
from daemon.core.trust import Label
from daemon.store.tables.base import Table, from_db, to_db

COLUMNS = """id, channel, account, external_id, session, sender, body, label, turn, received_at, steers, state,
    role, attachments, message_id"""
ACCEPT = f"""INSERT INTO inbox ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
    ON CONFLICT (channel, account, external_id) DO NOTHING"""
FIRST = f"SELECT {COLUMNS} FROM inbox WHERE channel = ? AND account = ? AND external_id = ?"
ONE = f"SELECT {COLUMNS} FROM inbox WHERE id = ?"
OF_TURN = f"SELECT {COLUMNS} FROM inbox WHERE turn = ? ORDER BY n LIMIT 1"
WAITING = f"SELECT {COLUMNS} FROM inbox WHERE session = ? AND state = 'new' ORDER BY n"
BY_STATE = f"SELECT {COLUMNS} FROM inbox WHERE state = ? ORDER BY n"
SETTLE = "UPDATE inbox SET state = ? WHERE id = ?"
RENEW = "UPDATE inbox SET state = 'new', steers = '' WHERE id = ?"
TAKE = "UPDATE inbox SET state = 'taken' WHERE id = ? AND state = 'new'"
RELEASE = "UPDATE inbox SET steers = '' WHERE session = ? AND state = 'new' AND steers = ?"

Columns = tuple[str, str, str, str, str, str, str, str, str, int, str, str, str, str, str]


class InboxTable(Table):
    """The inbox table."""

    def get_input(self, input_id: str) -> InboxRow | None:
        """One accepted message."""
        found = self._db.execute(ONE, (input_id,)).fetchone()
        return _row(found) if found else None

    def get_turn_input(self, turn_id: str) -> InboxRow | None:
        """The message that began, or will begin, this turn."""
        found = self._db.execute(OF_TURN, (turn_id,)).fetchone()
        return _row(found) if found else None

    def list_waiting_inputs(self, session: str) -> list[InboxRow]:
        """Messages in state new, oldest first; those that steer a turn included."""
        return [_row(found) for found in self._db.execute(WAITING, (session,))]

    def list_inputs(self, state: str) -> list[InboxRow]:
        """Messages in this state, in order of acceptance."""
        return [_row(found) for found in self._db.execute(BY_STATE, (state,))]

    def accept_input(self, row: InboxRow) -> InboxRow:
        """Insert the message; the same external id again changes nothing and gives the first one's row (K2)."""
        if self._db.execute(ACCEPT, _columns(row)).rowcount == 1:
            return row
        return _row(self._db.execute(FIRST, (row.channel, row.account, row.external_id)).fetchone())

    def set_input_state(self, input_id: str, state: str) -> None:
        """The message has come to this state; `steers` is emptied when the state is new again."""
        if state == "new":
            self._db.execute(RENEW, (input_id,))
        else:
            self._db.execute(SETTLE, (state, input_id))

    def take_input(self, input_id: str) -> None:
        """Its turn has begun."""
        self._db.execute(TAKE, (input_id,))

    def release_steering(self, session: str, turn_id: str) -> None:
        """What meant to steer this turn and came too late becomes a turn of its own."""
        self._db.execute(RELEASE, (session, turn_id))


def _columns(row: InboxRow) -> Columns:
    return (
        row.id,
        row.channel,
        row.account,
        row.external_id,
        row.session,
        row.sender,
        row.body,
        row.label.value,
        row.turn,
        to_db(row.received_at),
        row.steers,
        row.state,
        row.role,
        row.attachments,
        row.message_id,
    )


def _row(found: Columns) -> InboxRow:
    label, turn, received_at = found[7:10]
    return InboxRow(*found[:7], Label(label), turn, from_db(received_at), *found[10:])
