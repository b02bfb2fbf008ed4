"""/cancel in a chat stops what is under way there; with an id, that task alone (A14)."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.delivery.scripts import hammer, smash
from tests.delivery.stage import at_home
from tests.fakes.channel import OTHER, OWNER, FakeChannel
from tests.fakes.openai import FakeOpenAI, gate, hangs, says

GROUP, ANSWER, STOPPED = "-7", "It is as you see.", "Stopped."


async def answered(channel: FakeChannel, command: str, begins: str, chat: str = OWNER) -> str:
    """The owner gives a command; the latest message that begins so."""

    def find() -> list[str]:
        plain = (text.replace("\\", "") for text in channel.texts(chat))
        return [text for text in plain if text.startswith(begins)]

    await channel.say(command, OWNER, "" if chat == OWNER else chat)
    await channel.until(find)
    return find()[-1]


async def test_a14_cancel_stops_what_is_under_way(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    model.script(hangs())
    async with at_home(tmp_path, model, channel):
        await channel.say("look for ever")
        await asyncio.wait_for(model.hanging.wait(), 15)
        await answered(channel, "/cancel", "Stopping 1 task.")
        await asyncio.wait_for(model.gone.wait(), 5)
        await channel.until(lambda: any(one.startswith(STOPPED) for one in channel.texts()))
        await answered(channel, "/cancel", "Nothing is running here.")


def list_ends(channel: FakeChannel) -> list[str]:
    """How the group was told that its tasks have ended."""
    heads = (text.partition("\n")[0] for text in channel.texts(GROUP))
    return sorted(head for head in heads if head in (ANSWER, STOPPED))


@pytest.mark.parametrize("state", ["running", "suspended"])
async def test_a14_cancel_with_an_id_stops_that_task_and_no_other(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel, state: str
) -> None:
    """Of two in a group, one waits for an answer and the other works."""
    free, struck = asyncio.Event(), list[str]()
    model.script(smash(), gate(free, says(ANSWER)))
    model.otherwise(says(ANSWER))
    async with at_home(tmp_path, model, channel, parts=hammer(struck)):
        await channel.say("break it", OWNER, GROUP)
        buttons = await channel.buttons(GROUP)
        await channel.say("think about it", OTHER, GROUP)
        await model.asked(2)
        tasks = await answered(channel, "/tasks", "-", GROUP)
        [task] = re.findall(rf"(\w+): {state},", tasks)
        await answered(channel, "/cancel 00", "No task 00 is running here.", GROUP)
        await answered(channel, f"/cancel {task}", f"Stopping {task}.", GROUP)
        pressed = await channel.press(buttons["Once"], OWNER, GROUP)
        assert ("settled" in pressed) is (state == "suspended")
        free.set()
        await channel.until(lambda: list_ends(channel) == [ANSWER, STOPPED])
        assert "settled" in await channel.press(buttons["Once"], OWNER, GROUP)
    assert struck == (["pots"] if state == "running" else [])
