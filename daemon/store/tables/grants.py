"""Standing permissions: exact, bounded, revocable."""

from datetime import datetime

from daemon.core.rows import GrantRow
from daemon.store.instants import from_db, maybe_from_db, maybe_to_db, to_db
from daemon.store.tables.rows import Rows

COLUMNS = "id, session, tool, args_hash, arguments, granted_by, created_at, uses_left, expires, paths, uses"
ADD = f"INSERT INTO grants ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
REVOKE = "DELETE FROM grants WHERE id = ?"
FORGET_USES = "DELETE FROM grant_uses WHERE grant_id = ?"
HOLDING = f"SELECT {COLUMNS} FROM grants WHERE session IN ('', ?) ORDER BY n"
ALL = f"SELECT {COLUMNS} FROM grants ORDER BY n"
USE = """UPDATE grants SET uses_left = uses_left - 1, uses = uses + 1
    WHERE id = ? AND (uses_left IS NULL OR uses_left > 0) AND (expires IS NULL OR expires > ?)"""
NOTE_USE = "INSERT INTO grant_uses (call, grant_id) VALUES (?, ?)"
USED = "SELECT 1 FROM grant_uses WHERE call = ?"
EVERYWHERE = "*"

Columns = tuple[str, str, str, str, str, str, int, int | None, int | None, str, int]


class Grants(Rows):
    """The grants table."""

    def grants(self, session: str) -> list[GrantRow]:
        """Standing permissions that hold in this session; all of them for session "*"."""
        found = self._db.execute(ALL) if session == EVERYWHERE else self._db.execute(HOLDING, (session,))
        return [_row(columns) for columns in found]

    def add_grant(self, row: GrantRow) -> None:
        """A standing permission."""
        head = (row.id, row.session, row.tool, row.args_hash, row.arguments, row.granted_by)
        bounds = (row.uses_left, maybe_to_db(row.expires), row.paths, row.uses)
        self._db.execute(ADD, (*head, to_db(row.created_at), *bounds))

    def revoke_grant(self, grant_id: str) -> bool:
        """Take it back; False when there is none of that id."""
        self._db.execute(FORGET_USES, (grant_id,))
        return self._db.execute(REVOKE, (grant_id,)).rowcount == 1

    def use_grant(self, grant_id: str, call: str, now: datetime) -> bool:
        """One use more, in one statement: two calls at the same time cannot both have the last one."""
        if self.grant_used(call) or not self._db.execute(USE, (grant_id, to_db(now))).rowcount:
            return False
        self._db.execute(NOTE_USE, (call, grant_id))
        return True

    def grant_used(self, call: str) -> bool:
        """This call has used a permission that still stands in the table."""
        return self._db.execute(USED, (call,)).fetchone() is not None


def _row(found: Columns) -> GrantRow:
    created_at, uses_left, expires, paths, uses = found[6:]
    return GrantRow(*found[:6], from_db(created_at), uses_left, maybe_from_db(expires), paths, uses)
