"""The tools of a daemon by name, without starting one."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from fnmatch import filter as filter_names
from fnmatch import fnmatchcase
from pathlib import Path

from daemon.addons import list_addons, load_class
from daemon.app.config import Config, list_mailboxes
from daemon.core.errors import ConfigError
from daemon.core.turn import PLAN_TOOL
from daemon.settings.dotted_keys import suggest
from daemon.settings.load import config_error
from daemon.settings.paths import Paths
from daemon.tools.base import Tool
from daemon.tools.builtin import BUILTIN_TOOLS
from daemon.tools.mcp.pins import PINS, ServerPins, list_pinned_names
from daemon.tools.registry import is_enabled
from daemon.tools.signature import ToolDefinition, bind

MADE_TOOLS = (
    "ask_secret",
    "ask_user",
    "config_get",
    "config_set",
    "find_tools",
    "git_commit",
    "goal",
    "goal_done",
    "http_request",
    PLAN_TOOL,
    "schedule",
    "send_file",
    "shell",
    "spawn_agent",
    "stop_command",
    "web_fetch",
    "web_search",
)
MAIL_TOOLS, SEND_TOOL = ("mail_draft", "mail_read", "mail_search"), "mail_send"


def list_own_names(config: Config) -> list[str]:
    """The tools that are no add-on's and no MCP server's."""
    boxes = list_mailboxes(config).values()
    mail = [*MAIL_TOOLS] * bool(boxes) + [SEND_TOOL] * any(one.smtp_host for one in boxes)
    return [*(one.name for one in BUILTIN_TOOLS), *MADE_TOOLS, *mail]


def load_tools(config: Config) -> list[Tool]:
    """The tools of add-ons: each entry point is a ToolDefinition or a list of them. Raises
    ConfigError, also for a name of our own tools or of two add-ons.
    """
    found: list[Tool] = []
    owners = dict.fromkeys(list_own_names(config), "")
    for name in list_addons("tools"):
        loaded = load_class("tools", name)
        for one in loaded if isinstance(loaded, list | tuple) else [loaded]:
            if not isinstance(one, ToolDefinition):
                raise ConfigError(f"tools: {name!r} is no tool; expected a function with @tool")
            if one.name in owners:
                other = owners[one.name]
                taken = f"the add-on {other!r}" if other else "the daemon itself"
                raise ConfigError(
                    f"tools: the add-on {name!r} has a tool {one.name!r}, and so has {taken};"
                    " rename it there, or uninstall the add-on"
                )
            owners[one.name] = name
            try:
                found += bind([one], {})
            except (LookupError, TypeError) as error:
                raise ConfigError(f"tools: {name!r}: {error}") from error
    return found


def check_tool_names(config: Config, path: Path, known: Sequence[str]) -> None:
    """Each name and pattern in [tools] fits one of these tools, or those of an MCP server, which
    may not be known yet. Raises ConfigError, with all that fit none.
    """
    tools, of_servers = config.tools, [f"{server}__*" for server in config.mcp]
    asked = [name for name, _ in tools.approvals.lines]
    named = {"enabled": tools.enabled, "disabled": tools.disabled, "approvals": asked}
    faults = [
        (f"tools.{key}", f"there is no tool {name!r}{suggest(name, known)}")
        for key, names in named.items()
        for name in names
        if not filter_names([*known, *of_servers], name)
        and not any(fnmatchcase(name, one) for one in of_servers)
    ]
    if faults:
        raise config_error(path, faults)


def list_tool_names(config: Config, paths: Paths) -> list[str]:
    """What can be called once a daemon runs with this config: our own tools, those of add-ons, and
    those of MCP servers as they are pinned. Raises ConfigError, also for a name that no tool has.
    """
    tools = config.tools
    names = list_own_names(config) + [one.name for one in load_tools(config)]
    check_tool_names(config, paths.config, names)
    names += list_pinned_names(config.mcp, read_pins(paths.journal))
    return [name for name in names if is_enabled(name, tools.enabled, tools.disabled)]


def read_pins(journal: Path) -> dict[str, ServerPins]:
    """The pins of all servers, whether or not a daemon runs; none where they cannot be read."""
    try:
        with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as db:
            rows = db.execute("SELECT server, pins FROM mcp_pins").fetchall()
    except sqlite3.Error:
        return {}  # there is no journal yet, or an older one
    return {server: PINS.validate_json(text) for server, text in rows}
