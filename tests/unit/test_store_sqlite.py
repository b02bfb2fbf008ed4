"""What only the journal on disk can show: group commit, cancelled callers, reopening, migrations, figures."""

import asyncio
import itertools
import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any, cast, get_args

import pytest

from daemon.core.errors import StoreUnavailable
from daemon.core.events import Event, Stop
from daemon.store.codec import KINDS, UnreadableEvent, encode
from daemon.store.journal import Tx
from daemon.store.migrate import (
    JournalUnusable,
    connect,
    migrate,
    migrations,
    open_writer,
)
from daemon.store.sqlite import BATCH, SqliteStore
from daemon.store.tables.base import to_db
from tests.contract.journal import (
    CHILD,
    HOME,
    NOW,
    add,
    begun,
    ended,
    message,
    notice,
    recorded,
    said,
    session,
    spawned,
    turn,
)

OF_VERSION_1 = (
    f"INSERT INTO sessions VALUES (1, '{HOME}', 'terminal', 'chat-1', 'trusted', {to_db(NOW)}, 'default', '', '', 0, NULL)",
    f"""INSERT INTO inbox VALUES
        (1, 'm1', 'terminal', '', 'x-m1', '{HOME}', 'ann', 'hello', 'trusted', 't1', {to_db(NOW)}, '', 'taken')""",
    f"""INSERT INTO turns VALUES
        (1, 't1', '{HOME}', '', 'm1', 'running', 'trusted', {to_db(NOW)}, NULL, NULL, '', '', 0, 0, 0, 0, 0.0)""",
)

STORED_KINDS = """
    UserSaid Classified Steered TurnResumed ModelAsked ModelRetried ModelFailed RequestAdapted ModelReplied
    Consulting Consulted CallJudged ApprovalAsked ApprovalAnswered Suspended ToolStarted ToolRetried
    ToolFinished MessageQueued BudgetExtended BudgetRaised IterationRefunded Coached TodosSet HistoryCompressed
    Verified ChildSpawned ChildReturned Alarm TurnEnded
"""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    made = await SqliteStore.open(tmp_path / "journal.db")
    yield made
    await made.aclose()


@pytest.fixture
def raw(tmp_path: Path, store: SqliteStore) -> Iterator[sqlite3.Connection]:
    """Another look at the same file, past the store."""
    with closing(connect(tmp_path / "journal.db")) as db:
        yield db


def post(name: str) -> Callable[[Tx], int]:
    return lambda tx: tx.post_delivery(notice(name))


async def test_works_that_come_together_share_a_flush(store: SqliteStore, tmp_path: Path) -> None:
    """B2: 100 works one by one write many more frames to the log than 100 at once."""
    log = tmp_path / "journal.db-wal"
    start = log.stat().st_size
    for index in range(100):
        await store.write(post(f"a{index}"))
    one_by_one = log.stat().st_size
    await asyncio.gather(*(store.write(post(f"b{index}")) for index in range(100)))
    assert (log.stat().st_size - one_by_one) * 10 < one_by_one - start


async def test_more_works_than_a_batch_holds_are_all_done_in_order(store: SqliteStore) -> None:
    names = [f"t{index}" for index in range(BATCH * 2 + 7)]
    await asyncio.gather(*(store.write(post(name)) for name in names))
    assert await store.read(lambda tx: [row.turn for row in tx.list_outbox("new")]) == names


async def test_nothing_is_told_before_it_is_on_disk(
    store: SqliteStore, raw: sqlite3.Connection
) -> None:
    """What `write` has promised, another process can read."""
    for index in range(20):
        await store.write(post(f"t{index}"))
        assert raw.execute("SELECT COUNT(*) FROM outbox").fetchone() == (index + 1,)


async def test_a_cancelled_caller_takes_nobody_with_it_and_its_work_is_done(
    tmp_path: Path,
) -> None:
    store = await SqliteStore.open(tmp_path / "journal.db", quick_s=0)
    entered, leave = threading.Event(), threading.Event()

    def slow(tx: Tx) -> None:
        entered.set()
        leave.wait(10)
        tx.post_delivery(notice("slow"))

    in_the_thread = asyncio.create_task(store.write(slow))
    await asyncio.to_thread(entered.wait, 10)
    waiting, other = (
        asyncio.create_task(store.write(post("waiting"))),
        asyncio.create_task(store.write(post("other"))),
    )
    await asyncio.sleep(0)
    in_the_thread.cancel()
    waiting.cancel()
    leave.set()
    await other
    assert in_the_thread.cancelled() and waiting.cancelled()
    assert await store.read(lambda tx: [row.turn for row in tx.list_outbox("new")]) == [
        "slow",
        "waiting",
        "other",
    ]
    await store.aclose()


