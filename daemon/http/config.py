"""The [http] section of the config."""

import re
from functools import lru_cache
from ipaddress import ip_address
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from daemon.core.trust import OWNER_NAME, Person, Role

NAME_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}")
RESERVED_NAMES = (OWNER_NAME, "default", "terminal")


def _check_header_value(token: str) -> str:
    if not (token.isascii() and token.isprintable()):
        raise ValueError("must be printable ASCII, as it is sent in an HTTP header")
    return token.strip()


HeaderToken = Annotated[str, AfterValidator(_check_header_value)]


class UserConfig(BaseModel):
    """A person with an HTTP token, beside the owner (C9)."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: str = Field(
        description="their name; their conversations are web:NAME and web:NAME.anything"
    )
    role: Role = Field(description='"owner", "admin", "editor", "viewer" or "guest"')
    token: HeaderToken = Field(
        repr=False, description="the token of their requests; long and random"
    )

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not NAME_PATTERN.fullmatch(name):
            raise ValueError("expected a name of letters, digits, '_' and '-', at most 64")
        if name in RESERVED_NAMES:
            raise ValueError(f"expected another name: {name!r} is reserved")
        return name

    @field_validator("token")
    @classmethod
    def _check_token(cls, token: str) -> str:
        if not token:
            raise ValueError("expected a token that is not empty")
        return token

    @property
    def person(self) -> Person:
        return Person(self.name, self.role)


class HttpConfig(BaseModel):
    """The HTTP API, for this machine. Other machines need a tunnel or a proxy."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    host: str = Field("127.0.0.1", description="the address to listen on; a loopback one")
    port: int = Field(8080, ge=0, le=65535, description="the port to listen on; 0: any free one")
    token: HeaderToken = Field(
        "",
        repr=False,
        description="the owner's token; generated and kept in secrets.toml when empty",
    )
    users: list[UserConfig] = Field(
        default_factory=list, description="other people, each with a role and a token"
    )

    @field_validator("host")
    @classmethod
    def _check_loopback(cls, host: str) -> str:
        if not is_loopback(host):
            raise ValueError(
                f"{host!r} is not an address of this machine alone;"
                " expected 127.0.0.1, ::1 or localhost"
            )
        return host

    @model_validator(mode="after")
    def _check_unique(self) -> "HttpConfig":
        names = [user.name for user in self.users]
        tokens = [self.token, *(user.token for user in self.users)]
        for what, listed in (("a name twice", names), ("a token twice, or the owner's", tokens)):
            if len(set(listed)) < len(listed):
                raise ValueError(f"users holds {what}; expected one of its own for each")
        return self


@lru_cache(64)
def is_loopback(host: str) -> bool:
    """The name or address means this machine only; no resolver is asked."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
