"""One daemon with one scripted model for all tests of a module that ask for it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI
from tests.fakes.wordy_model import Script

if TYPE_CHECKING:
    from playwright.async_api import Browser


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("daemon") / "home"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as model:
        yield model


@pytest.fixture(scope="module")
def script(model: FakeOpenAI) -> Script:
    return Script(model)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daemon(home: Path, model: FakeOpenAI) -> AsyncIterator[Daemon]:
    async with running_daemon(home, scripted(model.base_url)) as daemon:
        yield daemon


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator["Browser"]:
    from tests.fakes.browser import running_browser  # lazy: only where a page is looked at

    async with running_browser() as browser:
        yield browser
