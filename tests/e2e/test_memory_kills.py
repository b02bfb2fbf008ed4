"""Whatever statement of the memory a kill -9 meets: nothing is doubled, lost, or half-forgotten, and the work goes on (A3, A4, A18)."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from memory.memory import Memory
from tests.fakes.command_line import KEPT, aidaemon
from tests.fakes.daemon_process import scripted
from tests.fakes.dying import MODULE, Mortal
from tests.fakes.memory import USERS, Home, command, until_gone
from tests.fakes.openai import FakeOpenAI, Json, by, calls, says
from tests.fakes.openai import Step as ModelStep

SECRET = "Zanzibarossa"
FACT = f"My first cat was called {SECRET}"
SAID, COMMIT = "memory.db: INSERT INTO spans", "memory.db: COMMIT"
KEPT_FACT = "memory.db: INSERT INTO facts"
CHECKPOINT, CLOSED = "memory.db: PRAGMA wal_checkpoint", "memory.db: UPDATE sittings SET closed"
UNSAID, VACUUM = "memory.db: DELETE FROM spans", "journal.db: VACUUM"
CONFIGS = ("config.toml", "config.toml.lastgood")


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


async def test_whatever_statement_of_the_index_a_kill_meets_each_text_is_kept_once(
    home: Mortal, tmp_path: Path
) -> None:
    """Of two batches; the cursor and its rows come together. A day later the words of the sittings come, too."""
    clock = tmp_path / "clock"
    clock.write_text("2026-01-01T12:00:00Z")
    async with home.living(AIDAEMON_TEST_CLOCK=str(clock)) as at:
        told = [f"Note {number}: the mill stands by the river" for number in range(42)]
        await asyncio.gather(
            *(at.daemon.ask(text, f"s{number}") for number, text in enumerate(told))
        )
    for file in home.place.glob("memory.db*"):
        file.unlink()
    clock.write_text("2026-01-02T12:00:00Z")
    seen = list[int]()
    for wanted in (
        [SAID] * 2, [SAID, COMMIT], [SAID, COMMIT, SAID], [SAID, COMMIT], [SAID, COMMIT, CLOSED],
        [CLOSED, COMMIT],
    ):  # fmt: skip
        await home.die(wanted, AIDAEMON_TEST_CLOCK=str(clock))
        [(rows, cursor)] = home.read(
            "SELECT count(*), (SELECT value FROM state WHERE name = 'cursor') FROM said"
        )
        assert bool(rows) == bool(cursor)
        seen.append(int(str(rows)))
    assert seen == [0, 0, 80, 80, 84, 84]
    async with home.living(AIDAEMON_TEST_CLOCK=str(clock)):
        async with asyncio.timeout(20):
            while home.read("SELECT 1 FROM sittings WHERE closed = 0"):
                await asyncio.sleep(0.02)
    assert sorted(home.read("SELECT text FROM said WHERE role = 'owner'")) == sorted(
        (one,) for one in told
    )
    assert home.read("SELECT count(*), sum(size) FROM sittings") == [(42, 84)]
    home.check_words()


async def say_and_import(at: Home) -> None:
    for text in ("I live in Lyon", "My sister is called Mathilde", "I have moved to Paris"):
        await at.ask(text)
    line = {
        "id": "f",
        "session": "x",
        "role": "fact",
        "at": "2026-01-01T00:00:00Z",
        "text": "I live in Rome",
    }
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
    for wanted in ([named], [KEPT_FACT] * 3, [KEPT_FACT, COMMIT], [KEPT_FACT, COMMIT, "memory.db"]):
        await home.die(wanted, lambda at: command(at, "/memory consolidate"))
        kept.append(len(home.read("SELECT 1 FROM facts WHERE category = 'life'")))
    assert kept == [0, 0, 0, 4]
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
        [*done, COMMIT],
    )  # fmt: skip
    for number, wanted in enumerate(moments):
        async with home.living() as at:
            if number in (1, 2, 3):  # the kill before kept it whole
                await command(at, "/forget first cat")
            await until_gone(home.place, SECRET, CONFIGS)
            await remember(at, f"s{number}")
            await at.until_indexed(4)
        await home.die(wanted, lambda at: command(at, "/forget first cat"))
        left = [home.count_holding("facts", SECRET), home.count_holding("said", SECRET)]
        assert left == ([1, 2] if number < 3 else [0, 0])
    async with home.living():
        await until_gone(home.place, SECRET, CONFIGS)
    home.check_words()


async def plant_person(at: Home) -> str:
    """What forgets them."""
    head = {"Authorization": "Bearer token-of-z"}
    async with at.daemon.http.post(
        "/v1/messages?wait=1", json={"text": "Hi"}, headers=head
    ) as done:
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
        [UNSAID, CHECKPOINT, VACUUM], [VACUUM, done], [VACUUM, done, COMMIT],
    )  # fmt: skip
    words = ""
    for number, wanted in enumerate(moments):
        async with home.living() as at:
            if number in (1, 2):  # the kill before kept them whole
                await command(at, words, "three")
            await until_gone(home.place, SECRET, CONFIGS)
            words = await plant_person(at)
        await home.die(wanted, lambda at, words=words: command(at, words, "three"))
        assert bool(home.count_holding("said", SECRET)) == (number < 2)
    async with home.living():
        await until_gone(home.place, SECRET, CONFIGS)
    home.check_words()


async def test_a_kill_leaves_no_word_of_what_was_forgotten_in_the_log_of_changes(
    home: Mortal,
) -> None:
    """Of what has no turn in the journal, too."""
    line = {"id": "1", "session": "x", "at": "2026-01-01T00:00:00Z", "text": f"imported {SECRET}"}
    async with home.living() as at:
        await at.daemon.post("/v1/memories/import", lines=[line])
    [(row,)] = home.read("SELECT id FROM said")
    await home.die([UNSAID, CHECKPOINT], lambda at: command(at, f"/forget s{row}"))
    async with home.living():
        await until_gone(home.place, SECRET, CONFIGS)


async def test_what_a_kill_kept_from_the_index_is_not_kept_once_it_is_forgotten(
    home: Mortal,
) -> None:
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
        {
            "id": str(one),
            "session": f"x{one % 7}",
            "sender": "Mel",
            "at": at,
            "text": f"line {one} of Mel's",
        }
        for one in range(1100)
    ]
    facts = [
        {
            "id": city,
            "session": "x",
            "role": "fact",
            "at": at,
            "text": f"I live in {city}",
            "key": "user.city",
        }
        for city in ("Lyon", "Paris", "Oslo")
    ]
    file.write_text("\n".join(json.dumps(one) for one in [*lines, *facts]))
    home.place.mkdir()
    (home.place / "config.toml").write_text(home.config)
    words = ("-m", MODULE, "memory", "import", "--trusted", str(file))
    seen = list[tuple[object, ...]]()
    for wanted in (
        [*[SAID] * 500, COMMIT], [SAID, COMMIT, CLOSED], [*[SAID] * 20, COMMIT], [KEPT_FACT],
        [KEPT_FACT, COMMIT, KEPT_FACT], ["I live in Oslo", "memory.db: UPDATE facts"],
    ):  # fmt: skip
        env = {name: os.environ[name] for name in KEPT if name in os.environ}
        env |= {
            "AIDAEMON_HOME": str(home.place),
            "MEMORY_KILL": json.dumps(wanted),
            "MEMORY_DIED": str(died),
        }
        process = await asyncio.create_subprocess_exec(sys.executable, *words, env=env)
        assert await asyncio.wait_for(process.wait(), 20) == -signal.SIGKILL
        seen += home.read("SELECT (SELECT count(*) FROM said), (SELECT count(*) FROM facts)")
    assert seen == [(0, 0), (1000, 0), (1000, 0), (1100, 0), (1100, 1), (1100, 2)]
    done = await asyncio.to_thread(aidaemon, *words[2:], home=home.place)
    assert done.stdout == "Imported 3 of 1103 messages; 1,100 were there already.\n".replace(
        "1103", "1,103"
    )
    assert home.read("SELECT count(*), count(DISTINCT key), count(DISTINCT text) FROM said") == [
        (1100,) * 3
    ]
    assert home.read("SELECT sum(size), min(closed) FROM sittings") == [(1100, 1)]
    cities = home.read("SELECT text, valid_to IS NULL FROM facts ORDER BY rowid")
    assert cities == [("I live in Lyon", 0), ("I live in Paris", 0), ("I live in Oslo", 1)]
    home.check_words()
