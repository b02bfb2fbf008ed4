"""A server that embeds texts: each word is a random direction, and words of one meaning the same."""

import asyncio
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from aiohttp import web
from numpy.typing import NDArray

from memory.words import list_words
from tests.fakes.service import FakeService

MEANING = {"physician": "dentist", "automobile": "car"}
COMMON = np.random.default_rng(0).normal(size=1024)


def embed(text: str, width: int) -> list[float]:
    found = COMMON[:width] / 8 + sum(direct(one, width) for one in list_words(text))
    return [round(float(one), 5) for one in found]


def direct(word: str, width: int) -> NDArray[np.float64]:
    seed = int.from_bytes(blake2b(MEANING.get(word, word).encode(), digest_size=4).digest())
    return np.random.default_rng(seed).normal(size=width)


@dataclass
class FakeEmbeddings(FakeService):
    """`texts`: all that it was sent. It refuses what holds `refused`; `broken`: it answers 500; `counts`: it tells 7 tokens a text."""

    width: int = 1024
    refused: str = "\x00"
    broken: bool = False
    counts: bool = True
    texts: list[str] = field(default_factory=list)
    path = "/v1/embeddings"

    def config(self, model: str = "small") -> str:
        """[memory] of a daemon that asks it."""
        url = f"http://{self.host}/v1"
        head = '[memory]\nembedder = "openai"\n[memory.openai]\n'
        return f'{head}base_url = "{url}"\nmodel = "{model}"\napi_key = "key-of-the-endpoint"\n'

    async def until_sent(self, word: str) -> None:
        """A text with this word."""
        async with asyncio.timeout(20):
            while not any(word in one for one in self.texts):
                await asyncio.sleep(0.02)

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.texts += body["input"]
        self.keys.add(request.headers.get("Authorization", ""))
        if self.broken:
            return web.json_response(
                {"error": {"message": f"no room for {body['input']}"}}, status=500
            )
        if any(self.refused in one for one in body["input"]):
            return web.json_response(
                {"error": {"message": f"too odd: {body['input']}"}}, status=400
            )
        vectors = [embed(one, self.width) for one in body["input"]]
        data = [{"index": at, "embedding": one} for at, one in enumerate(vectors)]
        counted = {"usage": {"prompt_tokens": 7 * len(vectors)}} if self.counts else {}
        return web.json_response({"data": data[::-1], **counted})
