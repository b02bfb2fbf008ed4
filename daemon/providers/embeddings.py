"""Texts to vectors, by an OpenAI-compatible server."""

import asyncio
import json
from collections.abc import Sequence

from pydantic import BaseModel, ValidationError

from daemon.core.errors import ErrorClass
from daemon.core.messages import Usage
from daemon.providers.base import get_count, get_object
from daemon.providers.errors import CallFailed
from daemon.providers.http import HttpService, read_whole


class _Embedding(BaseModel):
    index: int
    embedding: list[float]


class _Answer(BaseModel):
    data: list[_Embedding]
    usage: object = None


class Embeddings(HttpService):
    """POST /embeddings."""

    kind, path = "openai", "/embeddings"

    async def embed(
        self, model: str, texts: Sequence[str]
    ) -> tuple[list[list[float]], Usage | None]:
        """One vector a text, in their order, and what they cost, where the server tells. Raises
        ProviderError.
        """
        body = json.dumps({"model": model, "input": [*texts]}).encode()
        try:
            answer = await self.post(self.url, body, read_whole)
            return await asyncio.to_thread(_read, answer, len(texts))  # it may be some megabytes
        except CallFailed as error:
            raise self.to_provider_error(error) from None  # may echo the key


def estimate_usage(texts: Sequence[str]) -> Usage:
    """The most that these can cost: no token is shorter than a byte."""
    return Usage(sum(len(one.encode(errors="replace")) for one in texts), estimated=True)


def _read(answer: bytes, count: int) -> tuple[list[list[float]], Usage | None]:
    try:
        told = _Answer.model_validate_json(answer)
        found = {one.index: one.embedding for one in told.data}
    except ValidationError as error:
        wrong = error.errors(include_input=False)[0]["msg"]
        raise CallFailed(ErrorClass.MALFORMED, f"no list of embeddings: {wrong}") from error
    if found.keys() != set(range(count)):
        wrong = f"{len(found)} embeddings for {count} texts"
        raise CallFailed(ErrorClass.MALFORMED, wrong)
    sent = get_count(get_object(vars(told), "usage"), "prompt_tokens")
    return [found[one] for one in range(count)], Usage(sent) if sent else None
