"""What was said gets its vectors, in the background, at low priority (A4)."""

import asyncio
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from daemon.core import value
from memory.conversations import Conversations
from memory.embedder import Embedder, EmbedderError, TextVectors

BATCH, NICENESS = 16, 19
EVERY_S, RETRY_S = 600.0, 60.0

log = logging.getLogger(__name__)


@value
class EmbeddingWorker:
    """`load` finds the model, or None: then nothing is done."""

    conversations: Conversations
    load: Callable[[], Embedder | None]

    async def run(self) -> None:
        """Until cancelled."""
        thread, stopped = (
            ThreadPoolExecutor(1, "embedding", initializer=_be_nice),
            threading.Event(),
        )
        try:
            await self._work(thread, stopped)
        finally:
            stopped.set()  # it ends with the text that it reads; nobody waits for that
            thread.shutdown(wait=False, cancel_futures=True)

    async def _work(self, thread: ThreadPoolExecutor, stopped: threading.Event) -> None:
        try:
            embedder = await asyncio.get_running_loop().run_in_executor(thread, self.load)
        except EmbedderError as error:
            log.warning("the model that finds what was said cannot be used: %s", error)
            return
        if embedder is None:
            return
        while True:
            self.conversations.added.clear()
            try:
                if not self.conversations.embedder:
                    await self.conversations.use_embedder(embedder)
                await self._embed_all(embedder, thread, stopped)
                wait = EVERY_S
            except sqlite3.Error as error:
                log.warning("nothing is embedded now: %s", error)
                wait = RETRY_S
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self.conversations.added.wait()

    async def _embed_all(
        self, embedder: Embedder, thread: ThreadPoolExecutor, stopped: threading.Event
    ) -> None:
        run = asyncio.get_running_loop().run_in_executor
        while rows := await self.conversations.list_unembedded(BATCH):
            made = await run(thread, _embed, embedder, rows, stopped)
            await self.conversations.add_vectors(made)


def _embed(
    embedder: Embedder, rows: Sequence[tuple[int, str, str]], stopped: threading.Event
) -> list[tuple[int, TextVectors | None]]:
    left = (one for one in rows if not stopped.is_set())
    return [(row, _embed_one(embedder, speaker, text)) for row, speaker, text in left]


def _embed_one(embedder: Embedder, speaker: str, text: str) -> TextVectors | None:
    """One that the model cannot read does not hold up the others: it is found by its words."""
    try:
        return embedder.embed_text(speaker, text)
    except EmbedderError as error:
        log.warning("it gets no vectors: %s", error)
        return None


def _be_nice() -> None:
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
