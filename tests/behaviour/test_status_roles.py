"""What is the owner's in /status reaches nobody else."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daemon.core.trust import Person, Role
from tests.behaviour.test_layers_told import command
from tests.fakes.house import living
from tests.fakes.openai import FakeOpenAI

USERS = {"http": {"users": [{"name": "bob", "role": "editor", "token": "token-of-bob-0123456789"}]}}


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as found:
        yield found


# /status told everybody what waits of the owner's files, memories and servers.
async def test_status_tells_an_editor_nothing_of_the_owners_files_and_servers(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    broken = {"mcp": {"diary": {"command": "/nonexistent/diary"}}}
    async with living(tmp_path, model, USERS | broken) as it:
        await command(it, model, "mkdir -p divorce; echo 1 > divorce/.envrc")
        bob = Person("bob", Role.EDITOR)
        told = (await it.house.client.send("web:bob", "/status", by=bob)).reply
        assert "Chat web:bob" in told
        assert "divorce" not in told and "diary" not in told and str(tmp_path) not in told
