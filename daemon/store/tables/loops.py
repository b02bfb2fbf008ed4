"""Loops, as they stand (C1)."""

from daemon.core.rows import LoopRow
from daemon.store.tables.base import RowMapper, Table

LOOPS = RowMapper(LoopRow, "loops")
UPDATE = """ON CONFLICT (id) DO UPDATE SET label = excluded.label, stage = excluded.stage, attempt
    = excluded.attempt, learned = excluded.learned, final_output = excluded.final_output, error =
    excluded.error, ended_at = excluded.ended_at"""


class LoopTable(Table):
    """The loops table."""

    def get_loop(self, loop_id: str) -> LoopRow | None:
        return self._one(LOOPS, "WHERE id = ?", loop_id)

    def list_loops(self, agent: str | None = None, limit: int = 50) -> list[LoopRow]:
        return self._all(
            LOOPS, "WHERE ?1 IS NULL OR agent = ?1 ORDER BY n DESC LIMIT ?2", agent, limit
        )

    def list_running_loops(self, agent: str | None = None) -> list[LoopRow]:
        return self._all(
            LOOPS, "WHERE ended_at IS NULL AND (?1 IS NULL OR agent = ?1) ORDER BY n", agent
        )

    def put_loop(self, row: LoopRow) -> None:
        self._insert(LOOPS, row, UPDATE)
