"""What names a question to somebody who was shown it.

Questions to a person about one call: asked once, answered once.

Standing permissions: exact, bounded, revocable.
"""

import json
import re
from datetime import datetime

from daemon.core.events import Answer, ApprovalAnswered, ApprovalAsked
from daemon.core.rows import ApprovalRow, GrantRow
from daemon.core.trust import Effect, Label
from daemon.store.tables.base import Table, from_db, maybe_from_db, maybe_to_db, to_db

TOKEN_PREFIX = re.compile(r"[0-9a-f]{32,}")


def is_token_prefix(prefix: str) -> bool:
    """So many hexadecimal digits that nobody hits a question by chance."""
    return TOKEN_PREFIX.fullmatch(prefix) is not None


APPROVAL_COLUMNS = """turn, call_id, session, tool, arguments, args_hash, effect, label, token_hash, asked_at, expires,
    state, answer, answered_by, reason, preview, paths"""
ASK = f"""INSERT OR REPLACE INTO approvals ({APPROVAL_COLUMNS})
    SELECT ?, ?, ?, ?, ?, ?, ?, label, ?, ?, ?, 'pending', NULL, '', '', ?, ? FROM turns WHERE id = ?"""
ONE_APPROVAL = f"SELECT {APPROVAL_COLUMNS} FROM approvals WHERE turn = ? AND call_id = ?"
BY_TOKEN = f"SELECT {APPROVAL_COLUMNS} FROM approvals WHERE token_hash >= ?1 AND token_hash < ?1 || 'g' ORDER BY n DESC LIMIT 1"
OF_SESSION = """(?1 IS NULL OR session = ?1
    OR session IN (SELECT id FROM sessions WHERE root = ?1 AND root <> ''))"""
ALL_APPROVALS = f"SELECT {APPROVAL_COLUMNS} FROM approvals WHERE {OF_SESSION} ORDER BY n"
BY_STATE = f"SELECT {APPROVAL_COLUMNS} FROM approvals WHERE state = ?2 AND {OF_SESSION} ORDER BY n"
ANSWER = """UPDATE approvals SET state = 'answered', answer = ?, answered_by = ?, reason = ?
    WHERE turn = ? AND call_id = ? AND state = 'pending' AND expires > ?"""
EXPIRE = (
    "UPDATE approvals SET state = 'expired' WHERE turn = ? AND call_id = ? AND state = 'pending'"
)
CLOSE = "UPDATE approvals SET state = ?, answer = ?, answered_by = ?, reason = ? WHERE turn = ? AND call_id = ?"
SETTLE = "UPDATE approvals SET state = ? WHERE turn = ? AND call_id = ?"
VOID = "UPDATE approvals SET state = 'void' WHERE turn = ? AND state IN ('pending', 'answered')"

ApprovalColumns = tuple[
    str, str, str, str, str, str, str, str, str, int, int, str, str | None, str, str, str, str
]


class ApprovalTable(Table):
    """The approvals table."""

    def list_approvals(
        self, state: str | None = None, session: str | None = None
    ) -> list[ApprovalRow]:
        """Questions, oldest first, filtered by state and session where given; those of agents that work for it included."""
        if state is None:
            return [_approval_row(found) for found in self._db.execute(ALL_APPROVALS, (session,))]
        return [_approval_row(found) for found in self._db.execute(BY_STATE, (session, state))]

    def get_approval(self, turn_id: str, call_id: str) -> ApprovalRow | None:
        """The question about one call."""
        found = self._db.execute(ONE_APPROVAL, (turn_id, call_id)).fetchone()
        return _approval_row(found) if found else None

    def find_approval(self, prefix: str) -> ApprovalRow | None:
        """The question whose token's hash starts like this; None for less than 32 hexadecimal digits."""
        if not is_token_prefix(prefix):
            return None
        found = self._db.execute(BY_TOKEN, (prefix,)).fetchone()
        return _approval_row(found) if found else None

    def answer_approval(
        self, turn_id: str, call_id: str, answer: Answer, by: str, reason: str, now: datetime
    ) -> ApprovalRow | None:
        """Answer once, in one statement: two answers at the same time cannot both win (K15)."""
        changed = self._db.execute(
            ANSWER, (answer.value, by, reason, turn_id, call_id, to_db(now))
        ).rowcount
        if changed:
            return self.get_approval(turn_id, call_id)
        self._db.execute(EXPIRE, (turn_id, call_id))
        return None

    def open_approval(self, session: str, turn_id: str, asked: ApprovalAsked, at: datetime) -> None:
        """The wait is a row; its label is what the turn had read when it asked."""
        call = (
            turn_id,
            asked.call_id,
            session,
            asked.tool,
            asked.arguments,
            asked.args_hash,
            asked.effect.value,
        )
        shown = (asked.preview, json.dumps(asked.paths))
        self._db.execute(
            ASK, (*call, asked.token_hash, to_db(at), to_db(asked.expires), *shown, turn_id)
        )

    def close_approval(self, turn_id: str, answered: ApprovalAnswered, state: str) -> None:
        """The turn has taken the answer in."""
        answer = (answered.answer.value, answered.by, answered.reason)
        self._db.execute(CLOSE, (state, *answer, turn_id, answered.call_id))

    def set_approval_state(self, turn_id: str, call_id: str, state: str) -> None:
        """The question has come to this state."""
        self._db.execute(SETTLE, (state, turn_id, call_id))

    def void_approvals(self, turn_id: str) -> None:
        """The turn is over: nobody waits for an answer any more."""
        self._db.execute(VOID, (turn_id,))


