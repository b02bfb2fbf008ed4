"""The first examples of README happen as it shows them, and every command line of it runs (A1)."""

import asyncio
import os
import re
import sys
from pathlib import Path

from tests.e2e.test_chat_window import desk
from tests.fakes.daemon_process import TOKEN, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, calls, says

README = (Path(__file__).parents[2] / "README.md").read_text()
COLUMNS = 92


def first_example() -> list[str]:
    """The lines of the session that README begins with, without the command that starts it."""
    shown = README.split("What a session looks like:")[1].split("**Contents:**")[0]
    return [line[4:] for line in shown.splitlines() if line.strip()][1:]


async def test_the_first_session_of_readme_happens_as_it_is_shown(tmp_path: Path) -> None:
    """Down to the old logs, which are gone, and the new one, which is there."""
    clock, logs = tmp_path / "clock", tmp_path / "home" / "workspace" / "logs"
    clock.write_text("2026-11-23T14:05:35+00:00")
    logs.mkdir(parents=True)
    for name in ("2025-11.log", "2025-12.log", "2026-11.log"):
        (logs / name).write_text("line")
    steps = (
        calls(("current_time", {"zone": "Europe/Lisbon"})),
        says("It is 14:05 in Lisbon."),
        calls(("shell", {"command": "rm logs/2025-*.log"})),
        says("The old logs are gone."),
    )
    async with (
        desk(tmp_path / "home", *steps) as at,
        at.chat(columns=COLUMNS, AIDAEMON_TEST_CLOCK=str(clock)) as shown,
    ):
        await shown.sees("›")
        shown.types("what time is it in Lisbon?\r")
        await shown.sees("It is 14:05 in Lisbon.\n\n", "\n›")
        shown.types("delete the old logs\r")
        lines = iter((await shown.sees("\nallow?")).splitlines())
        missing = [line for line in first_example() if line not in lines]
        assert not missing, shown.screen.text()
        shown.types("y\r")
        await shown.sees("The old logs are gone.")
    assert [path.name for path in logs.iterdir()] == ["2026-11.log"]


def list_typed() -> list[str]:
    """Every line that README has a person type at a prompt, but the two that start a conversation and the daemon."""
    whole = README.replace("\\\n", " ")
    typed = re.findall(r"^ *\$ (.*?)(?: {2,}#.*)?$", whole, re.MULTILINE)
    return [one for one in typed if one not in ("aidaemon chat", "aidaemon run")]


async def test_every_line_that_readme_has_one_type_runs_beside_the_daemon(tmp_path: Path) -> None:
    """In one shell, in order, at the port of this daemon, with a turn and a loop of its own."""
    home = tmp_path / ".aidaemon"
    loop = '[agent.loop]\nenabled = true\ncriterion = "max_iterations"\nmax_iterations = 1\n'
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    home.mkdir()
    clock = tmp_path / "clock"
    clock.write_text("2026-11-23T14:05:35+00:00")
    (home / "secrets.toml").touch(0o600)
    (home / "secrets.toml").write_text(f'http_token = "{TOKEN}"\n')
    async with FakeOpenAI() as model:
        model.script(*(says("It is two.") for _ in range(8)))
        config = scripted(model.base_url).replace(f'token = "{TOKEN}"', "") + loop
        async with running_daemon(home, config, {"AIDAEMON_TEST_CLOCK": str(clock)}) as daemon:
            turn = str((await daemon.ask("hello"))["turn"])
            typed = [
                one.replace("http://127.0.0.1:8080", daemon.url).replace("TURN", turn)
                if "curl" in one or "show" in one
                else one
                for one in list_typed()
            ]
            shell = await asyncio.create_subprocess_exec(
                "bash", "-euxo", "pipefail", "-c", "\n".join(typed),
                env={"PATH": path, "HOME": str(tmp_path), "COLUMNS": "200"},
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            output, _ = await shell.communicate()
    said = output.decode()
    assert shell.returncode == 0, said
    assert (
        len(typed) == 14
        and said.count("Scheduled as") == 3
        and '"reply":"It is two."' in said.replace(": ", ":")
    )
