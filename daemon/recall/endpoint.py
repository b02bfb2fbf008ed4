"""Another server tells what a text means: nothing is sent there before the owner's yes (A4)."""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from daemon.core.clock import Clock
from daemon.core.errors import BudgetExceeded, ErrorClass, ProviderError, StoreUnavailable
from daemon.core.messages import Reserve
from daemon.providers.embeddings import Embeddings, estimate_usage
from daemon.recall.config import EndpointConfig
from memory.database import Database
from memory.embedder import MAX_CHARS, WIDTH, EmbedderError, MadeVectors, pack

if TYPE_CHECKING:
    from memory.embedder import Vectors

log = logging.getLogger(__name__)
MAX_WIDTH = 16_384
PROBE = "hello"
SESSION = "memory:embedding"
TEXT_TIMEOUT_S, QUESTION_TIMEOUT_S = 60.0, 1.5  # a turn waits for the vector of its question
REFUSALS = (ErrorClass.BAD_REQUEST, ErrorClass.CONTEXT_TOO_LONG)
NEARER = 0.2  # not measured; the cosine of texts that have nothing in common is about 0.1
ASKS = (
    '[memory] embedder = "openai": what was said, by you and by others, would be sent to {host}'
    " (model {model}), and each new message, so that it is found by its meaning. Nothing was sent"
    " yet. /memory embed {host} allows it. Until then it is found by its words."
)
NO_ENDPOINT = 'Nothing is sent anywhere: [memory] embedder = "openai" is not set.'


class EndpointEmbedder:
    """One vector a text, by an OpenAI-compatible server. `redact` takes secrets out of what is
    sent; `reserve` sets aside what it may cost.
    """

    kind, nearer = "openai", NEARER

    def __init__(
        self,
        config: EndpointConfig,
        redact: Callable[[str], str],
        clock: Clock,
        reserve: Reserve,
    ) -> None:
        def connect(timeout_s: float) -> Embeddings:
            return Embeddings(
                base_url=config.base_url,
                api_key=config.api_key,
                clock=clock,
                timeout_s=timeout_s,
                total_timeout_s=timeout_s,
            )

        self._model, self._redact, self._reserve = config.model, redact, reserve
        self._host = urlsplit(config.base_url).netloc.lower()
        self._texts, self._questions = connect(TEXT_TIMEOUT_S), connect(QUESTION_TIMEOUT_S)
        self.name, self.kept = config.model, 0

    async def open(self) -> None:
        """Learn how long its vectors are. Raises EmbedderError."""
        [one] = await self._embed(self._texts, [PROBE])
        self.kept = one.shape[1] // 8 * 8
        self.name = f"{self._host} {self._model} {self.kept}"

    async def embed_query(self, text: str) -> "Vectors":
        """See Embedder."""
        [one] = await self._embed(self._questions, [text])
        return one

    async def embed_texts(self, rows: Sequence[tuple[int, str, str]]) -> MadeVectors:
        """See Embedder. Where it refuses several, each is sent alone; where the budget has no room
        for all, the first half.
        """
        texts = [f"{speaker}: {text}" for _, speaker, text in rows]
        try:
            made = await self._embed(self._texts, texts)
        except _UsedUp:
            if len(rows) == 1:
                raise
            return await self.embed_texts(rows[: len(rows) // 2])
        except _Refused:
            if len(rows) == 1:
                return [(rows[0][0], None)]
            alone = [one for row in rows for one in await self.embed_texts([row])]
            if not any(made for _, made in alone):
                raise EmbedderError("it refuses every text") from None
            return alone
        vectors = (pack([one], self.kept) for one in made)
        return [(row, one) for (row, _, _), one in zip(rows, vectors, strict=True)]

    async def aclose(self) -> None:
        """Close connections."""
        await self._texts.aclose()
        await self._questions.aclose()

    async def _embed(self, service: Embeddings, texts: Sequence[str]) -> "list[Vectors]":
        try:
            import numpy as np  # lazy: the extra memory

            sent = [self._redact(one)[:MAX_CHARS] for one in texts]  # no part of a secret is left
            most = estimate_usage(sent)
            async with self._reserve(SESSION, service.name, self._model, most) as count:
                made, told = await service.embed(self._model, sent)
                await count(told and min(told, most, key=attrgetter("input_tokens")))
        except BudgetExceeded as error:
            raise _UsedUp("the budget of the day is used up, or set aside") from error
        except StoreUnavailable as error:
            raise EmbedderError(f"what it costs cannot be counted: {error}") from error
        except ImportError as error:
            raise EmbedderError("pip install 'aidaemon[memory]'") from error
        except ProviderError as error:
            refused = error.kind in REFUSALS and error.status in (400, 413, 422)
            # Of what was said nothing stands in a log: the server's words may quote it.
            told = error if [*texts] == [PROBE] else f"{self._host} answers: {error.kind.value}"
            raise (_Refused if refused else EmbedderError)(str(told)) from None
        vectors = [np.array([one[: self.kept or MAX_WIDTH]], np.float32) for one in made]
        for one in vectors:
            length = float(np.linalg.norm(one))
            width = self.kept or one.shape[1]
            if one.shape[1] < max(WIDTH, width) or not np.isfinite(length) or not length:
                raise EmbedderError(
                    f"{self._model} gives {one.shape[1]} numbers; {max(WIDTH, width)} are needed"
                )
            one /= length
        return vectors


class _Refused(EmbedderError):
    """This text."""


class _UsedUp(EmbedderError):
    """There is no money for it now."""


@dataclass(slots=True)
class EndpointConsent:
    """The owner's yes to one server and model; it is kept in the memory. `config` is None where
    none is set. `ask` posts the question.
    """

    config: EndpointConfig | None
    database: Database
    ask: Callable[[str], Awaitable[None]]
    waits: bool = False
    allowed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def host(self) -> str:
        """Where it would be sent, with the port; "" for nowhere."""
        return urlsplit(self.config.base_url).netloc.lower() if self.config else ""

    @property
    def question(self) -> str:
        """What the owner is asked."""
        return ASKS.format(host=self.host, model=self.config.model) if self.config else NO_ENDPOINT

    async def wait(self) -> None:
        """For the yes; asks for it once."""
        if await self.database.get_state("endpoint") == self._name:
            return
        self.waits = True
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(self._ask_once())
            await self.allowed.wait()
            asking.cancel()
        self.waits = False

    async def allow(self, host: str) -> str:
        """The owner says yes to this host; what they are answered."""
        if not self.config or host != self.host:
            return self.question
        await self.database.set_state("endpoint", self._name)
        self.allowed.set()
        return f"What was said is sent to {self.host} from now on, to find it by its meaning."

    async def _ask_once(self) -> None:
        try:
            if await self.database.get_state("asked_endpoint") != self._name:
                await self.ask(self.question)
                await self.database.set_state("asked_endpoint", self._name)
        except (StoreUnavailable, sqlite3.Error) as error:
            log.warning("the owner is not asked now, but /status tells: %s", error)

    @property
    def _name(self) -> str:
        return f"{self.config.base_url} {self.config.model}" if self.config else ""
