"""The agents that turns set to work (A17)."""

from functools import cache

from pydantic import TypeAdapter

from daemon.core.rows import ChildRow
from daemon.core.terms import Limits
from daemon.store.tables.rows import Rows

COLUMNS = "turn, parent, key, session, parent_session, agent, task, depth, limits, max_chars, report, done"
INSERT = f"INSERT INTO children ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
ONE = f"SELECT {COLUMNS} FROM children WHERE turn = ?"
OF_PARENT = f"SELECT {COLUMNS} FROM children WHERE parent = ? ORDER BY n"
AT_WORK = f"SELECT {COLUMNS} FROM children WHERE parent_session = ? AND NOT done ORDER BY n"
DONE = "UPDATE children SET done = 1 WHERE turn = ?"

Columns = tuple[str, str, str, str, str, str, str, int, str, int, str, int]


class Children(Rows):
    """The children table."""

    def child(self, turn_id: str) -> ChildRow | None:
        """Whose child this turn is, begun or not; None for one that nobody set to work."""
        found = self._db.execute(ONE, (turn_id,)).fetchone()
        return _row(found) if found else None

    def children(self, turn_id: str) -> list[ChildRow]:
        """The agents that this turn set to work, oldest first."""
        return [_row(found) for found in self._db.execute(OF_PARENT, (turn_id,))]

    def busy_children(self, session: str) -> list[ChildRow]:
        """The agents at work for turns of this session, oldest first."""
        return [_row(found) for found in self._db.execute(AT_WORK, (session,))]

    def insert_child(self, row: ChildRow) -> None:
        """An agent is set to work: once for each call or step."""
        self._db.execute(INSERT, _columns(row))

    def finish_child(self, turn_id: str) -> None:
        """Its turn is over."""
        self._db.execute(DONE, (turn_id,))


@cache
def _limits() -> TypeAdapter[Limits]:
    return TypeAdapter(Limits)


def _columns(row: ChildRow) -> Columns:
    return (
        row.turn,
        row.parent,
        row.key,
        row.session,
        row.parent_session,
        row.agent,
        row.task,
        row.depth,
        _limits().dump_json(row.limits).decode(),
        row.max_chars,
        row.report,
        int(row.done),
    )


def _row(found: Columns) -> ChildRow:
    limits, max_chars, report, done = found[8:]
    return ChildRow(*found[:8], _limits().validate_json(limits), max_chars, report, bool(done))
