"""`python -m tests.replay_all DIR`: replays every turn of every journal.db below DIR, and prints the first differences.

A journal is copied first, and so nothing is written to it.
"""

import asyncio
import shutil
import sys
import tempfile
from collections import Counter
from contextlib import aclosing
from pathlib import Path

from daemon.cli.review.replay import load_record, render
from daemon.client.reader import JournalReader
from daemon.core.errors import AidaemonError
from daemon.ops.replay.replay import replay
from daemon.store.sqlite import SqliteStore

MOST_SHOWN = 40
MOST_TURNS = 10_000
UNREADABLE = "cannot be read: "


async def replay_journal(journal: Path) -> dict[str, str]:
    """By turn that has ended: "" where it was identical, else what differs, or why it cannot be read."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name:
        for one in journal.parent.glob(f"{journal.name}*"):
            shutil.copy(one, name)
        async with aclosing(await SqliteStore.open(Path(name) / journal.name)) as store:
            reader = JournalReader(store)
            for line in await reader.list_runs(limit=MOST_TURNS, state="ended"):
                try:
                    result = await replay(await load_record(reader, line.turn))
                    found[line.turn] = "" if result.identical else render(result)
                except AidaemonError as error:
                    found[line.turn] = f"{UNREADABLE}{error}"
    return found


async def replay_all(folder: Path) -> int:
    """How many differ."""
    counts: Counter[str] = Counter()
    for journal in sorted(folder.rglob("journal.db")):
        if journal.is_symlink():
            continue
        try:
            found = await replay_journal(journal)
        except (AidaemonError, OSError) as error:
            counts["unreadable"] += 1
            print(f"{journal}: {error}")
            continue
        for turn, difference in found.items():
            is_readable = not difference.startswith(UNREADABLE)
            counts[("differ" if difference else "identical") if is_readable else "unreadable"] += 1
            if difference and counts["differ"] <= MOST_SHOWN:
                print(f"{journal.relative_to(folder)} {turn}: {difference}")
    print("{identical} identical, {differ} not, {unreadable} unreadable".format(**{"identical": 0, "differ": 0, "unreadable": 0, **counts}))
    return counts["differ"]


if __name__ == "__main__":
    sys.exit(1 if asyncio.run(replay_all(Path(sys.argv[1]))) else 0)
