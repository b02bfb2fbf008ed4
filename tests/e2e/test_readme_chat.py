"""The first examples of README happen as it shows them, and every command line of it runs (A1)."""

import asyncio
import io
import os
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.e2e.test_chat_window import desk
from tests.fakes.daemon_process import TOKEN, running_daemon, scripted
from tests.fakes.guide import GUIDE, ROOT
from tests.fakes.openai import FakeOpenAI, calls, says

PICTURE = ROOT / ".github" / "session.svg"
COLUMNS = 92
STYLES = (
    (re.compile(r"^›.*"), "bold cyan"),
    (re.compile(r"^·.*"), "dim"),
    (re.compile(r"[╭╰│╮╯─]+"), "yellow"),
)


def draw(screen: str) -> str:
    """The screen as a picture, the same for the same screen, without the line that moves."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), color_system="truecolor")
    for line in (one for one in screen.splitlines() if not "\u2800" <= one[:1] <= "\u28ff"):
        text = Text(line)
        for pattern, style in STYLES:
            for found in pattern.finditer(line):
                text.stylize(style, *found.span())
        console.print(text)
    return console.export_svg(title="aidaemon", unique_id="session")


async def test_the_picture_of_a_session_in_readme_is_what_happens(tmp_path: Path) -> None:
    """Drawn anew with AIDAEMON_TEST_DRAW=1. The old logs are gone then, and the new one is there."""
    clock, logs = tmp_path / "clock", tmp_path / "home" / "workspace" / "logs"
    clock.write_text("2026-11-23T14:05:35+00:00")
    logs.mkdir(parents=True)
    for name in ("2025-11.log", "2025-12.log", "2026-11.log"):
        (logs / name).write_text("line")
    steps = (
        calls(("schedule", {"when": "tomorrow at 9:00", "prompt": "Call Ann.", "remind": True})),
        says("I will remind you tomorrow at 9:00."),
        calls(("shell", {"command": "rm logs/2025-*.log"})),
        says("The old logs are gone."),
    )
    async with (
        desk(tmp_path / "home", *steps) as at,
        at.chat(columns=COLUMNS, AIDAEMON_TEST_CLOCK=str(clock), TZ="Europe/Lisbon") as shown,
    ):
        await shown.sees("›")
        shown.types("remind me tomorrow at nine to call Ann\r")
        await shown.sees("I will remind you tomorrow at 9:00.\n\n", "\n›")
        shown.types("delete the old logs\r")
        picture = draw(await shown.sees("\nallow?"))
        shown.types("y\r")
        await shown.sees("The old logs are gone.")
    assert [path.name for path in logs.iterdir()] == ["2026-11.log"]
    if os.environ.get("AIDAEMON_TEST_DRAW"):
        PICTURE.write_text(picture)
    assert picture == PICTURE.read_text()


def list_typed() -> list[str]:
    """Every line that README and the pages behind it have a person type at a prompt, but those that start a conversation and the
    daemon.
    """
    whole = GUIDE.replace("\\\n", " ")
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
        len(typed) == 17
        and said.count("Scheduled as") == 5
        and '"reply":"It is two."' in said.replace(": ", ":")
    )
