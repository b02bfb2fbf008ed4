"""A daemon under long reads with commits in between: none sticks (the journal's reader)."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, says
from tests.full_form import FULL

READS, EVENTS = (3_000 if FULL else 60), 600
COPY = """INSERT INTO events SELECT turn, (SELECT max(seq) FROM events) + n, at, kind, version, payload
    FROM events, (WITH RECURSIVE numbers (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM numbers
    WHERE n < ?) SELECT n FROM numbers) WHERE kind = 'ModelAsked'"""


@pytest.mark.timeout(600)
async def test_a_daemon_answers_messages_under_thousands_of_long_reads(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with FakeOpenAI() as model:
        model.otherwise(says("ok"))
        config = scripted(model.base_url)
        async with running_daemon(home, config) as daemon:
            long = str((await daemon.ask("hello"))["turn"])
        with closing(sqlite3.connect(home / "journal.db")) as db, db:
            db.execute(COPY, (EVENTS,))
        async with running_daemon(home, config) as daemon:
            for number in range(READS):
                found = await daemon.listed(f"/v1/runs/{long}/transcript")
                assert len(found) > EVENTS
                if number % 40 == 0:
                    async with asyncio.timeout(10):
                        run = await daemon.ask("hello", f"s{number}")
                    assert run["reply"] == "ok"
