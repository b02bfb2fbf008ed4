"""With its model what was said is found by its meaning; without it, by its words (A4)."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from daemon.ops.extra_models import MEMORY_MODEL
from daemon.ops.models import fetch_model
from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.models import Silent
from tests.fakes.openai import FakeOpenAI, by, says

SAID = "I am allergic to peanuts and shrimps"
ASKED = "What foods make me ill?"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model, as `aidaemon model pull memory` fetches it."""
    folder = tmp_path_factory.mktemp("models")
    fetch_model(MEMORY_MODEL, folder, Silent())
    return folder


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as model:
        model.otherwise(by(lambda _: says("As you say.")))
        yield model


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    return place


async def until_embedded(daemon: Daemon, rows: int) -> None:
    """So many rows, and all of them have vectors."""
    async with asyncio.timeout(40):
        while True:
            status = await daemon.get("/v1/memories/status")
            assert isinstance(status, dict)
            if status["rows"] >= rows and status["embedder"] == "local" and not status["pending"]:
                return
            await asyncio.sleep(0.02)


async def test_what_means_the_same_is_shown_in_another_chat(
    place: Path, model: FakeOpenAI, models: Path
) -> None:
    env = {"AIDAEMON_MODELS": str(models)}
    async with running_daemon(place, scripted(model.base_url), env) as daemon:
        await daemon.ask(SAID)
        await daemon.ask("The train to Hamburg leaves at nine")
        await until_embedded(daemon, 4)
        await daemon.ask(ASKED, "two")
        shown = str(model.requests[-1].body["messages"])
        assert SAID in shown and "Hamburg" not in shown
        await until_embedded(daemon, 6)
        await daemon.ask("Write a haiku about autumn leaves", "three")
        assert "<memory>" not in str(model.requests[-1].body["messages"][1:])
        found = await daemon.get("/v1/memories/search", query=ASKED)
        assert isinstance(found, list)
        (said,) = [one for one in found[:3] if one["text"] == SAID]
        assert said["why"]["window"] > 0 and said["why"]["alone"] > 0


@pytest.mark.parametrize("off", ["missing", "none"])
async def test_without_the_model_it_is_found_by_words_and_doctor_says_so(
    place: Path, model: FakeOpenAI, models: Path, off: str
) -> None:
    folder = place / "nothing" if off == "missing" else models
    env = {"AIDAEMON_MODELS": str(folder)}
    more = '[memory]\nembedder = "none"\n' if off == "none" else ""
    async with running_daemon(place, scripted(model.base_url, more), env) as daemon:
        await daemon.ask(SAID)
        async with asyncio.timeout(20):
            while (await daemon.get("/v1/memories/status")) != {
                "rows": 2, "pending": 0, "embedder": "none", "model": "",
            }:  # fmt: skip
                await asyncio.sleep(0.02)
        await daemon.ask(ASKED, "two")
        assert SAID not in str(model.requests[-1].body["messages"])
        await daemon.ask("Am I allergic to peanuts?", "two")
        assert SAID in str(model.requests[-1].body["messages"])
    told = aidaemon("doctor", "--json", home=place, env=env)
    (recall,) = [one for one in json.loads(told.stdout) if one["name"] == "recall"]
    wanted = "aidaemon model pull memory" if off == "missing" else 'embedder = "none"'
    assert recall["state"] == "ok" and wanted in recall["found"]


async def test_a_file_that_is_no_model_leaves_what_was_said_to_its_words(
    place: Path, model: FakeOpenAI, tmp_path: Path
) -> None:
    MEMORY_MODEL.path(tmp_path).write_bytes(b"x" * MEMORY_MODEL.size)
    env = {"AIDAEMON_MODELS": str(tmp_path)}
    async with running_daemon(place, scripted(model.base_url), env) as daemon:
        async with asyncio.timeout(20):
            while "the model that finds what was said cannot be used" not in "".join(daemon.log):
                await asyncio.sleep(0.02)
        await daemon.ask(SAID)
        await daemon.ask("Am I allergic to peanuts?")


async def test_whenever_it_is_killed_each_row_has_its_vectors_once(
    place: Path, model: FakeOpenAI, models: Path
) -> None:
    env, config, count = {"AIDAEMON_MODELS": str(models)}, scripted(model.base_url), 0
    for kill in range(5):
        async with running_daemon(place, config, env) as daemon:
            for number in range(6):
                count += 2
                await daemon.ask(f"Note {kill}.{number}: {SAID}", f"s{number}")
            async with asyncio.timeout(20):
                while kill and not made(place):
                    await asyncio.sleep(0.01)
            daemon.process.kill()
            await daemon.process.wait()
    async with running_daemon(place, config, env) as daemon:
        await until_embedded(daemon, count)
        found = await daemon.get("/v1/memories/search", query=ASKED)
        assert isinstance(found, list) and len({one["text"] for one in found}) == len(found) == 10
    assert made(place) == count


def made(place: Path) -> int:
    """How many rows have vectors."""
    with closing(sqlite3.connect(f"file:{place / 'memory.db'}?mode=ro", uri=True)) as file:
        return int(file.execute("SELECT count(*) FROM vectors").fetchone()[0])
