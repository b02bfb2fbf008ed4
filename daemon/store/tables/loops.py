"""Loops, as they stand (C1)."""

import json
from typing import cast

from daemon.core.rows import Criterion, LoopRow, LoopStage
from daemon.core.trust import Label
from daemon.store.tables.base import Table, from_db, maybe_from_db, maybe_to_db, to_db

COLUMNS = """id, agent, root, sender, label, message, criterion, value, max_iterations, started_at,
    stage, attempt, learned, final_output, error, ended_at, role"""
PUT = f"""INSERT INTO loops ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
    ON CONFLICT (id) DO UPDATE SET label = excluded.label, stage = excluded.stage, attempt = excluded.attempt,
    learned = excluded.learned, final_output = excluded.final_output, error = excluded.error, ended_at = excluded.ended_at"""
ONE = f"SELECT {COLUMNS} FROM loops WHERE id = ?"
AT_WORK = (
    f"SELECT {COLUMNS} FROM loops WHERE ended_at IS NULL AND (?1 IS NULL OR agent = ?1) ORDER BY n"
)
NEWEST = f"SELECT {COLUMNS} FROM loops WHERE ?1 IS NULL OR agent = ?1 ORDER BY n DESC LIMIT ?2"

Columns = tuple[
    str, str, str, str, str, str, str, str, int, int, str, int, str, str, str, int | None, str
]


class LoopTable(Table):
    """The loops table."""

    def get_loop(self, loop_id: str) -> LoopRow | None:
        """One loop."""
        found = self._db.execute(ONE, (loop_id,)).fetchone()
        return _row(found) if found else None

    def list_loops(self, agent: str | None = None, limit: int = 50) -> list[LoopRow]:
        """Loops, newest first; of one agent, or of all."""
        return [_row(found) for found in self._db.execute(NEWEST, (agent, limit))]

    def list_running_loops(self, agent: str | None = None) -> list[LoopRow]:
        """Loops that have not ended, oldest first; of one agent, or of all."""
        return [_row(found) for found in self._db.execute(AT_WORK, (agent,))]

    def put_loop(self, row: LoopRow) -> None:
        """Insert, or bring up what stands there."""
        self._db.execute(PUT, _columns(row))


def _columns(row: LoopRow) -> Columns:
    return (
        row.id,
        row.agent,
        row.root,
        row.sender,
        row.label.value,
        row.message,
        row.criterion,
        row.value,
        row.max_iterations,
        to_db(row.started_at),
        row.stage.value,
        row.attempt,
        json.dumps(row.learned, ensure_ascii=False),
        row.final_output,
        row.error,
        maybe_to_db(row.ended_at),
        row.role,
    )


def _row(found: Columns) -> LoopRow:
    (
        label,
        message,
        criterion,
        value,
        most,
        started_at,
        stage,
        attempt,
        learned,
        final_output,
        error,
        ended_at,
        role,
    ) = found[4:]
    return LoopRow(
        *found[:4],
        Label(label),
        message,
        cast(Criterion, criterion),  # written from one
        value,
        most,
        from_db(started_at),
        LoopStage(stage),
        attempt,
        tuple(json.loads(learned)),
        final_output,
        error,
        maybe_from_db(ended_at),
        role,
    )
