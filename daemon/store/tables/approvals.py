"""Questions to a person about one call, asked once and answered once; standing permissions, exact,
bounded and revocable.
"""

import re
from datetime import datetime

from daemon.core.events import ApprovalAnswered
from daemon.core.rows import ApprovalRow, GrantRow
from daemon.core.trust import Answer
from daemon.store.tables.base import RowMapper, Table, to_db

APPROVALS = RowMapper(ApprovalRow, "approvals")
OF_SESSION = """(?2 IS NULL OR session = ?2
    OR session IN (SELECT id FROM sessions WHERE root = ?2 AND root <> '')) ORDER BY n"""
BY_TOKEN = "WHERE token_hash >= ?1 AND token_hash < ?1 || 'g' ORDER BY n DESC LIMIT 1"
TOKEN_PREFIX = re.compile(r"[0-9a-f]{32,}")  # nobody guesses so many digits
DELETE = "DELETE FROM approvals WHERE turn = ? AND call_id = ?"
ANSWER = """UPDATE approvals SET state = 'answered', answer = ?, answered_by = ?, reason = ?
    WHERE turn = ? AND call_id = ? AND state = 'pending' AND expires > ?"""
EXPIRE = (
    "UPDATE approvals SET state = 'expired' WHERE turn = ? AND call_id = ? AND state = 'pending'"
)
CLOSE = """UPDATE approvals SET state = ?, answer = ?, answered_by = ?, reason = ? WHERE turn = ?
    AND call_id = ?"""
SET_STATE = "UPDATE approvals SET state = ? WHERE turn = ? AND call_id = ?"
VOID = "UPDATE approvals SET state = 'void' WHERE turn = ? AND state IN ('pending', 'answered')"

GRANTS = RowMapper(GrantRow, "grants")
REVOKE = "DELETE FROM grants WHERE id = ?"
DELETE_USES = "DELETE FROM grant_uses WHERE grant_id = ?"
USE = """UPDATE grants SET uses_left = uses_left - 1, uses = uses + 1
    WHERE id = ? AND (uses_left IS NULL OR uses_left > 0) AND (expires IS NULL OR expires > ?)"""
ADD_USE = "INSERT INTO grant_uses (call, grant_id) VALUES (?, ?)"
USED = "SELECT 1 FROM grant_uses WHERE call = ?"


class ApprovalTable(Table):
    """The approvals table."""

    def list_approvals(
        self, state: str | None = None, session: str | None = None
    ) -> list[ApprovalRow]:
        """Questions, oldest first, filtered by state and session where given; those of agents that
        work for it included.
        """
        where = "WHERE " if state is None else "WHERE state = ?1 AND "
        return self._all(APPROVALS, where + OF_SESSION, state, session)

    def get_approval(self, turn_id: str, call_id: str) -> ApprovalRow | None:
        """The question about one call."""
        return self._one(APPROVALS, "WHERE turn = ? AND call_id = ?", turn_id, call_id)

    def find_approval(self, prefix: str) -> ApprovalRow | None:
        """The question whose token's hash starts like this; None for less than 32 hexadecimal
        digits.
        """
        return self._one(APPROVALS, BY_TOKEN, prefix) if TOKEN_PREFIX.fullmatch(prefix) else None

    def answer_approval(
        self, turn_id: str, call_id: str, answer: Answer, by: str, reason: str, now: datetime
    ) -> ApprovalRow | None:
        """One statement: of two answers at the same time only one is accepted (K15)."""
        if self._run(ANSWER, answer.value, by, reason, turn_id, call_id, to_db(now)):
            return self.get_approval(turn_id, call_id)
        self._run(EXPIRE, turn_id, call_id)
        return None

    def put_approval(self, row: ApprovalRow) -> None:
        """The wait is a row; the same call asked again replaces it."""
        self._run(DELETE, row.turn, row.call_id)
        self._insert(APPROVALS, row)

    def close_approval(self, turn_id: str, answered: ApprovalAnswered, state: str) -> None:
        """The turn has consumed the answer."""
        self._run(
            CLOSE,
            state,
            answered.answer.value,
            answered.by,
            answered.reason,
            turn_id,
            answered.call_id,
        )

    def set_approval_state(self, turn_id: str, call_id: str, state: str) -> None:
        """The question has come to this state."""
        self._run(SET_STATE, state, turn_id, call_id)

    def void_approvals(self, turn_id: str) -> None:
        """The turn is over: nobody waits for an answer any more."""
        self._run(VOID, turn_id)


class GrantTable(Table):
    """The grants and grant_uses tables."""

    def list_grants(self, session: str) -> list[GrantRow]:
        """Standing permissions that hold in this session: its own and those for everywhere; all of
        them for session "*".
        """
        return self._all(GRANTS, "WHERE ?1 = '*' OR session IN ('', ?1) ORDER BY n", session)

    def add_grant(self, row: GrantRow) -> None:
        """A standing permission."""
        self._insert(GRANTS, row)

    def revoke_grant(self, grant_id: str) -> bool:
        """Take it back; False when there is none of that id."""
        self._run(DELETE_USES, grant_id)
        return self._run(REVOKE, grant_id)

    def use_grant(self, grant_id: str, call: str, now: datetime) -> bool:
        """One statement: two calls at the same time cannot both have the last use."""
        if self.is_grant_used(call) or not self._run(USE, grant_id, to_db(now)):
            return False
        return self._run(ADD_USE, call, grant_id)

    def is_grant_used(self, call: str) -> bool:
        """This call has used a standing permission that nobody has revoked since."""
        return self._db.execute(USED, (call,)).fetchone() is not None
