"""The whole config: sections owned by the parts they configure, composed here with add-ons' own."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from channels.base import Channel
from channels.discord.config import DiscordConfig
from channels.email.config import EmailAccount, EmailConfig
from channels.slack.config import SlackConfig
from channels.telegram.config import TelegramConfig
from daemon.access.chat_ids import account_name
from daemon.access.directory import roles_of_config
from daemon.addons import BUILTIN, list_addons, load_class
from daemon.agent.config import AgentConfig, BudgetConfig, SubagentsConfig
from daemon.core import value
from daemon.core.errors import ConfigError
from daemon.core.ids import MAIL_CHANNEL
from daemon.core.trust import Role
from daemon.gateway.voice import VoiceConfig
from daemon.http.config import HttpConfig
from daemon.loops.config import LoopsConfig
from daemon.outbox.held import NotifyConfig
from daemon.providers.config import ProviderConfig
from daemon.recall.config import MemoryConfig
from daemon.sessions.brakes import LimitsConfig
from daemon.settings.load import LoadedConfig, Parse, choose_config, parse_model, read_text
from daemon.settings.paths import Paths
from daemon.settings.redaction import Redactor
from daemon.settings.secrets import ActiveSecrets, SecretStore, find_config_secrets
from daemon.store.pruning import StoreConfig
from daemon.tools.config import ToolsConfig
from daemon.tools.mcp.config import McpConfig, ServerName
from daemon.triggers.config import EventsConfig, SchedulerConfig, Zone, check_mail


class StrictModel(BaseModel):
    """Refuses unknown keys, also those of an add-on."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class GeneralConfig(StrictModel):
    """[general]: what all parts share."""

    timezone: Zone = Field(
        "", description='your time zone, such as "Europe/Berlin"; empty: that of the machine'
    )


class DeliveryConfig(StrictModel):
    """[delivery]: what goes to others than the owner."""

    hold_seconds: int = Field(
        30,
        ge=0,
        le=3600,
        description="how long a message to others waits, so that /undo can stop it; 0: not at all",
    )


class TelemetryConfig(StrictModel):
    """[telemetry]: where spans of what was done go, if anywhere."""

    endpoint: str = Field(
        "",
        pattern="^(https?://.+)?$",
        description="a collector of OpenTelemetry spans (OTLP over HTTP), such as"
        ' "http://127.0.0.1:4318/v1/traces"; empty: none',
    )
    headers: dict[str, str] = Field(
        {}, description='headers of these requests, such as { authorization = "secret:otel" }'
    )


class AddonChannels(StrictModel):
    """[channels.NAME]: channels of add-ons, each with the add-on's own keys."""


class Config(StrictModel):
    """config.toml. Every key has a default, so that an absent file is a config too."""

    provider: ProviderConfig = Field(ProviderConfig(), description="the language model")
    agent: AgentConfig = Field(AgentConfig(), description="how far one turn may go")
    budget: BudgetConfig = Field(BudgetConfig(), description="what a day may cost")
    subagents: SubagentsConfig = Field(SubagentsConfig(), description="agents below agents")
    loops: LoopsConfig = Field(LoopsConfig(), description="loops of a live page that nobody views")
    limits: LimitsConfig = Field(LimitsConfig(), description="what one sender may bring in")
    memory: MemoryConfig = Field(MemoryConfig(), description="what is found again, and by whom")
    voice: VoiceConfig = Field(VoiceConfig(), description="who writes down voice messages")
    store: StoreConfig = Field(default_factory=StoreConfig, description="the journal")
    http: HttpConfig = Field(HttpConfig(), description="the HTTP API on this machine")
    telegram: TelegramConfig = Field(TelegramConfig(), description="a Telegram bot of yours")
    slack: SlackConfig = Field(SlackConfig(), description="a Slack app of yours")
    discord: DiscordConfig = Field(DiscordConfig(), description="a Discord bot of yours")
    email: Annotated[EmailConfig, AfterValidator(check_mail)] = Field(
        EmailConfig(), description="a mailbox of yours"
    )
    channels: AddonChannels = Field(AddonChannels(), description="channels of add-ons")
    events: EventsConfig = Field(EventsConfig(), description="events from outside that start work")
    general: GeneralConfig = Field(GeneralConfig(), description="what all parts share")
    delivery: DeliveryConfig = Field(
        DeliveryConfig(), description="what goes to others than the owner"
    )
    notify: NotifyConfig = Field(
        NotifyConfig(), description="when results that you did not ask for just then are told"
    )
    scheduler: SchedulerConfig = Field(
        SchedulerConfig(), description="what the assistant does by itself at its time"
    )
    tools: ToolsConfig = Field(
        ToolsConfig(), description="what the assistant may do, and when it asks"
    )
    telemetry: TelemetryConfig = Field(
        TelemetryConfig(), description="spans of what was done, for an OpenTelemetry collector"
    )
    contacts: dict[str, list[str]] = Field(
        {},
        description="people by name, with their addresses: the assistant may write to these",
    )
    mcp: dict[ServerName, McpConfig] = Field(
        {}, description="MCP servers, whose tools the assistant may use"
    )


