"""The config of a running daemon: shown, edited, reloaded (A20); the last good one kept (A8); and
its routes to models.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from daemon.addons import BUILTIN, load_class
from daemon.agent.models import ModelChoice
from daemon.app.config import Config, Loaded, load_home_config, make_parser
from daemon.app.tool_names import list_tool_names
from daemon.core.clock import Clock
from daemon.core.errors import ConfigError, ErrorClass
from daemon.providers.base import Provider
from daemon.providers.chain import ModelRoute
from daemon.providers.config import ProviderConfig
from daemon.settings.dotted_keys import (
    find_changes,
    format_key,
    name_members,
    summarize_changes,
)
from daemon.settings.load import (
    LoadedConfig,
    load_last_good,
    read_last_good,
    should_fall_back,
)
from daemon.settings.paths import Paths, write_private_file

if TYPE_CHECKING:
    from daemon.settings.edit import ConfigChange, ConfigEditor

log = logging.getLogger(__name__)
LIVE_SECTIONS = ("agent", "budget", "delivery", "mcp", "memory", "notify", "scheduler", "subagents")
NEEDS_RESTART: dict[str, tuple[str, ...]] = {
    "agent": ("drain_seconds",),
    "memory": ("embedder", "openai"),
}


def _is_live(section: str, key: str = "", *_: str) -> bool:
    return section in LIVE_SECTIONS and key not in NEEDS_RESTART.get(section, ())


@dataclass(slots=True)
class RuntimeConfig:
    """`on_reload` hands the LIVE_SECTIONS to the parts that use them, from their next turn on;
    other sections, and NEEDS_RESTART, wait for a restart.
    """

    paths: Paths
    loaded: Loaded
    on_reload: Callable[[Config], None] = lambda config: None
    _saved: str | None = field(default=None, repr=False)

    def show(self, key: str) -> str:
        """What the file has at this key, secrets masked, and whether that holds already."""
        from daemon.settings.edit import render_value  # lazy: tomlkit, 20 ms

        fresh = load_home_config(self.paths)
        in_file = render_value(fresh, key, expanded=False)
        in_use = replace(fresh, config=self.loaded.config)
        if render_value(in_use, key, expanded=False) == in_file:
            return in_file
        return f"{in_file}\n(so the file says; it holds after /reload, or a restart)"

    def plan_change(self, key: str, value: object) -> "ConfigChange":
        """An edit of the file, checked."""
        return self._make_editor().plan(key, value)

    def write_change(self, key: str, value: object) -> str:
        """Edit the file."""
        editor = self._make_editor()
        plan = editor.plan(key, value)
        if not plan.keys:
            return f"{key} is so already; nothing was changed."
        editor.write(plan)
        keys = ", ".join(map(format_key, plan.keys))
        return f"{keys}: written to {self.paths.config}. It holds after /reload, or a restart."

    async def reload(self) -> tuple[list[str], list[str]]:
        """Apply what the file says; what applies now, and what needs a restart, a line for each
        table. Raises ConfigError for a file that does not load: no change.
        """
        fresh = await asyncio.to_thread(load_home_config, self.paths)
        if self.loaded.text and not fresh.text.strip():
            raise ConfigError(f"{self.paths.config}: is empty or absent; nothing was changed.")
        await asyncio.to_thread(list_tool_names, fresh.config, self.paths)  # else no next start
        before = self.loaded.config
        old_table, new_table = (
            name_members(one.model_dump(mode="json")) for one in (before, fresh.config)
        )
        places = find_changes(old_table, new_table)
        live = [steps for steps in places if _is_live(*steps)]
        sections = dict.fromkeys(steps[0] for steps in live)
        updates: dict[str, object] = {name: getattr(fresh.config, name) for name in sections}
        for name in updates.keys() & NEEDS_RESTART:
            old = {key: getattr(getattr(before, name), key) for key in NEEDS_RESTART[name]}
            updates[name] = getattr(fresh.config, name).model_copy(update=old)
        config = before.model_copy(update=updates)
        restart = [steps for steps in places if steps not in live]
        text, notice = fresh.text, ""
        if restart:  # these values are not proven: they must not become part of the last good text
            from daemon.settings.edit import replace_sections  # lazy: tomlkit, 20 ms

            unproven = {steps[0] for steps in restart}
            proven = [name for name in sections if name not in unproven]
            text = replace_sections(self.loaded.text, fresh.text, proven)
            notice = self.loaded.notice
        self.loaded = LoadedConfig(config, text, self.paths.config, notice)
        self.on_reload(config)
        told = partial(summarize_changes, before=old_table, after=new_table)
        return told(live), told(restart)

    async def save_last_good(self) -> None:
        """A model answered: the running config is good, whatever the file says by now."""
        text, path = self.loaded.text, self.paths.lastgood
        if text == self._saved:
            return
        try:
            if not path.exists() or path.read_bytes() != text.encode():
                await asyncio.to_thread(write_private_file, path, text)
        except OSError as error:
            log.warning("%s could not be written: %s", path, error)
        else:
            self._saved = text

    async def fall_back(self, kind: ErrorClass) -> bool:
        """The first model call failed. After an edit the last good [provider] takes over."""
        path, lastgood = self.paths.config, self.paths.lastgood
        if not should_fall_back(self.loaded.text, read_last_good(lastgood), kind):
            return False
        fault = f"{path}: [provider]: the first model call failed ({kind.value})"
        try:
            found = load_last_good(path, fault, lastgood, make_parser(self.paths))
        except ConfigError as error:
            log.error("the last good config cannot take over: %s", error)
            return False
        provider = {"provider": found.config.provider}
        self.loaded = replace(found, config=self.loaded.config.model_copy(update=provider))
        log.warning("%s", found.notice)
        return True

    def _make_editor(self) -> "ConfigEditor":
        from daemon.settings.edit import ConfigEditor  # lazy: tomlkit, 20 ms

        return ConfigEditor(self.paths.config, make_parser(self.paths))


def build_choice(config: ProviderConfig, clock: Clock, stack: AsyncExitStack) -> ModelChoice:
    """The routes of [provider]; the stack closes their connections."""
    routes: list[ModelRoute] = []
    for entry in (config, *config.fallbacks):
        name = entry.get_provider_name()
        make = cast(Any, load_class("providers", name))  # an add-on's class: not known to types
        if name == "local":
            from daemon.ops.own_models import find_model_file  # lazy: downloads, 20 ms

            made = make(locate=find_model_file, silence_s=config.timeout_s)
        elif name in BUILTIN["providers"]:
            made = make(
                base_url=entry.base_url,
                clock=clock,
                api_key=entry.api_key,
                timeout_s=config.timeout_s,
                total_timeout_s=config.total_timeout_s,
                # Only for the primary: a key may be in them.
                extra_headers=config.extra_headers if entry is config else {},
            )
        else:
            made = make(entry)
        provider = cast(Provider, made)
        stack.push_async_callback(provider.aclose)
        routes.append(ModelRoute(provider, entry.get_model()))
    return ModelChoice(routes[0], tuple(routes[1:]), config.models.fast, config.models.smart)
