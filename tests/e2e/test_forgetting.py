"""What is forgotten is in no file of the daemon's any more (A18)."""

import asyncio
import re
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.memory import USERS, Home, command, list_holding, say_as_editor, until_gone
from tests.fakes.openai import FakeOpenAI, by, calls, says

SECRET = "Zanzibarossa"
FACT = f"My first cat was called {SECRET}"


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as model:
        model.otherwise(by(lambda body: says("As you say.")))
        yield model


async def tell(home: Home, session: str = "one") -> None:
    home.model.script(calls(("remember", {"fact": FACT})), says(f"I know {SECRET} now."))
    await home.ask(f"Remember that {FACT[0].lower()}{FACT[1:]}", session)


async def test_a_forgotten_fact_leaves_memory_journal_and_the_conversation(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place = tmp_path / "home"
    async with running_daemon(place, scripted(model.base_url, USERS)) as daemon:
        home = Home(daemon, model)
        await home.ask("My second cat was called Mia")
        await tell(home)
        await home.until_indexed(4)
        recalled = await home.ask("What do you know now of that cat?", "two")
        assert f"your answer: I know {SECRET} now." in recalled
        model.script(calls(("recall", {"query": "know now"})), says("Yes."))
        assert f"I know {SECRET} now." in await home.ask("Look for it", "three")
        await home.until_indexed(8)
        assert {"journal.db-wal", "memory.db-wal"} <= list_holding(place, SECRET)
        words = f"/forget first cat {SECRET}"
        assert "leave the journal" in await command(home, words, "one")
        await until_gone(place, SECRET)
        shown = await home.ask("What did I tell you of my cats?")
        assert SECRET not in shown and "Mia" in shown


async def test_a_kill_before_the_journal_forgets_is_made_up_for_at_the_next_start(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place, config = tmp_path / "home", scripted(model.base_url, USERS)
    for kill in range(4):
        async with running_daemon(place, config) as daemon:
            home = Home(daemon, model)
            await tell(home, f"s{kill}")
            await command(home, "/forget first cat")
            await asyncio.sleep(kill * 0.01)  # the journal forgets somewhere in between
            daemon.process.kill()
            await daemon.process.wait()
        async with running_daemon(place, config) as daemon:
            await until_gone(place, SECRET)


async def test_what_is_forgotten_in_its_own_turn_goes_when_the_turn_has_ended(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place = tmp_path / "home"
    async with running_daemon(place, scripted(model.base_url, USERS)) as daemon:
        home = Home(daemon, model)
        model.script(
            calls(("remember", {"fact": FACT})), calls(("forget", {"fact": FACT})), says("Gone.")
        )
        turn = await daemon.begin(f"Remember that {FACT}, no, forget it", "one")
        await daemon.until(turn, "run.suspended")
        [asked] = await daemon.listed("/v1/approvals", session="web:one")
        await daemon.post(f"/v1/runs/{turn}/approve", call_id=asked["call_id"])
        await daemon.until(turn, "run.completed")
        await until_gone(place, SECRET)
        assert SECRET not in await home.ask("What did I say?", "one")


async def test_a_forgotten_person_is_in_no_file_but_those_that_the_answer_lists(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Planted in messages of theirs and of the owner's, an answer, a fact, a schedule, files of each kind, and a backup."""
    place = tmp_path / "home"
    users = f'[[http.users]]\nname = "{SECRET}"\nrole = "editor"\ntoken = "editor-token"\n'
    async with running_daemon(place, scripted(model.base_url, users)) as daemon:
        home = Home(daemon, model)
        await tell(home)
        model.script(says(f"Hello {SECRET}."))
        await say_as_editor(home, "What is new?")
        await home.ask(f"Tell me of {SECRET.upper()}, please", "two")
        await home.ask("My second cat was called Mia", "two")
        await command(home, f"/schedule every day 09:00: call {SECRET}")
        await home.until_indexed(8)
        plants = {
            "files/inbox/2026-01-01/note.txt": f"from {SECRET}", "undo/abc": SECRET,
            "logs/chat.log": f"kept\nnames {SECRET}\n", "workspace/friends.txt": SECRET,
        }  # fmt: skip
        for name, text in plants.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
        (place / "backups").mkdir(exist_ok=True)
        with tarfile.open(place / "backups" / "snapshot-20260101-000000.tar.gz", "w:gz") as archive:
            archive.add(place / "workspace" / "friends.txt", "friends.txt")
        shown = await command(home, f"/forget --person {SECRET.lower()}", "three")
        [code] = re.findall(r"/forget --person \S+ ([0-9a-f]{6}) does it", shown)
        assert "Nothing was forgotten yet" in shown and SECRET in await command(home, "/memory")
        done = await command(home, f"/forget --person {SECRET.lower()} {code}", "three")
        assert "Forgotten" in done and "workspace/friends.txt" in done
        await until_gone(place, SECRET, {"friends.txt", "config.toml", "config.toml.lastgood"})
        assert (place / "logs/chat.log").read_text() == "kept\n"
        assert not (place / "undo" / "abc").exists()
        for session in ("one", "two"):
            assert SECRET.lower() not in (await home.ask("What did I say?", session)).lower()
        assert "Mia" in await home.ask("What did I say?", "two")
        schedules = str(await daemon.listed("/v1/schedules"))
        assert "call forgotten-" in schedules


async def test_an_owner_is_not_forgotten_by_a_name(tmp_path: Path, model: FakeOpenAI) -> None:
    async with running_daemon(tmp_path / "home", scripted(model.base_url, USERS)) as daemon:
        home = Home(daemon, model)
        await home.ask("I live in Lyon")
        assert "this is an owner" in await command(home, "/forget --person owner")
        assert "3 characters" in await command(home, "/forget --person X")


@pytest.mark.parametrize("name", ["current_time", "done", "trusted", "web"])
async def test_a_name_that_is_a_word_of_the_journals_own_leaves_it_whole(
    tmp_path: Path, model: FakeOpenAI, name: str
) -> None:
    place = tmp_path / "home"
    users = f'[[http.users]]\nname = "{name}"\nrole = "editor"\ntoken = "editor-token"\n'
    config = scripted(model.base_url, users)
    async with running_daemon(place, config) as daemon:
        home = Home(daemon, model)
        model.script(calls(("current_time", {})), says("one"))
        await home.ask("I live in Lyon")
        await say_as_editor(home, "I live in Oslo")
        shown = await command(home, f"/forget --person {name}")
        [code] = re.findall(r"/forget --person \S+ ([0-9a-f]{6}) does it", shown)
        await command(home, f"/forget --person {name} {code}")
        assert "Lyon" in await home.ask("Go on", "one")
    async with running_daemon(place, config) as daemon:
        assert "Lyon" in await Home(daemon, model).ask("Go on", "one")


async def test_what_was_said_and_is_no_fact_is_forgotten_by_its_number(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place = tmp_path / "home"
    async with running_daemon(place, scripted(model.base_url, USERS)) as daemon:
        home = Home(daemon, model)
        model.script(says(f"A fine cat, {SECRET}."))
        await home.ask(f"I have seen {SECRET}, my old cat")
        await say_as_editor(home, "The cat of the editor is called Mia")
        await home.until_indexed(4)
        lines = [
            {"id": "1", "session": "x", "at": "2026-01-01T00:00:00Z", "text": f"imported {SECRET}"}
        ]
        await daemon.post("/v1/memories/import", lines=lines)
        await home.until_indexed(5)
        shown = await command(home, f"/forget {SECRET}")
        rows = re.findall(r"(s\d+) 20\d\d-", shown)
        assert "Nothing was forgotten yet" in shown and len(rows) == 3
        assert "Mia" in await command(home, "/forget cat editor")
        done = await command(home, f"/forget {rows[0]} {rows[1]} s999")
        assert "Forgotten: " in done and "There is no s999" in done
        await command(home, f"/forget {rows[2]}")
        await until_gone(place, SECRET)
        assert "Nothing was forgotten: nothing in memory" in await command(home, "/forget zzz")
        assert "Mia" in await command(home, "/forget cat editor")
