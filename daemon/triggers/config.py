"""[events] in config.toml."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from daemon.core.ids import parse_session_id
from daemon.core.rows import HTTP_ROOT

NOTIFY_CHANNELS = ("terminal", "web", "telegram", "slack", "discord")
EVENT_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
PRINTABLE = re.compile(r"[ -~]+")


def _check_notify(notify: str) -> str:
    bare = notify.removeprefix("telegram:")  # a Telegram chat is its number alone
    channel, chat = parse_session_id(bare)
    if notify in ("", HTTP_ROOT) or (channel.rpartition("/")[2] in NOTIFY_CHANNELS and chat):
        return bare
    raise ValueError(
        f'expected "{HTTP_ROOT}", or a conversation such as "terminal:main"'
        ' or "123456789" (a Telegram chat)'
    )


def _check_names(named: dict[str, str]) -> dict[str, str]:
    for name in named:
        if not EVENT_NAME.fullmatch(name):
            rule = "expected letters, digits, '_', '-', '.', at most 64"
            raise ValueError(f"{name!r} is no name for an event; {rule}")
    return named


def _check_tokens(tokens: dict[str, str]) -> dict[str, str]:
    for name, token in tokens.items():
        if not PRINTABLE.fullmatch(token):
            rule = "expected a token of printable ASCII, as it is sent in an HTTP header"
            raise ValueError(f"{name}: {rule}")
    if len(set(tokens.values())) < len(tokens):
        raise ValueError("two names have the same token; expected one of its own for each")
    return tokens


ByEventName = Annotated[dict[str, str], AfterValidator(_check_names)]


class EventsConfig(BaseModel):
    """Who may set the assistant to work from outside, and who is told what came of it (A16). Such
    work is never trusted.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    enabled: bool = Field(False, description="take events at POST /v1/events/NAME")
    notify: Annotated[str, AfterValidator(_check_notify)] = Field(
        "",
        description='the conversation that is told and asked, such as "terminal:main"; "http":'
        " nobody is told, questions wait at"
        " /v1/approvals; empty: nobody is told or asked, and what would need asking is refused",
    )
    tokens: Annotated[ByEventName, AfterValidator(_check_tokens)] = Field(
        default_factory=dict,
        repr=False,
        description='each sender\'s name and token: { "github" = "${GITHUB_EVENTS}" }',
    )
    prompts: ByEventName = Field(
        default_factory=dict, description='what to do with it, by name: { "github" = "Sum it up." }'
    )

    @model_validator(mode="after")
    def _check_prompts(self) -> "EventsConfig":
        if stray := sorted(self.prompts.keys() - self.tokens):
            rule = "expected a name of [events.tokens]"
            raise ValueError(f"prompts has {stray[0]!r}, which has no token; {rule}")
        return self
