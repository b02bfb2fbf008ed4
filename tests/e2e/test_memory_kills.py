"""Whatever statement of the memory a kill -9 meets: nothing is doubled, lost, or half-forgotten, and the work goes on (A3, A4, A18).

As a process (`python -m tests.e2e.test_memory_kills`) it is `aidaemon` that dies where $MEMORY_KILL says.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from aiohttp import ClientError
from numpy.typing import NDArray

from daemon.recall.embedding import EmbeddingWorker
from memory.conversations import Conversations
from memory.database import PARTS, Database
from memory.embedder import WIDTH, TextVectors, pack
from memory.memory import Memory
from memory.search import Utterance
from tests.fakes.command_line import KEPT, aidaemon
from tests.fakes.daemon_process import NotReady, running_daemon, scripted
from tests.fakes.memory import USERS, Home, command, until_gone
from tests.fakes.openai import FakeOpenAI, Json, by, calls, says
from tests.fakes.openai import Step as ModelStep
from tests.unit.test_memory_states import VERSION_2

MODULE = "tests.e2e.test_memory_kills"
SECRET = "Zanzibarossa"
FACT = f"My first cat was called {SECRET}"
SAID, COMMIT, KEPT_FACT = "memory.db: INSERT INTO said", "memory.db: COMMIT", "memory.db: INSERT INTO facts"
CHECKPOINT, CLOSED = "memory.db: PRAGMA wal_checkpoint", "memory.db: UPDATE sittings SET closed"
UNSAID, VACUUM = "memory.db: DELETE FROM said", "journal.db: VACUUM"
CONFIGS = ("config.toml", "config.toml.lastgood")
ROWS = 20


# -- the processes that die ----------------------------------------------------------


def die_at(wanted: Sequence[str], note: Path) -> None:
    """By SIGKILL, before the last of these statements, which come in this order: "FILE: WORDS"."""
    left = [*wanted]

    def watch(file: sqlite3.Connection) -> None:
        name = Path(file.execute("PRAGMA database_list").fetchone()[2]).name

        def count(statement: str) -> None:
            if left and left[0] in f"{name}: {statement.strip()}":
                del left[0]
                if not left:
                    note.write_text(statement)
                    os.kill(os.getpid(), signal.SIGKILL)

        file.set_trace_callback(count)

    def hear(event: str, arguments: tuple[sqlite3.Connection, ...]) -> None:
        if event == "sqlite3.connect/handle":  # it can be used at the next step of this thread

            def step(*_: object) -> None:
                with suppress(sqlite3.ProgrammingError):
                    sys.setprofile(None)
                    watch(arguments[0])
                    return
                sys.setprofile(step)

            sys.setprofile(step)

    sys.addaudithook(hear)


@dataclass(frozen=True, slots=True)
class MadeUpModel:
    """Its vectors are told by its name and the text alone."""

    name: str

    def embed_query(self, text: str) -> NDArray[np.float32]:
        seed = int.from_bytes(blake2b(f"{self.name} {text}".encode(), digest_size=4).digest())
        return np.random.default_rng(seed).normal(size=(4, WIDTH)).astype(np.float32)

    def embed_text(self, speaker: str, text: str) -> TextVectors:
        return pack([self.embed_query(text)])


async def embed(path: Path) -> None:
    """As a daemon with this model does."""
    database = await Database.open(path)
    conversations = await Conversations.open(database)
    work = asyncio.create_task(EmbeddingWorker(conversations, lambda: MadeUpModel("new")).run())
    while not conversations.embedder or await conversations.count_unembedded():
        await asyncio.sleep(0)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    await database.aclose()


async def upgrade(path: Path) -> None:
    await (await Database.open(path)).aclose()


def sweep(work: Callable[[Path], Coroutine[None, None, None]], begin: Path) -> None:
    """Do it with a copy of this file each, killed before the first statement, the second, and so on."""
    for at in range(1, 1000):
        path = begin.with_name(f"killed{at}.db")
        shutil.copy(begin, path)
        if not (child := os.fork()):
            die_at([""] * at, begin.with_name("died"))
            asyncio.run(work(path))
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 0:
            break
        assert code == -signal.SIGKILL


if __name__ == "__main__":
    if sys.argv[1] == "sweep":
        sweep({"embed": embed, "upgrade": upgrade}[sys.argv[2]], Path(sys.argv[3]))
    else:
        from daemon.__main__ import main

        die_at(json.loads(os.environ["MEMORY_KILL"]), Path(os.environ["MEMORY_DIED"]))
        sys.exit(main())


async def run_sweep(work: str, begin: Path) -> list[Path]:
    """The files that the kills left."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", MODULE, "sweep", work, str(begin)), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, errors.decode()
    left = sorted(begin.parent.glob("killed*.db"), key=lambda one: one.stat().st_mtime_ns)
    return left


