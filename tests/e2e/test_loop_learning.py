"""What an attempt of a loop has taught the next one, and what is told of a command that needs a shell (C2, C3, C5, C7)."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, Json, by, calls, says

WHERE = "/api/agents/default/loop"


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as fake:
        yield fake


def looping(model: FakeOpenAI, criterion: str, value: str, most: int = 2, more: str = "") -> str:
    lines = [f'criterion = "{criterion}"', f"value = {json.dumps(value)}", f"max_iterations = {most}"]
    return scripted(model.base_url, "\n".join([more, "[agent.loop]", "enabled = true", *lines, ""]))


async def ended(daemon: Daemon) -> Json:
    async with asyncio.timeout(30):
        while True:
            view = await daemon.get(f"{WHERE}/status")
            assert isinstance(view, dict)
            if not view["active"]:
                return view
            await asyncio.sleep(0.02)


async def test_c2_c5_of_a_text_without_blanks_300_characters_are_learned_and_are_the_end(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(says(f"output: {'x' * 600}"), says(f"output: {'y' * 600}"))
    async with running_daemon(tmp_path / "home", looping(model, "regex", "never")) as daemon:
        await daemon.post(f"{WHERE}/start", 202, message="go on")
        view = await ended(daemon)
    assert f"1. output: {'x' * 292} …" in str(model.requests[1].body["messages"])
    assert view["finalOutput"] == f"output: {'y' * 292} …"


async def test_c2_c7_the_notice_of_a_stop_is_no_learning_and_no_output(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    zones = iter(["Asia/Tokyo", "Asia/Kolkata", "Africa/Cairo", "America/Lima"] * 3)
    looks = by(lambda body: calls(("current_time", {"zone": next(zones)}), text="The valve sticks."))
    model.otherwise(looks)
    config = looping(model, "regex", "I stopped", more="[agent]\nmax_iterations = 2\n")
    async with running_daemon(tmp_path / "home", config) as daemon:
        await daemon.post(f"{WHERE}/start", 202, message="mend it")
        view = await ended(daemon)
    told = [str(one.body["messages"]) for one in model.requests if "## Progress Log" in str(one.body)]
    assert told and all("1. The valve sticks." in one for one in told)
    assert not any("I stopped" in one for one in told)
    assert (view["finalOutput"], view["iteration"]) == ("The valve sticks.", 2)


async def test_c3_a_command_that_needs_a_shell_is_warned_of_by_config_check(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    config = looping(model, "test_pass", "echo a | grep a", most=1)
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(config)
    checked = await asyncio.to_thread(aidaemon, "config", "check", home=home)
    warning = "the command runs without a shell: | is an argument"
    assert warning in checked.stdout + checked.stderr
    plain = looping(model, "test_pass", "python -m pytest -q", most=1)
    (home / "config.toml").write_text(plain)
    checked = await asyncio.to_thread(aidaemon, "config", "check", home=home)
    assert "without a shell" not in checked.stdout + checked.stderr
