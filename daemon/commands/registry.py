"""What commands need of the config that runs (A20).

A chat command: the same for every channel, handled out of band, never seen by the model.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from daemon.agent.spec.registry import AgentRegistry
from daemon.agent.termination.halt import UsageToday
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.ids import NewId
from daemon.core.journal import Store
from daemon.core.rows import SessionRow
from daemon.core.trust import Right, Role
from daemon.loops.engine import LoopEngine
from daemon.sessions.manager import SessionManager
from daemon.tools.mcp.protocol import McpServers
from daemon.tools.policy.rules import RuleSet
from daemon.tools.workspace.file_store import FileStore


@value
class ReloadResult:
    """Keys whose value in the file is another than before: those that hold from now on, and those that need a restart."""

    live: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()


class ConfigReloader(Protocol):
    """The config that runs, and its file."""

    async def reload(self) -> ReloadResult:
        """Take on what the file says now, where that can be done. Raises ConfigError: nothing changed."""
        ...


COMMAND_TEXT = re.compile(r"/([a-z_]+)(?:@\w+)?(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)


class ModelNames(Protocol):
    """The models one can choose from."""

    def list_models(self) -> Sequence[str]:
        """All that are configured, the default one first."""
        ...


@value
class Services:
    """What commands work with. `channels`: how each of them is, a line each. `listed`: what the config says of people, by channel
    and by sender.
    """

    store: Store
    sessions: SessionManager
    clock: Clock
    models: ModelNames
    today: Callable[[], UsageToday]
    new_id: NewId
    specs: AgentRegistry
    loops: LoopEngine
    rules: RuleSet
    settings: ConfigReloader
    servers: McpServers | None
    files: FileStore
    channel_lines: Callable[[], Sequence[str]]
    config_roles: Mapping[str, Mapping[str, Role]]


@value
class CommandCall:
    """A command as somebody gave it, and what they are to the house."""

    session: SessionRow
    sender: str
    name: str
    argument: str
    role: Role = Role.GUEST


RunCommand = Callable[[Services, CommandCall], Awaitable[str]]


@value
class Command:
    """One command. `run` gives the reply; `right` is what it takes to give it."""

    name: str
    help: str
    run: RunCommand
    right: Right = Right.TALK


def parse_command(text: str) -> tuple[str, str] | None:
    """(name, argument) of a text that is a command; "/etc/passwd" is none."""
    match = COMMAND_TEXT.fullmatch(text.strip())
    return (match[1].lower(), (match[2] or "").strip()) if match else None
