"""Which calls of one reply run together: reading ones, writes to other places; never the rest (E5)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.core.events import ToolFinished, ToolStarted
from daemon.core.trust import Effect
from daemon.tools.base import Arguments
from daemon.tools.signature import bind, tool
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, calls, says

TOLD = "It is as you see."
UNASKED = {"tools": {"approvals": {"shell": "never", "handle": "never"}}}


@dataclass
class Desk:
    """Where calls lie that are under way, until they are let go."""

    begun: list[str] = field(default_factory=list)
    running: set[str] = field(default_factory=set)
    free: asyncio.Event = field(default_factory=asyncio.Event)
    came: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def lie(self, name: str) -> str:
        self.begun.append(name)
        self.running.add(name)
        async with self.came:
            self.came.notify_all()
        await self.free.wait()
        self.running.remove(name)
        return f"{name} is done"

    async def has_had(self, count: int) -> None:
        async with asyncio.timeout(10), self.came:
            await self.came.wait_for(lambda: len(self.begun) >= count)


def classify(arguments: Arguments) -> Effect:
    return Effect.DESTRUCTIVE if arguments["how"] == "burn" else Effect.READ


@tool(effect=Effect.READ, parallel=True)
async def look(desk: Desk, at: str) -> str:
    """Look at something."""
    return await desk.lie(at)


@tool(effect=Effect.READ)
async def weigh(desk: Desk, at: str) -> str:
    """Weigh something, on the only scales there are."""
    return await desk.lie(at)


@tool(effect=Effect.WRITE, parallel=True, paths=("path",))
async def note(desk: Desk, path: str, text: str) -> str:
    """Write a note into a file."""
    return await desk.lie(text)


@tool(effect=Effect.DESTRUCTIVE, parallel=True, classify=classify)
async def handle(desk: Desk, how: str, at: str) -> str:
    """Do something to a thing."""
    return await desk.lie(at)


@asynccontextmanager
async def working(tmp_path: Path, model: FakeOpenAI) -> AsyncIterator[tuple[Living, Desk]]:
    desk = Desk()
    parts = Overrides(tools=bind([look, weigh, note, handle], {Desk: desk}))
    async with living(tmp_path, model, UNASKED, parts) as it:
        yield it, desk


async def under_way(it: Living, desk: Desk, count: int) -> set[str]:
    """What runs once so many have begun, and whatever else may run had its time to."""
    await desk.has_had(count)
    await it.command("/status")
    return set(desk.running)


async def test_e5_twelve_reading_calls_run_eight_at_a_time(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    names = [f"thing {number}" for number in range(12)]
    model.script(calls(*(("look", {"at": name}) for name in names)), says(TOLD))
    async with working(tmp_path, model) as (it, desk):
        turn = await it.say("look at all of them")
        assert len(await under_way(it, desk, 8)) == 8
        desk.free.set()
        run = await it.settled(turn)
    assert [call.result for call in run.calls] == [f"{name} is done" for name in names]
    assert (run.reply, sorted(desk.begun)) == (TOLD, sorted(names))


async def test_e5_a_call_whose_tool_is_not_parallel_runs_alone(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Between two that may run with others, and beside another of its kind."""
    wanted = [("look", "a"), ("weigh", "b"), ("weigh", "c"), ("look", "d"), ("look", "e")]
    model.script(calls(*((name, {"at": at}) for name, at in wanted)), says(TOLD))
    together: list[set[str]] = []
    async with working(tmp_path, model) as (it, desk):
        turn = await it.say("look and weigh")
        for count in (1, 2, 3, 5):
            together.append(await under_way(it, desk, count))
            desk.free.set()
            desk.free = asyncio.Event()
        assert (await it.settled(turn)).reply == TOLD
    assert together == [{"a"}, {"b"}, {"c"}, {"d", "e"}]


@pytest.mark.parametrize(
    ("first", "second", "at_once"),
    [
        ("a.txt", "b.txt", 2),
        ("notes/a.txt", "notes/b.txt", 2),
        ("a.txt", "a.txt", 1),
        ("a.txt", "./a.txt", 1),
        ("notes", "notes/a.txt", 1),
        ("notes/a.txt", "notes", 1),
        ("", "a.txt", 1),
    ],
)
async def test_e5_writes_run_together_unless_one_is_where_the_other_is(
    tmp_path: Path, model: FakeOpenAI, first: str, second: str, at_once: int
) -> None:
    wanted = [
        ("note", {"path": first, "text": "one"}),
        ("note", {"path": second, "text": "two"}),
    ]
    model.script(calls(*wanted), says(TOLD))
    async with working(tmp_path, model) as (it, desk):
        turn = await it.say("write both")
        assert await under_way(it, desk, at_once) == set(["one", "two"][:at_once])
        desk.free.set()
        run = await it.settled(turn)
    assert [call.result for call in run.calls] == ["one is done", "two is done"]


async def test_e5_reading_waits_for_a_write_that_may_be_to_what_it_reads(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Where it reads is not said."""
    wanted = [("note", {"path": "a.txt", "text": "one"}), ("look", {"at": "two"})]
    model.script(calls(*wanted), says(TOLD))
    async with working(tmp_path, model) as (it, desk):
        turn = await it.say("write, then look")
        assert await under_way(it, desk, 1) == {"one"}
        desk.free.set()
        await it.settled(turn)
    assert desk.begun == ["one", "two"]


async def test_e5_a_call_that_destroys_something_is_told_from_a_harmless_one_and_runs_alone(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """By its arguments, where its tool does both."""
    wanted = [("turn", "a"), ("turn", "b"), ("burn", "c"), ("turn", "d")]
    model.script(calls(*(("handle", {"how": how, "at": at}) for how, at in wanted)), says(TOLD))
    together: list[set[str]] = []
    async with working(tmp_path, model) as (it, desk):
        turn = await it.say("handle them")
        for count in (2, 3, 4):
            together.append(await under_way(it, desk, count))
            desk.free.set()
            desk.free = asyncio.Event()
        assert (await it.settled(turn)).reply == TOLD
    assert together == [{"a", "b"}, {"c"}, {"d"}]


async def test_e5_a_destructive_command_does_not_run_beside_others(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Each call begins when the one before has ended."""
    wanted = [("look", {"at": "a"}), ("shell", {"command": "rm -f a.txt"}), ("look", {"at": "b"})]
    model.script(calls(*wanted), says(TOLD))
    async with working(tmp_path, model) as (it, desk):
        desk.free.set()
        run = await it.ask("tidy up")
        steps = [
            (type(event), event.tool)
            for event in await it.events(run.turn)
            if isinstance(event, ToolStarted | ToolFinished)
        ]
    assert steps == [(kind, name) for name, _ in wanted for kind in (ToolStarted, ToolFinished)]
    assert not any(call.is_error for call in run.calls)
