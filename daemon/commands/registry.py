"""The chat commands of every channel: names, help and rights. They are handled out of band; the
model never sees them.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from difflib import get_close_matches
from itertools import groupby
from operator import attrgetter

from daemon.core import value
from daemon.core.rows import SessionRow
from daemon.core.trust import Right, Role

COMMAND_TEXT = re.compile(r"/([a-z_]+)(?:@\w+)?(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)


@value
class CommandCall:
    """A command as somebody gave it, with their role."""

    session: SessionRow
    sender: str
    name: str
    argument: str
    role: Role = Role.GUEST


Handler = Callable[[CommandCall], Awaitable[str]]
Handlers = Mapping[str, Handler]


@value
class Command:
    """`help` is one short line; `usage` has the details; `right` is needed to give it."""

    name: str
    help: str
    usage: str = ""
    right: Right = Right.TALK


GROUPS: dict[str, tuple[Command, ...]] = {
    "Look": (
        Command("help", "this list", right=Right.READ),
        Command("status", "this chat at a glance", right=Right.READ),
        Command("tasks", "what is not finished", right=Right.READ),
        Command("cost", "tokens and money by model", right=Right.READ),
        Command("whoami", "who you are here", right=Right.READ),
    ),
    "Work": (
        Command("stop", "stop everything here, or one task"),
        Command(
            "cancel",
            "stop everything here, or one task",
            "/cancel ID stops one task; /tasks shows the ids.",
        ),
        Command("pause", "hold before the next step, and continue"),
        Command("resume", "hold before the next step, and continue"),
        Command("clear", "start with an empty conversation", "Memory and journal stay."),
        Command(
            "loop",
            "repeat a task until it is done",
            "/loop start MESSAGE, /loop stop, /loop pause, /loop resume, /loop",
        ),
        Command(
            "undo", "restore files that a task changed", "/undo [ID], /undo list", Right.DANGER
        ),
    ),
    "Permissions": (
        Command(
            "approve",
            "say yes or no to a question",
            (
                "/approve [2|all|show 2] [once|session|always [5 times] [30 minutes] [paths"
                " reports/*]]"
            ),
        ),
        Command("deny", "say yes or no to a question", "/deny [2|all] [reason]"),
        Command("grants", "what is allowed without a question", "/grants, /grants revoke ID"),
        Command(
            "rules",
            "what is always asked, or never done",
            "/rules, /rules add SENTENCE, /rules confirm N, /rules remove N",
            Right.MANAGE,
        ),
    ),
    "Model": (
        Command(
            "model", "show or choose the model", "/model, /model NAME pins one; /auto unpins it."
        ),
        Command("models", "show or choose the model", "/models lists them."),
        Command("auto", "show or choose the model", "/auto unpins the model."),
        Command("effort", "how hard the model thinks", "/effort low|medium|high|max"),
        Command("agent", "list agents or choose one", "/agent, /agent NAME"),
    ),
    "Admin": (
        Command("people", "who was let in by a code", "/people, /people remove NAME", Right.MANAGE),
        Command(
            "mcp",
            "MCP servers and their tools",
            "/mcp, /mcp NAME [TOOL], /mcp whole NAME, /mcp approve NAME CODE [TOOL]",
            Right.MANAGE,
        ),
        Command("reload", "read the config file again", right=Right.MANAGE),
    ),
}
COMMANDS = {command.name: command for group in GROUPS.values() for command in group}
ALIASES = {"start": "help"}


def parse_command(text: str) -> tuple[str, str] | None:
    """(name, argument) of a text that is a command; "/etc/passwd" is none."""
    match = COMMAND_TEXT.fullmatch(text.strip())
    return (match[1].lower(), (match[2] or "").strip()) if match else None


def render_help(argument: str = "") -> str:
    """All commands on one phone screen, or one in detail."""
    if not argument:
        lines = []
        for group, commands in GROUPS.items():
            lines.append(f"{group}:")
            for text, same in groupby(commands, key=attrgetter("help")):
                lines.append(f"{', '.join(f'/{command.name}' for command in same)} - {text}")
        return "\n".join((*lines, "/help COMMAND explains one."))
    name = argument.lstrip("/").lower()
    command = COMMANDS.get(ALIASES.get(name, name))
    if command is None:
        return describe_unknown(name)
    return "\n".join(part for part in (f"/{name}: {command.help}.", command.usage) if part)


def describe_unknown(name: str) -> str:
    """With the nearest known command."""
    near = get_close_matches(name, COMMANDS, n=1)
    return (
        f"Unknown command /{name}."
        + (f" Did you mean /{near[0]}?" if near else "")
        + " /help lists all."
    )
