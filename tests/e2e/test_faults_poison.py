"""A message that breaks whoever works on it is set aside; everything else goes on (guarantees.md, promise 5; K25)."""

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.core.events import RecordedEvent, UserSaid
from daemon.store.journal import Store
from daemon.store.sqlite import SqliteStore
from tests.e2e.crash.journal import FaultyStore
from tests.fakes.daemon_process import Daemon, NotReady, running_daemon, scripted
from tests.fakes.house import SESSION, living
from tests.fakes.openai import FakeOpenAI, Json, Step, by, calls, drops, gate, says

TRIES = 3
STEPS = 5


class Deadly:
    """A model that kills its daemon: at every "poison", and once at each step of a "long" errand of five."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.kills = 0
        self.done: set[int] = set()

    def choose(self, body: Json) -> Step:
        said = next(m["content"] for m in reversed(body["messages"]) if m["role"] == "user")
        step = sum(m["role"] == "tool" for m in body["messages"])
        if said == "poison" or (said == "long" and step not in self.done):
            self.done.add(step)
            self.kills += 1
            os.kill(json.loads((self.home / "daemon.json").read_text())["pid"], signal.SIGKILL)
            return drops()
        if said == "delegate" and not step:
            return calls(("spawn_agent", {"task": "long"}))
        if said == "long" and step < STEPS:
            return calls(("read_file", {"path": f"part{step}"}))
        return says(f"re: {said}")


async def ended_by_the_model(daemon: Daemon) -> None:
    assert await daemon.process.wait() == -signal.SIGKILL


async def test_b5_25_a_message_that_kills_the_daemon_three_times_is_set_aside_and_the_next_is_answered(
    tmp_path: Path,
) -> None:
    deadly = Deadly(tmp_path / "home")
    async with FakeOpenAI() as model:
        model.otherwise(by(deadly.choose))
        turn = ""
        for _ in range(TRIES):
            with suppress(NotReady):  # the model may be asked, and kill, before the daemon says so
                async with running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon:
                    turn = turn or await daemon.begin("poison")
                    await ended_by_the_model(daemon)
        async with running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon:
            await daemon.until(turn, "run.completed")
            run = await daemon.run(turn)
            assert (run["state"], deadly.kills) == ("quarantined", TRIES)
            assert "This message is set aside" in str(run["notices"])
            assert (await daemon.ask("harmless"))["reply"] == "re: harmless"


async def test_b5_25_of_several_at_work_when_the_daemon_dies_none_is_set_aside_for_three_kills(
    tmp_path: Path,
) -> None:
    """Nobody knows whose message it was; and a machine that is switched off and on is nobody's fault."""
    go_on = asyncio.Event()
    async with FakeOpenAI() as model:
        model.otherwise(
            by(lambda body: gate(go_on, says("re: " + str(body["messages"][-1]["content"]))))
        )
        turns: list[str] = []
        for life in range(1, TRIES + 3):
            async with running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon:
                turns = turns or [
                    await daemon.begin(f"text {number}", f"chat{number}") for number in range(4)
                ]
                await model.asked(4 * life)
                daemon.process.kill()
                await daemon.process.wait()
        go_on.set()
        async with running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon:
            for number, turn in enumerate(turns):
                await daemon.until(turn, "run.completed")
                assert (await daemon.run(turn))["reply"] == f"re: text {number}"


@pytest.mark.parametrize("text", ["long", "delegate"])
async def test_b5_25_a_kill_while_the_turn_makes_progress_does_not_count(
    tmp_path: Path, text: str
) -> None:
    """A17: nor does one while an agent that it waits for makes some."""
    deadly, workspace = Deadly(tmp_path / "home"), tmp_path / "home" / "workspace"
    workspace.mkdir(parents=True)
    for step in range(STEPS):
        (workspace / f"part{step}").write_text(f"this is part {step}")
    async with FakeOpenAI() as model:
        model.otherwise(by(deadly.choose))
        turn = ""
        for _ in range(STEPS + 1):
            async with running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon:
                turn = turn or await daemon.begin(text)
                await ended_by_the_model(daemon)
        async with running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon:
            await daemon.until(turn, "run.completed")
            run = await daemon.run(turn)
        assert (run["state"], run["reply"], deadly.kills) == ("ended", f"re: {text}", STEPS + 1)


async def command(daemon: Daemon, text: str) -> None:
    await daemon.post("/v1/messages", 200, session="default", text=text)


async def test_b5_25_kills_while_the_turn_is_only_paused_do_not_count(tmp_path: Path) -> None:
    async with FakeOpenAI() as model:
        released = asyncio.Event()
        model.script(gate(released, calls(("current_time", {}))), says("after the pause"))
        turn = ""
        for _ in range(TRIES + 2):
            async with running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon:
                if not turn:
                    turn = await daemon.begin("go")
                    await model.asked(1)
                    await command(daemon, "/pause")
                    released.set()
                    await daemon.until(turn, "model.response")
                for _ in range(5):  # writes, after which a lane that was to be taken up has been
                    await command(daemon, "/whoami")
                daemon.process.kill()
                await daemon.process.wait()
        async with running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon:
            await command(daemon, "/resume")
            await daemon.until(turn, "run.completed")
            run = await daemon.run(turn)
            assert (run["state"], run["reply"]) == ("ended", "after the pause")


def refuses_poison(recorded: Sequence[RecordedEvent]) -> Sequence[RecordedEvent]:
    if any(isinstance(one.event, UserSaid) and one.event.text == "poison" for one in recorded):
        raise RuntimeError("a fault in the program")
    return recorded


async def test_b5_25_an_exception_three_times_sets_the_message_aside_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def open_store(path: Path) -> Store:
        return FaultyStore(await SqliteStore.open(path), keeps=refuses_poison)

    queue = {"agent": {"while_busy": "queue"}}
    async with (
        FakeOpenAI() as model,
        living(tmp_path, model, queue, Overrides(open_store=open_store)) as it,
    ):
        poison, healthy = await it.say("poison"), await it.say("healthy")
        assert (await it.settled(poison)).state == "quarantined"
        assert (await it.settled(healthy)).reply == "ok"
        assert (
            sum(line.endswith(f"turn {poison} failed") for line in caplog.text.splitlines())
            == TRIES
        )
        sent = await it.house.store.read(lambda tx: tx.list_outbox("sent", session=SESSION))
        assert [(row.turn, row.kind) for row in sent] == [(poison, "notice"), (healthy, "reply")]
        assert "This message is set aside" in sent[0].body
        inbox = await it.house.store.read(lambda tx: tx.get_turn_input(poison))
        assert inbox and inbox.state == "quarantined"