@dataclass(frozen=True, slots=True)
class Mortal:
    """A home whose daemons die."""

    place: Path
    model: FakeOpenAI
    config: str

    async def die(
        self, wanted: Sequence[str], deed: Callable[[Home], Awaitable[object]] | None = None, **env: str
    ) -> None:
        """While it starts, or by what is asked of it."""
        died = self.place.with_name("died")
        died.unlink(missing_ok=True)
        env |= {"MEMORY_KILL": json.dumps(wanted), "MEMORY_DIED": str(died)}
        with suppress(NotReady):
            async with running_daemon(self.place, self.config, env, module=MODULE) as daemon:
                with suppress(ClientError):
                    if deed:
                        await deed(Home(daemon, self.model))
                assert await asyncio.wait_for(daemon.process.wait(), 20) == -signal.SIGKILL
        assert died.exists()

    @asynccontextmanager
    async def living(self, **env: str) -> AsyncIterator[Home]:
        async with running_daemon(self.place, self.config, env) as daemon:
            yield Home(daemon, self.model)

    def read(self, query: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.place / "memory.db")) as file:
            return file.execute(query).fetchall()

    def count_holding(self, table: str) -> int:
        return sum(SECRET in str(row) for row in self.read(f"SELECT * FROM {table}"))

    def check_words(self) -> None:
        """The indexes of words hold what the rows hold."""
        with closing(sqlite3.connect(self.place / "memory.db")) as file:
            own = file.execute("SELECT count(*) FROM said WHERE own = 1").fetchone()
            assert file.execute("SELECT count(*) FROM own_words_docsize").fetchone() == own
            for table in ("own_words", "other_words", "words", "sitting_words"):
                file.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")


def answer(body: Json) -> ModelStep:
    """Of what it is to choose from, all."""
    asked = str(body["messages"][-1]["content"])
    lines = re.findall(r"^(\d+) \([\d-]+\): (.*)$", asked, re.MULTILINE)
    if "Lines:" not in asked:
        return says("As you say.")
    keys = ["user.city" if " live " in text or " moved " in text else "" for _, text in lines]
    chosen = [
        {"line": int(number), "category": "life", "key": key}
        for (number, _), key in zip(lines, keys, strict=True)
    ]
    return says("\n".join(map(json.dumps, chosen)))


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Mortal]:
    users = USERS + f'[[http.users]]\nname = "{SECRET}"\nrole = "editor"\ntoken = "token-of-z"\n'
    async with FakeOpenAI() as model:
        model.otherwise(by(answer))
        yield Mortal(tmp_path / "home", model, scripted(model.base_url, users))


# -- what is promised ----------------------------------------------------------------


