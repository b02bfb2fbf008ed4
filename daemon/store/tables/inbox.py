"""Accepted messages, in order of acceptance."""

from daemon.core.rows import InboxRow
from daemon.store.tables.base import RowMapper, Table

INBOX = RowMapper(InboxRow, "inbox")
OPEN = "state IN ('new', 'ordered')"  # as the index inbox_open has it
RENEW = "UPDATE inbox SET state = 'new', steers = '' WHERE id = ?"
SETTLE = "UPDATE inbox SET state = ? WHERE id = ?"
TAKE = "UPDATE inbox SET state = 'taken' WHERE id = ? AND state = 'new'"
RELEASE = (
    f"UPDATE inbox SET steers = '' WHERE {OPEN} AND state = 'new' AND session = ? AND steers = ?"
)


class InboxTable(Table):
    """The inbox table."""

    def get_input(self, input_id: str) -> InboxRow | None:
        """One accepted message."""
        return self._one(INBOX, "WHERE id = ?", input_id)

    def get_turn_input(self, turn_id: str) -> InboxRow | None:
        """The message that began, or will begin, this turn."""
        return self._one(INBOX, "WHERE turn = ? ORDER BY n LIMIT 1", turn_id)

    def list_waiting_inputs(self, session: str) -> list[InboxRow]:
        """Messages in state new, oldest first; those that steer a turn included."""
        return self._all(
            INBOX, f"WHERE {OPEN} AND state = 'new' AND session = ? ORDER BY n", session
        )

    def list_inputs(self, state: str) -> list[InboxRow]:
        """Messages in this state, in order of acceptance."""
        where = f"{OPEN} AND " if state in ("new", "ordered") else ""
        return self._all(INBOX, f"WHERE {where}state = ? ORDER BY n", state)

    def accept_input(self, row: InboxRow) -> InboxRow:
        """The same external id again changes nothing and returns the first one's row (K2)."""
        if self._insert(INBOX, row, "ON CONFLICT (channel, account, external_id) DO NOTHING"):
            return row
        key = row.channel, row.account, row.external_id
        first = self._one(INBOX, "WHERE channel = ? AND account = ? AND external_id = ?", *key)
        return first or row

    def set_input_state(self, input_id: str, state: str) -> None:
        """`steers` is emptied when the state is new again."""
        if state == "new":
            self._run(RENEW, input_id)
        else:
            self._run(SETTLE, state, input_id)

    def take_input(self, input_id: str) -> None:
        """Its turn has begun."""
        self._run(TAKE, input_id)

    def release_steering(self, session: str, turn_id: str) -> None:
        """What meant to steer this turn and came too late becomes a turn of its own."""
        self._run(RELEASE, session, turn_id)