Loaded = LoadedConfig[Config]


def compose(raw: Mapping[str, object]) -> type[Config]:
    """Config, with the keys of the add-ons that this table names. Raises ConfigError."""
    provider, channels = raw.get("provider"), raw.get("channels")
    kind = provider.get("kind") if isinstance(provider, Mapping) else None
    model = Config
    if (
        isinstance(kind, str)
        and kind not in BUILTIN["providers"]
        and kind in list_addons("providers")
    ):
        bases = (_config_class("providers", kind), ProviderConfig)
        own = create_model(
            "AddonProviderConfig", __base__=bases, kind=(str, Field(kind, pattern=f"^{kind}$"))
        )
        model = create_model("Config", __base__=model, provider=(own, ...))
    named = channels if isinstance(channels, Mapping) else {}
    addons = [name for name in (list_addons("channels") if named else ()) if name in named]
    if addons:
        fields: dict[str, Any] = {
            name: (create_model(name, __base__=(_config_class("channels", name), StrictModel)), ...)
            for name in addons
        }
        section = create_model("AddonChannels", __base__=AddonChannels, **fields)
        model = create_model("Config", __base__=model, channels=(section, ...))
    return model


def _config_class(group: str, name: str) -> type[BaseModel]:
    found = getattr(load_class(group, name), "Config", None)
    if not (isinstance(found, type) and issubclass(found, BaseModel)):
        raise ConfigError(f"{group}: {name!r} has no Config, a pydantic model of its keys")
    return found


def parse_config(
    text: str, path: Path, *, env: Mapping[str, str], secrets: Mapping[str, str]
) -> Loaded:
    """A config from its text. Raises ConfigError with a line for every fault."""
    return parse_model(text, path, compose, env=env, secrets=secrets)


def make_parser(paths: Paths) -> Parse[Config]:
    """`parse_config` with the environment and the secrets of HOME. Raises ConfigError."""
    secrets = SecretStore(paths.secrets).read_values()
    return partial(parse_config, env=os.environ, secrets=secrets)


def load_config(path: Path, *, env: Mapping[str, str], secrets: Mapping[str, str]) -> Loaded:
    """The file as a config; an absent file means the defaults. Raises ConfigError."""
    return parse_config(read_text(path), path, env=env, secrets=secrets)


def load_home_config(paths: Paths) -> Loaded:
    """The config file with the environment and the secrets of HOME. Raises ConfigError."""
    return make_parser(paths)(read_text(paths.config), paths.config)


def load_or_last_good(paths: Paths) -> Loaded:
    """The config file, else the last good one with a notice (A8). Raises ConfigError."""
    return choose_config(paths.config, paths.lastgood, make_parser(paths))


def make_redactor(paths: Paths, config: Config | None = None) -> Redactor:
    """Removes secrets from texts; without a config, those of the file, if it can be used."""
    if config is None:
        with suppress(ConfigError, OSError):
            config = load_home_config(paths).config
    secrets = ActiveSecrets(SecretStore(paths.secrets), find_config_secrets(config))
    return Redactor(secrets, look_every_s=0.01)


@value
class ConfiguredAccount:
    """One account of a channel in the config, in use if it has a token, or is an add-on's. `roles`
    is what the config says of people; an empty one admits nobody.
    """

    name: str
    kind: str
    config: Any  # the class of its channel, which may be an add-on
    section: str
    roles: Mapping[str, Role]
    in_use: bool = True

    def import_channel(self) -> None:
        """Import its library, which takes a while. Raises ConfigError."""
        load_class("channels", self.kind)

    def create_channel(self) -> Channel:
        """The channel. Raises ConfigError."""
        make = cast(Callable[..., Channel], load_class("channels", self.kind))
        return make(self.config, name=self.name)


def _iter_accounts(config: Config) -> Iterator[ConfiguredAccount]:
    for kind in (*BUILTIN["channels"], *type(config.channels).model_fields):
        is_addon = kind not in BUILTIN["channels"]
        section = getattr(config.channels if is_addon else config, kind)
        further = () if is_addon else section.accounts.items()
        for name, account in (("", section), *further):
            where = f"channels.{kind}" if is_addon else f"{kind}.accounts.{name}" if name else kind
            roles = roles_of_config(account.allowed_user_ids, account.owner_ids)
            if kind == MAIL_CHANNEL:  # whoever has its password reads a mailbox: nobody owns here
                roles = dict.fromkeys(roles, Role.EDITOR)
            in_use = is_addon or account.in_use
            yield ConfiguredAccount(account_name(kind, name), kind, account, where, roles, in_use)


def list_accounts(config: Config) -> list[ConfiguredAccount]:
    """All accounts in use."""
    return [one for one in _iter_accounts(config) if one.in_use]


def list_mailboxes(config: Config) -> dict[str, EmailAccount]:
    """The mailboxes in use, by their channels' names."""
    used = list_accounts(config)
    return {one.name: one.config for one in used if isinstance(one.config, EmailAccount)}


def find_muted_sections(config: Config) -> list[str]:
    """Sections that list people but have no token: they have no effect."""
    return [one.section for one in _iter_accounts(config) if one.roles and not one.in_use]
