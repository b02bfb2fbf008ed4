"""What the owner allows for good in their own chats is not allowed to strangers, nor the other way round (trust.md, A15)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from daemon.app.daemon import Overrides
from daemon.core.events import Answer
from daemon.core.messages import ToolSpec
from daemon.core.trust import Effect
from daemon.tools.base import Tool, ToolContext, ToolMeta, ToolOutput
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, Json, Step, by, calls, says

EVENTS = {"enabled": True, "notify": "web:test", "tokens": {"mail": "t" * 32}}
CONFIG = {"events": EVENTS, "limits": {"events_per_minute": 0}}


@asynccontextmanager
async def home(folder: Path) -> AsyncIterator[tuple[Living, list[str]]]:
    """A house whose model wipes whatever it is told; in which sessions it did."""
    done: list[str] = []

    async def wipe(arguments: object, context: ToolContext) -> ToolOutput:
        done.append("outside" if context.session_id.startswith("event_") else "chat")
        return ToolOutput("wiped")

    tool = Tool(
        ToolSpec("wipe", "Wipe all.", {"type": "object", "properties": {}}),
        ToolMeta(Effect.DESTRUCTIVE),
        wipe,
    )
    async with FakeOpenAI() as model:
        model.otherwise(by(wipes_once))
        async with living(folder, model, CONFIG, Overrides(tools=[tool])) as alive:
            yield alive, done


def wipes_once(body: Json) -> Step:
    """A model that calls the tool, and ends when it has an answer."""
    return says("So be it.") if body["messages"][-1]["role"] == "tool" else calls(("wipe", {}))


async def waits_or_ends(alive: Living, turn: str) -> str:
    """Which of the two comes first."""
    async for told in alive.house.client.stream_events(turn):
        if told.name in ("run.suspended", "run.completed"):
            return told.name
    raise AssertionError(f"{turn} does neither")


async def event(alive: Living, key: str) -> str:
    return (await alive.house.triggers.accept("mail", {"text": "wipe all"}, 20, key)).turn


async def allowed(alive: Living, turn: str, answer: Answer = Answer.ALWAYS) -> None:
    asked = await alive.until(turn, "approval.asked")
    await alive.house.client.answer_approval(turn, str(asked.data["call_id"]), answer)
    await alive.settled(turn)


async def test_a_permission_of_the_owners_chats_is_none_of_a_strangers(tmp_path: Path) -> None:
    async with home(tmp_path) as (alive, done):
        await allowed(alive, await alive.say("wipe it"))
        assert (await alive.ask("wipe it again")).calls[0].decision == "allow"
        await allowed(alive, await event(alive, "one"), Answer.DENY)
        assert done == ["chat", "chat"]


async def test_what_is_allowed_for_good_to_what_comes_from_outside_stays_there(
    tmp_path: Path,
) -> None:
    async with home(tmp_path) as (alive, done):
        await allowed(alive, await event(alive, "one"))
        assert (await alive.settled(await event(alive, "two"))).calls[0].decision == "allow"
        assert "wipe {} (to what comes from outside;" in await alive.command("/grants")
        await allowed(alive, await alive.say("wipe it"), Answer.DENY)
        assert done == ["outside", "outside"]


async def test_what_comes_from_outside_opens_five_questions_at_most_and_a_chat_of_the_owners_its_own(
    tmp_path: Path,
) -> None:
    """The others wait; an answer puts the oldest of them."""
    async with home(tmp_path) as (alive, done):
        turns = [await event(alive, str(number)) for number in range(8)]
        for turn in turns:
            assert await waits_or_ends(alive, turn) == "run.suspended"
        asked, later = await open_ones(alive), await open_ones(alive, "waiting")
        assert (len(asked), len(later), done) == (5, 3, [])
        await waits_or_ends(alive, await alive.say("wipe it"))
        assert len(await open_ones(alive)) == 6
        await allowed(alive, asked[0], Answer.DENY)
        await until(lambda: is_put(alive, later[0]))
        assert await open_ones(alive, "waiting") == later[1:]


async def open_ones(alive: Living, state: str = "pending") -> list[str]:
    """Turns whose question is in this state, oldest first."""
    return [view.turn for view in await alive.house.client.list_approvals(state)]


async def is_put(alive: Living, turn: str) -> bool:
    return turn in await open_ones(alive)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(10):
        while not await holds():
            await asyncio.sleep(0.02)
