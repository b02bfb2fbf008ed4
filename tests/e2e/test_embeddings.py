"""A server of the owner's choice tells what a text means, once they have allowed it (A4)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.embeddings import FakeEmbeddings
from tests.fakes.memory import USERS, Home, command
from tests.fakes.openai import FakeOpenAI, by, says

SAID = "My dentist has moved to the harbour"
ASKED = "Physician?"


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as model:
        model.otherwise(by(lambda body: says("As you say.")))
        yield model


@pytest.fixture
async def server() -> AsyncIterator[FakeEmbeddings]:
    async with FakeEmbeddings() as server:
        yield server


async def until_embedded(home: Home, kind: str = "openai") -> dict[str, object]:
    async with asyncio.timeout(20):
        while True:
            status = await home.daemon.get("/v1/memories/status")
            assert isinstance(status, dict)
            if status["embedder"] == kind and not status["pending"]:
                return status
            await asyncio.sleep(0.05)


async def fill(home: Home) -> None:
    """With what has nothing to do with it."""
    words = ("apples", "bread", "chess", "drums", "elks", "fog")
    lines = [
        {"id": str(at), "session": f"s{at}", "at": "2026-01-01T00:00:00Z", "text": f"{one} are fine"}
        for at, one in enumerate(words)
    ]
    await home.daemon.post("/v1/memories/import", lines=lines, trusted=True)


async def test_nothing_is_sent_before_the_owners_yes_and_then_meaning_finds_it(
    tmp_path: Path, model: FakeOpenAI, server: FakeEmbeddings
) -> None:
    place, config = tmp_path / "home", scripted(model.base_url, USERS) + server.config()
    async with running_daemon(place, config) as daemon:
        home = Home(daemon, model)
        await home.ask(SAID)
        await fill(home)
        await home.until_indexed(8)
        assert "dentist" not in await home.ask(ASKED, "two")
        for text in ("/status", "/memory embed example.org"):
            assert f"/memory embed {server.host} allows it" in await command(home, text)
        asked = await daemon.get("/v1/memories/status")
        assert f"/memory embed {server.host} allows it" in str(asked)
        assert server.texts == []
        assert "from now on" in await command(home, f"/memory embed {server.host}")
        status = await until_embedded(home)
        assert status["model"] == f"{server.host} small 1024" and "asks" not in status
        assert any(SAID in one for one in server.texts)
        assert server.keys == {"Bearer key-of-the-endpoint"}
        assert SAID in await home.ask(ASKED, "three")


async def test_the_yes_holds_after_a_restart_and_for_that_server_and_model_alone(
    tmp_path: Path, model: FakeOpenAI, server: FakeEmbeddings
) -> None:
    place, config = tmp_path / "home", scripted(model.base_url, USERS)
    async with running_daemon(place, config + server.config()) as daemon:
        home = Home(daemon, model)
        await home.ask(SAID)
        await command(home, f"/memory embed {server.host}")
        await until_embedded(home)
    async with running_daemon(place, config + server.config()) as daemon:
        await until_embedded(Home(daemon, model))
        assert "would be sent" not in await command(Home(daemon, model), "/status")
    server.texts.clear()
    async with running_daemon(place, config + server.config("large")) as daemon:
        home = Home(daemon, model)
        assert "would be sent" in await command(home, "/status")
        await home.ask(SAID, "two")
        assert server.texts == []


async def test_a_server_that_fails_or_refuses_a_text_holds_up_neither_answers_nor_others(
    tmp_path: Path, model: FakeOpenAI, server: FakeEmbeddings
) -> None:
    place, config = tmp_path / "home", scripted(model.base_url, USERS) + server.config()
    server.refused = "unmentionable"
    async with running_daemon(place, config) as daemon:
        home = Home(daemon, model)
        await home.ask(SAID)
        await home.ask("This is unmentionable", "two")
        await fill(home)
        await command(home, f"/memory embed {server.host}")
        await until_embedded(home)
        assert SAID in await home.ask(ASKED, "three")
        server.broken = True
        assert SAID in await home.ask("My dentist?", "four")
        assert any("answered by its words alone: 127.0.0.1" in line for line in daemon.log)
    logged = "".join([*daemon.log, *(one.read_text() for one in place.rglob("*.log"))])
    assert "dentist" not in logged and "unmentionable" not in logged


async def test_vectors_that_are_too_short_are_told_and_not_used(
    tmp_path: Path, model: FakeOpenAI, server: FakeEmbeddings
) -> None:
    place, config = tmp_path / "home", scripted(model.base_url, USERS) + server.config()
    server.width = 64
    async with running_daemon(place, config) as daemon:
        home = Home(daemon, model)
        await command(home, f"/memory embed {server.host}")
        await server.until_sent("hello")
        async with asyncio.timeout(20):
            while not any("gives 64 numbers; 384 are needed" in line for line in daemon.log):
                await asyncio.sleep(0.05)
        await home.ask(SAID)
        assert SAID in await home.ask("My dentist?", "two")


def test_the_services_own_address_needs_a_key(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[memory]\nembedder = "openai"\n')
    done = aidaemon("config", "check", home=tmp_path)
    assert done.returncode and 'api_key = "${OPENAI_API_KEY}"' in done.stdout + done.stderr
