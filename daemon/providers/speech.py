"""Speech to text, by an OpenAI-compatible server or by Gemini."""

import json
from base64 import b64encode
from secrets import token_hex

from pydantic import BaseModel, ValidationError

from daemon.core.clock import Clock
from daemon.core.errors import ErrorClass
from daemon.providers.base import encode_body, get_object, get_text, list_objects
from daemon.providers.errors import CallFailed
from daemon.providers.http import HttpService, read_whole

TASK = (
    "Write down word for word what is said in this recording, in the language that is spoken"
    "{spoken}. Do not translate, sum up or answer it. Where nothing is said, write nothing."
)
FORMATS = {
    "mp3": "mp3", "wav": "wav", "flac": "flac", "aac": "aac", "aiff": "aiff", "m4a": "mp4",
    "mp4": "mp4", "webm": "webm",
}  # fmt: skip
MOST_BYTES = 14 << 20
"""A request of more than 20 MB is refused, and a recording grows by a third in it."""


class _Answer(BaseModel):
    text: str


class Transcriptions(HttpService):
    """POST /audio/transcriptions, a form of several parts."""

    kind, path = "openai", "/audio/transcriptions"

    def __init__(self, *, base_url: str, api_key: str, clock: Clock, timeout_s: float) -> None:
        self._boundary = token_hex(16)
        form = {"Content-Type": f"multipart/form-data; boundary={self._boundary}"}
        super().__init__(
            base_url=base_url,
            api_key=api_key,
            clock=clock,
            timeout_s=timeout_s,
            total_timeout_s=timeout_s,
            extra_headers=form,
        )

    async def transcribe(self, data: bytes, name: str, *, model: str, language: str) -> str:
        """What is said in the recording; `name` tells its format by its ending, `language` is ""
        where nobody knows. Raises ProviderError.
        """
        fields = {"model": model, "response_format": "json", "language": language}
        given = ((key, value) for key, value in fields.items() if value)
        parts = [self._make_part(f'name="{key}"', value.encode()) for key, value in given]
        plain = "".join(one if one.isascii() and one.isalnum() else "." for one in name)
        file = f'name="file"; filename="{plain}"'
        parts.append(self._make_part(file, data))
        body = b"".join((*parts, f"--{self._boundary}--\r\n".encode()))
        try:
            answer = await self.post(self.url, body, read_whole)
            return _Answer.model_validate_json(answer).text
        except ValidationError:
            error = CallFailed(ErrorClass.MALFORMED, "no transcription")
            raise self.to_provider_error(error) from None
        except CallFailed as error:
            raise self.to_provider_error(error) from None  # may echo the key

    def _make_part(self, disposition: str, content: bytes) -> bytes:
        head = f"--{self._boundary}\r\nContent-Disposition: form-data; {disposition}\r\n\r\n"
        return head.encode() + content + b"\r\n"


class GeminiSpeech(HttpService):
    """generateContent with a recording."""

    kind, path = "gemini", ""

    async def transcribe(self, data: bytes, name: str, *, model: str, language: str) -> str:
        """As `Transcriptions.transcribe`."""
        kind = FORMATS.get(name.rpartition(".")[2].lower(), "ogg")
        sound = {"mime_type": f"audio/{kind}", "data": b64encode(data).decode()}
        task = TASK.format(spoken=f" ({language})" if language else "")
        body = {
            "contents": [{"role": "user", "parts": [{"inline_data": sound}, {"text": task}]}],
            "generationConfig": {"temperature": 0},
        }
        resource = model if "/" in model else f"models/{model}"
        path = f"{self.url.path.rstrip('/')}/{resource}:generateContent"
        try:
            if len(data) > MOST_BYTES:
                most = f"it has more than {MOST_BYTES >> 20} MB"
                raise CallFailed(ErrorClass.BAD_REQUEST, most)
            url = self.url.with_path(path, keep_query=True)
            return _read_words(await self.post(url, encode_body(body), read_whole))
        except CallFailed as error:
            raise self.to_provider_error(error) from None  # may echo the key


def _read_words(answer: bytes) -> str:
    """Raises CallFailed."""
    try:
        fields = json.loads(answer)
        if found := list_objects(fields.get("candidates")):
            parts = list_objects(get_object(found[0], "content").get("parts"))
            return "".join(get_text(one, "text") for one in parts if not one.get("thought"))
        reason = get_text(get_object(fields, "promptFeedback"), "blockReason")
    except (ValueError, TypeError, AttributeError, RecursionError):
        reason = ""
    kind = ErrorClass.FILTERED if reason else ErrorClass.MALFORMED
    raise CallFailed(kind, reason or "no transcription")
