"""What the journal survives, through real processes and disks: kill -9, full disks, damage, a second daemon (guarantees.md; B5)."""

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from daemon.core.errors import HomeInUse, StoreUnavailable
from daemon.store.journal import Tx
from daemon.store.lock import lock_home
from daemon.store.migrate import JournalUnusable
from daemon.store.sqlite import SqliteStore
from tests.behaviour.journal_child import WRITERS
from tests.contract.journal import message

KILLS = 8
CHILD = (sys.executable, "-m", "tests.behaviour.journal_child")


@contextmanager
def child(*words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        (*CHILD, *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def told(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def killed_after(lines: int, home: Path, first: int) -> list[str]:
    """What a child was promised before and until the kill -9; a line that the kill cut off was not said."""
    with child("answer", str(home), str(first)) as process:
        heard = [told(process) for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        assert process.stdout
        rest = process.stdout.read()
        heard += rest[: rest.rfind("\n") + 1].splitlines()
        return heard


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    made = await SqliteStore.open(tmp_path / "journal.db")
    yield made
    await made.aclose()


async def test_kill_9_loses_nothing_that_was_acknowledged_and_leaves_no_half(
    tmp_path: Path,
) -> None:
    """K2 #9 #11: eight kills at seeded moments of twenty lanes at once; the survivors' rows agree with each other."""
    chance = random.Random(7)
    promised: list[str] = []
    for kill in range(KILLS):
        promised += await asyncio.to_thread(
            killed_after, chance.randrange(1, 400), tmp_path, kill * 1_000_000
        )
        store = await SqliteStore.open(tmp_path / "journal.db")
        await store.read(partial(all_kept, list(promised)))
        await store.aclose()
    assert len(promised) > KILLS * WRITERS


def all_kept(promised: list[str], tx: Tx) -> None:
    for line in promised:
        what, name = line.split()
        row = tx.get_input(f"m{name}")
        assert row and row.state in ("new", "done"), line
        assert row.state == "done" or what == "accepted", line
    turns = {row.id: row for row in tx.list_all_turns(1_000_000)}
    replies = {row.turn: row.body for row in tx.list_outbox("new")}
    assert replies == {name: f"reply to {name[1:]}" for name in turns}
    assert all(row.state == "ended" and len(tx.list_events(row.id)) == 3 for row in turns.values())
    assert sum(row.calls for row in tx.sum_usage(next(iter(turns.values())).started_at)) == len(
        turns
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A disk of one megabyte; where mounting is not permitted, a folder in which files may not grow."""
    mounted = (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1200k", "tmpfs", str(tmp_path)],
            capture_output=True,
        ).returncode
        == 0
    )
    yield tmp_path, "full" if mounted else "limited"
    if mounted:
        subprocess.run(["umount", str(tmp_path)], check=True)


async def test_a_full_disk_refuses_what_it_cannot_keep_and_recovers_by_itself(
    small_disk: tuple[Path, str],
) -> None:
    """K20."""
    await fill_and_recover(*small_disk)


async def test_a_disk_that_fails_in_the_middle_of_a_file_refuses_and_recovers(
    tmp_path: Path,
) -> None:
    """K20."""
    await fill_and_recover(tmp_path, "limited")


async def fill_and_recover(home: Path, how: str) -> None:
    with child("fill", str(home), how) as process:
        kept, *verdict = [word for word in told(process).split() if word != "kept"]
        assert int(kept) > 5
        assert verdict == ["healthy", "False"]
        assert told(process) == "looked healthy False", "a commit of nothing proves nothing"
        assert told(process) == "huge ['StoreUnavailable']", (
            "it fails in the middle of its statement"
        )
        assert told(process) == "refused 20 healthy False"
        assert told(process) == "recovered healthy True"
        assert process.wait(30) == 0
    store = await SqliteStore.open(home / "journal.db")
    found = await store.read(lambda tx: [row.id for row in tx.list_waiting_inputs("terminal:home")])
    await store.aclose()
    assert found == [f"m{index}" for index in range(int(kept))] + ["mafter"]


async def test_a_file_held_by_another_program_is_waited_for(
    store: SqliteStore, tmp_path: Path
) -> None:
    """K21: a backup tool or a shell may hold the write lock for a moment."""
    with child("lock", str(tmp_path)) as holder:
        assert told(holder) == "locked"
        waiting = asyncio.create_task(store.write(lambda tx: tx.accept_input(message("m1"))))
        await store.read(lambda tx: tx.list_sessions())
        assert not waiting.done()
        assert holder.stdin
        holder.stdin.close()
        assert await waiting == message("m1")
    assert not store.problem


async def test_a_file_that_is_never_let_go_of_is_not_waited_for_for_ever(
    store: SqliteStore, tmp_path: Path
) -> None:
    """K21."""
    with child("lock", str(tmp_path)) as holder:
        assert told(holder) == "locked"
        with pytest.raises(StoreUnavailable, match="locked"):
            await store.write(lambda tx: tx.accept_input(message("m1")))
        assert store.problem
    assert await store.write(lambda tx: tx.accept_input(message("m1"))) == message("m1")
    assert not store.problem


@pytest.mark.parametrize("damage", ["not a database at all", "a page of noise", "cut short"])
async def test_a_damaged_journal_is_refused_by_name_and_left_alone(
    tmp_path: Path, damage: str
) -> None:
    """K23."""
    path = tmp_path / "journal.db"
    store = await SqliteStore.open(path)
    for index in range(300):
        await store.write(lambda tx, index=index: tx.accept_input(message(f"m{index}")))
    await store.aclose()
    good = path.read_bytes()
    bad = {
        "not a database at all": b"dear diary\n" * 1000,
        "a page of noise": good[:4096] + random.Random(1).randbytes(8192) + good[12288:],
        "cut short": good[: len(good) // 2],
    }[damage]
    path.write_bytes(bad)
    with pytest.raises(JournalUnusable, match="aidaemon backup restore") as refusal:
        await SqliteStore.open(path)
    assert str(path) in str(refusal.value)
    assert path.read_bytes() == bad


async def test_a_torn_end_of_the_log_costs_only_what_was_never_acknowledged(tmp_path: Path) -> None:
    """K23."""
    promised = await asyncio.to_thread(killed_after, 50, tmp_path, 0)
    with (tmp_path / "journal.db-wal").open("ab") as log:
        log.write(random.Random(2).randbytes(5_000))
    store = await SqliteStore.open(tmp_path / "journal.db")
    await store.read(partial(all_kept, promised))
    await store.aclose()


async def test_a_place_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(JournalUnusable, match=r"nowhere/journal\.db"):
        await SqliteStore.open(tmp_path / "nowhere" / "journal.db")


def test_a_second_daemon_on_the_same_home_is_refused_and_the_first_one_named(
    tmp_path: Path,
) -> None:
    """K26."""
    with child("hold", str(tmp_path)) as first:
        assert told(first) == "held"
        with (
            pytest.raises(HomeInUse, match=f"process {first.pid}.*kill {first.pid}"),
            lock_home(tmp_path),
        ):
            pass


def test_kill_9_frees_the_home(tmp_path: Path) -> None:
    with child("hold", str(tmp_path)) as first:
        assert told(first) == "held"
        first.kill()
        first.wait()
        assert (tmp_path / "daemon.lock").read_text() == f"{first.pid}\n"
        with lock_home(tmp_path), child("hold", str(tmp_path)) as third:
            assert told(third) == ""
            assert third.wait() == 1
