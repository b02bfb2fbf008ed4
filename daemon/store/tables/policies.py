"""Pinned rules, and the tools that MCP servers may offer."""

from daemon.core.rows import RuleRow
from daemon.store.tables.base import RowMapper, Table

RULES = RowMapper(RuleRow, "rules")
ADD_RULE = """INSERT INTO rules (said, matcher, session, sender, confirmed) VALUES (?, ?, ?, ?, 0)
    RETURNING n"""
CONFIRM_RULE = "UPDATE rules SET confirmed = 1 WHERE n = ?"
REMOVE_RULE = "DELETE FROM rules WHERE n = ?"
GET_PINS = "SELECT pins FROM mcp_pins WHERE server = ?"
LIST_PINS = "SELECT server, pins FROM mcp_pins ORDER BY server"
PUT_PINS = "INSERT OR REPLACE INTO mcp_pins (server, pins) VALUES (?, ?)"


class PolicyTable(Table):
    """The rules and mcp_pins tables."""

    def list_rules(self) -> list[RuleRow]:
        """Pinned rules, by number."""
        return self._all(RULES, "ORDER BY n")

    def add_rule(self, said: str, matcher: str, session: str, sender: str) -> int:
        """The number of the rule, which no rule had before."""
        [(number,)] = self._db.execute(ADD_RULE, (said, matcher, session, sender)).fetchall()
        return number

    def confirm_rule(self, number: int) -> bool:
        """Its owner says that it was read rightly; False when there is none."""
        return self._run(CONFIRM_RULE, number)

    def remove_rule(self, number: int) -> bool:
        """False when there is none."""
        return self._run(REMOVE_RULE, number)

    def get_pins(self, server: str) -> str | None:
        """JSON of the tools that this MCP server may offer; None for one that was never met."""
        return self._text(GET_PINS, server)

    def list_pins(self) -> dict[str, str]:
        """All of them, by server."""
        return dict(self._db.execute(LIST_PINS))

    def put_pins(self, server: str, pins: str) -> None:
        """JSON of the tools that this MCP server may offer."""
        self._run(PUT_PINS, server, pins)
