"""Texts to vectors, by an OpenAI-compatible server."""

import asyncio
import json
from collections.abc import Sequence

from pydantic import BaseModel, ValidationError

from daemon.core.errors import ErrorClass
from daemon.providers.errors import CallFailed
from daemon.providers.http import HttpService, read_whole


class _Embedding(BaseModel):
    index: int
    embedding: list[float]


class _Answer(BaseModel):
    data: list[_Embedding]


class Embeddings(HttpService):
    """POST /embeddings."""

    kind, path = "openai", "/embeddings"

    async def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """One vector a text, in their order. Raises ProviderError."""
        body = json.dumps({"model": model, "input": [*texts]}).encode()
        try:
            answer = await self.post(self.url, body, read_whole)
            return await asyncio.to_thread(_read, answer, len(texts))  # it may be some megabytes
        except CallFailed as error:
            raise self.to_provider_error(error) from None  # may echo the key


def _read(answer: bytes, count: int) -> list[list[float]]:
    try:
        found = {one.index: one.embedding for one in _Answer.model_validate_json(answer).data}
    except ValidationError as error:
        wrong = error.errors(include_input=False)[0]["msg"]
        raise CallFailed(ErrorClass.MALFORMED, f"no list of embeddings: {wrong}") from error
    if found.keys() != set(range(count)):
        told = f"{len(found)} embeddings for {count} texts"
        raise CallFailed(ErrorClass.MALFORMED, told)
    return [found[one] for one in range(count)]
