"""Every contract test of the journal runs over every store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daemon.core.journal import Store
from daemon.store.memory import MemoryStore
from daemon.store.sqlite import SqliteStore
from tests.contract.channels import KINDS, Stage, stage_of


@pytest.fixture(params=["sqlite", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = (
        await SqliteStore.open(tmp_path / "journal.db")
        if request.param == "sqlite"
        else MemoryStore()
    )
    yield made
    await made.aclose()


@pytest.fixture(params=KINDS)
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """Every contract test of channels runs over every channel, at its own fake platform."""
    async with stage_of(request.param) as made:
        yield made
