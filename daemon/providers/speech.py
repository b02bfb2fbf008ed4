"""Speech to text, by an OpenAI-compatible server."""

from secrets import token_hex

from pydantic import BaseModel, ValidationError

from daemon.core.clock import Clock
from daemon.core.errors import ErrorClass
from daemon.providers.errors import CallFailed
from daemon.providers.http import HttpService, read_whole


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
