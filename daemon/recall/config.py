"""[memory] in config.toml."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from daemon.providers.config import SERVICES, STRICT, HeaderText, check_address


class EndpointConfig(BaseModel):
    """[memory.openai]: who tells what a text means, where embedder = "openai"."""

    model_config = STRICT

    base_url: Annotated[str, AfterValidator(check_address)] = Field(
        SERVICES["openai"].url, description="any OpenAI-compatible server, with /v1 where it has it"
    )
    api_key: HeaderText = Field("", repr=False, description='"${ENV}" or "secret:NAME"')
    model: str = Field(
        "text-embedding-3-small", min_length=1, description="its model that embeds texts"
    )


class MemoryConfig(BaseModel):
    """[memory]: what is found again, and by whom."""

    model_config = STRICT

    owner_sessions: list[str] = Field(
        [],
        description="conversations that find the owner's memories though others may read along,"
        ' such as "telegram:-100123"; the owner\'s own chats do without being listed',
    )
    embedder: Literal["local", "openai", "none"] = Field(
        "local",
        description="by what it is found whether words mean the same: a model on this machine"
        " (`aidaemon model pull memory`), the server of [memory.openai], which is sent what was"
        " said once you allow it, or nothing: by the words alone",
    )
    openai: EndpointConfig = Field(
        EndpointConfig(), description='who is asked where embedder = "openai"'
    )
    salience: int = Field(
        5, ge=0, le=20, description="how many pinned facts a turn is shown at most; 0: none"
    )
    consolidation_hours: float = Field(
        6.0,
        ge=0,
        le=8760,
        description="after how many hours `provider.models.fast`, where it is set, looks through"
        " what you said for facts to keep; 0: only when you say /memory consolidate",
    )
    follow_ups: int = Field(
        0,
        ge=0,
        le=10,
        description='questions a day that it asks by itself about what you said you would do: "how'
        ' did the interview go?", in the evening of that day; 0: none',
    )
    relevance: int = Field(
        5,
        ge=0,
        le=20,
        description="how much a turn is shown of what was said before and fits; 0: nothing",
    )

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        own, asked = SERVICES["openai"], self.openai
        if self.embedder == "openai" and asked.base_url == own.url and not asked.api_key:
            raise ValueError(f'openai.api_key is needed: api_key = "${{{own.key_variable}}}"')
        return self
