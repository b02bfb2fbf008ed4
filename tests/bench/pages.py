"""What the page waits for: a list of very many runs, and a run of 2,000 calls as a tree: `python -m tests.bench pages`."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from statistics import median
from time import perf_counter

from tests.bench.figures import Figure
from tests.bench.world import World
from tests.fakes.daemon_process import Daemon
from tests.fakes.long_runs import copy_turn, lengthen

RUNS, TIMES = 100_000, 15
RAW_LIST = "SELECT * FROM turns ORDER BY n DESC LIMIT 50"
RAW_EVENTS = "SELECT seq, at, kind, payload FROM events WHERE turn = ? ORDER BY seq"


async def have(world: World) -> list[Figure]:
    """All of it, beside what SQLite alone takes for the same rows."""
    home = world.new_place()
    async with world.daemon(home) as daemon:
        plain = str((await daemon.ask("hello", "one"))["turn"])
        long = str((await daemon.ask("run a command", "two"))["turn"])
        await daemon.terminate()
    lengthen(home, long)
    copy_turn(home, plain, RUNS)
    async with world.daemon(home) as daemon:
        lists = {
            "newest": {},
            "of a session": {"session": "web:one"},
            "the next page": {"after": f"{plain}{RUNS // 2:06d}"},
            "a state that none has": {"state": "stalled"},
        }
        found = []
        for name, query in lists.items():
            ms = await _time(daemon, "/v1/runs", **query)
            found.append(Figure(f"of {RUNS:,} runs 50, {name} (median)", ms, "ms", 50))
        tree = await _time(daemon, f"/v1/runs/{long}/tree")
        found.append(Figure("a run of 200 iterations and 2,000 calls as a tree", tree, "ms", 1000))
    listed, read = _time_raw(home, RAW_LIST), _time_raw(home, RAW_EVENTS, long)
    return [
        *found,
        Figure("newest 50 runs, SQLite and JSON alone", listed, "ms"),
        Figure("newest 50 runs: ours to that", found[0].value / listed, "times"),
        Figure("events of the long run, SQLite and JSON alone", read, "ms"),
        Figure("tree of the long run: ours to that", tree / read, "times"),
    ]


async def _time(daemon: Daemon, path: str, **query: str) -> float:
    spent = []
    for _ in range(TIMES):
        began = perf_counter()
        await daemon.get(path, **query)
        spent.append(perf_counter() - began)
    return median(spent) * 1000


def _time_raw(home: Path, query: str, *given: str) -> float:
    spent = []
    with closing(sqlite3.connect(home / "journal.db")) as db:
        for _ in range(TIMES):
            began = perf_counter()
            json.dumps(db.execute(query, given).fetchall())
            spent.append(perf_counter() - began)
    return median(spent) * 1000
