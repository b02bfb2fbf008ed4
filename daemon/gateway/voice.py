"""[voice] in config.toml: who writes down what is said in voice messages (G1)."""

import logging
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, Field, model_validator

from daemon.core.clock import Clock
from daemon.core.errors import BudgetExceeded, ProviderError, UnreadableDocument
from daemon.core.messages import Reserve
from daemon.providers.config import SERVICES, STRICT, HeaderText, check_address
from daemon.providers.speech import GeminiSpeech, Transcriptions, bound_usage, estimate_usage

Transcribe = Callable[[bytes, str, str], Awaitable[str]]
"""A recording, the name of its file and its session to its words. Raises UnreadableDocument."""
ENDPOINT_S = 80.0
log = logging.getLogger(__name__)
NOT_HEARD = '[voice] transcriber = "none"'
USED_UP = "the budget of the day is used up"


class SpeechEndpoint(BaseModel):
    """[voice.openai] or [voice.gemini]: who writes it down, where that is the transcriber."""

    model_config = STRICT

    base_url: Annotated[str, AfterValidator(check_address)] = Field(
        SERVICES["openai"].url, description="any OpenAI-compatible server, with /v1 where it has it"
    )
    api_key: HeaderText = Field("", repr=False, description='"${ENV}" or "secret:NAME"')
    model: str = Field("gpt-4o-mini-transcribe", min_length=1, description="its model that hears")


class GeminiEndpoint(SpeechEndpoint):
    """[voice.gemini]."""

    base_url: Annotated[str, AfterValidator(check_address)] = Field(
        SERVICES["gemini"].url, description="Google's server, or one that speaks as it does"
    )
    model: str = Field(SERVICES["gemini"].model, min_length=1, description="its model that hears")


class VoiceConfig(BaseModel):
    """[voice]."""

    model_config = STRICT

    transcriber: Literal["local", "openai", "gemini", "none"] = Field(
        "local",
        description="who writes down voice messages: a model on this machine (`aidaemon model pull"
        " voice`), the server of [voice.openai] or [voice.gemini], which is sent each of them, or"
        " nobody",
    )
    language: str = Field(
        "",
        pattern="^([a-z]{2,3})?$",
        description='that is spoken, such as "de"; empty: it is found out',
    )
    openai: SpeechEndpoint = Field(
        SpeechEndpoint(), description='who writes it down where transcriber = "openai"'
    )

    gemini: GeminiEndpoint = Field(
        GeminiEndpoint(), description='who writes it down where transcriber = "gemini"'
    )

    @property
    def endpoint(self) -> SpeechEndpoint | None:
        """The server that is sent each voice message; None for none."""
        return {"openai": self.openai, "gemini": self.gemini}.get(self.transcriber)

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        name, asked = self.transcriber, self.endpoint
        if asked and asked.base_url == SERVICES[name].url and not asked.api_key:
            variable = SERVICES[name].key_variable
            raise ValueError(f'{name}.api_key is needed: api_key = "${{{variable}}}"')
        return self


def make_remote(
    config: VoiceConfig, given: SpeechEndpoint, clock: Clock, reserve: Reserve
) -> Transcribe:
    """Asks that server."""
    make = GeminiSpeech if config.transcriber == "gemini" else Transcriptions

    async def transcribe(data: bytes, name: str, session: str) -> str:
        service = make(
            base_url=given.base_url, api_key=given.api_key, clock=clock, timeout_s=ENDPOINT_S
        )
        model, most = given.model, estimate_usage(data, name)
        try:
            async with reserve(session, service.name, model, most) as count:
                heard = await service.transcribe(data, name, model=model, language=config.language)
                await count(heard.usage and bound_usage(heard.usage, most))
        except BudgetExceeded as error:
            raise UnreadableDocument(USED_UP) from error
        except ProviderError as error:
            # Its own words are a stranger's: they go to the log.
            log.warning("a voice message is not written down: %s", error)
            host, kind = urlsplit(given.base_url).netloc, error.kind.value.replace("_", " ")
            raise UnreadableDocument(f"{host} answers: {kind} (the log has more)") from error
        finally:
            await service.aclose()
        if not heard.text.strip():
            raise UnreadableDocument("nothing is said in it")
        return heard.text.strip()

    return transcribe


async def hear_nothing(data: bytes, name: str, session: str) -> str:
    """Nobody writes it down."""
    raise UnreadableDocument(NOT_HEARD)
