"""Deliveries, in order of creation; parts of a turn count from 1."""

from dataclasses import replace

from daemon.core.rows import UNSENT_STATES, OutboxRow, needs_no_delivery
from daemon.store.tables.base import RowMapper, Table

OUTBOX = RowMapper(OutboxRow, "outbox")
NEXT_PART = "SELECT COALESCE(MAX(part), 0) + 1 FROM outbox WHERE turn = ?"
UNSENT = f"state IN {UNSENT_STATES}"  # as the index outbox_unsent has it
IN_STATE = "state = ?1 AND (?2 IS NULL OR channel = ?2) AND (?3 IS NULL OR session = ?3) ORDER BY n"
DELIVERED_AS = """WHERE channel = ?1 AND (chat = ?2 OR (chat >= ?2 || ':' AND chat < ?2 || ';'))
    AND instr(' ' || platform_message_id || ' ', ' ' || ?3 || ' ') ORDER BY n DESC LIMIT 1"""
MARK = """UPDATE outbox SET state = ?1, attempts = attempts + (?1 = 'sending'), error = ?5,
    platform_message_id = CASE WHEN ?2 = '' THEN platform_message_id ELSE ?2 END WHERE turn = ?3
    AND part = ?4"""
SET_BUTTONS = "UPDATE outbox SET buttons = ? WHERE turn = ? AND part = ?"


class OutboxTable(Table):
    """The outbox table."""

    def list_outbox(
        self, state: str, channel: str | None = None, session: str | None = None
    ) -> list[OutboxRow]:
        """Deliveries in this state, in order of creation."""
        where = f"WHERE {UNSENT} AND " if state in UNSENT_STATES else "WHERE "
        return self._all(OUTBOX, where + IN_STATE, state, channel, session)

    def list_turn_outbox(self, turn_id: str) -> list[OutboxRow]:
        """All deliveries of one turn, in order of part."""
        return self._all(OUTBOX, "WHERE turn = ? ORDER BY part", turn_id)

    def get_delivery(self, turn_id: str, part: int) -> OutboxRow | None:
        """One delivery."""
        return self._one(OUTBOX, "WHERE turn = ? AND part = ?", turn_id, part)

    def list_unsent(self, channel: str) -> list[OutboxRow]:
        """What this channel still has to deliver or to make sure of (new, sending, uncertain), in
        order of creation.
        """
        return self._all(OUTBOX, f"WHERE {UNSENT} AND channel = ? ORDER BY n", channel)

    def list_with_buttons(self) -> list[OutboxRow]:
        """Questions that stand in a chat with buttons, in order of creation."""
        return self._all(OUTBOX, "WHERE buttons = 1 ORDER BY n")

    def find_delivery(self, channel: str, chat: str, message_id: str) -> OutboxRow | None:
        """The latest delivery that became this message of the chat, or of a thread in it, for
        platforms do not always say which; None for a message of somebody else's.
        """
        if not message_id or " " in message_id:
            return None
        return self._one(OUTBOX, DELIVERED_AS, channel, chat, message_id)

    def post_delivery(self, row: OutboxRow) -> None:
        """Something to deliver that is not the outcome of an event; the part is chosen by the store
        when negative.
        """
        if row.state == "new" and needs_no_delivery(row.channel, row.kind):
            row = replace(row, state="sent")
        if row.part < 0:
            row = replace(row, part=self._db.execute(NEXT_PART, (row.turn,)).fetchone()[0])
        self._insert(OUTBOX, row)
        self.posted |= row.state == "new"

    def mark_delivery(
        self, turn_id: str, part: int, state: str, platform_message_id: str = "", error: str = ""
    ) -> None:
        """Set the state of a delivery; `error` says why. `sending` counts one more attempt."""
        self._run(MARK, state, platform_message_id, turn_id, part, error)

    def set_buttons(self, turn_id: str, part: int, shown: bool) -> None:
        """Whether the delivered question stands in the chat with buttons."""
        self._run(SET_BUTTONS, int(shown), turn_id, part)
