"""A loop started in `aidaemon chat`: what it does is told there, and what it asks is asked at the prompt (C3, C4, C12)."""

from pathlib import Path

from tests.fakes.chatting import write_config
from tests.fakes.daemon_process import scripted
from tests.fakes.openai import FakeOpenAI, calls, says
from tests.fakes.screen import window

PROMPT = "›"


def looping(home: Path, base_url: str, criterion: str, value: str = "") -> None:
    loop = f'[agent.loop]\nenabled = true\ncriterion = "{criterion}"\nvalue = "{value}"\nmax_iterations = 3\n'
    write_config(home, scripted(base_url, loop))


async def test_a_review_is_asked_at_the_prompt_and_a_yes_completes_the_loop_c3_c4(
    tmp_path: Path,
) -> None:
    async with FakeOpenAI() as model:
        model.script(says("a first draft"))
        looping(tmp_path, model.base_url, "manual")
        async with window("chat", "--home", str(tmp_path), columns=100) as shown:
            await shown.sees(PROMPT)
            shown.types("/loop start write it\r")
            await shown.sees("has started", "Attempt 1 of 3: a first draft", "Will attempt 1 do?")
            shown.types("y\r")
            await shown.sees("Completed after 1 attempt")


async def test_what_an_attempt_wants_to_do_is_asked_at_the_prompt_c12(tmp_path: Path) -> None:
    async with FakeOpenAI() as model:
        model.script(calls(("shell", {"command": "echo x; rm -f y"})), says("I did not, DONE"))
        looping(tmp_path, model.base_url, "regex", "done")
        async with window("chat", "--home", str(tmp_path), columns=100) as shown:
            await shown.sees(PROMPT)
            shown.types("/loop start clean up\r")
            await shown.sees("command: echo x; rm -f y")
            shown.types("n\r")
            await shown.sees("Completed after 1 attempt")
    assert model.count == 2 and "rejected" in str(model.requests[1]["messages"])