async def test_whatever_statement_of_the_index_a_kill_meets_each_text_is_kept_once(
    home: Mortal, tmp_path: Path
) -> None:
    """Of two batches; the cursor and its rows come together. A day later the words of the sittings come, too."""
    clock = tmp_path / "clock"
    clock.write_text("2026-01-01T12:00:00Z")
    async with home.living(AIDAEMON_TEST_CLOCK=str(clock)) as at:
        told = [f"Note {number}: the mill stands by the river" for number in range(22)]
        await asyncio.gather(*(at.daemon.ask(text, f"s{number}") for number, text in enumerate(told)))
    for file in home.place.glob("memory.db*"):
        file.unlink()
    clock.write_text("2026-01-02T12:00:00Z")
    seen = list[int]()
    for wanted in (
        [SAID], [SAID] * 2, [SAID, COMMIT], [SAID, COMMIT, SAID], [SAID, COMMIT], [SAID, COMMIT, CLOSED],
        [CLOSED, COMMIT],
    ):  # fmt: skip
        await home.die(wanted, AIDAEMON_TEST_CLOCK=str(clock))
        [(rows, cursor)] = home.read("SELECT count(*), (SELECT value FROM state WHERE name = 'cursor') FROM said")
        assert bool(rows) == bool(cursor)
        seen.append(int(str(rows)))
    assert seen == [0, 0, 0, 40, 40, 44, 44]
    async with home.living(AIDAEMON_TEST_CLOCK=str(clock)):
        async with asyncio.timeout(20):
            while home.read("SELECT 1 FROM sittings WHERE closed = 0"):
                await asyncio.sleep(0.02)
    assert sorted(home.read("SELECT text FROM said WHERE role = 'owner'")) == sorted((one,) for one in told)
    assert home.read("SELECT count(*), sum(size) FROM sittings") == [(22, 44)]
    home.check_words()


async def say_and_import(at: Home) -> None:
    for text in ("I live in Lyon", "My sister is called Mathilde", "I have moved to Paris"):
        await at.ask(text)
    line = {"id": "f", "session": "x", "role": "fact", "at": "2026-01-01T00:00:00Z", "text": "I live in Rome"}
    await at.daemon.post("/v1/memories/import", lines=[line], trusted=True)
    await at.until_indexed(6)


async def test_whatever_statement_of_the_extraction_a_kill_meets_each_fact_is_kept_once(
    home: Mortal,
) -> None:
    """What has a key already, and what is new; a new value ends the old one."""
    async with home.living() as at:
        await say_and_import(at)
    named = "memory.db: UPDATE facts SET key"
    kept = list[int]()
    for wanted in ([named], [KEPT_FACT], [KEPT_FACT] * 3, [KEPT_FACT, COMMIT], [KEPT_FACT, COMMIT, "memory.db"]):
        await home.die(wanted, lambda at: command(at, "/memory consolidate"))
        kept.append(len(home.read("SELECT 1 FROM facts WHERE category = 'life'")))
    assert kept == [0, 0, 0, 0, 4]
    async with home.living() as at:
        assert "nothing new since" in await command(at, "/memory consolidate")
    assert sorted(home.read("SELECT text, key, valid_to IS NULL FROM facts")) == [
        ("I have moved to Paris", "user.city", 1),
        ("I live in Lyon", "user.city", 0),
        ("I live in Rome", "user.city", 0),
        ("My sister is called Mathilde", "", 1),
    ]
    home.check_words()


async def test_what_a_kill_cuts_of_the_extraction_by_itself_is_extracted_by_itself_later(
    home: Mortal, tmp_path: Path
) -> None:
    clock = tmp_path / "clock"
    clock.write_text("2026-01-01T12:00:00Z")
    async with home.living(AIDAEMON_TEST_CLOCK=str(clock)) as at:
        await say_and_import(at)
    mortal = replace(home, config=home.config.replace('"fake"', '"fake"\nfast = "cheap"'))
    await mortal.die([KEPT_FACT, COMMIT], AIDAEMON_TEST_CLOCK=str(clock))
    clock.write_text("2026-01-01T18:01:00Z")
    async with mortal.living(AIDAEMON_TEST_CLOCK=str(clock)), asyncio.timeout(20):
        while len(home.read("SELECT 1 FROM facts WHERE category = 'life'")) < 4:
            await asyncio.sleep(0.02)


async def remember(at: Home, session: str) -> None:
    at.model.script(calls(("remember", {"fact": FACT})), says("I know it now."))
    await at.ask(f"Remember that {FACT}", session)
    await at.ask(f"Did I say it? {FACT}, and she slept a lot", f"{session}b")


