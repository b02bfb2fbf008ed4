"""A chat that has read text from outside: it says so, and why; /clear begins anew (F3)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from daemon.app.daemon import Overrides
from daemon.core.messages import ToolSpec
from daemon.core.trust import Effect, Label
from daemon.tools.base import Tool, ToolContext, ToolMeta, ToolOutput
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, calls, says


async def page(arguments: object, context: ToolContext) -> ToolOutput:
    return ToolOutput("the page says hello", label=Label.UNTRUSTED)


READ = Tool(
    ToolSpec("look_outside", "Look outside.", {"type": "object", "properties": {}}),
    ToolMeta(Effect.READ),
    page,
)


@asynccontextmanager
async def chat(home: Path) -> AsyncIterator[Living]:
    async with FakeOpenAI() as model:
        model.script(
            calls(("look_outside", {})), says("It says hello."), says("Hi."), says("Anew.")
        )
        async with living(home, model, parts=Overrides(tools=[READ])) as alive:
            yield alive


async def test_F3_status_and_run_say_where_a_chat_became_tainted_and_clear_ends_it(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path) as alive:
        assert "text from outside" not in await alive.command("/status")
        first = await alive.ask("look")
        assert first.label == "untrusted"
        assert first.tainted.startswith("the result of look_outside (event ")
        then = await alive.ask("hi")
        assert (then.label, then.tainted) == (
            "untrusted",
            "earlier turns of this chat had read text from outside (event 1)",
        )
        status = await alive.command("/status")
        assert (
            f"It has read text from outside, so it asks more: the result of look_outside (in {first.turn})."
            in status
        )
        assert "It has read of yours: look_outside." in status
        assert first.private == ["look_outside"]
        await alive.command("/clear")
        assert "text from outside" not in await alive.command("/status")
        fresh = await alive.ask("anew")
        assert (fresh.label, fresh.tainted) == ("trusted", "")


async def test_F3_it_is_tainted_after_a_restart_too(tmp_path: Path) -> None:
    async with chat(tmp_path) as alive:
        await alive.ask("look")
    async with (
        FakeOpenAI() as model,
        living(tmp_path, model, parts=Overrides(tools=[READ])) as alive,
    ):
        assert (await alive.ask("hi")).label == "untrusted"
        assert "text from outside" in await alive.command("/status")
