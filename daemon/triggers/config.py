"""[events] and [scheduler] in config.toml."""

import re
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from channels.email.config import EmailConfig
from daemon.core.errors import UsageError
from daemon.core.ids import parse_session_id
from daemon.core.rows import HTTP_ROOT
from daemon.triggers.filters import parse_filter
from daemon.triggers.recurrence import load_zone, parse_rule
from daemon.triggers.signatures import SignedConfig

NOTIFY_CHANNELS = ("terminal", "web", "telegram", "slack", "discord")
EVENT_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
CONDITIONS = ("command", "url", "file", "mail")
PRINTABLE = re.compile(r"[ -~]+")


Named = TypeVar("Named")


def _check_notify(notify: str) -> str:
    bare = notify.removeprefix("telegram:")  # a Telegram chat is its number alone
    channel, chat = parse_session_id(bare)
    if notify in ("", HTTP_ROOT) or (channel.rpartition("/")[2] in NOTIFY_CHANNELS and chat):
        return bare
    raise ValueError(
        f'expected "{HTTP_ROOT}", or a conversation such as "terminal:main"'
        ' or "123456789" (a Telegram chat)'
    )


def check_mail(config: EmailConfig) -> EmailConfig:
    """What is told by mailboxes goes to conversations that there are. Raises ValueError."""
    for name, account in {"": config, **config.accounts}.items():
        for told in (account, *account.rules):
            try:
                _check_notify(told.notify)
            except ValueError as error:
                where = f"accounts.{name}." if name else ""
                raise ValueError(f"{where}notify: {error}, got {told.notify!r}") from None
    return config


def _check_names(named: dict[str, Named]) -> dict[str, Named]:
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


def _check_filters(filters: dict[str, str]) -> dict[str, str]:
    for name, text in filters.items():
        try:
            parse_filter(text)
        except UsageError as error:
            raise ValueError(f"{name}: {error}") from error
    return filters


def _check_sessions(sessions: dict[str, str]) -> dict[str, str]:
    return {name: _check_notify(session) for name, session in sessions.items()}


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
    signed: Annotated[dict[str, SignedConfig], AfterValidator(_check_names)] = Field(
        default_factory=dict,
        description="senders that sign what they send, by name, instead of a token",
    )
    when: Annotated[ByEventName, AfterValidator(_check_filters)] = Field(
        default_factory=dict,
        description='which events count, by name, decided without a model: { "github" ='
        " \"payload.action == 'opened'\" }; the others are taken and forgotten",
    )
    sessions: Annotated[ByEventName, AfterValidator(_check_sessions)] = Field(
        default_factory=dict,
        description="by name: the conversation that is told and asked, instead of `notify`",
    )

    @model_validator(mode="after")
    def _check_each_has_a_sender(self) -> "EventsConfig":
        if both := sorted(self.tokens.keys() & self.signed.keys()):
            raise ValueError(f"{both[0]!r} has a token and is signed; expected one of them")
        for key, named in (
            ("prompts", self.prompts),
            ("when", self.when),
            ("sessions", self.sessions),
        ):
            if stray := sorted(named.keys() - self.tokens.keys() - self.signed.keys()):
                rule = "expected a name of [events.tokens] or [events.signed]"
                raise ValueError(f"{key} has {stray[0]!r}, which has no token; {rule}")
        return self


def _check_zone(zone: str) -> str:
    try:
        load_zone(zone or "UTC")
    except UsageError as error:
        raise ValueError(str(error)) from error
    return zone


Zone = Annotated[str, AfterValidator(_check_zone)]
TaskName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


class ScheduleTask(BaseModel):
    """[[scheduler.tasks]]: one schedule of the config (A16)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: TaskName = Field(description="its name: letters, digits, '_', '-', '.'")
    schedule: str = Field(
        description='when: "0 8 * * 1-5" (minute, hour, day, month, weekday), "every 2h", or a time'
        ' such as "2026-12-24T18:00"'
    )
    prompt: str = Field(min_length=1, description="what to do then")
    oneshot: bool = Field(False, description="only the first time")
    misfire: Literal["once", "all", "skip"] = Field(
        "once",
        description='times that passed while the daemon was off: "once" runs one, "all" each,'
        ' "skip" none',
    )
    session: Annotated[str, AfterValidator(_check_notify)] = Field(
        "", description="the conversation that is told and asked; empty: that of [scheduler]"
    )
    zone: Zone = Field("", description="its time zone; empty: that of [scheduler]")
    jitter_s: int = Field(
        0, ge=0, le=86_400, description="begin up to so many seconds later, by chance"
    )
    until: str = Field("", description='no run after this time: "2027-01-01T00:00"; empty: no end')
    remind: bool = Field(False, description="tell the prompt as it is, without a model")
    paused: bool = Field(False, description="do not run it now")
    condition: dict[str, str] = Field(
        {},
        description="looked at first, without a model; it runs if this command succeeds, the page"
        ' at this address has changed, or this file is there: { file = "inbox.txt" }',
    )
    agent: str = Field("default", description="the agent that does it")

    @model_validator(mode="after")
    def _check_times(self) -> "ScheduleTask":
        try:
            for text in filter(None, (self.schedule, self.until)):
                rule = parse_rule(text, self.zone or "UTC", datetime.now(UTC))
                if rule.kind == "once" and not text[:4].isdecimal():
                    raise UsageError(f"{text!r} changes from day to day; give the date")
                # Without its date it would begin anew at each start.
                if rule.kind == "days" and rule.text[-10:] != text[-10:]:
                    raise UsageError(f'{text!r} begins on no date; write "{rule.text}"')
            if len(self.condition) > 1 or not {*self.condition} <= {*CONDITIONS}:
                raise UsageError(f"condition: expected one of {', '.join(CONDITIONS)}")
        except UsageError as error:
            raise ValueError(f"{self.name}: {error}") from error
        return self


class SchedulerConfig(BaseModel):
    """What the assistant does by itself at its time (A16)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    timezone: Zone = Field("", description="the time zone of schedules; empty: that of [general]")
    session: Annotated[str, AfterValidator(_check_notify)] = Field(
        "terminal:main", description="the conversation that is told and asked"
    )
    heartbeat: str = Field(
        "",
        description='how often the assistant looks at HEARTBEAT.md in the workspace, such as "every'
        ' 30m", and does what is due; empty: never',
    )
    tasks: tuple[ScheduleTask, ...] = Field((), description="the schedules")

    @model_validator(mode="after")
    def _check_names_differ(self) -> "SchedulerConfig":
        names = [task.name for task in self.tasks] + ["heartbeat"] * bool(self.heartbeat)
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(
                f"two tasks are named {twice[0]!r}; expected a name of its own for each"
            )
        return self
