"""Late imports by name: one table, then entry points, so that a part nobody configured costs nothing."""

from difflib import get_close_matches
from importlib import import_module
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
    "secrets": {"keyring": "daemon.settings.keyring_store:KeyringStore"},
    "commands": {
        "mcp": "daemon.commands.mcp:run_mcp",
        "rules": "daemon.commands.rules:run_rules",
        "undo": "daemon.commands.undo:run_undo",
    },
    "config": {
        "editor": "daemon.settings.edit:ConfigEditor",
        "value": "daemon.settings.masking:render_value",
    },
    "channels": {
        "telegram": "channels.telegram.channel:Telegram",
        "slack": "channels.slack.channel:Slack",
        "discord": "channels.discord.channel:Discord",
    },
    "house": {"channels": "daemon.app.channels:run_channels"},
    "tools": {},
}
EXTRAS = {"keyring": "keyring", "mcp": "mcp", "httpx2": "mcp"}


def list_names(kind: str) -> list[str]:
    """What there is of this kind: ours first, then what add-ons bring."""
    ours = list(BUILTIN.get(kind, {}))
    return ours + [point.name for point in _entry_points(kind) if point.name not in ours]


def load_addon(kind: str, name: str) -> object:
    """The thing itself, imported now. Raises ConfigError for a name that nobody has, or whose package is not installed."""
    target = BUILTIN.get(kind, {}).get(name)
    if target is not None:
        return _import_target(kind, name, target)
    for point in _entry_points(kind):
        if point.name == name:
            return _import_target(kind, name, point.value)
    near = get_close_matches(name, list_names(kind), n=1)
    hint = (
        f"did you mean {near[0]!r}?"
        if near
        else f"there are: {', '.join(list_names(kind)) or 'none'}"
    )
    raise ConfigError(f"{kind}: nothing is named {name!r}; {hint}")


def _entry_points(kind: str) -> list[EntryPoint]:
    return list(entry_points(group=f"aidaemon.{kind}"))


def _import_target(kind: str, name: str, target: str) -> object:
    module, _, attribute = target.partition(":")
    try:
        found: object = import_module(module)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(error.name or "")
        how = f": pip install 'aidaemon[{extra}]'" if extra else ""
        raise ConfigError(
            f"{kind}: {name!r} needs the package {error.name!r}, which is not installed{how}"
        ) from error
    for part in attribute.split(".") if attribute else ():
        if not hasattr(found, part):
            raise ConfigError(f"{kind}: {name!r} points at {target}, where there is no {part!r}")
        found = getattr(found, part)
    return found
