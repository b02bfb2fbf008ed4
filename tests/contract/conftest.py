"""Every contract test of the journal runs over every store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daemon.store.memory import MemoryStore
from daemon.store.protocol import Store
from daemon.store.sqlite import SqliteStore


@pytest.fixture(params=["sqlite", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = await SqliteStore.open(tmp_path / "journal.db") if request.param == "sqlite" else MemoryStore()
    yield made
    await made.aclose()
