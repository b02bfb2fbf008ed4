"""Criteria that the owner set: patterns and commands, looked at where they can do no harm (E10, C3)."""

import asyncio
from pathlib import Path

import pytest

from daemon.core.turn_spec import check_pattern
from daemon.tools.criteria_checks import CriteriaChecker
from daemon.tools.shell.sandbox import Sandbox, probe

SLOW = r"(a+)+$"


def unfenced(workspace: Path) -> CriteriaChecker:
    return CriteriaChecker(Sandbox(workspace, "none"))


@pytest.fixture
async def checks(tmp_path: Path) -> CriteriaChecker:
    """Over a workspace with a real sandbox."""
    assert await probe(tmp_path) == "bubblewrap"
    return CriteriaChecker(Sandbox(tmp_path, "bubblewrap"))


@pytest.mark.parametrize(
    ("pattern", "text", "met"),
    [
        (r"\bdone\b", "All DONE.", True),
        (r"^total: \d+$", "sum\ntotal: 12", False),
        (r"(?m)^total: \d+$", "sum\ntotal: 12", True),
        (r"\bdone\b", "undone", False),
        ("", "", True),
        ("ß", "STRASSE ß \ud800", True),
    ],
)
async def test_a_pattern_is_looked_for_without_regard_to_case_e10(
    tmp_path: Path, pattern: str, text: str, met: bool
) -> None:
    looked = await unfenced(tmp_path).match_pattern(pattern, text)
    assert (looked.met, looked.not_checked) == (met, False)


async def test_a_pattern_that_takes_for_ever_holds_nobody_up_e10(tmp_path: Path) -> None:
    """Everything else goes on meanwhile, and nobody who did the work is blamed for it."""
    checks = CriteriaChecker(Sandbox(tmp_path, "none"), pattern_s=1.5)
    slow = asyncio.create_task(checks.match_pattern(SLOW, "a" * 40 + "!"))
    assert (await checks.match_pattern("quick", "a quick one")).met
    assert not slow.done()
    looked = await slow
    assert (looked.met, looked.not_checked) == (False, True)
    assert "longer than 1.5 s" in looked.warning


@pytest.mark.parametrize("pattern", ["(", "[", "(?P<x>a)(?P<x>b)", "a{99999999999}"])
async def test_what_is_no_pattern_is_said_e10(tmp_path: Path, pattern: str) -> None:
    looked = await unfenced(tmp_path).match_pattern(pattern, "text")
    assert looked.not_checked and "is no regular expression" in looked.warning


@pytest.mark.parametrize("pattern", ["(?i)" + "[\x00-\U0010ffff]" * 4000, "[^\u0100-\uffff]" * 160])
async def test_a_pattern_that_takes_long_to_compile_holds_nobody_up(
    tmp_path: Path, pattern: str
) -> None:
    """It is compiled where it is matched: 20 kB froze the whole daemon for half a minute."""
    loop, late = asyncio.get_running_loop(), [0.0]

    async def watch() -> None:
        while True:
            before = loop.time()
            await asyncio.sleep(0.01)
            late[0] = max(late[0], loop.time() - before)

    watching = asyncio.create_task(watch())
    checks = CriteriaChecker(Sandbox(tmp_path, "none"), pattern_s=1.0)
    await checks.match_pattern(pattern, "x")
    assert check_pattern(pattern) == "" or "at most" in check_pattern(pattern)
    watching.cancel()
    assert late[0] < 1.0


async def test_a_command_needs_a_sandbox_and_is_not_run_without_e10(tmp_path: Path) -> None:
    checks = unfenced(tmp_path)
    looked = await checks.run_command("touch was_here")
    assert (looked.met, looked.not_checked, (tmp_path / "was_here").exists()) == (
        False,
        True,
        False,
    )
    assert "install bubblewrap" in looked.warning and checks.obstacle == looked.warning


async def test_a_command_runs_in_the_workspace_and_tells_what_it_printed_e10(
    checks: CriteriaChecker, tmp_path: Path
) -> None:
    (tmp_path / "note.txt").write_text("here I am")
    assert await checks.run_command("test -f note.txt") == await checks.run_command("true")
    looked = await checks.run_command("grep -c nothing note.txt")
    assert (looked.met, looked.not_checked, looked.output.strip()) == (False, False, "0")


async def test_a_command_is_split_and_never_a_shell_line_e10(
    checks: CriteriaChecker, tmp_path: Path
) -> None:
    assert (await checks.run_command("true ; touch was_here")).met
    assert (await checks.run_command("true $(touch was_here)")).met
    assert not (tmp_path / "was_here").exists()


async def test_a_command_that_is_not_there_fails_with_its_name_e10(checks: CriteriaChecker) -> None:
    looked = await checks.run_command("no_such_command --now")
    assert (looked.met, looked.not_checked) == (False, False)
    assert "no_such_command" in looked.output


async def test_a_command_can_write_nowhere_else_and_reach_nobody_e10(
    checks: CriteriaChecker, tmp_path: Path
) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    await checks.run_command(f"touch {outside}")
    assert not outside.exists()
    server = await asyncio.start_server(lambda reading, writing: writing.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    (tmp_path / "net.py").write_text(
        f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)\n"
    )
    assert not (await checks.run_command("python3 net.py")).met
    server.close()


async def test_a_command_that_takes_too_long_is_killed_and_that_is_a_failure_e10(
    tmp_path: Path, checks: CriteriaChecker
) -> None:
    quick = CriteriaChecker(checks.sandbox, command_s=0.5)
    looked = await quick.run_command("sleep 30")
    assert (looked.met, looked.not_checked) == (False, False)
    assert "longer than 0.5 s" in looked.warning


async def test_what_it_printed_is_cut_to_measure_e10(
    checks: CriteriaChecker, tmp_path: Path
) -> None:
    (tmp_path / "talk.py").write_text(
        "print('word ' * 100_000)\nraise SystemExit('the last line')\n"
    )
    looked = await checks.run_command("python3 talk.py")
    assert not looked.met
    assert "the last line" in looked.output and len(looked.output) <= 1100
