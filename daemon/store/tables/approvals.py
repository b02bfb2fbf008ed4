"""Questions to a person about one call: asked once, answered once."""

import json
from datetime import datetime

from daemon.core.events import Answer, ApprovalAnswered, ApprovalAsked
from daemon.core.label import Effect, Label
from daemon.core.rows import ApprovalRow
from daemon.store.instants import from_db, to_db
from daemon.store.tables.rows import Rows
from daemon.store.tokens import names_a_token

COLUMNS = """turn, call_id, session, tool, arguments, args_hash, effect, label, token_hash, asked_at, expires,
    state, answer, answered_by, reason, preview, paths"""
ASK = f"""INSERT OR REPLACE INTO approvals ({COLUMNS})
    SELECT ?, ?, ?, ?, ?, ?, ?, label, ?, ?, ?, 'pending', NULL, '', '', ?, ? FROM turns WHERE id = ?"""
ONE = f"SELECT {COLUMNS} FROM approvals WHERE turn = ? AND call_id = ?"
BY_TOKEN = f"SELECT {COLUMNS} FROM approvals WHERE token_hash >= ?1 AND token_hash < ?1 || 'g' ORDER BY n DESC LIMIT 1"
OF_SESSION = """(?1 IS NULL OR session = ?1
    OR session IN (SELECT id FROM sessions WHERE root = ?1 AND root <> ''))"""
ALL = f"SELECT {COLUMNS} FROM approvals WHERE {OF_SESSION} ORDER BY n"
BY_STATE = f"SELECT {COLUMNS} FROM approvals WHERE state = ?2 AND {OF_SESSION} ORDER BY n"
ANSWER = """UPDATE approvals SET state = 'answered', answer = ?, answered_by = ?, reason = ?
    WHERE turn = ? AND call_id = ? AND state = 'pending' AND expires > ?"""
EXPIRE = "UPDATE approvals SET state = 'expired' WHERE turn = ? AND call_id = ? AND state = 'pending'"
CLOSE = "UPDATE approvals SET state = ?, answer = ?, answered_by = ?, reason = ? WHERE turn = ? AND call_id = ?"
SETTLE = "UPDATE approvals SET state = ? WHERE turn = ? AND call_id = ?"
VOID = "UPDATE approvals SET state = 'void' WHERE turn = ? AND state IN ('pending', 'answered')"

Columns = tuple[str, str, str, str, str, str, str, str, str, int, int, str, str | None, str, str, str, str]


class Approvals(Rows):
    """The approvals table."""

    def approvals(self, state: str | None = None, session: str | None = None) -> list[ApprovalRow]:
        """Questions, oldest first, filtered by state and session where given; those of agents that work for it included."""
        if state is None:
            return [_row(found) for found in self._db.execute(ALL, (session,))]
        return [_row(found) for found in self._db.execute(BY_STATE, (session, state))]

    def approval(self, turn_id: str, call_id: str) -> ApprovalRow | None:
        """The question about one call."""
        found = self._db.execute(ONE, (turn_id, call_id)).fetchone()
        return _row(found) if found else None

    def approval_by_token(self, prefix: str) -> ApprovalRow | None:
        """The question whose token's hash starts like this; None for less than 32 hexadecimal digits."""
        if not names_a_token(prefix):
            return None
        found = self._db.execute(BY_TOKEN, (prefix,)).fetchone()
        return _row(found) if found else None

    def answer_approval(
        self, turn_id: str, call_id: str, answer: Answer, by: str, reason: str, now: datetime
    ) -> ApprovalRow | None:
        """Answer once, in one statement: two answers at the same time cannot both win (B5 #15)."""
        changed = self._db.execute(ANSWER, (answer.value, by, reason, turn_id, call_id, to_db(now))).rowcount
        if changed:
            return self.approval(turn_id, call_id)
        self._db.execute(EXPIRE, (turn_id, call_id))
        return None

    def open_approval(self, session: str, turn_id: str, asked: ApprovalAsked, at: datetime) -> None:
        """The wait is a row; its label is what the turn had read when it asked."""
        call = (turn_id, asked.call_id, session, asked.tool, asked.arguments, asked.args_hash, asked.effect.value)
        shown = (asked.preview, json.dumps(asked.paths))
        self._db.execute(ASK, (*call, asked.token_hash, to_db(at), to_db(asked.expires), *shown, turn_id))

    def close_approval(self, turn_id: str, answered: ApprovalAnswered, state: str) -> None:
        """The turn has taken the answer in."""
        answer = (answered.answer.value, answered.by, answered.reason)
        self._db.execute(CLOSE, (state, *answer, turn_id, answered.call_id))

    def settle_approval(self, turn_id: str, call_id: str, state: str) -> None:
        """The question has come to this state."""
        self._db.execute(SETTLE, (state, turn_id, call_id))

    def void_approvals(self, turn_id: str) -> None:
        """The turn is over: nobody waits for an answer any more."""
        self._db.execute(VOID, (turn_id,))


def _row(found: Columns) -> ApprovalRow:
    effect, label, token_hash, asked_at, expires, state, answer, by, reason, preview, paths = found[6:]
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
