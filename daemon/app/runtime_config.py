"""The config of a running daemon: shown, edited, reloaded (A20); the last good one kept (A8)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daemon.app.config import Config, Loaded, load_home_config, make_parser
from daemon.core.errors import ConfigError, ErrorClass
from daemon.settings.dotted_keys import find_changes, format_key
from daemon.settings.last_good import LastGood, load_last_good, should_fall_back
from daemon.settings.load import LoadedConfig
from daemon.settings.paths import Paths

if TYPE_CHECKING:
    from daemon.settings.edit import ConfigChange, ConfigEditor

log = logging.getLogger(__name__)
NEEDS_RESTART = ("agent.drain_seconds",)
ReloadHook = Callable[[Config], None]


@dataclass(slots=True)
class RuntimeConfig:
    """`reload_hooks` hand a section's new values to the parts that use them, from their next turn
    on; other sections, and NEEDS_RESTART, wait for a restart. `notice` says why the config in use
    is not the one in the file, and `tell_owner` tells it.
    """

    paths: Paths
    loaded: Loaded
    reload_hooks: Mapping[str, ReloadHook]
    tell_owner: Callable[[str], Awaitable[None]]
    notice: str = ""
    _saved: str | None = field(default=None, repr=False)

    def show(self, key: str) -> str:
        """What the file has at this key, secrets masked, and whether that holds already."""
        from daemon.settings.masking import render_value  # lazy: tomlkit, 20 ms

        fresh = load_home_config(self.paths)
        in_file = render_value(fresh, key, expanded=False)
        in_use = LoadedConfig(self.loaded.config, fresh.text, fresh.path)
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
        """Apply what the file says; the keys that apply now, and those that need a restart. Raises
        ConfigError for one that does not load: no change.
        """
        fresh = await asyncio.to_thread(load_home_config, self.paths)
        before = self.loaded.config
        places = find_changes(before.model_dump(mode="json"), fresh.config.model_dump(mode="json"))
        keys = [format_key(steps) for steps in places]
        live = [k for k in keys if k.split(".")[0] in self.reload_hooks and k not in NEEDS_RESTART]
        sections = dict.fromkeys(key.split(".")[0] for key in live)
        updates: dict[str, object] = {name: getattr(fresh.config, name) for name in sections}
        if "agent" in updates:
            drain = {"drain_seconds": before.agent.drain_seconds}
            updates["agent"] = fresh.config.agent.model_copy(update=drain)
        config = before.model_copy(update=updates)
        restart = [key for key in keys if key not in live]
        text = fresh.text
        if restart:  # these values are not proven: they must not become part of the last good text
            from daemon.settings.masking import replace_sections  # lazy: tomlkit, 20 ms

            text = replace_sections(self.loaded.text, fresh.text, list(sections))
        else:
            self.notice = ""
        self.loaded = LoadedConfig(config, text, self.paths.config)
        for section in sections:
            self.reload_hooks[section](config)
        return live, restart

    async def save_last_good(self) -> None:
        """A model answered: the running config is good, whatever the file says by now."""
        text = self.loaded.text
        if text == self._saved:
            return
        lastgood = LastGood(self.paths.lastgood)
        try:
            await asyncio.to_thread(lastgood.save, text)
        except (OSError, ConfigError) as error:
            log.warning("%s could not be written: %s", lastgood.path, error)
        else:
            self._saved = text

    async def fall_back(self, kind: ErrorClass) -> bool:
        """The first model call failed. After an edit the last good [provider] takes over."""
        lastgood = LastGood(self.paths.lastgood)
        if not should_fall_back(self.loaded.text, lastgood.read(), kind):
            return False
        fault = f"{self.paths.config}: [provider]: the first model call failed ({kind.value})"
        try:
            parse = make_parser(self.paths)
            found = load_last_good(self.paths.config, fault, lastgood, parse)
        except ConfigError as error:
            log.error("the last good config cannot take over: %s", error)
            return False
        provider = {"provider": found.loaded.config.provider}
        config = self.loaded.config.model_copy(update=provider)
        self.loaded = LoadedConfig(config, found.loaded.text, lastgood.path)
        self.notice = found.notice
        log.warning("%s", found.notice)
        await self.tell_owner(found.notice)
        return True

    def _make_editor(self) -> "ConfigEditor":
        from daemon.settings.edit import ConfigEditor  # lazy: tomlkit, 20 ms

        return ConfigEditor(self.paths.config, make_parser(self.paths))
