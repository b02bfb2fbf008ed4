"""[provider] in config.toml."""

import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from daemon.core import value


@value
class KnownService:
    """A kind of service: its own address, its key, and the model to ask where none is named."""

    url: str
    key_variable: str
    model: str
    header: str
    key_prefix: str = ""


SERVICES = {
    "openai": KnownService(
        "https://api.openai.com/v1", "OPENAI_API_KEY", "gpt-5-mini", "Authorization", "Bearer "
    ),
    "anthropic": KnownService(
        "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", "claude-haiku-5-5", "x-api-key"
    ),
    "gemini": KnownService(
        "https://generativelanguage.googleapis.com/v1beta",
        "GEMINI_API_KEY",
        "gemini-3.8-flash",
        "x-goog-api-key",
    ),
    "local": KnownService("", "", "qwen2.5-coder-1.5b", ""),
}
HOST = re.compile(r"[^\s./@%]+(\.[^\s./@%]+)*\.?")
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
RESERVED_HEADERS = {"content-length", "content-type", "transfer-encoding", "host", "connection"}


def check_address(value: str) -> str:
    """Of a server. Raises ValueError."""
    try:
        url = urlsplit(value)
        host, _ = url.hostname, url.port
    except ValueError as error:
        raise ValueError(f"not an address: {error}") from error
    if (
        url.scheme not in ("http", "https")
        or not HOST.fullmatch(host or "")
        or not value.isprintable()
    ):
        raise ValueError("must be an address like https://api.example.com/v1")
    if url.username or url.password:
        raise ValueError("must not hold a user or a password; use api_key or extra_headers")
    return value.rstrip("/")


def _check_header_text(value: str) -> str:
    value = value.strip()
    if not (value.isascii() and value.isprintable()):
        raise ValueError("must be printable ASCII, as it is sent in an HTTP header")
    return value


def _check_header_name(value: str) -> str:
    if not HEADER_NAME.fullmatch(value) or value.lower() in RESERVED_HEADERS:
        raise ValueError(f"{value!r} is not the name of a header that can be added")
    return value


Kind = Literal["local", "openai", "anthropic", "gemini"]
HeaderText = Annotated[str, AfterValidator(_check_header_text)]
STRICT = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ModelsConfig(BaseModel):
    """[provider.models]: which model does which work."""

    model_config = STRICT

    primary: str = Field("", description="the model that answers; empty: the kind's own default")
    fast: str = Field("", description="a cheap model for small decisions; empty: the primary")
    smart: str = Field("", description="a strong model for hard tasks; empty: the primary")


class ServiceConfig(BaseModel):
    """Where a model is asked."""

    model_config = STRICT

    kind: Kind = Field(
        "openai", description="local, anthropic, gemini, or openai for any OpenAI-compatible server"
    )
    base_url: Annotated[str, AfterValidator(check_address)] = Field(
        "", description="the server's address, with /v1 where it has it; empty: the service's own"
    )
    api: Literal["chat", "responses"] = Field(
        "chat", description="openai only: chat completions, or responses, which keep its reasoning"
    )
    api_key: HeaderText = Field("", repr=False, description='"${ENV}" or "secret:NAME"')

    def get_provider_name(self) -> str:
        """The provider that speaks it."""
        return self.api if self.api == "responses" else self.kind

    @model_validator(mode="before")
    @classmethod
    def _add_base_url(cls, data: object) -> object:
        """A section without an address means the service of that kind itself."""
        if not isinstance(data, dict) or data.get("base_url"):
            return data
        service = SERVICES.get(str(data.get("kind", cls.model_fields["kind"].default)))
        given = {name: value for name, value in data.items() if name != "base_url"}
        return given | ({"base_url": service.url} if service and service.url else {})

    @model_validator(mode="after")
    def _check_key_and_api(self) -> Self:
        own = SERVICES.get(self.kind)
        host = urlsplit(self.base_url).hostname
        if own and host and not self.api_key and host == urlsplit(own.url).hostname:
            variable = f"${{{own.key_variable}}}"
            raise ValueError(f'api_key is needed for {self.base_url}: api_key = "{variable}"')
        if self.api == "responses" and self.kind != "openai":
            raise ValueError(f'api = "responses" goes with kind = "openai", not {self.kind!r}')
        return self


class FallbackConfig(ServiceConfig):
    """[[provider.fallbacks]]: where to ask when the primary does not answer, in this order."""

    model: str = Field("", description="the model to ask there; empty: the kind's own default")

    def get_model(self) -> str:
        """The model to ask."""
        return self.model or SERVICES[self.kind].model


class PriceConfig(BaseModel):
    """[provider.prices."MODEL"]: USD per million tokens, in place of the built-in table."""

    model_config = STRICT

    input: float = Field(0.0, ge=0, description="USD per million tokens sent")
    output: float = Field(0.0, ge=0, description="USD per million tokens received")
    cached: float | None = Field(
        None, ge=0, description="USD per million tokens sent that were cached; absent: as input"
    )


class ProviderConfig(ServiceConfig):
    """[provider]: the language model behind the assistant."""

    kind: Kind = Field(
        "local",
        description="local: the embedded model; anthropic; gemini; openai: any compatible server",
    )
    timeout_s: float = Field(
        120, gt=0, le=86_400, description="the longest silence of the server, between bytes too"
    )
    total_timeout_s: float = Field(
        900, gt=0, le=86_400, description="the longest that one call may take in all"
    )
    max_tokens: int = Field(0, ge=0, description="tokens of one reply; 0: the model's own limit")
    extra_headers: dict[Annotated[str, AfterValidator(_check_header_name)], HeaderText] = Field(
        default_factory=dict, repr=False, description="HTTP headers to send along"
    )
    models: ModelsConfig = Field(
        default_factory=ModelsConfig, description="which model does which work"
    )
    fallbacks: tuple[FallbackConfig, ...] = Field(
        (), description="where to ask when the primary does not answer"
    )
    prices: dict[str, PriceConfig] = Field(
        default_factory=dict, description="prices by model, instead of the built-in table"
    )

    def get_model(self, work: Literal["primary", "fast", "smart"] = "primary") -> str:
        """The model for this kind of work."""
        default = SERVICES[self.kind].model if self.kind in SERVICES else ""
        return getattr(self.models, work) or self.models.primary or default
