"""The embedded model in a whole daemon, on small tasks and reminders: all of them three times with AIDAEMON_TEST_FULL=1."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic
from zoneinfo import ZoneInfo

import pytest
import pytest_asyncio
import tomli_w

from daemon.app.config import load_config
from daemon.app.daemon import Daemon, open_daemon
from daemon.cli.model import ensure_model
from daemon.core.rows import FileLabel, LabelScope
from daemon.core.trust import Answer, Label
from daemon.ops.models import DEFAULT_MODEL
from daemon.settings.paths import resolve_paths
from tests.e2e.small_tasks import (
    FILES,
    REMINDERS,
    TASKS,
    Call,
    Outcome,
    Planned,
    Reminder,
    Task,
    claims_falsely,
)
from tests.full_form import FULL

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(7200 if FULL else 900),
]
TIMES = 3 if FULL else 1
ZONE = ZoneInfo("Europe/Berlin")
CONFIG = {
    "provider": {"kind": "local"},
    "general": {"timezone": ZONE.key},
}
WITHIN_S = 120.0

Report = Callable[[str], None]


@dataclass
class Helper:
    """A daemon with the embedded model; each task finds the same files, and nothing of the last one."""

    daemon: Daemon
    count: int = 0
    stopping: asyncio.Future[bool] | None = None

    async def do(self, task: Task | Reminder) -> Outcome:
        await self.clear()
        said, now = (task.says if isinstance(task, Task) else (task.says,)), datetime.now(ZONE)
        self.count += 1
        reply, calls = "", list[Call]()
        for part, text in enumerate(said):
            apart = f"-{part}" if isinstance(task, Task) and task.apart else ""
            reply, made = await self.ask(f"terminal:task-{self.count}{apart}", text)
            calls += made
        return Outcome(
            reply, tuple(calls), self.folder, await self.list_planned(), await self.facts(), now
        )

    async def ask(self, session: str, text: str) -> tuple[str, list[Call]]:
        """Whatever it asks leave for is allowed."""
        client = self.daemon.client
        accepted = await client.send(session, text, stream=False)
        asyncio.get_running_loop().call_later(WITHIN_S, self.stop, accepted.turn)
        async for event in client.stream_events(accepted.turn):
            if event.name == "run.suspended":
                for one in await client.list_approvals(session=session):
                    await client.answer_approval(one.turn, one.call_id, Answer.ONCE)
        view = await client.wait_until_ended(accepted.turn)
        return view.reply or "", [
            Call(one.tool, one.arguments, one.result or "", one.is_error) for one in view.calls
        ]

    def stop(self, turn: str) -> None:
        """It takes too long; one that has ended is left alone."""
        self.stopping = asyncio.ensure_future(self.daemon.client.cancel_run(turn))

    @property
    def folder(self) -> Path:
        return self.daemon.files.workspace.root

    async def clear(self) -> None:
        for place in self.folder.iterdir():
            shutil.rmtree(place) if place.is_dir() else place.unlink()
        for name, text in FILES.items():
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_text(text)
        labels = self.daemon.files.labels
        await labels.save([FileLabel("", Label.TRUSTED, "owner", LabelScope.TREE)])
        for row in await self.daemon.schedules.list_all():
            await self.daemon.schedules.change(row.id, "remove")
        for fact in await self.daemon.memory.facts(100):
            await self.daemon.memory.forget(fact.id)

    async def list_planned(self) -> tuple[Planned, ...]:
        rows = await self.daemon.schedules.list_all()
        return tuple(
            Planned(row.due.astimezone(ZONE), row.prompt, is_instant(row.rule))
            for row in rows
            if row.due
        )

    async def facts(self) -> tuple[str, ...]:
        return tuple(fact.text for fact in await self.daemon.memory.facts(100))


def is_instant(rule: str) -> bool:
    """What runs once has the time itself as its rule."""
    try:
        return bool(datetime.fromisoformat(rule))
    except ValueError:
        return False


@asynccontextmanager
async def helper(home: Path) -> AsyncIterator[Helper]:
    await asyncio.to_thread(ensure_model, DEFAULT_MODEL)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    (home / "config.toml").write_text(tomli_w.dumps(CONFIG))
    paths = resolve_paths(str(home), None)
    loaded = load_config(paths.config, env={}, secrets={})
    async with open_daemon(paths, loaded) as daemon:
        await daemon.sessions.recover()
        yield Helper(daemon)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Helper]:
    """One for both tests: the model takes long to load, and to read what it is told first."""
    async with helper(tmp_path_factory.mktemp("small") / "home") as it:
        yield it


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Report:
    def tell(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{text}")
            sys.stdout.flush()

    return tell


async def count(it: Helper, tasks: tuple[Task | Reminder, ...], report: Report) -> tuple[int, int]:
    """How many are right, and how many claim what was not done."""
    right = false = 0
    for task in tasks:
        began = monotonic()
        outcome = await it.do(task)
        is_right, is_false = task.check(outcome), claims_falsely(task, outcome)
        right, false = right + is_right, false + is_false
        verdict = "right" if is_right else "FALSE" if is_false else "WRONG"
        steps = " ".join(
            f"{call.tool}{call.arguments}{'!' * call.failed}" for call in outcome.calls
        )
        report(f"{verdict} {monotonic() - began:5.1f} s  {task.says}: {steps} -> {outcome.reply!r}")
    report(f"{right} of {len(tasks)} right, {false} false claims")
    return right, false


async def test_small_tasks_are_done_and_none_claims_what_it_did_not_do(
    it: Helper, report: Report
) -> None:
    tasks = tuple(task for task in TASKS if FULL or task.brief)
    counted = [await count(it, tasks, report) for _ in range(TIMES)]
    assert sum(right for right, _ in counted) >= LEAST_TASKS * len(tasks) * TIMES
    assert sum(false for _, false in counted) <= MOST_FALSE * len(tasks) * TIMES


async def test_what_one_asks_to_be_reminded_of_is_really_scheduled(
    it: Helper, report: Report
) -> None:
    tasks = tuple(task for task in REMINDERS if FULL or task.brief)
    right, _ = await count(it, tasks, report)
    assert right >= LEAST_REMINDERS * len(tasks)


LEAST_TASKS, LEAST_REMINDERS, MOST_FALSE = 0.5, 0.3, 0.2
