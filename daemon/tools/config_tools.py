"""config_get and config_set: the assistant's own config, changed with a yes to the diff (A20)."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from daemon.core.errors import ConfigError, UsageError
from daemon.core.trust import Effect
from daemon.tools.base import Arguments, Tool, ToolError
from daemon.tools.signature import bind, tool

if TYPE_CHECKING:
    from daemon.settings.edit import ConfigChange

UNCHANGED = "Nothing was changed."
Value = str | int | float | bool | list | dict | None


class ConfigFile(Protocol):
    """The config file. Raises ConfigError and UsageError, which name the key."""

    def show(self, key: str) -> str:
        """The effective value without secrets; of all keys for ""."""
        ...

    def plan_change(self, key: str, value: object) -> "ConfigChange":
        """What setting this key would change; nothing is written."""
        ...

    def write_change(self, key: str, value: object) -> str:
        """Set the key; the text for the user."""
        ...


@tool(effect=Effect.READ, parallel=True, owner_only=True)
async def config_get(settings: ConfigFile, key: str = "") -> str:
    """Show the assistant's own settings: one key, a section, or all. Secrets are not shown."""
    try:
        return await asyncio.to_thread(settings.show, key.strip())
    except (ConfigError, UsageError) as error:
        raise ToolError(str(error)) from error


@tool(effect=Effect.DESTRUCTIVE, critical=None, owner_only=True)
async def config_set(settings: ConfigFile, _untrusted_source: bool, key: str, value: Value) -> str:
    """Change one of the assistant's own settings, for example agent.max_iterations;
    null: back to the default.
    """
    plan = await asyncio.to_thread(_plan_change, settings, key, value)
    if _untrusted_source and plan.guarded_keys:
        raise ToolError(
            f"{', '.join(plan.guarded_keys)} can be changed only where nothing from outside has"
            " been read: nothing was changed. The owner can do it in a fresh conversation"
            " (/clear), or with aidaemon config set"
        )
    try:
        return await asyncio.to_thread(settings.write_change, key, value)
    except (ConfigError, UsageError) as error:
        raise ToolError(f"{error}\n{UNCHANGED}") from error


def config_tools(settings: ConfigFile) -> list[Tool]:
    """Both tools. A bad value is refused before anybody is asked; a person is shown the diff."""
    reading, writing = bind((config_get, config_set), {ConfigFile: settings})

    def check(arguments: Arguments) -> None:
        if writing.check:
            writing.check(arguments)
        _plan_change(settings, str(arguments["key"]), arguments["value"])

    def preview(arguments: Arguments) -> str:
        try:
            plan = settings.plan_change(str(arguments.get("key")), arguments.get("value"))
        except (ConfigError, UsageError) as error:
            return f"This would be refused: {error}"
        return plan.diff or "This changes nothing."

    return [reading, replace(writing, check=check, preview=preview)]


def _plan_change(settings: ConfigFile, key: str, value: object) -> "ConfigChange":
    try:
        plan = settings.plan_change(key, value)
    except (ConfigError, UsageError) as error:
        raise ToolError(f"{error}\n{UNCHANGED}") from error
    if plan.exposed_keys:
        raise ToolError(
            f"{', '.join(plan.exposed_keys)}: a secret does not get into the config this way. "
            'Its owner keeps it with: aidaemon secret set NAME; then set "secret:NAME" here'
        )
    return plan