async def test_whatever_statement_of_forgetting_a_kill_meets_a_fact_is_whole_or_goes_by_itself(
    home: Mortal,
) -> None:
    gone, done = "memory.db: DELETE FROM facts", ["memory.db: UPDATE forgotten SET done"]
    moments = (
        [gone], [UNSAID], [UNSAID, COMMIT], [UNSAID, CHECKPOINT], [UNSAID, CHECKPOINT, VACUUM], [VACUUM, CHECKPOINT],
        [VACUUM, *done], [*done, COMMIT],
    )  # fmt: skip
    for number, wanted in enumerate(moments):
        async with home.living() as at:
            await until_gone(home.place, SECRET, CONFIGS)
            await remember(at, f"s{number}")
            await at.until_indexed(4)
        await home.die(wanted, lambda at: command(at, "/forget first cat"))
        left = [home.count_holding("facts"), home.count_holding("said")]
        assert left == ([1, 2] if number < 3 else [0, 0])
        if number < 3:
            async with home.living() as at:
                await command(at, "/forget first cat")
    async with home.living():
        await until_gone(home.place, SECRET, CONFIGS)
    home.check_words()


async def plant_person(at: Home) -> str:
    """What forgets them."""
    head = {"Authorization": "Bearer token-of-z"}
    async with at.daemon.http.post("/v1/messages?wait=1", json={"text": "Hi"}, headers=head) as done:
        assert done.status == 200
    await at.ask(f"Tell me of {SECRET}, please", "two")
    await at.until_indexed(4)
    shown = await command(at, f"/forget --person {SECRET}", "three")
    return f"/forget --person {SECRET} {re.findall(r' ([0-9a-f]{6}) does it', shown)[0]}"


async def test_whatever_statement_of_forgetting_a_kill_meets_a_person_is_whole_or_goes_by_itself(
    home: Mortal,
) -> None:
    done = "memory.db: DELETE FROM forgotten_words"
    moments = (
        [UNSAID], [UNSAID, COMMIT], [UNSAID, CHECKPOINT], [UNSAID, CHECKPOINT, 'journal.db: UPDATE "events'],
        [UNSAID, CHECKPOINT, VACUUM], [VACUUM, CHECKPOINT], [VACUUM, done], [VACUUM, done, COMMIT],
    )  # fmt: skip
    for number, wanted in enumerate(moments):
        async with home.living() as at:
            await until_gone(home.place, SECRET, CONFIGS)
            words = await plant_person(at)
        await home.die(wanted, lambda at, words=words: command(at, words, "three"))
        assert bool(home.count_holding("said")) == (number < 2)
        if number < 2:
            async with home.living() as at:
                await command(at, words, "three")
    async with home.living():
        await until_gone(home.place, SECRET, CONFIGS)
    home.check_words()


async def test_a_kill_leaves_no_word_of_what_was_forgotten_in_the_log_of_changes(home: Mortal) -> None:
    """Of what has no turn in the journal, too."""
    line = {"id": "1", "session": "x", "at": "2026-01-01T00:00:00Z", "text": f"imported {SECRET}"}
    async with home.living() as at:
        await at.daemon.post("/v1/memories/import", lines=[line])
    [(row,)] = home.read("SELECT id FROM said")
    await home.die([UNSAID, CHECKPOINT], lambda at: command(at, f"/forget s{row}"))
    async with home.living():
        await until_gone(home.place, SECRET, CONFIGS)


async def test_what_a_kill_kept_from_the_index_is_not_kept_once_it_is_forgotten(home: Mortal) -> None:
    async with home.living() as at:
        at.model.script(calls(("remember", {"fact": FACT})), says("Yes."))
        await at.ask(f"Remember that {FACT}")
        await at.until_indexed(2)
    await home.die([SAID], lambda at: at.ask(f"Did I say it? {FACT}", "two"))
    memory = await Memory.open(home.place / "memory.db")
    [fact] = await memory.matching("first cat", 9)
    await memory.forget(fact.id)  # by a daemon that died before its index went on
    await memory.aclose()
    async with home.living() as at:
        await at.ask("My second cat was called Mia")
        await until_gone(home.place, SECRET, CONFIGS)


