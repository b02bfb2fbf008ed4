"""Agents as the page shows them, and their loops' settings, which it edits (C7)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from daemon.agent.spec.agent_spec import DEFAULT, parse_spec
from daemon.agent.spec.registry import AgentRegistry
from daemon.agent.spec.sections import LoopSection
from daemon.core import value
from daemon.core.errors import CONFIG_FAULT, ConfigError, UsageError
from daemon.core.reports import AgentView, LoopSettings
from daemon.settings.load import read_text
from daemon.settings.paths import lock_folder, write_private_file
from daemon.tools.config_tools import ConfigFile


@value
class AgentSettings:
    """`config` is the file that has the default agent's, `reload` applies it."""

    agents: AgentRegistry
    config: ConfigFile
    reload: Callable[[], Awaitable[object]]

    def list_agents(self) -> list[AgentView]:
        """All, the default one first."""
        return [self._view(name) for name in self.agents.names()]

    def _view(self, name: str) -> AgentView:
        try:
            loop = self.agents.get(name).loop
        except ConfigError as error:
            return AgentView(name, LoopSettings(), str(error))
        settings = LoopSettings(**loop.model_dump())
        return AgentView(name, settings, warnings=tuple(self.agents.warnings_of(name)))

    async def set_loop(self, name: str, settings: LoopSettings) -> AgentView:
        """Write them into the agent's file, or the config for the default agent without one; they
        hold from the next loop on. Raises ConfigError, UsageError: nothing was changed.
        """
        given: dict[str, object] = {
            "enabled": settings.enabled,
            "criterion": settings.criterion,
            "value": settings.value,
            "max_iterations": settings.max_iterations,
        }
        try:
            LoopSection.model_validate(given)
        except ValidationError as error:
            faults = "; ".join(one["msg"] for one in error.errors(include_url=False))
            raise UsageError(
                f"{faults.replace('Value error, ', '')}; nothing was changed"
            ) from error
        if name in self.agents.files():
            await asyncio.to_thread(_edit_file, self.agents.folder / f"{name}.toml", given)
        elif name == DEFAULT:
            await asyncio.to_thread(self.config.write_change, "agent.loop", given)
            await self.reload()
        else:
            self.agents.get(name)  # raises
        return self._view(name)


def hide_own(view: AgentView) -> AgentView:
    """As others than the owner see it."""
    loop = view.loop if view.loop.criterion != "test_pass" else replace(view.loop, value="")
    return AgentView(view.name, loop, CONFIG_FAULT if view.fault else "")


def _edit_file(path: Path, given: dict[str, object]) -> None:
    """Replace the section [loop] of an agent's file, which stays as it is elsewhere."""
    from daemon.settings.edit import set_value_in_text  # lazy: tomlkit, 20 ms

    with lock_folder(path.parent):
        after = set_value_in_text(read_text(path), ("loop",), given)
        parse_spec(after, path)
        write_private_file(path, after)