def _approval_row(found: ApprovalColumns) -> ApprovalRow:
    effect, label, token_hash, asked_at, expires, state, answer, by, reason, preview, paths = found[
        6:
    ]
    return ApprovalRow(
        *found[:6],
        Effect(effect),
        Label(label),
        token_hash,
        from_db(asked_at),
        from_db(expires),
        state,
        None if answer is None else Answer(answer),
        by,
        reason,
        preview,
        tuple(json.loads(paths)),
    )


GRANT_COLUMNS = "id, session, tool, args_hash, arguments, granted_by, created_at, uses_left, expires, paths, uses"
ADD = f"INSERT INTO grants ({GRANT_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
REVOKE = "DELETE FROM grants WHERE id = ?"
DELETE_USES = "DELETE FROM grant_uses WHERE grant_id = ?"
HOLDING = f"SELECT {GRANT_COLUMNS} FROM grants WHERE session IN ('', ?) ORDER BY n"
ALL_GRANTS = f"SELECT {GRANT_COLUMNS} FROM grants ORDER BY n"
USE = """UPDATE grants SET uses_left = uses_left - 1, uses = uses + 1
    WHERE id = ? AND (uses_left IS NULL OR uses_left > 0) AND (expires IS NULL OR expires > ?)"""
ADD_USE = "INSERT INTO grant_uses (call, grant_id) VALUES (?, ?)"
USED = "SELECT 1 FROM grant_uses WHERE call = ?"
EVERYWHERE = "*"

GrantColumns = tuple[str, str, str, str, str, str, int, int | None, int | None, str, int]


class GrantTable(Table):
    """The grants table."""

    def list_grants(self, session: str) -> list[GrantRow]:
        """Standing permissions that hold in this session; all of them for session "*"."""
        found = (
            self._db.execute(ALL_GRANTS)
            if session == EVERYWHERE
            else self._db.execute(HOLDING, (session,))
        )
        return [_grant_row(columns) for columns in found]

    def add_grant(self, row: GrantRow) -> None:
        """A standing permission."""
        head = (row.id, row.session, row.tool, row.args_hash, row.arguments, row.granted_by)
        bounds = (row.uses_left, maybe_to_db(row.expires), row.paths, row.uses)
        self._db.execute(ADD, (*head, to_db(row.created_at), *bounds))

    def revoke_grant(self, grant_id: str) -> bool:
        """Take it back; False when there is none of that id."""
        self._db.execute(DELETE_USES, (grant_id,))
        return self._db.execute(REVOKE, (grant_id,)).rowcount == 1

    def use_grant(self, grant_id: str, call: str, now: datetime) -> bool:
        """One use more, in one statement: two calls at the same time cannot both have the last one."""
        if self.is_grant_used(call) or not self._db.execute(USE, (grant_id, to_db(now))).rowcount:
            return False
        self._db.execute(ADD_USE, (call, grant_id))
        return True

    def is_grant_used(self, call: str) -> bool:
        """This call has used a permission that still stands in the table."""
        return self._db.execute(USED, (call,)).fetchone() is not None


def _grant_row(found: GrantColumns) -> GrantRow:
    created_at, uses_left, expires, paths, uses = found[6:]
    return GrantRow(*found[:6], from_db(created_at), uses_left, maybe_from_db(expires), paths, uses)