async def test_whatever_statement_of_an_import_a_kill_meets_the_next_one_keeps_each_line_once(
    home: Mortal, tmp_path: Path
) -> None:
    """Of two batches, at the terminal."""
    file, at, died = tmp_path / "lines.jsonl", "2026-01-01T00:00:00Z", tmp_path / "died"
    lines = [
        {"id": str(one), "session": f"x{one % 7}", "sender": "Mel", "at": at, "text": f"line {one} of Mel's"}
        for one in range(1100)
    ]
    facts = [
        {"id": city, "session": "x", "role": "fact", "at": at, "text": f"I live in {city}", "key": "user.city"}
        for city in ("Lyon", "Paris", "Oslo")
    ]
    file.write_text("\n".join(json.dumps(one) for one in [*lines, *facts]))
    home.place.mkdir()
    (home.place / "config.toml").write_text(home.config)
    words = ("-m", MODULE, "memory", "import", "--trusted", str(file))
    seen = list[tuple[object, ...]]()
    for wanted in (
        [SAID] * 500, [SAID, COMMIT], [SAID, COMMIT, CLOSED], [*[SAID] * 20, COMMIT], [KEPT_FACT],
        [KEPT_FACT, COMMIT, KEPT_FACT], ["I live in Oslo", "memory.db: UPDATE facts"],
    ):  # fmt: skip
        env = {name: os.environ[name] for name in KEPT if name in os.environ}
        env |= {"AIDAEMON_HOME": str(home.place), "MEMORY_KILL": json.dumps(wanted), "MEMORY_DIED": str(died)}
        process = await asyncio.create_subprocess_exec(sys.executable, *words, env=env)
        assert await asyncio.wait_for(process.wait(), 20) == -signal.SIGKILL
        seen += home.read("SELECT (SELECT count(*) FROM said), (SELECT count(*) FROM facts)")
    assert seen == [(0, 0), (0, 0), (1000, 0), (1000, 0), (1100, 0), (1100, 1), (1100, 2)]
    done = await asyncio.to_thread(aidaemon, *words[2:], home=home.place)
    assert done.stdout == "Imported 3 of 1103 messages; 1,100 were there already.\n".replace("1103", "1,103")
    assert home.read("SELECT count(*), count(DISTINCT key), count(DISTINCT text) FROM said") == [(1100,) * 3]
    assert home.read("SELECT sum(size), min(closed) FROM sittings") == [(1100, 1)]
    cities = home.read("SELECT text, valid_to IS NULL FROM facts ORDER BY rowid")
    assert cities == [("I live in Lyon", 0), ("I live in Paris", 0), ("I live in Oslo", 1)]
    home.check_words()


@pytest.mark.parametrize("former", ["", "old"])
async def test_whatever_statement_of_embedding_a_kill_meets_each_row_has_its_vectors_once(
    tmp_path: Path, former: str
) -> None:
    """At first, and anew where another model had made them."""
    at, begin = datetime(2026, 1, 1, tzinfo=UTC), tmp_path / "begin.db"
    database = await Database.open(begin)
    conversations = await Conversations.open(database)
    await conversations.add([
        Utterance(f"t{one}:1", "s", "ann", "owner", "trusted", own=True, at=at, text=f"row {one}")
        for one in range(ROWS)
    ])
    if former:
        await conversations.use_embedder(model := MadeUpModel(former))
        rows = await conversations.list_unembedded(ROWS)
        await conversations.add_vectors([(row, model.embed_text(who, text)) for row, who, text in rows])
    await database.aclose()
    left = await run_sweep("embed", begin)
    assert len(left) > 2 * ROWS
    made = "SELECT text, pooled FROM said LEFT JOIN vectors USING (id)"
    waits = "SELECT text, NULL FROM unembedded JOIN said USING (id)"
    whole = {f"row {one}" for one in range(ROWS)}
    counts = set[int]()
    for path in left:
        with closing(sqlite3.connect(path)) as file:
            name = (file.execute("SELECT value FROM state WHERE name = 'model'").fetchone() or ("",))[0]
            have = {text: pooled for text, pooled in file.execute(made) if pooled}
            missing = [text for text, _ in file.execute(waits)]
        assert sorted([*have, *missing]) == sorted(whole)
        assert all(MadeUpModel(name).embed_text("", text).pooled == one for text, one in have.items())
        counts.add(len(have))
        await embed(path)
        with closing(sqlite3.connect(path)) as file:
            have = dict(file.execute(made).fetchall())
            assert file.execute("SELECT count(*) FROM unembedded").fetchone() == (0,)
        assert have == {text: MadeUpModel("new").embed_text("", text).pooled for text in whole}
    assert counts == {0, 16, 20}


