"""A rule holds from the moment it is pinned, for calls too that were looked at before and wait behind a question (F5)."""

from pathlib import Path

from daemon.app.daemon import Overrides
from daemon.core.messages import ToolSpec
from daemon.core.trust import OWNER, Answer, Effect
from daemon.tools.base import Tool, ToolContext, ToolMeta, ToolOutput
from tests.fakes.house import SESSION, Living, living
from tests.fakes.openai import FakeOpenAI, calls, says

RULE = "/rules add never write files"


async def wiped(arguments: object, context: ToolContext) -> ToolOutput:
    return ToolOutput("wiped")


WIPE = Tool(
    ToolSpec("delete_mail", "Delete mail.", {"type": "object", "properties": {}}),
    ToolMeta(Effect.DESTRUCTIVE),
    wiped,
)


async def asked(alive: Living, *wanted: tuple[str, dict[str, object]]) -> str:
    """A turn that waits for a person."""
    alive.model.script(calls(*wanted), says("ok"))
    turn = await alive.say("tidy up")
    await alive.until(turn, "approval.asked")
    return turn


async def test_F5_a_call_that_waited_behind_a_question_is_held_against_a_rule_of_meanwhile(
    tmp_path: Path,
) -> None:
    async with (
        FakeOpenAI() as model,
        living(tmp_path, model, parts=Overrides(tools=[WIPE])) as alive,
    ):
        turn = await asked(
            alive, ("delete_mail", {}), ("write_file", {"path": "a.txt", "text": "x"})
        )
        assert "rule" in await alive.command(RULE)
        assert "Approved" in await alive.command("/approve")
        view = await alive.settled(turn)
        assert [call.is_error for call in view.calls] == [False, True]
        assert (
            "rule" in str(view.calls[1].result)
            and not (alive.paths.home / "workspace" / "a.txt").exists()
        )


async def test_F5_a_yes_does_not_lift_a_rule_that_was_pinned_before_it(tmp_path: Path) -> None:
    async with (
        FakeOpenAI() as model,
        living(tmp_path, model, parts=Overrides(tools=[WIPE])) as alive,
    ):
        turn = await asked(alive, ("delete_mail", {}))
        await alive.command("/rules add never delete mail")
        question = (await alive.house.client.list_approvals(session=SESSION))[0]
        assert await alive.house.client.answer_approval(turn, question.call_id, Answer.ONCE, OWNER)
        view = await alive.settled(turn)
        assert view.calls[0].is_error and "rule" in str(view.calls[0].result)


async def test_F5_and_so_after_a_restart(tmp_path: Path) -> None:
    async with FakeOpenAI() as model:
        async with living(tmp_path, model, parts=Overrides(tools=[WIPE])) as alive:
            turn = await asked(
                alive, ("delete_mail", {}), ("write_file", {"path": "a.txt", "text": "x"})
            )
            await alive.command(RULE)
        async with living(tmp_path, model, parts=Overrides(tools=[WIPE])) as alive:
            await alive.command("/approve")
            view = await alive.settled(turn)
            assert [call.is_error for call in view.calls] == [False, True]
