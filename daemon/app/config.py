"""Which accounts of which platforms the config has.

The config of a daemon that runs: looked at, edited, and taken on again without a restart where that can be done (A20).

Which parts of the house take on a new config while it runs, and how (A20): each from its next turn on.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Protocol, cast

from channels.base import Channel
from daemon import addons as plugins
from daemon.access.directory import roles_of_config
from daemon.agent.budgets import DailyUsage
from daemon.agent.spec.registry import AgentRegistry
from daemon.agent.subagents.manager import SubagentManager
from daemon.commands.admin import ReloadResult
from daemon.core import value
from daemon.core.trust import Role
from daemon.outbox.message import account_name
from daemon.settings.dotted_keys import find_changes, format_key
from daemon.settings.load import LoadedConfig, load_config
from daemon.settings.model import Config
from daemon.settings.paths import Paths
from daemon.settings.secrets import SecretStore

CHANNEL_KINDS = ("telegram", "slack", "discord")


class AccountConfig(Protocol):
    """What every channel's config says of one account."""

    @property
    def bot_token(self) -> str:
        """ "" where the channel is not configured."""
        ...

    @property
    def allowed_user_ids(self) -> Sequence[str | int]:
        """Who may talk and give work."""
        ...

    @property
    def owner_ids(self) -> Sequence[str | int]:
        """Who is the owner there."""
        ...


class ChannelFactory(Protocol):
    """A channel's class."""

    def __call__(self, config: AccountConfig, *, name: str) -> Channel:
        """The channel of this account, under its name in the house."""
        ...


@value
class ConfiguredAccount:
    """One account of the config."""

    name: str
    kind: str
    config: AccountConfig
    section: str

    def import_channel(self) -> None:
        """Import its library: that takes a while, and may be done in a thread. Raises ConfigError."""
        plugins.load_addon("channels", self.kind)

    def create_channel(self) -> Channel:
        """The channel, its library imported now. Raises ConfigError."""
        make = cast(ChannelFactory, plugins.load_addon("channels", self.kind))
        return make(self.config, name=self.name)

    def list_roles(self) -> dict[str, Role]:
        """What the config says of people; an empty list admits nobody."""
        return roles_of_config(self.config.allowed_user_ids, self.config.owner_ids)


def find_muted_sections(config: Config) -> list[str]:
    """Sections that list people but have no token: what stands there does nothing."""
    sections = {
        name: account for kind in CHANNEL_KINDS for name, account in _iter_accounts(config, kind)
    }
    return [
        name
        for name, one in sections.items()
        if not one.bot_token and (one.allowed_user_ids or one.owner_ids)
    ]


def _iter_accounts(config: Config, kind: str) -> list[tuple[str, AccountConfig]]:
    section = getattr(config, kind)
    return [
        (kind, section),
        *((f"{kind}.accounts.{name}", account) for name, account in section.accounts.items()),
    ]


def list_accounts(config: Config) -> list[ConfiguredAccount]:
    """All accounts that have a token, the main one of each kind first."""
    found = []
    for kind in CHANNEL_KINDS:
        found += [
            ConfiguredAccount(
                account_name(kind, place.removeprefix(kind).removeprefix(".accounts.")),
                kind,
                account,
                place,
            )
            for place, account in _iter_accounts(config, kind)
            if account.bot_token
        ]
    return found


if TYPE_CHECKING:
    from daemon.settings.edit import ConfigChange, ConfigEditor

NEEDS_RESTART: tuple[str, ...] = ("agent.drain_seconds",)
ReloadHook = Callable[[Config], None]
ValueOf = Callable[..., str]


@dataclass(slots=True)
class RuntimeConfig:
    """What runs, and the file it comes from. `takers` hand the new values of a section to the parts that use it, from their
    next turn on; a section without one, and `ANEW`, need a restart.
    """

    paths: Paths
    loaded: LoadedConfig
    env: Mapping[str, str]
    reload_hooks: Mapping[str, ReloadHook]

    @property
    def config(self) -> Config:
        """What holds now."""
        return self.loaded.config

    def show(self, key: str) -> str:
        """What the file says of it, as far as it is nobody's secret, and whether that holds already."""
        fresh, value_of = self._load(), cast(ValueOf, plugins.load_addon("config", "value"))
        says = value_of(fresh, key, expanded=False)
        holds = (
            value_of(LoadedConfig(self.config, fresh.text, fresh.path), key, expanded=False) == says
        )
        return (
            says if holds else f"{says}\n(so the file says; it holds after /reload, or a restart)"
        )

    def plan_change(self, key: str, value: object) -> "ConfigChange":
        """An edit of the file, checked."""
        return self._editor().plan(key, value)

    def write_change(self, key: str, value: object) -> str:
        """Edit the file."""
        editor = self._editor()
        plan = editor.plan(key, value)
        if not plan.keys:
            return f"{key} is so already; nothing was changed."
        editor.write(plan)
        return f"{', '.join(map(format_key, plan.keys))}: written to {self.paths.config}. It holds after /reload, or a restart."

    async def reload(self) -> ReloadResult:
        """Take on what the file says. Raises ConfigError for a file that does not load: what runs goes on as it is."""
        fresh = await asyncio.to_thread(self._load)
        places = find_changes(
            self.config.model_dump(mode="json"), fresh.config.model_dump(mode="json")
        )
        keys = tuple(format_key(steps) for steps in places)
        live = tuple(key for key in keys if self._is_reloadable(key))
        sections = dict.fromkeys(key.split(".")[0] for key in live)
        now = self._merge_sections(fresh.config, tuple(sections))
        self.loaded = LoadedConfig(now, self.loaded.text, self.paths.config)
        for section in sections:
            self.reload_hooks[section](now)
        return ReloadResult(live, tuple(key for key in keys if key not in live))

    def _is_reloadable(self, key: str) -> bool:
        return key.split(".")[0] in self.reload_hooks and not any(
            fnmatchcase(key, pattern) for pattern in NEEDS_RESTART
        )

    def _merge_sections(self, fresh: Config, sections: tuple[str, ...]) -> Config:
        """What runs, with these sections as they are now; what needs a restart stays as it was."""
        taken: dict[str, object] = {name: getattr(fresh, name) for name in sections}
        for key in NEEDS_RESTART:
            section, _, name = key.partition(".")
            if section in taken:
                kept = getattr(getattr(self.config, section), name)
                taken[section] = getattr(fresh, section).model_copy(update={name: kept})
        return self.config.model_copy(update=taken)

    def _load(self) -> LoadedConfig:
        return load_config(
            self.paths.config, env=self.env, secrets=SecretStore(self.paths.secrets).read_values()
        )

    def _editor(self) -> "ConfigEditor":
        """Imported when something is edited: most days nothing is."""
        make = cast("type[ConfigEditor]", plugins.load_addon("config", "editor"))
        return make(self.paths.config, self.env, SecretStore(self.paths.secrets).read_values())


def make_runtime_config(
    paths: Paths,
    loaded: LoadedConfig,
    specs: AgentRegistry,
    children: SubagentManager,
    ledger: DailyUsage,
) -> RuntimeConfig:
    """The config, handed to agents, budgets and sub-agents anew at every reload; all else waits for a restart."""

    def agents(config: Config) -> None:
        specs.set_defaults(config.agent)
        children.defaults = config.agent

    def budgets(config: Config) -> None:
        ledger.set_config(config.budget)

    def below(config: Config) -> None:
        children.config = config.subagents

    return RuntimeConfig(
        paths, loaded, os.environ, {"agent": agents, "budget": budgets, "subagents": below}
    )
