"""Speech to text, by an OpenAI-compatible server or by Gemini."""

import json
from base64 import b64encode
from math import ceil
from secrets import token_hex

from pydantic import BaseModel, ValidationError

from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import ErrorClass
from daemon.core.messages import Usage
from daemon.providers.base import encode_body, get_count, get_object, get_text, list_objects
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


HEARD_A_SECOND, SPOKEN_A_SECOND = 32, 5  # tokens
BYTES_A_SECOND = {"wav": 16_000, "aiff": 16_000, "flac": 8_000}
LEAST_A_SECOND = 1_500  # bytes of a voice message
BESIDE_TOKENS = 4_000  # the task, and what a model thinks


@value
class HeardSpeech:
    """What is said, and what the server counts for it: None where it does not say."""

    text: str
    usage: Usage | None = None


def estimate_usage(data: bytes, name: str) -> Usage:
    """The most that a recording can cost, by its size."""
    seconds = ceil(len(data) / BYTES_A_SECOND.get(find_ending(name), LEAST_A_SECOND))
    return Usage(seconds * HEARD_A_SECOND, seconds * SPOKEN_A_SECOND, estimated=True)


def bound_usage(told: Usage, most: Usage) -> Usage:
    """What a server tells, but no more than fits the recording: it may count in other units."""
    sent = min(told.input_tokens or most.input_tokens, most.input_tokens + BESIDE_TOKENS)
    return Usage(sent, min(told.output_tokens, most.output_tokens + BESIDE_TOKENS))


def find_ending(name: str) -> str:
    """Of the file; it tells the format."""
    return name.rpartition(".")[2].lower()


class _Answer(BaseModel):
    text: str
    usage: object = None

    def read(self) -> HeardSpeech:
        """A server counts tokens, or seconds."""
        counted = get_object(vars(self), "usage")
        sent = get_count(counted, "input_tokens")
        sent = sent or HEARD_A_SECOND * get_count(counted, "seconds")
        return _make_heard(self.text, sent, get_count(counted, "output_tokens"))


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

    async def transcribe(self, data: bytes, name: str, *, model: str, language: str) -> HeardSpeech:
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
            return _Answer.model_validate_json(answer).read()
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

    async def transcribe(self, data: bytes, name: str, *, model: str, language: str) -> HeardSpeech:
        """As `Transcriptions.transcribe`."""
        kind = FORMATS.get(find_ending(name), "ogg")
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


def _read_words(answer: bytes) -> HeardSpeech:
    """Raises CallFailed."""
    try:
        fields = json.loads(answer)
        if found := list_objects(fields.get("candidates")):
            parts = list_objects(get_object(found[0], "content").get("parts"))
            words = (get_text(one, "text") for one in parts if not one.get("thought"))
            counted = get_object(fields, "usageMetadata")
            said = get_count(counted, "candidatesTokenCount", "thoughtsTokenCount")
            return _make_heard("".join(words), get_count(counted, "promptTokenCount"), said)
        reason = get_text(get_object(fields, "promptFeedback"), "blockReason")
    except (ValueError, TypeError, AttributeError, RecursionError):
        reason = ""
    kind = ErrorClass.FILTERED if reason else ErrorClass.MALFORMED
    raise CallFailed(kind, reason or "no transcription")


def _make_heard(text: str, sent: int, said: int) -> HeardSpeech:
    return HeardSpeech(text, Usage(sent, said) if sent or said else None)