async def test_closing_finishes_what_is_queued(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "journal.db")
    writing = [asyncio.create_task(store.write(post(f"t{index}"))) for index in range(1000)]
    await asyncio.sleep(0)
    await store.aclose()
    await asyncio.gather(*writing)
    again = await SqliteStore.open(tmp_path / "journal.db")
    assert await again.read(lambda tx: len(tx.list_outbox("new"))) == 1000
    await again.aclose()


async def test_a_work_may_raise_anything_even_what_futures_cannot_carry(store: SqliteStore) -> None:
    async with asyncio.timeout(10):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await store.write(lambda tx: next(iter(tx.list_sessions())))
        with pytest.raises(RuntimeError, match="StopIteration"):
            await store.read(lambda tx: next(iter(tx.list_sessions())))
        with pytest.raises(UnicodeEncodeError):
            await store.write(post("\ud800"))
    await store.write(post("t1"))
    assert not store.problem


async def test_a_wrong_statement_fails_alone_and_the_others_of_its_batch_are_written(
    store: SqliteStore,
) -> None:
    def work(tx: Any) -> None:
        post("undone")(tx)
        tx._db.execute("SELECT nothing FROM nowhere")

    async with asyncio.timeout(10):
        first, wrong, last = await asyncio.gather(
            *map(store.write, (post("first"), work, post("last"))), return_exceptions=True
        )
    assert (first, last) == (1, 1)
    assert isinstance(wrong, sqlite3.OperationalError)
    names = await store.read(lambda tx: [row.turn for row in tx.list_outbox("new")])
    assert names == ["first", "last"] and not store.problem


async def test_a_look_sees_one_moment_and_cannot_write(store: SqliteStore) -> None:
    with pytest.raises(StoreUnavailable, match="readonly"):
        await store.read(
            lambda tx: post("t1")(cast(Tx, tx))
        )  # what the types forbid, the connection forbids too
    assert await store.read(lambda tx: tx.list_outbox("new")) == []


async def test_an_end_without_closing_the_loops_tasks_first_hangs_nobody(tmp_path: Path) -> None:
    """A process that is interrupted while it writes still ends, because `aclose` stands in a finally."""
    program = """
import asyncio, sys
from pathlib import Path
from daemon.store.sqlite import SqliteStore
async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))
    try:
        tasks = [asyncio.create_task(store.write(lambda tx: tx.claim_session("s", "me"))) for _ in range(50)]
        await asyncio.sleep(0)
        raise KeyboardInterrupt
    finally:
        await store.aclose()
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
"""
    command = [sys.executable, "-c", program, str(tmp_path / "journal.db")]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=20
    )
    assert (done.stdout, done.returncode) == ("interrupted\n", 0), done.stderr


def test_each_commit_is_flushed_to_the_disk(tmp_path: Path) -> None:
    """guarantees.md: WAL with synchronous=FULL (2), so that a power cut cannot undo a tool's recorded start."""
    with closing(open_writer(tmp_path / "journal.db")) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)


def modes(folder: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in folder.glob("journal.db*")}


async def test_the_files_are_their_owners_alone(store: SqliteStore, tmp_path: Path) -> None:
    """They hold private talk."""
    await store.write(post("t1"))
    assert modes(tmp_path) == {0o600}


async def test_events_carry_their_schema_version_and_a_newer_one_is_refused(
    store: SqliteStore, raw: sqlite3.Connection
) -> None:
    """glossary.md: payloads of a newer program are not guessed at."""
    await begun(store, said())
    assert raw.execute("SELECT kind, version FROM events").fetchall() == [("UserSaid", 1)]
    raw.execute("UPDATE events SET version = 99")
    with pytest.raises(UnreadableEvent, match="schema 99"):
        await store.read(lambda tx: tx.list_events("t1"))


