"""A server of the owner's choice tells what a text means, once they have allowed it (A4)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daemon.core.errors import BudgetExceeded
from daemon.core.messages import Usage
from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.embeddings import FakeEmbeddings
from tests.fakes.house import living
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


async def embed_all(home: Home, server: FakeEmbeddings) -> None:
    """The owner allows it."""
    await command(home, f"/memory embed {server.host}")
    await until_embedded(home)


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
        await embed_all(home, server)
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
        await home.until_indexed(4)
        await fill(home)
        await embed_all(home, server)
        assert SAID in await home.ask(ASKED, "three")
        server.broken = True
        assert SAID in await home.ask("My dentist?", "four")
        assert any("answered by its words alone: 127.0.0.1" in line for line in daemon.log)
    logged = "".join([*daemon.log, *(one.read_text() for one in place.rglob("*.log"))])
    assert "dentist" not in logged and "unmentionable" not in logged


def price(usd: float) -> str:
    """Of a million tokens; the answers of the model that is asked are free."""
    return f"[provider.prices]\nsmall = {{ input = {usd}, output = 0.0 }}\nfake = {{ input = 0.0, output = 0.0 }}\n"


@pytest.mark.parametrize("counts", [True, False])
async def test_f2_what_embedding_costs_counts_for_the_day(
    tmp_path: Path, model: FakeOpenAI, server: FakeEmbeddings, counts: bool
) -> None:
    """By the tokens that the server tells, but no more than the texts can have."""
    place, config = tmp_path / "home", scripted(model.base_url, USERS) + server.config()
    server.counts = counts
    async with running_daemon(place, config + price(10.0)) as daemon:
        home = Home(daemon, model)
        await home.ask(SAID)
        await home.until_indexed(2)
        await embed_all(home, server)
        await server.until_sent("hello")
        await home.ask(ASKED, "three")
        await home.until_indexed(4)
        await until_embedded(home)
        costs = await daemon.get("/v1/costs")
    assert isinstance(costs, dict)
    [row] = [one for one in costs["sessions"] if one["name"] == "memory:embedding"]
    sizes = [min(7, len(one)) if counts else len(one) for one in server.texts]
    assert row["tokens"] == sum(sizes) and ASKED in server.texts
    assert row["usd"] == pytest.approx(sum(sizes) * 10 / 1_000_000)


async def test_f2_nothing_is_embedded_with_money_that_is_not_there(
    tmp_path: Path, model: FakeOpenAI, server: FakeEmbeddings
) -> None:
    place, config = tmp_path / "home", scripted(model.base_url, USERS) + server.config()
    async with running_daemon(place, config + price(1e6) + "[budget]\ndaily_usd = 0.01\n") as daemon:
        home = Home(daemon, model)
        await home.ask(SAID)
        await home.until_indexed(2)
        await command(home, f"/memory embed {server.host}")
        async with asyncio.timeout(20):
            while not any("the budget of the day is used up" in line for line in daemon.log):
                await asyncio.sleep(0.05)
        assert SAID in await home.ask("My dentist?", "two")
    assert server.texts == []


async def test_f2_a_budget_with_room_for_some_texts_takes_them_one_after_the_other(
    tmp_path: Path, model: FakeOpenAI, server: FakeEmbeddings
) -> None:
    """What sixteen long texts may cost at most is more than the day has; what they do cost is little."""
    place, config = tmp_path / "home", scripted(model.base_url, USERS) + server.config()
    async with running_daemon(place, config + price(0.01) + "[budget]\ndaily_tokens = 100000\n") as daemon:
        home = Home(daemon, model)
        text = "\u0432\u0440\u0430\u0447 " * 1800
        lines = [
            {"id": str(at), "session": f"s{at}", "at": "2026-01-01T00:00:00Z", "text": f"{at} {text}"}
            for at in range(18)
        ]
        await daemon.post("/v1/memories/import", lines=lines, trusted=True)
        await embed_all(home, server)
    assert len(server.texts) == 19 and not any("cannot be used" in line for line in daemon.log)


async def test_f2_a_question_does_not_wait_for_money_that_others_hold(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    config = {"budget": {"daily_tokens": 1000}, "provider": {"prices": {"small": {"input": 1.0, "output": 1.0}}}}
    async with living(tmp_path, model, config) as it:
        reserve, most = it.house.beside.reserve, Usage(700)
        async with reserve("memory:embedding", "openai", "small", most):
            async with asyncio.timeout(5):
                with pytest.raises(BudgetExceeded):
                    async with reserve("memory:embedding", "openai", "small", most, waits=False):
                        raise AssertionError("there is no room for it")


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
        await home.until_indexed(2)
        assert SAID in await home.ask("My dentist?", "two")


def test_the_services_own_address_needs_a_key(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[memory]\nembedder = "openai"\n')
    done = aidaemon("config", "check", home=tmp_path)
    assert done.returncode and 'api_key = "${OPENAI_API_KEY}"' in done.stdout + done.stderr
