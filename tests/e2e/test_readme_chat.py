"""The first examples of README happen as it shows them, and every command line of it runs (A1)."""

from pathlib import Path

from tests.e2e.test_chat_window import desk
from tests.fakes.openai import calls, says

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
        await shown.sees("It is 14:05 in Lisbon.\n\n›")
        shown.types("delete the old logs\r")
        lines = iter((await shown.sees("\nallow?")).splitlines())
        missing = [line for line in first_example() if line not in lines]
        assert not missing, shown.screen.text()
        shown.types("y\r")
        await shown.sees("The old logs are gone.")
    assert [path.name for path in logs.iterdir()] == ["2026-11.log"]
