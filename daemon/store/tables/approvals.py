"""Questions to a person about one call, asked once and answered once; standing permissions, exact,
bounded and revocable; what fetches may have told outside; pinned rules, and the tools that MCP
servers may offer.
"""

import re
from datetime import datetime

from daemon.core.rows import ApprovalRow, Disclosure, GrantRow, RuleRow
from daemon.core.trust import Answer
from daemon.store.tables.base import Get, Insert, List, RowMapper, Run, Table, Value

APPROVALS = RowMapper(ApprovalRow, "approvals")
OF_SESSION = """(?1 IS NULL OR session = ?1 OR EXISTS (SELECT 1 FROM sessions
    WHERE sessions.id = session AND root = ?1 AND root <> '')) ORDER BY n"""
PENDING = f"WHERE state = 'pending' AND {OF_SESSION}"
OF_CHAT = f"""WHERE state = 'pending' AND expires > ?2 AND (EXISTS (SELECT 1 FROM outbox WHERE
    outbox.turn = approvals.turn AND outbox.kind = 'approval' AND outbox.session = ?1)
    OR {OF_SESSION.removesuffix(" ORDER BY n")}) ORDER BY n"""
BY_TOKEN = "WHERE token_hash >= ?1 AND token_hash < ?1 || 'g' ORDER BY n DESC LIMIT 1"
TOKEN_PREFIX = re.compile(r"[0-9a-f]{32,}")  # nobody guesses so many digits
DELETE = "DELETE FROM approvals WHERE turn = ? AND call_id = ?"
ANSWER = """UPDATE approvals SET state = 'answered', answer = ?, answered_by = ?, reason = ?
    WHERE turn = ? AND call_id = ? AND (state = 'waiting' OR state = 'pending' AND expires > ?)"""
EXPIRE = (
    "UPDATE approvals SET state = 'expired' WHERE turn = ? AND call_id = ? AND state = 'pending'"
)

GRANTS = RowMapper(GrantRow, "grants")
USE = """UPDATE grants SET uses_left = uses_left - 1, uses = uses + 1
    WHERE id = ? AND (uses_left IS NULL OR uses_left > 0) AND (expires IS NULL OR expires > ?)"""
DISCLOSURES = RowMapper(Disclosure, "disclosures")
RULES = RowMapper(RuleRow, "rules")
ADD_RULE = """INSERT INTO rules (said, matcher, session, sender, confirmed) VALUES (?, ?, ?, ?, 0)
    RETURNING n"""
PUT_PINS = "INSERT OR REPLACE INTO mcp_pins (server, pins) VALUES (?, ?)"

VOID_APPROVALS = """UPDATE approvals SET state = 'void' WHERE turn = ? AND state IN ('pending',
    'waiting', 'answered')"""


