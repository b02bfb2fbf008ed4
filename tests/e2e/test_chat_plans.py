"""/plan in `aidaemon chat`: the plan is asked at the prompt, and what it allows runs without another question."""

from pathlib import Path

from tests.fakes.chatting import write_config
from tests.fakes.daemon_process import scripted
from tests.fakes.openai import FakeOpenAI, calls, says
from tests.fakes.screen import window


async def test_a_plan_is_asked_at_the_prompt_and_a_yes_lets_its_actions_run(
    tmp_path: Path,
) -> None:
    count = {"command": "echo once >> count.txt"}
    async with FakeOpenAI() as model:
        plan = {"actions": [{"tool": "shell", "arguments": count}]}
        model.script(calls(("propose_plan", plan)), calls(("shell", count)), says("all counted"))
        write_config(tmp_path, scripted(model.base_url))
        async with window("chat", "--home", str(tmp_path), columns=100) as shown:
            await shown.sees("›")
            shown.types("/plan count\r")
            await shown.sees("I only read", "1. shell", "echo once >> count.txt")
            shown.types("y\r")
            await shown.sees("all counted")
    assert (tmp_path / "workspace" / "count.txt").read_text() == "once\n"
