"""Healthy work never trips a halting condition: recorded tasks, as pure folds and through the real house (A11, D4, D7, E1)."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from daemon.agent.termination.conditions import check_confidence, check_unrecoverable
from daemon.agent.termination.loop_detection import check_loops
from daemon.app.daemon import Overrides
from daemon.core.events import Coached, Outcome, Stop
from daemon.core.messages import ToolSpec
from daemon.core.trust import Effect
from daemon.tools.base import Tool, ToolContext, ToolError, ToolMeta, ToolOutput
from tests.fakes.house import living
from tests.fakes.openai import FakeOpenAI, Step, calls, says
from tests.fakes.recorded_tasks import PREFIX, RecordedCall, RecordedTask, recorded_tasks, tools_of
from tests.fakes.turns import Deed, Story, under

TASKS = recorded_tasks()
PHRASE = "Let me do the next step."
GUIDANCE = "todo"  # a word on planning before the work, not on how it goes (E3)
READERS = ("get_", "read_", "search_", "list_")
Split = Callable[[RecordedTask], list[tuple[RecordedCall, ...]]]
pytestmark = pytest.mark.skipif(not TASKS, reason="the recordings are not at hand")


def one_by_one(task: RecordedTask) -> list[tuple[RecordedCall, ...]]:
    """Every call in an iteration of its own."""
    return [(call,) for call in task.calls]


def all_at_once(task: RecordedTask) -> list[tuple[RecordedCall, ...]]:
    """All calls in one iteration."""
    return [task.calls] if task.calls else []


def effect(tool: str) -> Effect:
    return Effect.READ if tool.removeprefix(PREFIX).startswith(READERS) else Effect.WRITE


def deed(call: RecordedCall) -> Deed:
    if call.error:
        return Deed(
            call.tool, call.arguments, Outcome.ERROR, call.error, "ToolError", effect(call.tool)
        )
    return Deed(call.tool, call.arguments, text=call.output, effect=effect(call.tool))


def test_the_recordings_are_the_61_tasks() -> None:
    assert len(TASKS) == 61


@pytest.mark.parametrize("split", [one_by_one, all_at_once])
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a11_d4_no_condition_holds_at_any_step_of_recorded_work(
    task: RecordedTask, split: Split
) -> None:
    told, tools = Story(), tools_of(TASKS)
    conditions = [
        under(check_loops, on_stall="stop"),
        check_confidence, under(check_unrecoverable, critical=tools),
    ]  # fmt: skip
    for step in split(task):
        told.does(*map(deed, step), text=PHRASE)
        assert not any(check(told.turn) for check in conditions)
    told.says(task.answer)
    assert not any(check(told.turn) for check in conditions)


class Archive:
    """Tools that give back what was recorded for the task that is being done, in the order of the recording."""

    def __init__(self) -> None:
        self.open: list[RecordedCall] = []

    def begin(self, task: RecordedTask) -> None:
        self.open = list(task.calls)

    def tools(self) -> list[Tool]:
        return [self._tool(name) for name in tools_of(TASKS)]

    def _tool(self, name: str) -> Tool:
        async def run(arguments: Mapping[str, object], context: ToolContext) -> ToolOutput:
            call = next(
                one
                for one in self.open
                if one.tool == name and json.loads(one.arguments) == arguments
            )
            self.open.remove(call)
            if call.error:
                raise ToolError(call.error)
            return ToolOutput(call.output)

        spec = ToolSpec(name, f"Do {name}.", {"type": "object", "properties": {}})
        return Tool(spec, ToolMeta(effect(name), critical=()), run)


def script(task: RecordedTask, split: Split) -> list[Step]:
    asked = [
        calls(*((call.tool, call.arguments) for call in step), text=PHRASE) for step in split(task)
    ]
    return [*asked, says(task.answer)]


@pytest.mark.parametrize("split", [one_by_one, all_at_once])
async def test_a11_e1_recorded_work_through_the_real_daemon_ends_done_and_nobody_is_coached(
    tmp_path: Path, model: FakeOpenAI, split: Split
) -> None:
    archive = Archive()
    config = {"agent": {"max_iterations": 20, "on_stall": "stop"}}
    async with living(tmp_path, model, config, Overrides(tools=archive.tools())) as it:
        for task in TASKS:
            archive.begin(task)
            model.script(*script(task, split))
            run = await it.ask(task.prompt, session=f"web:{task.name.replace('/', '-')}")
            assert (run.stop_reason, run.reply) == (Stop.DONE.value, task.answer), task.name
            coached = {
                event.kind for event in await it.events(run.turn) if isinstance(event, Coached)
            }
            assert coached <= {GUIDANCE}, task.name
            assert [call.is_error for call in run.calls] == [
                bool(call.error) for call in task.calls
            ], task.name
            assert model.left == 0, task.name
