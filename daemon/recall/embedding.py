"""What was said gets its vectors, in the background, at low priority (A4)."""

import asyncio
import logging
import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from daemon.core import value
from memory.conversations import Conversations
from memory.embedder import KEPT, NEARER, Embedder, EmbedderError, MadeVectors, TextModel

if TYPE_CHECKING:
    from memory.embedder import Vectors

BATCH, NICENESS = 16, 19
EVERY_S, RETRY_S = 600.0, 60.0
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "1")  # what numpy multiplies is small: more of them only wait

log = logging.getLogger(__name__)


class ThreadedEmbedder:
    """A model on this machine: texts in a thread of low priority, questions beside it."""

    kind, kept, nearer = "local", KEPT, NEARER

    def __init__(self, model: TextModel, thread: ThreadPoolExecutor) -> None:
        self.model, self.name = model, model.name
        self._thread, self._stopped = thread, threading.Event()

    @classmethod
    async def load(cls, make: Callable[[], TextModel | None]) -> "ThreadedEmbedder | None":
        """None where there is none. Raises EmbedderError."""
        thread, model = ThreadPoolExecutor(1, "embedding", initializer=_be_nice), None
        try:
            model = await asyncio.get_running_loop().run_in_executor(thread, make)
        finally:
            if model is None:
                thread.shutdown(wait=False, cancel_futures=True)
        return cls(model, thread) if model else None

    async def embed_query(self, text: str) -> "Vectors":
        """See Embedder."""
        return await asyncio.to_thread(self.model.embed_query, text)

    async def embed_texts(self, rows: Sequence[tuple[int, str, str]]) -> MadeVectors:
        """See Embedder."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._embed, rows)

    async def aclose(self) -> None:
        """It ends with the text that it reads; nobody waits for that."""
        self._stopped.set()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _embed(self, rows: Sequence[tuple[int, str, str]]) -> MadeVectors:
        left = (one for one in rows if not self._stopped.is_set())
        made: MadeVectors = []
        for row, speaker, text in left:
            try:
                made.append((row, self.model.embed_text(speaker, text)))
            except EmbedderError as error:  # it does not hold up the others
                log.warning("it gets no vectors, and is found by its words: %s", error)
                made.append((row, None))
        return made


@value
class EmbeddingWorker:
    """`load` finds the model, or None: it is looked for again later."""

    conversations: Conversations
    load: Callable[[], Awaitable[Embedder | None]]

    async def run(self) -> None:
        """Until cancelled."""
        os.environ.setdefault(*ONE_THREAD)
        embedder, wait = None, RETRY_S
        try:
            while True:
                self.conversations.added.clear()
                pause = EVERY_S
                try:
                    embedder = embedder or await self.load()
                    if embedder:
                        await self._embed_all(embedder)
                        wait = RETRY_S
                        await self._wait_for_more()
                        continue
                except (EmbedderError, sqlite3.Error) as error:
                    why = "later" if embedder else "it cannot be loaded"
                    text = "the model that finds what was said cannot be used (%s): %s"
                    log.warning(text, why, error)
                    pause, wait = wait, min(2 * wait, EVERY_S)
                await asyncio.sleep(pause)
        finally:
            if embedder:
                await embedder.aclose()

    async def _wait_for_more(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(EVERY_S):
                await self.conversations.added.wait()

    async def _embed_all(self, embedder: Embedder) -> None:
        if not self.conversations.embedder:
            await self.conversations.use_embedder(embedder)
        while rows := await self.conversations.list_unembedded(BATCH):
            await self.conversations.add_vectors(await embedder.embed_texts(rows))


def _be_nice() -> None:
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
