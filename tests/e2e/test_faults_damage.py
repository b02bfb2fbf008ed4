"""Files of HOME that are damaged, absent or empty: what is damaged is told, and nothing is silently new (K23)."""

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from tests.e2e.channels.stage import brisk, by_bot, config
from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import Daemon, error_of, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, says
from tests.fakes.platform import OWNER
from tests.fakes.platforms import comings

PAGE = 2048


def spoil(path: Path) -> None:
    """Overwrite every third page."""
    with path.open("r+b") as file:
        for start in range(0, path.stat().st_size, 3 * PAGE):
            file.seek(start)
            file.write(b"\xa5" * PAGE)


async def post(daemon: Daemon, number: int) -> tuple[int, str]:
    message = {"text": f"hello {number}", "session": f"s{number}", "client_id": "c"}
    async with daemon.http.post("/v1/messages", json=message) as response:
        return response.status, (await error_of(response))[2] if response.status >= 400 else ""


async def test_K23_a_journal_that_is_damaged_while_it_runs_takes_in_nothing_and_is_told(
    tmp_path: Path,
) -> None:
    telegram = brisk("telegram")
    async with FakeOpenAI() as model:
        model.otherwise(says("ok"))
        await telegram.start()
        written = config(model, telegram)
        chat = telegram.private(OWNER)
        async with running_daemon(tmp_path / "home", written) as daemon:
            telegram.say(OWNER, chat, "hello")
            await telegram.until(lambda: len(by_bot(telegram, chat)) == 1)
            for number in range(30):  # a journal of many pages
                assert (await daemon.ask(f"{number} " * 500, f"s{number}"))["reply"] == "ok"
        async with running_daemon(tmp_path / "home", written) as daemon:
            await telegram.until(lambda: comings(telegram) > 0)
            spoil(tmp_path / "home" / "journal.db")
            answers = [await post(daemon, number) for number in range(20)]
            assert answers[-1][0] == 503 and "aidaemon backup restore" in answers[-1][1]
            # the turns of the first ones find it, beside the next ones
            assert [status for status, _ in answers].count(202) <= 6
            async with daemon.http.get("/health") as response:
                assert response.status == 503
                assert "the journal is damaged" in await response.text()
            await telegram.until(
                lambda: "the journal is damaged" in by_bot(telegram, chat)[-1].text, 30
            )
            assert await daemon.terminate() == 0
        await telegram.stop()


def put_another(journal: Path) -> None:
    """A good copy, as a person would bring back an old one."""
    copy = journal.with_name("copy.db")
    with closing(sqlite3.connect(journal)) as db, closing(sqlite3.connect(copy)) as other:
        db.backup(other)
    copy.replace(journal)


def remove_log(journal: Path) -> None:
    """Of changes that are not in the file yet."""
    journal.with_name("journal.db-wal").unlink()


