"""What every lane works with."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from daemon.agent.context import Scene
from daemon.agent.crew.children import Children
from daemon.agent.lanes.briefing import Briefing
from daemon.agent.lanes.control import Control
from daemon.agent.lanes.tries import Company
from daemon.agent.money.budgets import Budgets
from daemon.core.clock import Clock
from daemon.core.live import Live
from daemon.core.rows import InboxRow
from daemon.core.turn import Turn
from daemon.store.protocol import Store


class Runner(Protocol):
    """The agent loop."""

    async def run(self, turn: Turn, scene: Scene, control: Control) -> None:
        """Drive the turn until it ends or waits."""
        ...


async def nothing(row: InboxRow) -> str:
    """No files can be had here."""
    return ""


@dataclass(frozen=True, slots=True)
class Workshop:
    """What every lane works with. `leaving` is set when the daemon stops, `questions` while somebody has been asked something.

    `held` are the turns that this process took in and has not finished. `fetch` brings in the files of a message before its turn
    begins and says what came of it, in words for the model; it may be asked again for the same one. `company` is who shares the
    blame where the former daemon crashed.
    """

    store: Store
    live: Live
    clock: Clock
    agent: Runner
    brief: Briefing
    budgets: Budgets
    children: Children
    effort: Callable[[], str]
    while_busy: Callable[[], Literal["steer", "queue"]]
    owner: str
    leaving: asyncio.Event
    questions: asyncio.Event
    held: set[str] = field(default_factory=set)
    fetch: Callable[[InboxRow], Awaitable[str]] = nothing
    company: Company = field(default_factory=Company)
