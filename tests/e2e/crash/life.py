"""One life of a daemon: the real house, what it may do, and the moments at which it may die."""

import os
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from daemon.app.config import load_config
from daemon.app.daemon import Overrides, open_daemon
from daemon.settings.paths import Paths, resolve_paths, write_private_file
from daemon.store.journal import Store
from daemon.store.lock import lock_home
from daemon.store.sqlite import SqliteStore
from tests.e2e.crash.hands import hands
from tests.e2e.crash.journal import MortalStore, all_but_starts, everything
from tests.e2e.crash.moments import Moments, Outside
from tests.e2e.crash.person import Person, Plan, Said, Task
from tests.e2e.crash.stranger import street
from tests.fakes.house import write_config

SERVERS_S = 20.0
FIRST = "first"


@dataclass(frozen=True, slots=True)
class Life:
    """How a daemon is to live, and die: `die_at` counts its own moments, `die_in` names one, `die_asking` is "HOW:N" for its N-th model call,
    `die_after` seconds, wherever it may be then. A `hasty` person answers questions before the turn has come to rest, and one
    with `doubts` says no to so many answers first. `agents` are the specs in HOME/agents; `chosen` is who answers. `finely`: each
    change of the file system is a moment, too.
    """

    folder: str
    base_url: str
    plan: Plan
    die_at: int = 0
    die_in: str = ""
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
    finely: bool = False

    @classmethod
    def read(cls, told: Mapping[str, object]) -> "Life":
        """Back from JSON."""
        plan, task = told["plan"], told["task"]
        assert isinstance(plan, dict)
        said = {session: [Said(**one) for one in messages] for session, messages in plan.items()}
        read = {**told, "plan": said, "task": Task(**task) if isinstance(task, dict) else None}
        return cls(**read)  # type: ignore[arg-type] # asdict wrote it

    def told(self) -> dict[str, object]:
        """As JSON."""
        return asdict(self)


async def live(life: Life) -> list[str]:
    """From start to good end: everything said, answered, shown. Gives the moments that were passed."""
    folder = Path(life.folder)
    outside = Outside(folder)
    moments = Moments(life.die_at, outside.deaths, life.die_in)
    paths = _home(life)

    async def open_store(path: Path) -> Store:
        return MortalStore(
            await SqliteStore.open(path),
            moments,
            outside,
            all_but_starts if life.forgetful else everything,
        )

    parts = Overrides(hands(outside, moments, life.long_looks), open_store)
    if life.finely:
        sys.addaudithook(moments.of_files)
    async with AsyncExitStack() as stack:
        stack.enter_context(lock_home(paths.home))
        house = await stack.enter_async_context(
            open_daemon(paths, load_config(paths.config, env=os.environ, secrets={}), parts)
        )
        await house.wait_for_servers(SERVERS_S)
        await house.sessions.recover()
        await house.loops.recover()
        post = (
            await stack.enter_async_context(street(house)) if house.config.events.enabled else None
        )
        await Person(house, outside, moments, life.hasty, life.chosen, life.doubts, post).talk(
            life.plan, life.task
        )
    return moments.passed


def _home(life: Life) -> Paths:
    """Its config.toml, as the first life finds it, and its agents, as each does. Who lives, and how it is to die, is told by the
    environment.
    """
    folder = Path(life.folder)
    os.environ.update(LIFE_PID=str(os.getpid()), LIFE_DIE=life.die_asking, LIFE_HOME=life.folder)
    paths = resolve_paths(str(folder / "home"), None)
    paths.home.mkdir(mode=0o700, exist_ok=True)
    if not paths.config.exists():
        headers = {"X-Pid": "${LIFE_PID}", "X-Die": "${LIFE_DIE}", "X-Home": "${LIFE_HOME}"}
        agent = {"drain_seconds": 1, **life.agent}
        config = {"provider": {"extra_headers": headers}, "agent": agent, **life.config}
        first = write_config(folder / FIRST, life.base_url, config)
        write_private_file(paths.config, first.config.read_text())
    paths.agents.mkdir(exist_ok=True)
    for name, spec in life.agents.items():
        (paths.agents / f"{name}.toml").write_text(spec)
    return paths
