"""Standing permissions: exact, bounded, revocable."""

from daemon.core.rows import GrantRow
from daemon.store.instants import from_db, to_db
from daemon.store.tables.rows import Rows

COLUMNS = "id, session, tool, args_hash, arguments, granted_by, created_at"
ADD = f"INSERT INTO grants ({COLUMNS}) VALUES (?,?,?,?,?,?,?)"
REVOKE = "DELETE FROM grants WHERE id = ?"
HOLDING = f"SELECT {COLUMNS} FROM grants WHERE session IN ('', ?) ORDER BY n"
ALL = f"SELECT {COLUMNS} FROM grants ORDER BY n"
EVERYWHERE = "*"

Columns = tuple[str, str, str, str, str, str, int]


class Grants(Rows):
    """The grants table."""

    def grants(self, session: str) -> list[GrantRow]:
        """Standing permissions that hold in this session; all of them for session "*"."""
        found = self._db.execute(ALL) if session == EVERYWHERE else self._db.execute(HOLDING, (session,))
        return [_row(columns) for columns in found]

    def add_grant(self, row: GrantRow) -> None:
        """A standing permission."""
        head = (row.id, row.session, row.tool, row.args_hash, row.arguments, row.granted_by)
        self._db.execute(ADD, (*head, to_db(row.created_at)))

    def revoke_grant(self, grant_id: str) -> bool:
        """Take it back; False when there is none of that id."""
        return self._db.execute(REVOKE, (grant_id,)).rowcount == 1


def _row(found: Columns) -> GrantRow:
    return GrantRow(*found[:6], from_db(found[6]))