def make_old(path: Path, version: int) -> None:
    """As that version left it, with what it could keep."""
    fact = "('aaaaaaaa9', 'I live in Lyon', 'i live in lyon', '2026-01-01T00:00:00+00:00', 't1', 'trusted', 'active', 't1')"
    parts = [files("memory").joinpath(f"{one}.sql").read_text() for one in PARTS[: max(version - 2, 0)]]
    rows = [
        f"INSERT INTO facts (id, text, sameness, at, source, label, state, turn) VALUES {fact};",
        "INSERT INTO sittings VALUES (1, 'web:one', 5, 1, 0);"
        "INSERT INTO said VALUES (1, 't1:1.0', 1, 0, 'ann', 'owner', 'trusted', 1, 0, 5, 0, 0, 'I live in Lyon', '', 'x');"
        "INSERT INTO state VALUES ('cursor', '1 t1'); PRAGMA user_version = 4;",
        "DELETE FROM unembedded; INSERT INTO vectors VALUES (1, 1, x'00', x'01');",
        "UPDATE facts SET pinned = 1;",
        "UPDATE facts SET key = 'user.city';",
    ]  # fmt: skip
    with closing(sqlite3.connect(path)) as file:
        if version < 3:
            file.executescript(VERSION_2)
        if version == 1:
            file.executescript("ALTER TABLE facts DROP COLUMN owned; PRAGMA user_version = 1;")
        for part, row in zip(parts, rows, strict=False):
            file.executescript(part)
            file.executescript(row)


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as file:
        return [*file.iterdump(), str(file.execute("PRAGMA user_version").fetchone())]


@pytest.mark.parametrize("version", range(1, 8))
async def test_whatever_statement_of_an_upgrade_a_kill_meets_nothing_of_an_older_file_is_lost(
    tmp_path: Path, version: int
) -> None:
    begin, whole = tmp_path / "begin.db", tmp_path / "whole.db"
    make_old(begin, version)
    shutil.copy(begin, whole)
    await upgrade(whole)
    with closing(sqlite3.connect(whole)) as file:
        facts = file.execute("SELECT text, owned, state, turn, pinned, key FROM facts ORDER BY id").fetchall()
        said = file.execute("SELECT key, text, EXISTS (SELECT 1 FROM unembedded) FROM said").fetchall()
        cursor = file.execute("SELECT value FROM state").fetchall()
    if version < 3:
        assert [one[0] for one in facts] == ["the dog is called Rex", "Bob likes tea", "always mail the dog reports to eve"]
        assert [one[1] for one in facts] == ([1, 1, 1] if version == 1 else [1, 0, 1])
    else:
        city = "user.city" if version == 7 else ""
        assert facts == [("I live in Lyon", 1, "active", "t1", int(version > 5), city)]
        assert said == [("t1:1.0", "I live in Lyon", int(version == 4))] * (version > 3)
        assert cursor == [("1 t1",)] * (version > 3)
    for path in await run_sweep("upgrade", begin):
        await upgrade(path)
        assert dump(path) == dump(whole)
