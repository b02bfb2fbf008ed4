"""Journals that would take days to come about: long runs, and very many."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

COPIES = """
WITH RECURSIVE numbers(one) AS (SELECT 1 UNION ALL SELECT one + 1 FROM numbers WHERE one < ?)
INSERT INTO turns ({names})
SELECT {values} FROM numbers, (SELECT * FROM turns WHERE id = ?)
"""


def lengthen(home: Path, turn: str, iterations: int = 200, calls_each: int = 10) -> None:
    """Put copies of the run's first iteration, with more calls, behind its beginning."""
    with closing(sqlite3.connect(home / "journal.db")) as db, db:
        rows = db.execute(
            "SELECT at, kind, version, payload FROM events WHERE turn = ? ORDER BY seq", (turn,)
        ).fetchall()
        kinds = [row[1] for row in rows]
        start, end = kinds.index("ModelAsked"), kinds.index("ToolFinished") + 1
        head, one, tail = rows[:start], rows[start:end], rows[end:]
        made = [(number, *row) for number, row in enumerate(head, 1)]
        seq, reply = len(made), 0
        for _ in range(iterations):
            for at, kind, version, payload in one:
                data = json.loads(payload)
                if kind == "ModelReplied":
                    reply = seq + 1
                    data["calls"] *= calls_each
                many = calls_each if "call_id" in data else 1
                for index in range(many):
                    data |= {"call_id": f"{reply}.{index}"} if many > 1 else {}
                    made.append((seq := seq + 1, at, kind, version, json.dumps(data)))
        made += [(seq + number, *row) for number, row in enumerate(tail, 1)]
        db.execute("DELETE FROM events WHERE turn = ?", (turn,))
        insert = "INSERT INTO events (turn, seq, at, kind, version, payload) VALUES (?,?,?,?,?,?)"
        db.executemany(insert, [(turn, *row) for row in made])


def copy_turn(home: Path, turn: str, times: int) -> None:
    """So many later runs like this one, without their events."""
    with closing(sqlite3.connect(home / "journal.db")) as db, db:
        names = [row[1] for row in db.execute("PRAGMA table_info(turns)") if row[1] != "n"]
        given = {"id": "id || printf('%06d', one)", "ended_n": "ended_n + one"}
        values = ", ".join(given.get(name, name) for name in names)
        db.execute(COPIES.format(names=", ".join(names), values=values), (times, turn))
