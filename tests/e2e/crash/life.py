"""One life of a daemon: the real house, what it may do, and the moments at which it may die."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from daemon.app import Parts, open_house
from daemon.config.load import load
from daemon.config.paths import Paths
from daemon.core.label import Effect
from daemon.store.lock import HomeLock
from daemon.store.protocol import Store
from daemon.store.sqlite import SqliteStore
from daemon.tools.base import Tool, ToolContext
from daemon.tools.decorate import bind, tool
from tests.e2e.crash.journal import MortalStore, all_but_starts, everything
from tests.e2e.crash.moments import Moment, Moments, Outside
from tests.e2e.crash.person import Person, Plan, Said, Task
from tests.fakes.house import write_config

SLOW_S = 300.0
HISTORY = "a long line of what was there to see, "


@dataclass(frozen=True, slots=True)
class Life:
    """How a daemon is to live, and die: `die_at` counts its own moments, `die_asking` is "HOW:N" for its N-th model call,
    `die_after` seconds, wherever it may be then. A `hasty` person answers questions before the turn has come to rest, and one
    with `doubts` says no to so many answers first. `agents` are the specs in HOME/agents; `chosen` is who answers.
    """

    folder: str
    base_url: str
    plan: Plan
    die_at: int = 0
    die_asking: str = ""
    die_after: float = 0.0
    forgetful: bool = False
    hasty: bool = False
    agent: Mapping[str, object] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict)
    agents: Mapping[str, str] = field(default_factory=dict)
    chosen: str = ""
    doubts: int = 0
    task: Task | None = None
    long_looks: int = 0

    @classmethod
    def read(cls, told: Mapping[str, object]) -> "Life":
        """Back from JSON."""
        plan, task = told["plan"], told["task"]
        assert isinstance(plan, dict)
        said = {session: [Said(**one) for one in messages] for session, messages in plan.items()}
        return cls(**{**told, "plan": said, "task": Task(**task) if isinstance(task, dict) else None})  # type: ignore[arg-type] # asdict wrote it

    def told(self) -> dict[str, object]:
        """As JSON."""
        return asdict(self)


def hands(outside: Outside, moment: Moment, long_looks: int) -> list[Tool]:
    """What the model may do: look (inside), wait (for ever), note (an effect), send (an effect that needs a yes)."""

    def act(context: ToolContext, name: str, text: str) -> str:
        moment(f"before {name}")
        outside.effects.note(turn=context.turn.id, call=context.call_id, tool=name, text=text)
        moment(f"after {name}")
        return f"{name} done"

    @tool(effect=Effect.READ)
    async def look(context: ToolContext, text: str) -> str:
        """Look at something."""
        moment("before look")
        moment("after look")
        return f"saw {text} {HISTORY * long_looks}"

    @tool(effect=Effect.READ, timeout_s=SLOW_S)
    async def wait(context: ToolContext, text: str) -> str:
        """Wait for something that never comes."""
        moment("before wait")
        await asyncio.Event().wait()
        return text

    @tool(effect=Effect.WRITE)
    async def note(context: ToolContext, text: str) -> str:
        """Note something down."""
        return act(context, "note", text)

    @tool(effect=Effect.EGRESS)
    async def send(context: ToolContext, text: str) -> str:
        """Send something away."""
        return act(context, "send", text)

    return bind([look, wait, note, send], {})


async def live(life: Life) -> list[str]:
    """From start to good end: everything said, answered, shown. Gives the moments that were passed."""
    folder = Path(life.folder)
    outside = Outside(folder)
    moments = Moments(life.die_at, outside.deaths)
    paths = _home(life)

    async def open_store(path: Path) -> Store:
        return MortalStore(await SqliteStore.open(path), moments, outside, all_but_starts if life.forgetful else everything)

    parts = Parts(hands(outside, moments, life.long_looks), open_store)
    with HomeLock(paths.home):
        async with open_house(paths, load(paths.config, env={}, secrets={}), parts) as house:
            await house.sessions.recover()
            await house.loops.recover()
            person = Person(house, outside, moments, life.hasty, life.chosen, life.doubts)
            await person.talk(life.plan, life.task)
    return moments.passed


def _home(life: Life) -> Paths:
    """Its config.toml and its agents, as each start finds them."""
    folder = Path(life.folder)
    headers = {"X-Pid": str(os.getpid()), "X-Die": life.die_asking, "X-Home": life.folder}
    agent = {"drain_seconds": 1, **life.agent}
    paths = write_config(folder / "home", life.base_url, {"provider": {"extra_headers": headers}, "agent": agent, **life.config})
    paths.agents.mkdir(exist_ok=True)
    for name, spec in life.agents.items():
        (paths.agents / f"{name}.toml").write_text(spec)
    return paths