class ApprovalTables(Table):
    """The approvals, grants, grant_uses, disclosures, rules and mcp_pins tables."""

    def list_approvals(
        self, state: str | None = None, session: str | None = None
    ) -> list[ApprovalRow]:
        """Questions, oldest first, filtered by state and session where given; those of agents that
        work for it included.
        """
        if state is None:
            return self._all(APPROVALS, f"WHERE {OF_SESSION}", session)
        return self._all(APPROVALS, f"WHERE state = ?2 AND {OF_SESSION}", session, state)

    list_pending = List[[str | None], ApprovalRow](APPROVALS, PENDING)
    """Those that are open, of this session and of agents that work for it, or of all."""

    list_asked_in = List[[str, datetime], ApprovalRow](APPROVALS, OF_CHAT)
    """Questions that stand in this chat, or are of its session and of what works for it, and still
    wait at this instant; oldest first.
    """

    get_approval = Get[[str, str], ApprovalRow](APPROVALS, "WHERE turn = ? AND call_id = ?")
    """The question about one call."""

    def find_approval(self, prefix: str) -> ApprovalRow | None:
        """The question whose token's hash starts like this; None for less than 32 hexadecimal
        digits.
        """
        return self._one(APPROVALS, BY_TOKEN, prefix) if TOKEN_PREFIX.fullmatch(prefix) else None

    def answer_approval(
        self, turn_id: str, call_id: str, answer: Answer, by: str, reason: str, now: datetime
    ) -> ApprovalRow | None:
        """Answer once: None when it is neither waiting nor pending any more, or has expired (the
        row then turns expired). One statement: of two answers at the same time only one is
        accepted (K15).
        """
        if self._run(ANSWER, answer, by, reason, turn_id, call_id, now):
            return self.get_approval(turn_id, call_id)
        self._run(EXPIRE, turn_id, call_id)
        return None

    def put_approval(self, row: ApprovalRow) -> None:
        """The wait is a row; the same call asked again replaces it."""
        self._run(DELETE, row.turn, row.call_id)
        self._insert(APPROVALS, "", row)

    def set_approval_state(self, turn_id: str, call_id: str, state: str) -> None:
        """The question has come to this state."""
        self._run(
            "UPDATE approvals SET state = ? WHERE turn = ? AND call_id = ?", state, turn_id, call_id
        )

    void_approvals = Run[[str]](VOID_APPROVALS)
    """No question of the turn waits any more: it is over, or is to be."""

    list_grants = List[[str], GrantRow](GRANTS, "WHERE ?1 = '*' OR session IN ('', ?1) ORDER BY n")
    """Standing permissions that hold in this session: its own and those for everywhere; all of
    them for session "*".
    """

    add_grant = Insert(GRANTS)

    def revoke_grant(self, grant_id: str) -> bool:
        """Take it back; False when there is none of that id."""
        self._run("DELETE FROM grant_uses WHERE grant_id = ?", grant_id)
        return self._run("DELETE FROM grants WHERE id = ?", grant_id)

    def use_grant(self, grant_id: str, call: str, now: datetime) -> bool:
        """Count one use of it, by this call; False when none is left, it has lapsed, or the call
        has used one already. One statement: two calls at the same time cannot both have the last
        use.
        """
        if self.is_grant_used(call) or not self._run(USE, grant_id, now):
            return False
        return self._run("INSERT INTO grant_uses (call, grant_id) VALUES (?, ?)", call, grant_id)

    def is_grant_used(self, call: str) -> bool:
        """This call has used a standing permission that nobody has revoked since."""
        return bool(self._value("SELECT 1 FROM grant_uses WHERE call = ?", call))

    list_disclosures = List[[str, str, int], Disclosure](
        DISCLOSURES, "WHERE turn = ?2 OR (session = ?1 AND day = ?3)"
    )
    """Those of a turn, and those of a session on a day."""

    def add_disclosure(self, row: Disclosure) -> None:
        """Count it; what is older than a day is forgotten."""
        self._run("DELETE FROM disclosures WHERE day < ? - 1", row.day)
        self._insert(DISCLOSURES, "", row)

    list_rules = List[[], RuleRow](RULES, "ORDER BY n")

    def add_rule(self, said: str, matcher: str, session: str, sender: str) -> int:
        """The number of the rule, which no rule had before."""
        return self._value(ADD_RULE, said, matcher, session, sender)

    confirm_rule = Run[[int]]("UPDATE rules SET confirmed = 1 WHERE n = ?")
    """Its owner says that it was read rightly; False when there is none."""

    remove_rule = Run[[int]]("DELETE FROM rules WHERE n = ?")

    get_pins = Value[[str], str | None]("SELECT pins FROM mcp_pins WHERE server = ?")
    """JSON of the tools that this MCP server may offer; None for one that was never met."""

    def list_pins(self) -> dict[str, str]:
        """All of them, by server."""
        return dict(self._do("SELECT server, pins FROM mcp_pins ORDER BY server").fetchall())

    put_pins = Run[[str, str]](PUT_PINS)

    remove_pins = Run[[str]]("DELETE FROM mcp_pins WHERE server = ?")
