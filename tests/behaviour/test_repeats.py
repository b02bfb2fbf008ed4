"""The same question asked again is answered with what came of it before, where nothing can have changed (A11, E9, D7)."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.client.view_types import RunView
from daemon.core.events import ToolFinished, ToolStarted
from daemon.core.trust import Effect
from daemon.tools.base import ToolError
from daemon.tools.signature import bind, tool
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, Step, calls, says
from tests.fakes.wordy_model import Turnstile

NOTE = "You asked exactly this before"


@dataclass
class World:
    """What the tools look at, and how often they did."""

    words: str = "as it was"
    looks: int = 0
    fails: int = 0
    glances: list[str] = field(default_factory=list)


@tool(effect=Effect.READ)
async def look(world: World, at: str = "", closely: bool = False) -> str:
    """Look at something."""
    world.looks += 1
    if world.fails:
        world.fails -= 1
        raise ToolError("too dark")
    return f"{at}: {world.words}"


@tool(effect=Effect.READ, volatile=True)
async def glance(world: World) -> str:
    """Look at what changes all the time."""
    world.looks += 1
    return f"glance {world.looks}"


@tool(effect=Effect.FETCH)
async def fetch(world: World) -> str:
    """Look outside."""
    world.looks += 1
    return "rain"


@tool(effect=Effect.WRITE, critical=())
async def paint(world: World, words: str) -> str:
    """Change it."""
    world.words = words
    return "painted"


@tool(effect=Effect.DESTRUCTIVE)
async def burn(world: World) -> str:
    """Burn it."""
    world.words = "ashes"
    return "burnt"


def parts(world: World) -> Overrides:
    return Overrides(tools=bind([look, glance, fetch, paint, burn], {World: world}))


LOOK: Step = calls(("look", {"at": "wall"}))


async def ran(it: Living, turn: str) -> list[str]:
    return [event.tool for event in await it.events(turn) if isinstance(event, ToolStarted)]


async def answer(tmp_path: Path, model: FakeOpenAI, world: World, *steps: Step) -> RunView:
    """One turn of these steps."""
    model.script(*steps, says("I have seen it."))
    async with living(tmp_path, model, parts=parts(world)) as it:
        run = await it.ask("look at the wall")
    assert run.stop_reason == "done"
    return run


async def test_a11_a_repeated_question_gets_its_earlier_result_with_a_note_and_does_not_run(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """E9: it is no new start in the journal, and it says whose result it is."""
    world = World()
    model.script(LOOK, LOOK, says("I have seen it."))
    async with living(tmp_path, model, parts=parts(world)) as it:
        run = await it.ask("look at the wall")
        assert await ran(it, run.turn) == ["look"]
        first, second = [
            event for event in await it.events(run.turn) if isinstance(event, ToolFinished)
        ]
    assert world.looks == 1
    assert (first.text, second.repeat_of) == ("wall: as it was", first.call_id)
    assert (
        second.text.startswith("wall: as it was\n[")
        and NOTE in second.text
        and not run.calls[1].is_error
    )
    assert NOTE in model.requests[2].last("tool")["content"]


@pytest.mark.parametrize(
    ("again", "same"),
    [
        ('{ "at":"wall" ,"closely":false}', True),
        ('{"closely": false, "at": "wall", "_session_id": "x"}', True),
        ('{"closely": false, "at": "Wall"}', False),
    ],
)
async def test_a11_it_is_the_question_that_counts_not_how_it_is_written(
    tmp_path: Path, model: FakeOpenAI, again: str, same: bool
) -> None:
    world = World()
    run = await answer(
        tmp_path,
        model,
        world,
        calls(("look", '{"closely": false, "at": "wall"}')),
        calls(("look", again)),
    )
    assert (world.looks, NOTE in str(run.calls[1].result)) == ((1, True) if same else (2, False))


async def test_a11_other_arguments_and_other_turns_are_asked_anew(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    world = World()
    model.script(LOOK, calls(("look", {"at": "door"})), says("one"), LOOK, says("two"))
    async with living(tmp_path, model, parts=parts(world)) as it:
        assert (await it.ask("look at the wall")).reply == "one"
        assert (await it.ask("look again")).reply == "two"
    assert world.looks == 3


async def test_a11_after_an_effect_the_world_may_be_another(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    world = World()
    run = await answer(tmp_path, model, world, LOOK, calls(("paint", {"words": "blue"})), LOOK)
    assert (world.looks, run.calls[2].result) == (2, "wall: blue")


async def test_a11_an_effect_earlier_in_the_same_reply_counts_too(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """It has not happened yet when the question is looked at, but it will have."""
    world = World()
    both = calls(("paint", {"words": "blue"}), ("look", {"at": "wall"}))
    run = await answer(tmp_path, model, world, LOOK, both)
    assert (world.looks, run.calls[2].result) == (2, "wall: blue")


async def test_a11_an_effect_later_in_the_same_reply_does_not(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    world = World()
    both = calls(("look", {"at": "wall"}), ("paint", {"words": "blue"}))
    run = await answer(tmp_path, model, world, LOOK, both)
    assert world.looks == 1 and NOTE in str(run.calls[1].result)


async def test_a11_a_refused_effect_has_changed_nothing(tmp_path: Path, model: FakeOpenAI) -> None:
    """But while a person was asked, time has passed: the wait itself makes it new."""
    world = World()
    model.script(LOOK, calls(("burn", {})), LOOK, says("I have seen it."))
    async with living(tmp_path, model, parts=parts(world)) as it:
        turn = await it.say("look at the wall")
        await it.until(turn, "run.suspended")
        world.words = "painted by somebody else"
        await it.command("/deny not that")
        run = await it.settled(turn)
    assert (world.looks, run.calls[2].result) == (2, "wall: painted by somebody else")


async def test_a11_what_changes_by_itself_is_always_asked_anew(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    world = World()
    twice = calls(("glance", {}))
    run = await answer(tmp_path, model, world, twice, twice)
    assert [call.result for call in run.calls] == ["glance 1", "glance 2"]


async def test_a11_what_is_read_from_outside_is_always_asked_anew(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    world = World()
    model.script(calls(("fetch", {})), calls(("fetch", {})), says("rain"))
    async with living(tmp_path, model, parts=parts(world)) as it:
        run = await it.ask("how is the weather?")
    assert (run.stop_reason, world.looks) == ("done", 2)


async def test_a11_an_error_is_worth_another_try(tmp_path: Path, model: FakeOpenAI) -> None:
    world = World(fails=1)
    run = await answer(tmp_path, model, world, LOOK, LOOK, LOOK)
    assert world.looks == 2
    assert [call.is_error for call in run.calls] == [True, False, False]
    assert NOTE in str(run.calls[2].result)


async def test_e7_what_the_user_says_in_between_makes_it_a_new_question(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    world = World()
    turnstile = Turnstile(LOOK)
    model.script(LOOK, turnstile, LOOK, says("I have seen it."))
    async with living(tmp_path, model, parts=parts(world)) as it:
        turn = await it.say("look at the wall")
        await asyncio.wait_for(turnstile.reached.wait(), 10)
        world.words = "painted by me"
        assert await it.say("look again, I painted it") == turn
        turnstile.open.set()
        run = await it.settled(turn)
    assert run.calls[2].result == "wall: painted by me"
    assert (
        world.looks == 2
    )  # the second question was on its way when the user spoke, the third was not


async def test_d7_a_repeated_result_keeps_the_label_of_the_first(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    world = World()
    model.script(LOOK, LOOK, says("I have seen it."))
    async with living(tmp_path, model, parts=parts(world)) as it:
        run = await it.ask("look at the wall")
        first, second = [
            event for event in await it.events(run.turn) if isinstance(event, ToolFinished)
        ]
    assert (first.label, first.effect) == (second.label, second.effect)


async def test_a11_over_a_restart_it_is_asked_anew(tmp_path: Path, model: FakeOpenAI) -> None:
    """Nobody knows what happened while the daemon was away."""
    world = World()
    waiting = Turnstile(LOOK)
    model.script(LOOK, waiting)
    config = {"agent": {"drain_seconds": 0}}
    async with living(tmp_path, model, config, parts(world)) as it:
        turn = await it.say("look at the wall")
        await asyncio.wait_for(waiting.reached.wait(), 10)
    model.script(LOOK, says("I have seen it."))
    world.words = "fallen down"
    async with living(tmp_path, model, config, parts(world)) as it:
        run = await it.settled(turn)
    assert (world.looks, run.calls[1].result) == (2, "wall: fallen down")


async def test_a11_what_a_command_in_the_background_writes_is_read_anew(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """What it writes is there when it has ended; it ends when the file has been read once."""
    line = "until cat ga?e | grep -q go; do sleep 0.05; done; echo two > log.txt"
    shell = {"command": line, "background": True}
    place = tmp_path / "workspace"
    model.script(
        calls(("shell", shell)), calls(("read_file", {"path": "log.txt"})), calls(("wait", {}))
    )
    model.script(calls(("read_file", {"path": "log.txt"})), says("ok"))

    @tool(effect=Effect.READ)
    async def wait(world: World) -> str:
        """Wait until it has written."""
        (place / "gate").write_text("go")
        while (place / "log.txt").read_text() != "two\n":
            await asyncio.sleep(0.02)
        return "it has written"

    parts = Overrides(tools=bind([wait], {World: World()}))
    async with living(tmp_path, model, {"agent": {"check_claims": False}}, parts) as alive:
        (place / "log.txt").write_text("one")
        (place / "gate").touch()
        turn = await alive.say("go on, please")
        await alive.until(turn, "approval.asked")
        assert "Approved" in await alive.command("/approve")
        view = await alive.settled(turn)
    assert [call.result for call in view.calls if call.tool == "read_file"] == ["one", "two"]
