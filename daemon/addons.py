"""Channels, providers and tools by name: our own, imported when used, then those of add-ons."""

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from daemon.core.errors import ConfigError

BUILTIN: dict[str, dict[str, str]] = {
    "providers": {
        "openai": "daemon.providers.openai:OpenAI",
        "responses": "daemon.providers.responses:Responses",
        "anthropic": "daemon.providers.anthropic:Anthropic",
        "gemini": "daemon.providers.gemini:Gemini",
        "local": "daemon.providers.local.provider:Local",
    },
    "channels": {
        "telegram": "channels.telegram.channel:Telegram",
        "slack": "channels.slack.channel:Slack",
        "discord": "channels.discord.channel:Discord",
        "email": "channels.email.channel:Email",
    },
    "tools": {},
}
EXTRAS = {"keyring": "keyring", "mcp": "mcp", "httpx2": "mcp"}


def list_addons(group: str) -> list[str]:
    """The names of add-ons, none of which takes the place of our own; nothing is imported."""
    return [point.name for point in _find_entry_points(group)]


def load_class(group: str, name: str) -> object:
    """What has this name. Raises ConfigError for an unknown name or a package that is missing."""
    targets = BUILTIN[group]
    if name not in targets:
        targets = targets | {point.name: point.value for point in _find_entry_points(group)}
    if name not in targets:
        near = get_close_matches(name, targets, n=1)
        known = f"there are: {', '.join(targets) or 'none'}"
        hint = f"did you mean {near[0]!r}?" if near else known
        raise ConfigError(f"{group}: nothing is named {name!r}; {hint}")
    try:
        return EntryPoint(name, targets[name], group).load()
    except ModuleNotFoundError as error:
        raise missing_package_error(f"{group}: {name!r}", error) from error
    except AttributeError as error:
        place = f"points at {targets[name]}, where there is no {error.name!r}"
        raise ConfigError(f"{group}: {name!r} {place}") from error


def missing_package_error(what: str, error: ModuleNotFoundError) -> ConfigError:
    """An optional package is not installed; names the extra that brings it."""
    extra = EXTRAS.get(error.name or "")
    how = f": pip install 'aidaemon[{extra}]'" if extra else ""
    needed = f"needs the package {error.name!r}, which is not installed{how}"
    return ConfigError(f"{what} {needed}")


@cache
def _find_entry_points(group: str) -> Sequence[EntryPoint]:
    points = entry_points(group=f"aidaemon.{group}")
    return [point for point in points if point.name not in BUILTIN[group]]
