"""A server that writes down what is said: whatever the recording is, it hears the same words."""

from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes.service import FakeService


@dataclass
class FakeSpeech(FakeService):
    """`forms`: what it was sent, by field; `status`: how it answers; `usage`: what it counts."""

    words: str = "Please call the dentist"
    status: int = 200
    usage: object = None
    forms: list[dict[str, object]] = field(default_factory=list)
    path = "/v1/audio/transcriptions"

    def config(self, **more: str) -> dict[str, object]:
        """[voice] of a daemon that asks it."""
        url = f"http://{self.host}/v1"
        asked = {"base_url": url, "api_key": "key-of-the-endpoint", "model": "hears"}
        return {"transcriber": "openai", "openai": asked, **more}

    async def _answer(self, request: web.Request) -> web.Response:
        form = await request.post()
        self.keys.add(request.headers.get("Authorization", ""))
        self.forms.append(
            {
                name: (one.filename, one.file.read()) if isinstance(one, web.FileField) else one
                for name, one in form.items()
            }
        )
        if self.status != 200:
            return web.json_response({"error": {"message": "no room"}}, status=self.status)
        return web.json_response({"text": self.words, "usage": self.usage})


@dataclass
class FakeGeminiSpeech(FakeService):
    """It does so in Google's way. `bodies`: what it was sent; `answer`: what it says instead."""

    words: str = "Please call the dentist"
    bodies: list[dict[str, Any]] = field(default_factory=list)
    answer: dict[str, Any] = field(default_factory=dict)
    path = "/v1beta/models/hears:generateContent"

    def config(self, **more: str) -> dict[str, object]:
        """[voice] of a daemon that asks it."""
        url = f"http://{self.host}/v1beta"
        asked = {"base_url": url, "api_key": "key-of-the-endpoint", "model": "hears"}
        return {"transcriber": "gemini", "gemini": asked, **more}

    async def _answer(self, request: web.Request) -> web.Response:
        self.keys.add(request.headers.get("x-goog-api-key", ""))
        self.bodies.append(await request.json())
        parts = [{"text": "Let me listen.", "thought": True}, {"text": self.words}]
        said = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
        counted = {"promptTokenCount": 60, "candidatesTokenCount": 5, "thoughtsTokenCount": 2}
        return web.json_response(self.answer or said | {"usageMetadata": counted})
