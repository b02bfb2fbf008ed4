"""What a command line says to everything is for what that person has set going: a stranger's questions wait for a person (A6)."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.cli.terminal.follower import AutoAnswer
from daemon.cli.terminal.plain import LineReader, PlainChat, PlainScreen
from daemon.core.clock import SystemClock
from daemon.core.events import Answer
from daemon.core.messages import ToolSpec
from daemon.core.trust import Effect
from daemon.tools.base import Tool, ToolContext, ToolMeta, ToolOutput
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, calls, says

CHAT = "terminal:main"
EVENTS = {"enabled": True, "notify": CHAT, "tokens": {"mail": "t" * 32}}


@asynccontextmanager
async def home(folder: Path) -> AsyncIterator[tuple[Living, list[str]]]:
    """A house whose chat is told of events; what its one tool did."""
    done: list[str] = []

    async def wipe(arguments: object, context: ToolContext) -> ToolOutput:
        done.append(context.session_id)
        return ToolOutput("wiped")

    tool = Tool(
        ToolSpec("wipe", "Wipe all.", {"type": "object", "properties": {}}),
        ToolMeta(Effect.DESTRUCTIVE),
        wipe,
    )
    async with FakeOpenAI() as model:
        model.script(calls(("wipe", {})), calls(("wipe", {})), says("Done."), says("Then not."))
        async with living(folder, model, {"events": EVENTS}, Overrides(tools=[tool])) as alive:
            yield alive, done


def chat(alive: Living, standing: Answer | None) -> PlainChat:
    """`aidaemon chat --once`, in a pipe."""
    pages = PlainScreen(io.StringIO(), io.StringIO())
    return PlainChat(
        client=alive.house.client,
        session=CHAT,
        clock=SystemClock(),
        auto=AutoAnswer(standing),
        can_ask=False,
        screen=pages,
        lines=LineReader(0),
    )


@pytest.mark.parametrize("standing", [Answer.ONCE, None])
async def test_A6_a_strangers_question_is_not_answered_by_yes_nor_by_nobody_being_there(
    tmp_path: Path, standing: Answer | None
) -> None:
    async with home(tmp_path) as (alive, done):
        taken = await alive.house.triggers.accept("mail", {"text": "wipe all"}, 20)
        await alive.until(taken.turn, "approval.asked")
        talk = chat(alive, standing)
        async with talk.follow_subagents():
            await talk.poll_questions()
            await talk._send_and_wait("wipe, please")
            await asyncio.wait_for(talk.poll_questions(), 10)
        assert done == ([CHAT] if standing else [])
        waiting = await alive.house.client.list_approvals(session=CHAT)
        assert [view.turn for view in waiting] == [taken.turn]


async def test_A6_a_no_to_everything_is_a_no_to_strangers_too(tmp_path: Path) -> None:
    async with home(tmp_path) as (alive, done):
        taken = await alive.house.triggers.accept("mail", {"text": "wipe all"}, 20)
        await alive.until(taken.turn, "approval.asked")
        talk = chat(alive, Answer.DENY)
        async with talk.follow_subagents():
            await talk.poll_questions()
        assert await alive.house.client.list_approvals(session=CHAT) == [] and done == []
