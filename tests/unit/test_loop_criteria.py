"""When an attempt will do: patterns, and commands that run fenced in, without a shell, for a minute at most (C3)."""

from pathlib import Path
from time import monotonic

import pytest

from daemon.core.rows import Criterion, LoopRow
from daemon.core.trust import Label
from daemon.loops.config import check_criterion
from daemon.tools.criteria_checks import COMMAND_S, CriteriaChecker
from daemon.tools.shell.sandbox import Sandbox
from tests.fakes.tools import NOON


@pytest.fixture
async def sandbox(tmp_path: Path) -> Sandbox:
    return await Sandbox.open(tmp_path)


def loop(criterion: Criterion, value: str = "") -> LoopRow:
    return LoopRow(
        "l1", "default", "terminal:main", "owner", Label.TRUSTED, "go", criterion, value, 3, NOON
    )


@pytest.mark.parametrize(
    ("pattern", "output", "met"),
    [
        ("DONE|COMPLETE|SUCCESS", "the work is done.", True),
        ("DONE|COMPLETE|SUCCESS", "Almost. Not yet", False),
        ("^second$", "first\nsecond", False),
        ("(?m)^second$", "first\nsecond", True),
        ("straße", "STRASSE oder Straße", True),
        ("x{2}", "aXx", True),
    ],
)
async def test_a_pattern_is_searched_anywhere_whatever_the_case_c3(
    sandbox: Sandbox, pattern: str, output: str, met: bool
) -> None:
    verdict = await check_criterion(CriteriaChecker(sandbox), loop("regex", pattern), output)
    assert (verdict.met, verdict.warning) == (met, "")


@pytest.mark.parametrize("pattern", ["(", "[a-", "*", "(?P<n>a)(?P<n>b)", "a" + "(" * 3000])
async def test_an_invalid_pattern_is_never_met_and_is_warned_about_c3(
    sandbox: Sandbox, pattern: str
) -> None:
    verdict = await check_criterion(CriteriaChecker(sandbox), loop("regex", pattern), pattern)
    assert not verdict.met and "no regular expression" in verdict.warning


async def test_a_pattern_that_takes_for_ever_is_given_up_and_stops_nobody_c3(
    sandbox: Sandbox,
) -> None:
    began = monotonic()
    verdict = await check_criterion(
        CriteriaChecker(sandbox, pattern_s=0.5), loop("regex", "(a+)+$"), "a" * 40 + "b"
    )
    assert not verdict.met and "took longer" in verdict.warning
    assert monotonic() - began < 5


@pytest.mark.parametrize(
    ("command", "met"),
    [
        ("true", True),
        ("false", False),
        ("test   -d\t.", True),
        ("test -e made", False),
        ("sh -c exit", True),
    ],
)
async def test_a_command_is_met_by_exit_0_c3(sandbox: Sandbox, command: str, met: bool) -> None:
    assert (
        await check_criterion(CriteriaChecker(sandbox), loop("test_pass", command), "")
    ).met is met


async def test_a_command_never_meets_a_shell_c3(sandbox: Sandbox) -> None:
    """Pipes, &&, globs and variables are words like others."""
    await check_criterion(
        CriteriaChecker(sandbox), loop("test_pass", "touch a && touch $HOME b* ; touch c|d"), ""
    )
    assert {path.name for path in sandbox.workspace.iterdir()} >= {
        "a",
        "&&",
        "touch",
        "b*",
        ";",
        "c|d",
    }
    assert (
        await check_criterion(CriteriaChecker(sandbox), loop("test_pass", "test $HOME = $HOME"), "")
    ).met


async def test_a_command_has_a_minute_and_is_then_killed_c3(sandbox: Sandbox) -> None:
    assert COMMAND_S == 60.0
    began = monotonic()
    verdict = await check_criterion(
        CriteriaChecker(sandbox, command_s=0.3), loop("test_pass", "sleep 50"), ""
    )
    assert not verdict.met and "took longer than 0.3 s" in verdict.warning
    assert monotonic() - began < 10


async def test_a_command_that_is_not_there_is_warned_about_c3(sandbox: Sandbox) -> None:
    verdict = await check_criterion(
        CriteriaChecker(sandbox), loop("test_pass", "nosuchprogram --now"), ""
    )
    assert not verdict.met and "nosuchprogram" in verdict.warning


async def test_a_command_that_no_system_takes_is_warned_about_c3(sandbox: Sandbox) -> None:
    """C6: else the loop stood still, and its agent could not begin another one."""
    verdict = await check_criterion(CriteriaChecker(sandbox), loop("test_pass", "true\0"), "")
    assert not verdict.met and "could not be started" in verdict.warning


async def test_a_command_runs_in_the_workspace_and_sees_no_other_files_c12(
    sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("outside") / "secret"
    secret.write_text("x")
    assert (
        await check_criterion(
            CriteriaChecker(sandbox), loop("test_pass", f"test {sandbox.workspace} -ef ."), ""
        )
    ).met
    assert not (
        await check_criterion(CriteriaChecker(sandbox), loop("test_pass", f"test -e {secret}"), "")
    ).met


async def test_without_a_sandbox_no_command_is_run_c12(tmp_path: Path) -> None:
    bare = CriteriaChecker(Sandbox(tmp_path, "none"))
    verdict = await check_criterion(bare, loop("test_pass", "touch made"), "")
    assert not verdict.met and "bubblewrap" in verdict.warning and not (tmp_path / "made").exists()
    assert "bubblewrap" in bare.obstacle


@pytest.mark.parametrize("criterion", ["max_iterations", "manual"])
async def test_the_last_attempt_and_a_person_are_waited_for_c3(
    sandbox: Sandbox, criterion: Criterion
) -> None:
    assert not (await check_criterion(CriteriaChecker(sandbox), loop(criterion), "DONE")).met
