"""A bare `aidaemon`: in a terminal it is the chat."""

from pathlib import Path

from tests.fakes.chatting import write_config
from tests.fakes.daemon_process import scripted
from tests.fakes.openai import FakeOpenAI, says
from tests.fakes.screen import window


async def test_a_bare_aidaemon_in_a_terminal_is_the_chat(tmp_path: Path) -> None:
    async with FakeOpenAI() as model:
        model.script(says("Hello there."))
        write_config(tmp_path, scripted(model.base_url))
        async with window(env={"AIDAEMON_HOME": str(tmp_path)}) as shown:
            await shown.sees("session main", "›")
            shown.types("hi\r")
            await shown.sees("Hello there.")


async def test_a_bare_aidaemon_takes_the_common_options(tmp_path: Path) -> None:
    async with FakeOpenAI() as model:
        write_config(tmp_path, scripted(model.base_url))
        async with window("--home", str(tmp_path)) as shown:
            await shown.sees("session main", "›")


async def test_help_in_a_terminal_is_still_the_help() -> None:
    async with window("--help") as shown:
        await shown.sees("commands:", "aidaemon chat")
        assert await shown.ends() == 0
