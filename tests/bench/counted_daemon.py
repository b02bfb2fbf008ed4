"""`aidaemon` that counts what load cannot blur: each SIGUSR2 writes the counts since the last one to $COUNTS_FILE.

It writes when the event loop has nothing more to do at once. What counts is not counted itself.
"""

import asyncio
import json
import os
import signal
import sqlite3
import sys
import threading
from collections import Counter, defaultdict
from contextlib import closing, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from daemon.__main__ import main
from daemon.store import sqlite

CONNECT = sqlite3.connect
STATS = frozenset(("stat", "lstat", "fstat"))
GROWING = frozenset(
    ("inbox", "outbox", "turns", "events", "approvals", "children", "sessions", "daily_usage", "spans")
)
"""Tables that get longer with each turn: none is read whole for one."""


class Counts:
    """Of all threads, since they were last written."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.calls = self.stats = 0
        self.others = Counter[str]()
        self.statements = defaultdict[str, set[str]](set)
        self.asked = False

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """One call of a Python function, or of a built-in one."""
        if event == "call":
            self.calls += frame.f_code.co_filename != __file__
        elif event == "c_call" and argument.__name__ in STATS:
            self.stats += 1

    def connect(self, *arguments: Any, **more: Any) -> sqlite3.Connection:
        """A database whose commits are counted."""
        db = CONNECT(*arguments, **more)
        path = str(db.execute("PRAGMA database_list").fetchone()[2])
        db.set_trace_callback(lambda statement: self._note_statement(path, statement))
        return db

    def _note_statement(self, path: str, statement: str) -> None:
        self.others["commits"] += statement == "COMMIT"
        self.statements[path].add(statement)

    def _count_scans(self) -> int:
        """Statements that read all of a table that grows, as SQLite plans them."""
        scans = set[str]()
        # other threads go on noting theirs meanwhile
        noted, self.statements = self.statements, defaultdict(set)
        for path, statements in list(noted.items()):
            if not Path(path).exists():
                continue  # of a snapshot, which has been packed meanwhile
            with closing(CONNECT(path)) as db:
                scans |= {one for one in list(statements) if _reads_whole(db, one)}
        return len(scans)

    def ask(self, *_: object) -> None:
        """Write them as soon as the loop is idle."""
        self.asked = True

    def write(self) -> None:
        """And begin anew."""
        self.asked = False
        found = {"calls": self.calls, "stats": self.stats, **self.others}
        found["scans"] = self._count_scans()
        self.target.with_suffix(".part").write_text(json.dumps(found))
        self.target.with_suffix(".part").rename(self.target)
        self.calls = self.stats = 0
        self.others.clear()


def _reads_whole(db: sqlite3.Connection, statement: str) -> bool:
    with suppress(sqlite3.Error):
        plan = [str(row[3]).split() for row in db.execute(f"EXPLAIN QUERY PLAN {statement}")]
        return any(
            words[0] == "SCAN" and words[1] in GROWING and "INDEX" not in words for words in plan
        )
    return False


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts its tasks and its iterations."""

    counts: Counts

    def create_task(self, coro: Any, **more: Any) -> asyncio.Task[Any]:
        self.counts.others["tasks"] += 1
        return super().create_task(coro, **more)

    def _run_once(self) -> None:
        if self.counts.asked and not self._ready:  # pyrefly: ignore
            self.counts.write()
        self.counts.others["iterations"] += 1
        super()._run_once()  # pyrefly: ignore


class CountingPolicy(asyncio.DefaultEventLoopPolicy):
    """Makes such loops."""

    _loop_factory = CountingLoop


if __name__ == "__main__":
    CountingLoop.counts = Counts(Path(os.environ["COUNTS_FILE"]))
    sys.modules["uvloop"] = None  # type: ignore[assignment]  # its iterations are not seen
    asyncio.set_event_loop_policy(CountingPolicy())
    signal.signal(signal.SIGUSR2, CountingLoop.counts.ask)
    sqlite3.connect = CountingLoop.counts.connect  # pyrefly: ignore
    # no commit and no read is slow, so none moves to a thread, which would add to the counts
    sqlite.monotonic = float  # pyrefly: ignore
    threading.setprofile(CountingLoop.counts.profile)
    sys.setprofile(CountingLoop.counts.profile)
    sys.exit(main())
