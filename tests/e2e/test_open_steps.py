"""A plan with open steps outlives its turn: it is on /tasks and taken up by the next one (E3)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, Step, calls, says

NUDGE = "Your todo list has open steps still:"
PLAN = "<todo>\n[x] dig\n[ ] plant\n[ ] water\n</todo>"


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as fake:
        yield fake


def plans(*left: str, done: str = "dig") -> Step:
    items = [{"text": done, "state": "done"}, *({"text": one, "state": "open"} for one in left)]
    return calls(("todo", {"items": items}))


def shown(model: FakeOpenAI, at: int = -1) -> str:
    return str(model.requests[at].body["messages"])


async def tasks(daemon: Daemon) -> str:
    return str((await daemon.post("/v1/messages", text="/tasks"))["reply"])


async def test_e3_open_steps_are_nudged_once_then_kept_on_tasks_and_taken_up_after_kill_9(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    home, config = tmp_path / "home", scripted(model.base_url)
    model.script(plans("plant", "water"), says("I began."), says("The rest is for tomorrow."))
    async with running_daemon(home, config) as daemon:
        run = await daemon.ask("make a garden")
        assert run["reply"] == "The rest is for tomorrow."
        assert [NUDGE in shown(model, at) for at in range(3)] == [False, False, True]
        assert "Left open; say go on:\n[x] dig\n[ ] plant\n[ ] water" in await tasks(daemon)
        daemon.process.kill()
    async with running_daemon(home, config) as daemon:
        assert "[ ] plant" in await tasks(daemon)
        model.script(says("Hello."))
        await daemon.ask("hi")
        assert "<todo>" not in shown(model), "a greeting is no work"
        model.script(plans(done="all of it"), says("The garden stands."))
        await daemon.ask("go on")
        assert PLAN in shown(model, -2).replace("\\n", "\n")
        assert await tasks(daemon) == "Nothing is running here."


async def test_e3_a_question_to_the_user_is_a_reason_to_stop_and_a_done_plan_is_no_plan(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(plans("plant"), says("Which plants do you want?"))
    async with running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon:
        assert (await daemon.ask("make a garden"))["reply"] == "Which plants do you want?"
        model.script(plans(done="all of it"), says("The garden stands."))
        assert (await daemon.ask("roses"))["reply"] == "The garden stands."
        model.script(says("It is a rose."))
        await daemon.ask("what is a rose called?")
        assert "<todo>" not in shown(model)


async def test_e3_a_plan_that_is_left_alone_is_forgotten_and_clear_forgets_it_at_once(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(says("It is so."))
    async with running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon:
        model.script(plans("plant"), says("Which plants?"))
        await daemon.ask("make a garden")
        seen = []
        for number in range(7):
            await daemon.ask(f"tell me about tree number {number}")
            seen.append("<todo>" in shown(model))
        assert seen == [True] * 5 + [False] * 2
        model.script(plans("plant"), says("Which plants?"))
        await daemon.ask("make a garden")
        await daemon.post("/v1/messages", text="/clear")
        assert await tasks(daemon) == "Nothing is running here."
        await daemon.ask("tell me about trees")
        assert "<todo>" not in shown(model)
