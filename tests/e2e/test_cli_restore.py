"""`aidaemon backup restore`, daily snapshots and copies before migrations, through real processes (K23)."""

import asyncio
import json
import os
import random
import shutil
import sqlite3
import stat
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon.ops.snapshots import is_due, keep_snapshots, list_snapshots, take_snapshot
from daemon.settings.paths import resolve_paths
from daemon.store.migrate import migrations
from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, calls, hangs, says
from tests.fakes.tools import SteadyClock

FIXTURES = Path(__file__).parents[1] / "fixtures"
NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as model:
        model.otherwise(says("ok"))
        yield model


def restore(home: Path, *words: str) -> tuple[int, str]:
    done = aidaemon("backup", "restore", *words, home=home)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


async def talk(home: Path, model: FakeOpenAI, *texts: str) -> list[str]:
    """The replies."""
    async with running_daemon(home, scripted(model.base_url)) as daemon:
        return [str((await daemon.ask(text))["reply"]) for text in texts]


def list_bodies(home: Path) -> list[str]:
    with closing(sqlite3.connect(home / "journal.db")) as db:
        return [body for (body,) in db.execute("SELECT body FROM inbox ORDER BY n")]


async def test_a_backup_is_restored_and_what_it_replaces_is_kept(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(says("ok"))
    home, archive = tmp_path / "home", tmp_path / "b.tar.gz"
    await talk(home, model, "first")
    assert aidaemon("backup", "create", str(archive), home=home).returncode == 0
    await talk(home, model, "second")

    code, said = await asyncio.to_thread(restore, home, str(archive))
    assert code == 1 and "1 message and 1 answer that" in said and "Nothing was changed" in said
    assert list_bodies(home) == ["first", "second"]

    code, said = await asyncio.to_thread(restore, home, str(archive), "--force")
    assert code == 0 and "are in place" in said
    assert list_bodies(home) == ["first"]
    [kept] = home.glob("replaced-*")
    assert list_bodies(kept) == ["first", "second"]
    assert await talk(home, model, "third") == ["ok"]


async def test_what_was_written_after_the_backup_is_a_strangers_once_it_is_restored(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Its label was in the journal that is replaced; a stamp that a program sets changes nothing."""
    home, archive = tmp_path / "home", tmp_path / "b.tar.gz"
    workspace = home / "workspace"
    workspace.mkdir(parents=True)
    (workspace / "mine.txt").write_text("mine")
    await talk(home, model, "first")
    assert aidaemon("backup", "create", str(archive), home=home).returncode == 0
    (workspace / "later.txt").write_text("IMPORTANT: pay")
    os.utime(workspace / "later.txt", (0, 0))

    code, said = await asyncio.to_thread(restore, home, str(archive))
    assert code == 0 and "1 file changed since then" in said and "/trust" in said
    async with running_daemon(home, scripted(model.base_url)) as daemon:
        for name, tainted in (("mine.txt", ""), ("later.txt", "the result of read_file")):
            model.script(calls(("read_file", {"path": name})), says("ok"))
            run = await daemon.ask(f"read {name}", session=name.partition(".")[0])
            assert str(run["tainted"]).startswith(tainted) and bool(run["tainted"]) == bool(tainted)


async def test_a_home_that_was_killed_while_it_wrote_takes_back_its_snapshot(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A turn that ran when the snapshot was made is told and not begun again; nothing is sent twice."""
    home = tmp_path / "home"
    model.script(says("hello"), calls(("write_file", {"path": "a", "text": "x"})), hangs())
    async with running_daemon(home, scripted(model.base_url)) as daemon:
        await daemon.ask("first")
        await daemon.begin("write it down", "other")
        await model.asked(3)
        paths = resolve_paths(str(home), None)
        await asyncio.to_thread(take_snapshot, paths, datetime.now(UTC))
        daemon.process.kill()
        await daemon.process.wait()
    for end in ("-wal", "-shm"):
        (home / f"journal.db{end}").unlink(missing_ok=True)
    with (home / "journal.db").open("r+b") as file:
        file.write(b"\xa5" * 8192)

    code, said = await asyncio.to_thread(restore, home)
    assert code == 0, said
    asked = model.count
    async with running_daemon(home, scripted(model.base_url)) as daemon:
        runs = await daemon.listed("/v1/runs")
        assert [run["state"] for run in runs] == ["quarantined", "ended"]
        with closing(sqlite3.connect(home / "journal.db")) as db:
            [(notice,)] = db.execute("SELECT body FROM outbox WHERE kind = 'notice'").fetchall()
        assert "I do not begin it again" in notice
        assert model.count == asked
        model.script(says("well"))
        assert (await daemon.ask("and now?"))["reply"] == "well"


async def test_restore_refuses_while_the_daemon_runs_and_what_is_no_backup(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    home = tmp_path / "home"
    async with running_daemon(home, scripted(model.base_url)):
        code, said = await asyncio.to_thread(restore, home)
        assert code == 1 and "is in use by process" in said
    code, said = await asyncio.to_thread(restore, home)
    assert code == 1 and "holds no snapshot" in said
    (tmp_path / "b.tar.gz").write_bytes(b"none")
    before = (home / "config.toml").read_text()
    code, said = await asyncio.to_thread(restore, home, str(tmp_path / "b.tar.gz"))
    assert code == 1 and "is not a whole backup" in said
    assert (home / "config.toml").read_text() == before


async def test_a_restored_daemon_starts_no_loop_or_goal_by_itself(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    home, archive = tmp_path / "home", tmp_path / "b.tar.gz"
    model.otherwise(says("not yet"))
    async with running_daemon(home, scripted(model.base_url)) as daemon:
        said = await daemon.post("/v1/messages", text="/goal learn the piano budget=5")
        assert "goal" in str(said["reply"]).lower()
        await asyncio.to_thread(aidaemon, "backup", "create", str(archive), home=home)
    await asyncio.to_thread(restore, home, str(archive), "--force")
    async with running_daemon(home, scripted(model.base_url)) as daemon:
        [goal] = await daemon.listed("/v1/goals")
        assert goal["state"] == "paused"


async def test_a_snapshot_is_made_once_a_day_private_and_without_secrets(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    home = tmp_path / "home"
    await talk(home, model, "hello")
    (home / "secrets.toml").write_text('key = "hunter2"\n')
    paths, clock, told = resolve_paths(str(home), None), SteadyClock(NOW), list[str]()

    async def tell(text: str) -> None:
        told.append(text)

    keeping = asyncio.create_task(keep_snapshots(paths, clock, lambda: 7, tell, 0.0))
    async with asyncio.timeout(20):
        while not list_snapshots(paths.backups):
            await asyncio.sleep(0.05)
    keeping.cancel()
    [path] = list_snapshots(paths.backups).values()
    assert path.name == "snapshot-20260301-040000.tar.gz" and not told
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(paths.backups.stat().st_mode) == 0o700
    done = aidaemon("backup", "verify", str(path))
    assert done.returncode == 0 and "secrets" not in done.stdout
    assert not is_due(paths.backups, NOW + timedelta(hours=23))
    assert is_due(paths.backups, NOW + timedelta(hours=24))
    assert is_due(paths.backups, NOW - timedelta(hours=1)), "the clock was set back"


async def test_seven_snapshots_are_kept_and_never_more_than_twice_the_journal(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    home = tmp_path / "home"
    await talk(home, model, "hello")
    paths = resolve_paths(str(home), None)
    for day in range(10):
        take_snapshot(paths, NOW + timedelta(days=day))
    names = [made.day for made in list_snapshots(paths.backups)]
    assert names == [10, 9, 8, 7, 6, 5, 4]
    (home / "agents").mkdir()
    (home / "agents" / "big.toml").write_bytes(random_bytes(journal_size(home)))
    for day in range(10, 13):
        take_snapshot(paths, NOW + timedelta(days=day))
    sizes = [path.stat().st_size for path in list_snapshots(paths.backups).values()]
    assert 1 <= len(sizes) < 3 and sum(sizes) <= 2 * journal_size(home)


def journal_size(home: Path) -> int:
    return sum(path.stat().st_size for path in home.glob("journal.db*"))


def random_bytes(size: int) -> bytes:
    """Such as no packer makes smaller, always the same."""
    return random.Random(1).randbytes(size)


async def test_a_snapshot_that_cannot_be_made_is_told_and_the_one_before_stays(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    home = tmp_path / "home"
    await talk(home, model, "hello")
    paths, told = resolve_paths(str(home), None), asyncio.Queue[str]()
    take_snapshot(paths, NOW)
    (home / "memory.db-wal").unlink(missing_ok=True)
    with (home / "memory.db").open("r+b") as file:
        file.write(b"\xa5" * 4096)
    keeping = asyncio.create_task(
        keep_snapshots(paths, SteadyClock(NOW + timedelta(days=2)), lambda: 7, told.put, 0.0)
    )
    async with asyncio.timeout(20):
        assert "The daily backup could not be made" in await told.get()
    keeping.cancel()
    assert list(list_snapshots(paths.backups)) == [NOW]


@pytest.mark.parametrize("fixture", ["home_4cb0a74", "home_a34b7be"])
async def test_before_a_migration_a_copy_is_made_that_the_former_version_opens(
    tmp_path: Path, model: FakeOpenAI, fixture: str
) -> None:
    home = Path(shutil.copytree(FIXTURES / fixture, tmp_path / "home"))
    with closing(sqlite3.connect(home / "journal.db")) as db:
        [(version,)] = db.execute("PRAGMA user_version").fetchall()
        count = db.execute("SELECT count(*) FROM inbox").fetchone()
    assert version < len(migrations())
    assert json.loads(aidaemon("runs", "--json", home=home).stdout)
    copy = home / "backups" / f"journal-schema-{version:02}.db"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (version,)
        assert db.execute("SELECT count(*) FROM inbox").fetchone() == count
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_after_a_lost_journal_no_snapshot_takes_the_room_of_the_good_ones(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    home = tmp_path / "home"
    await talk(home, model, *[f"{number} " * 2_000 for number in range(12)])
    paths = resolve_paths(str(home), None)
    good = [take_snapshot(paths, NOW + timedelta(days=day)).path for day in range(2)]
    for path in home.glob("journal.db*"):
        path.unlink()
    await talk(home, model, "hello")
    take_snapshot(paths, NOW + timedelta(days=2))
    assert all(path.exists() for path in good)


async def test_a_schedule_that_was_due_since_the_backup_does_not_run_by_itself_again(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    home, archive, clock = tmp_path / "home", tmp_path / "b.tar.gz", tmp_path / "clock"
    env = {"AIDAEMON_TEST_CLOCK": str(clock)}
    clock.write_text(NOW.isoformat())
    later = NOW + timedelta(hours=1)
    body = {"rule": later.isoformat(), "prompt": "mail Ann", "name": "once", "oneshot": True}
    async with running_daemon(home, scripted(model.base_url), env) as daemon:
        await daemon.post("/v1/schedules", 201, **body)
        await asyncio.to_thread(aidaemon, "backup", "create", str(archive), home=home)
    code, said = await asyncio.to_thread(restore, home, str(archive), "--force")
    assert code == 0, said
    clock.write_text((NOW + timedelta(hours=2)).isoformat())
    async with running_daemon(home, scripted(model.base_url), env) as daemon:
        [shown] = await daemon.listed("/v1/schedules")
        assert (shown["name"], shown["state"]) == ("once", "paused")
        assert await daemon.listed("/v1/runs") == [] and model.count == 0


async def test_a_backup_is_restored_into_a_new_home_and_nothing_is_replaced(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    home, archive, new = tmp_path / "home", tmp_path / "b.tar.gz", tmp_path / "new"
    await talk(home, model, "first")
    assert aidaemon("backup", "create", str(archive), home=home).returncode == 0
    code, said = await asyncio.to_thread(restore, new, str(archive))
    assert code == 0, said
    assert list_bodies(new) == ["first"]
    assert [path for kept in new.glob("replaced-*") for path in kept.iterdir()] == []


async def test_a_backup_brings_back_nothing_that_was_taken_back_since_unless_it_is_told_to(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """What was made, or revoked, over HTTP came with no message."""
    home, archive = tmp_path / "home", tmp_path / "b.tar.gz"
    async with running_daemon(home, scripted(model.base_url)) as daemon:
        model.script(calls(("remember", {"fact": "the cat is called Tom"})), says("noted"))
        await daemon.ask("remember: the cat is called Tom")
        await daemon.post("/v1/messages", 200, text="/rules add never delete mail", session="web:default")
        [memory] = await daemon.listed("/v1/memories")
        assert (await asyncio.to_thread(aidaemon, "backup", "create", str(archive), home=home)).returncode == 0
        async with daemon.http.delete(f"/v1/memories/{memory['id']}") as answer:
            assert answer.status == 200
        order = {"rule": "tomorrow at 9:00", "prompt": "call Ann"}
        async with daemon.http.post("/v1/schedules", json=order) as answer:
            assert answer.status == 201, await answer.text()
        assert await daemon.terminate() == 0
    code, said = await asyncio.to_thread(restore, home, str(archive))
    assert code == 1 and "it has 1 schedule that the backup lacks" in said, said
    assert "1 memory, removed since, would come back" in said and "Nothing was changed" in said
    assert (await asyncio.to_thread(restore, home, str(archive), "--force"))[0] == 0
