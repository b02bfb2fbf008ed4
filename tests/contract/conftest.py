"""What contract tests run over."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from daemon.store.journal import Store
from daemon.store.sqlite import SqliteStore
from tests.contract.channels import KINDS, Stage, stage_of
from tests.fakes.mail.platform import end_shared_dovecot


@pytest.fixture(autouse=True, scope="session")
def mail_server_ends() -> Iterator[None]:
    """The mail server that the tests of this process share."""
    yield
    end_shared_dovecot()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    made = await SqliteStore.open(tmp_path / "journal.db")
    yield made
    await made.aclose()


@pytest.fixture(params=KINDS)
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """Every contract test of channels runs over every channel, at its own fake platform."""
    async with stage_of(request.param) as made:
        yield made
