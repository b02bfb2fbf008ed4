"""A chat command: the same for every channel, handled out of band, never seen by the model."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from daemon.agent.halting import Today
from daemon.agent.lanes.sessions import Sessions
from daemon.agent.specs.registry import Specs
from daemon.commands.settings import Settings
from daemon.core.clock import Clock
from daemon.core.ids import NewId
from daemon.core.roles import Right, Role
from daemon.core.rows import SessionRow
from daemon.loops.engine import Engine
from daemon.store.protocol import Store
from daemon.tools.changes import Files
from daemon.tools.mcp.running import Running
from daemon.tools.rules.rules import Rules

SPOKEN = re.compile(r"/([a-z_]+)(?:@\w+)?(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)


class ModelNames(Protocol):
    """The models one can choose from."""

    def names(self) -> Sequence[str]:
        """All that are configured, the default one first."""
        ...


@dataclass(frozen=True, slots=True)
class Desk:
    """What commands work with. `channels`: how each of them is, a line each. `listed`: what the config says of people, by channel
    and by sender.
    """

    store: Store
    sessions: Sessions
    clock: Clock
    models: ModelNames
    today: Callable[[], Today]
    new_id: NewId
    specs: Specs
    loops: Engine
    rules: Rules
    settings: Settings
    servers: Running | None
    files: Files
    channels: Callable[[], Sequence[str]]
    listed: Mapping[str, Mapping[str, Role]]


@dataclass(frozen=True, slots=True)
class Spoken:
    """A command as somebody gave it, and what they are to the house."""

    session: SessionRow
    sender: str
    name: str
    argument: str
    role: Role = Role.GUEST


Run = Callable[[Desk, Spoken], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `run` gives the reply; `right` is what it takes to give it."""

    name: str
    help: str
    run: Run
    right: Right = Right.TALK


def parse(text: str) -> tuple[str, str] | None:
    """(name, argument) of a text that is a command; "/etc/passwd" is none."""
    match = SPOKEN.fullmatch(text.strip())
    return (match[1].lower(), (match[2] or "").strip()) if match else None