async def test_a_journal_of_a_newer_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await (await SqliteStore.open(path)).aclose()
    with closing(connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(JournalUnusable, match="schema 99"):
        await SqliteStore.open(path)
    with closing(connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (99,)


async def test_a_journal_of_version_1_is_brought_up_with_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    first = migrations()[0]
    with closing(connect(path)) as db:
        migrate(db, path, [first])
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
    store = await SqliteStore.open(path)
    await store.write(lambda tx: tx.accept_input(message("m1")))
    await store.aclose()
    newest, _ = migrations()[-1]
    later = (newest + 1, "ALTER TABLE inbox ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm';\n")
    with closing(connect(path)) as db:
        migrate(db, path, [*migrations(), later])
        assert db.execute("SELECT id, mood FROM inbox").fetchall() == [("m1", "calm")]
        assert db.execute("PRAGMA user_version").fetchone() == (newest + 1,)
        migrate(db, path, [*migrations(), later])


async def test_a_journal_of_before_there_were_agents_reads_as_if_there_were_none(
    tmp_path: Path,
) -> None:
    """A17; D6: its sessions work for nobody, its turns were the default agent's, and it can set agents to work."""
    path = tmp_path / "journal.db"
    with closing(connect(path)) as db:
        migrate(db, path, migrations()[:1])
        for statement in OF_VERSION_1:
            db.execute(statement)
        db.execute("INSERT INTO events VALUES ('t1', 1, ?, ?, ?, ?)", (to_db(NOW), *encode(said())))
    async with aclosing(await SqliteStore.open(path)) as store:
        assert await store.read(lambda tx: tx.list_sessions()) == [session()]
        assert await store.read(lambda tx: (tx.list_all_turns(9), tx.get_input("m1"))) == (
            [turn("t1")],
            message("m1", state="taken"),
        )
        assert await store.read(
            lambda tx: (tx.list_events("t1"), tx.list_children("t1"), tx.sum_day_raises(NOW))
        ) == (
            recorded(said()),
            [],
            (0, 0.0),
        )
        epoch = await store.write(lambda tx: tx.claim_session(HOME, "me"))
        await add(store, epoch, spawned(), ended(), first=2)
        assert await store.read(
            lambda tx: (tx.list_recent_stops("default", 9), tx.list_unfinished_sessions())
        ) == ([Stop.DONE], [CHILD])


def test_a_migration_that_fails_midway_leaves_the_former_version_whole(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    broken = (2, "CREATE TABLE half (a);\nINSERT INTO nowhere VALUES (1);\n")
    with closing(connect(path)) as db:
        migrate(db, path, migrations()[:1])
        with pytest.raises(sqlite3.OperationalError, match="nowhere"):
            migrate(db, path, [*migrations()[:1], broken])
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert db.execute("SELECT name FROM sqlite_master WHERE name = 'half'").fetchall() == []


def test_migrations_are_numbered_without_gaps() -> None:
    assert [number for number, _ in migrations()] == list(range(1, len(migrations()) + 1))


@pytest.mark.parametrize("writers", [1, 200])
async def test_figures(store: SqliteStore, writers: int) -> None:
    """Commits per second and CPU per commit, printed with -s; no verdict."""
    numbers = itertools.count()

    def work(tx: Tx) -> None:
        tx.accept_input(message(f"m{next(numbers)}"))
        tx.claim_session(HOME, "me")
        tx.add_attempt("t1", 0)

    async def lane() -> None:
        for _ in range(2_000 // writers):
            await store.write(work)

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(writers)))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    sys.stdout.write(
        f"\n{writers} writers: {2_000 / wall:.0f} commits/s, {cpu / 2:.3f} ms CPU each\n"
    )


def test_every_kind_of_event_has_the_name_it_is_stored_under() -> None:
    """The names of commit 4cb0a74 stand for good: what journals hold is read by them."""
    assert set(KINDS.values()) == set(get_args(Event))
    assert set(KINDS) == set(STORED_KINDS.split())


async def test_a_field_that_holds_its_default_is_not_stored(
    store: SqliteStore, raw: sqlite3.Connection
) -> None:
    await begun(store, said())
    [(payload,)] = raw.execute("SELECT payload FROM events").fetchall()
    assert set(json.loads(payload)) == {
        "text", "sender", "input_id", "label", "importance", "limits",
    }  # fmt: skip
    assert await store.read(lambda tx: tx.list_events("t1")) == recorded(said())


async def test_a_cancelled_long_read_disturbs_no_other(store: SqliteStore) -> None:
    """Its thread still uses the connection that reads."""
    count = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 3000000)"
    long = asyncio.create_task(
        store.read(
            lambda tx: cast(Any, tx)._db.execute(f"{count} SELECT COUNT(*) FROM c").fetchone()
        )
    )
    await asyncio.sleep(0.05)
    assert not long.done()
    long.cancel()
    await asyncio.sleep(0)
    assert await store.read(lambda tx: tx.get_cursor("slack")) == ""
    with pytest.raises(asyncio.CancelledError):
        await long


async def test_a_read_takes_a_thread_after_slow_reads_alone_and_not_after_slow_commits(
    store: SqliteStore,
) -> None:
    """What waits for the disk at a commit need not wait at a read; a hop to a thread costs as much as the read."""
    here = threading.get_ident()
    await store.write(lambda _: time.sleep(0.02))
    assert await store.read(lambda _: threading.get_ident()) == here
    await store.read(lambda _: time.sleep(0.02))
    assert await store.read(lambda _: threading.get_ident()) != here
    later = [await store.read(lambda _: threading.get_ident()) for _ in range(60)]
    assert here not in later  # the next one may meet the same disk


async def test_what_waits_behind_a_slow_commit_is_written_before_the_journal_closes(
    tmp_path: Path,
) -> None:
    store = await SqliteStore.open(tmp_path / "journal.db", quick_s=0)
    await store.write(lambda tx: tx.put_cursor("slack", "0"))
    slow = asyncio.create_task(store.write(lambda _: time.sleep(0.2)))
    await asyncio.sleep(0.05)
    behind = asyncio.create_task(store.write(lambda tx: tx.put_cursor("slack", "1")))
    await asyncio.sleep(0)
    await store.aclose()
    await asyncio.wait_for(asyncio.gather(slow, behind), 5)


async def test_an_error_of_the_driver_itself_holds_up_nobody(store: SqliteStore) -> None:
    """Text that is no UTF-8, of a damaged file: such an error has no number."""

    def read_damaged(tx: Any) -> None:
        tx._db.execute("SELECT CAST(x'ff' AS TEXT)").fetchone()

    for access in (store.write, store.read):
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(access(read_damaged), 5)
    await asyncio.wait_for(store.write(lambda tx: tx.put_cursor("slack", "1")), 5)


def count_to(number: int) -> Callable[[Any], int]:
    """A read of so many rows."""
    numbers = "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
    return lambda tx: tx._do(f"{numbers} SELECT count(*) FROM n", number).fetchone()[0]


async def test_reads_work_after_thousands_of_long_and_short_ones_with_commits_between(
    store: SqliteStore,
) -> None:
    """SQLite counts the steps of a statement over all its runs: one ROLLBACK of a long read in 834
    was interrupted, and all reads after it failed."""
    for commit in range(3):
        for _ in range(1_600):
            assert await store.read(count_to(1)) == 1
        for _ in range(50):  # too long for the event loop's thread
            assert await store.read(count_to(100_000)) == 100_000
        await store.write(lambda tx, to=str(commit): tx.put_cursor("slack", to))
        assert await store.read(lambda tx: tx.get_cursor("slack")) == str(commit)


HOLD_INDEX = """
import fcntl, os, sys
index = os.open(sys.argv[1], os.O_RDWR)
head = bytearray(os.pread(index, 48, 0))  # its copies differ, as of a writer that was killed
head[8] ^= 0xFF
os.pwrite(index, bytes(head), 0)
fcntl.lockf(index, fcntl.LOCK_EX, 1, 120)
fcntl.lockf(index, fcntl.LOCK_EX, 1, 122)
print("held", flush=True)
sys.stdin.read()
head[8] ^= 0xFF
os.pwrite(index, bytes(head), 0)
"""


@pytest.mark.parametrize("quick_s", [0.0, 5.0])
async def test_a_write_waits_while_another_program_repairs_the_log(
    tmp_path: Path, quick_s: float
) -> None:
    path = tmp_path / "journal.db"
    store = await SqliteStore.open(path, quick_s)
    await store.write(lambda tx: tx.put_cursor("a", "1"))
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD_INDEX, f"{path}-shm",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdin and holder.stdout and await holder.stdout.readline()
    writing = asyncio.create_task(store.write(lambda tx: tx.put_cursor("a", "2")))
    done, _ = await asyncio.wait({writing}, timeout=0.2)
    assert not done
    holder.stdin.close()
    await asyncio.wait_for(writing, 20)
    assert await store.read(lambda tx: tx.get_cursor("a")) == "2"
    await holder.wait()
    await store.aclose()
