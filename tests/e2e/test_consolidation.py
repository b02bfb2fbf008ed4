"""Of what the owner typed, what is worth knowing later becomes facts, of which the newest holds (A18)."""

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon.recall.consolidation import is_due
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.memory import USERS, Home, command, say_as_editor
from tests.fakes.openai import FakeOpenAI, by, calls, says
from tests.fakes.openai import Step as ModelStep


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as model:
        model.otherwise(by(lambda body: says("As you say.")))
        yield model


@pytest.fixture
async def home(tmp_path: Path, model: FakeOpenAI) -> AsyncIterator[Home]:
    async with running_daemon(tmp_path / "home", scripted(model.base_url, USERS)) as daemon:
        yield Home(daemon, model)


def has_looked(home: Path) -> bool:
    with closing(sqlite3.connect(f"file:{home / 'memory.db'}?mode=ro", uri=True)) as file:
        return bool(file.execute("SELECT 1 FROM state WHERE name = 'looked'").fetchone())


def choose(*lines: str) -> ModelStep:
    return says("\n".join(lines))


async def test_a18_what_the_owner_typed_becomes_facts_and_a_new_value_ends_the_old_one(
    home: Home,
) -> None:
    """The words are the owner's own: the model only says which, and whose they tell what."""
    await home.ask("I live in Lyon")
    await home.ask("Please tidy my desk")
    await home.ask("By the way, I live in Lyon, and my bakery is Chez Paul", "zero")
    await say_as_editor(home, "I live in Oslo")
    await home.until_indexed(8)
    home.model.script(choose('{"line": 1, "category": "home", "key": "user.city"}', '{"line": 9}'))
    reply = await command(home, "/memory consolidate")
    asked = str(home.model.requests[-1].body["messages"])
    assert "Looked through 3 statements of yours and kept 1 of them." in reply
    assert ("I live in Lyon" in asked, "tidy my desk" in asked, "Oslo" in asked) == (
        True,
        True,
        False,
    )
    await home.ask("I have moved to Paris", "two")
    await home.until_indexed(10)
    home.model.script(choose('[{"line": 1, "key": "user.city"}]'))
    await command(home, "/memory consolidate")
    assert "user.city" in str(home.model.requests[-1].body["messages"])
    shown = await home.ask("In which city do I live? Lyon?", "three")
    assert "I have moved to Paris (" in shown and "no longer, since" in shown
    assert "the user: I live in Lyon" not in shown
    long = await home.ask("Where is my bakery?", "five")
    assert re.search(
        r"the user: By the way, I live in Lyon, and my bakery is Chez Paul \(no longer,"
        r" since 20\d\d-\d\d-\d\d: I live in Lyon\)", long
    ), long
    home.model.script(calls(("recall", {"query": "Lyon"})), says("Paris."))
    looked = await home.ask("Can you look for Lyon?", "four")
    assert re.search(r"the user: I live in Lyon \(no longer, since 20\d\d-\d\d-\d\d\)", looked)
    known = await command(home, "/memory who user.city")
    assert known.index("Paris") < known.index("Lyon") and "no longer, since" in known
    assert "You have said nothing new since the last time." in await command(
        home, "/memory consolidate"
    )


async def test_a18_a_daemon_with_a_cheap_model_looks_by_itself_after_its_hours(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place, clock = tmp_path / "home", tmp_path / "clock"
    place.mkdir()
    clock.write_text("2026-01-01T12:00:00Z")
    env = {"AIDAEMON_TEST_CLOCK": str(clock)}
    config = scripted(model.base_url, USERS).replace('"fake"', '"fake"\nfast = "cheap"')
    async with running_daemon(place, config, env=env) as daemon:
        home = Home(daemon, model)
        async with asyncio.timeout(20):
            while not await asyncio.to_thread(has_looked, place):
                await asyncio.sleep(0.05)
        await home.ask("My sister is called Mathilde")
        await home.until_indexed(2)
    model.script(choose('{"line": 1, "category": "family", "key": "user_sister.name"}'))
    clock.write_text("2026-01-01T18:01:00Z")
    async with running_daemon(place, config, env=env) as daemon:
        async with asyncio.timeout(20):
            while "Mathilde" not in await command(Home(daemon, model), "/memory"):
                await asyncio.sleep(0.05)
    [asked] = [one.body for one in model.requests if "Lines:" in str(one.body["messages"])]
    assert asked["model"] == "cheap"


@pytest.mark.parametrize(
    ("last", "due"),
    [(None, True), (5.9, False), (6, True), (-1, True)],
    ids=["never", "too early", "after six hours", "the clock was set back"],
)
def test_it_is_time_to_look_after_the_hours_of_the_config(last: float | None, due: bool) -> None:
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert is_due(now, None if last is None else now - timedelta(hours=last), 6) is due


async def test_a18_the_model_forgets_what_the_owner_allows_it_to(home: Home) -> None:
    home.model.script(
        calls(("remember", {"fact": "I live in Lyon", "key": "user.city"})), says("Ok")
    )
    await home.ask("Remember that I live in Lyon")
    home.model.script(calls(("forget", {"fact": "I live in Lyon"})), says("Done"))
    turn = await home.daemon.begin("Forget where I live", "two")
    await home.daemon.until(turn, "run.suspended")
    assert "Lyon" in await command(home, "/memory")
    [asked] = await home.daemon.listed("/v1/approvals", session="web:two")
    assert "I live in Lyon" in str(asked)
    await home.daemon.post(f"/v1/runs/{turn}/approve", call_id=asked["call_id"])
    await home.daemon.until(turn, "run.completed")
    assert "Lyon" not in await command(home, "/memory")
