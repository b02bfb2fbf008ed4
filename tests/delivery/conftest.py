from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.fakes.channel import FakeChannel
from tests.fakes.openai import FakeOpenAI


@pytest_asyncio.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as model:
        yield model


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()
