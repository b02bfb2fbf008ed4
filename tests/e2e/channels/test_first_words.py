"""Who asks what they can ask is told three things, with examples of where they are, and without a model (A23)."""

from pathlib import Path

import pytest

from tests.e2e.channels.stage import by_bot, stage
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import FakeOpenAI
from tests.fakes.platform import OWNER


@pytest.mark.parametrize(
    ("name", "words", "help_command"),
    [
        ("telegram", "/start", "/help"),
        ("telegram", "What can you do?", "/help"),
        ("slack", "!start", "!help"),
        ("discord", "¿Qué puedes hacer?", "/help"),
    ],
)
async def test_start_says_three_things_to_ask_a23(
    tmp_path: Path, name: str, words: str, help_command: str
) -> None:
    async with stage(name, tmp_path) as it:
        chat, platform = it.platform.private(OWNER), it.platform
        await it.listening()
        platform.say(OWNER, chat, words)
        await platform.until(lambda: len(by_bot(platform, chat)) == 1)
        said = by_bot(platform, chat)[0].text
        assert said.count("\n") == 5 - 1 and 'Send me a file and say: "Sum this up."' in said
        assert f"{help_command} lists the commands" in said and it.model.count == 0


async def test_over_http_its_examples_are_those_of_files_in_the_workspace_a23(
    tmp_path: Path,
) -> None:
    async with (
        FakeOpenAI() as model,
        running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon,
    ):
        said = str((await daemon.post("/v1/messages", text="what can you do?"))["reply"])
        assert '"What is in notes.txt?"' in said and model.count == 0