@pytest.mark.parametrize("harm", [put_another, Path.unlink, remove_log])
async def test_K23_a_journal_that_is_replaced_or_removed_while_it_runs_loses_nothing_accepted(
    tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    home = tmp_path / "home"
    journal, kept = home / "journal.db", home / "journal-kept-1.db"
    async with FakeOpenAI() as model:
        model.otherwise(says("ok"))
        written = scripted(model.base_url)
        async with running_daemon(home, written) as daemon:
            assert (await daemon.ask("hello 0", "s0"))["reply"] == "ok"
            harm(journal)
            async with daemon.http.get("/health") as response:
                assert response.status == 503 and "replaced or removed" in await response.text()
            status, why = 0, ""
            for number in range(1, 4):
                status, why = await post(daemon, number)
                assert status == 503 and "Nothing more is taken in" in why
            async with asyncio.timeout(20):
                while str(kept) not in why:
                    status, why = await post(daemon, 4)
            assert status == 503 and kept.stat().st_mode & 0o777 == 0o600
            daemon.process.kill()
        kept.replace(journal)
        for end in ("-wal", "-shm"):
            journal.with_name(f"journal.db{end}").unlink(missing_ok=True)
        async with running_daemon(home, written) as daemon:
            runs = await daemon.listed("/v1/sessions/web:s0/turns")
            assert [run["stop_reason"] for run in runs] == ["done"]
            assert (await daemon.ask("hello again", "s0"))["reply"] == "ok"


@asynccontextmanager
async def restarted(
    home: Path, model: FakeOpenAI, harm: Callable[[], object]
) -> AsyncIterator[Daemon]:
    """A daemon on a HOME that was in use, and to which this harm was done."""
    written = scripted(model.base_url)
    async with running_daemon(home, written) as daemon:
        assert (await daemon.ask("hello"))["reply"] == "ok"
    harm()
    async with running_daemon(home, written) as daemon:
        yield daemon


def spoil_memory(home: Path) -> None:
    """Its first page is whole."""
    path = home / "memory.db"
    with closing(sqlite3.connect(path)) as db:
        db.executemany(
            "INSERT INTO facts (id, text, sameness, at, source, label, state)"
            " VALUES (?, ?, ?, '2026-01-01T00:00:00+00:00', 't', 'trusted', 'active')",
            [(f"{n:032x}", f"fact {n} " * 30, f"fact {n}") for n in range(200)],
        )
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    with path.open("r+b") as file:
        for start in range(4096, path.stat().st_size, 3 * 4096):
            file.seek(start)
            file.write(b"\xa5" * 4096)


def replace_memory(home: Path) -> None:
    """By a file that is no database."""
    (home / "memory.db-wal").unlink(missing_ok=True)
    (home / "memory.db").write_text("none" * 4096)


@pytest.mark.parametrize("harm", [spoil_memory, replace_memory])
async def test_a_damaged_memory_is_set_aside_by_name_and_the_daemon_answers(
    tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    home = tmp_path / "home"
    async with FakeOpenAI() as model, restarted(home, model, lambda: harm(home)) as daemon:
        assert any("memory.db.damaged" in line for line in daemon.log)
        assert (home / "memory.db.damaged").stat().st_size > 4096
        assert (await daemon.ask("and now?"))["reply"] == "ok"
        assert "memory.db.damaged" in str(
            (await daemon.post("/v1/messages", text="/status"))["reply"]
        )


def make_newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")


def read(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def lock_out(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (make_newer, r"it was written by a newer aidaemon \(schema 99; this one knows up to \d+\)"),
        (lock_out, "unable to open database file"),
    ],
)
async def test_a_memory_that_cannot_be_used_is_told_and_left_as_it_is(
    tmp_path: Path, harm: Callable[[Path], object], why: str
) -> None:
    home = tmp_path / "home"
    async with FakeOpenAI() as model:
        async with running_daemon(home, scripted(model.base_url)) as daemon:
            await daemon.ask("hello")
        harm(home / "memory.db")
        before = read(home / "memory.db")
        ended = await asyncio.to_thread(aidaemon, "run", home=home)
        assert ended.returncode == 2
        assert re.search(rf"memory\.db: the memory cannot be opened: {why}", ended.stderr)
        assert "Nothing was changed" in ended.stderr and "Traceback" not in ended.stderr
        assert read(home / "memory.db") == before
        (home / "memory.db").rename(home / "elsewhere")
        async with running_daemon(home, scripted(model.base_url)) as daemon:
            assert (await daemon.ask("and now?"))["reply"] == "ok"


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(("harm", "state"), [(empty, "is empty"), (Path.unlink, "is absent")])
async def test_a_memory_that_is_lost_is_told_and_not_silently_new(
    tmp_path: Path, harm: Callable[[Path], object], state: str
) -> None:
    home = tmp_path / "home"
    memory = home / "memory.db"
    async with FakeOpenAI() as model:
        async with restarted(home, model, lambda: harm(memory)) as daemon:
            told = f"{memory} {state}"
            assert any(told in line for line in daemon.log)
            assert told in str((await daemon.post("/v1/messages", text="/status"))["reply"])
            assert (await daemon.ask("and now?"))["reply"] == "ok"
        async with running_daemon(home, scripted(model.base_url)) as daemon:
            assert not any("memory.db" in line for line in daemon.log)


@pytest.mark.parametrize(
    ("harm", "state"), [(Path.unlink, "is absent"), (lambda p: p.write_bytes(b""), "is empty")]
)
async def test_a_journal_that_is_lost_is_told_and_not_silently_new(
    tmp_path: Path, harm: Callable[[Path], object], state: str
) -> None:
    home = tmp_path / "home"

    def lose() -> None:
        for end in ("-wal", "-shm"):
            (home / f"journal.db{end}").unlink(missing_ok=True)
        harm(home / "journal.db")

    async with FakeOpenAI() as model, restarted(home, model, lose) as daemon:
        assert any(f"journal.db {state}" in line for line in daemon.log)
        shown = str((await daemon.post("/v1/messages", text="/status"))["reply"])
        assert f"journal.db {state}" in shown and "aidaemon backup restore" in shown


@pytest.mark.parametrize(
    ("harm", "state"),
    [
        (Path.unlink, "there is no such file"),
        (lambda p: p.write_bytes(b""), "it is empty"),
        (lambda p: p.write_bytes(b"\n \n"), "it is empty"),
    ],
)
async def test_a_config_that_is_lost_is_told_and_the_last_good_one_goes_on(
    tmp_path: Path, harm: Callable[[Path], object], state: str
) -> None:
    home = tmp_path / "home"
    async with FakeOpenAI() as model:
        async with running_daemon(home, scripted(model.base_url)) as daemon:
            assert (await daemon.ask("hello"))["reply"] == "ok"
        harm(home / "config.toml")
        for words in (("config", "check"), ("doctor",)):
            found = await asyncio.to_thread(aidaemon, *words, home=home)
            assert found.returncode and state in found.stdout + found.stderr, words
        async with running_daemon(home, None) as daemon:
            assert any(state in line for line in daemon.log)
            assert (await daemon.ask("and now?"))["reply"] == "ok"
            reply = str((await daemon.post("/v1/messages", text="/reload"))["reply"])
            assert "is empty or absent; nothing was changed" in reply
            assert (await daemon.ask("still there?"))["reply"] == "ok"
