"""`aidaemon memory status` tells of one moment (A4)."""

import asyncio
from pathlib import Path

from daemon.recall.embedding import ThreadedEmbedder
from tests.fakes.house import living
from tests.fakes.openai import FakeOpenAI, by, says
from tests.unit.test_vectors import WordEmbedder


async def test_rows_wait_for_vectors_also_when_the_model_is_loaded_meanwhile(tmp_path: Path) -> None:
    async with FakeOpenAI() as model, living(tmp_path, model) as it:
        model.otherwise(by(lambda body: says("All right.")))
        await it.ask("I like tea")
        conversations = it.house.conversations
        async with asyncio.timeout(20):
            while await conversations.count() < 2:
                await asyncio.sleep(0.01)
        loaded = await ThreadedEmbedder.load(WordEmbedder)
        assert loaded and not conversations.embedder
        status, _ = await asyncio.gather(
            it.house.client.get_memory_status(), conversations.use_embedder(loaded)
        )
        assert status == {"rows": 2, "pending": 2, "embedder": "local", "model": "words"}
        await conversations.use_embedder(None)
        await loaded.aclose()
