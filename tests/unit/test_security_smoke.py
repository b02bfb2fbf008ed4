"""`python -m tests.security` prints figures and says by its exit code whether they are as they must be."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.command_line import ROOT
from tests.security.checks import Checked, read
from tests.security.figures import (
    Figure,
    all_of,
    at_least,
    at_most,
    exit_code,
    none_of,
    not_measured,
    table,
    told,
)


def security(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.security", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False, cwd=ROOT
    )


def test_a_section_runs_against_the_real_tools_and_prints_its_figures_beside_the_targets() -> None:
    done = security("ssrf")
    assert done.returncode == 0, done.stdout + done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["what", "figure", "target"]
    led = next(row for row in rows if row.startswith("redirects that lead"))
    assert led.split()[-5:] == ["in", "12", "redirects", "0", "ok"]


def test_an_unknown_section_is_told_which_ones_there_are() -> None:
    done = security("nothing")
    assert done.returncode == 2 and "compromised" in done.stderr


@pytest.mark.parametrize(
    "missed",
    [
        none_of("hits", 1, 1000, "runs"), none_of("hits", 0, 0, "runs"), all_of("refused", 99, 100), all_of("refused", 0, 0),
        at_least(90, "control", 899, 1000), at_least(90, "control", 0, 0), at_most(50, "asked", 501, 1000),
        at_most(50, "asked", 0, 0),
    ],
    ids=lambda figure: f"{figure.what}: {figure.shown}",
)  # fmt: skip
def test_one_figure_out_of_bounds_or_of_nothing_at_all_gives_exit_code_1(missed: Figure) -> None:
    fine = [
        none_of("hits", 0, 1000, "runs"),
        all_of("done", 61, 61),
        at_least(90, "control", 9, 10),
        at_most(50, "asked", 5, 10),
    ]
    assert (exit_code(fine), exit_code([*fine, missed])) == (0, 1)
    assert [row.split()[-1] for row in table([*fine, missed]).splitlines()[1:]] == ["ok"] * 4 + [
        "NOT"
    ]


def test_what_is_told_for_information_and_what_could_not_be_measured_is_neither_met_nor_missed() -> (
    None
):
    figures = [told("the fence", 5.25, "ms"), not_measured("lines", "cases.json is not at hand")]
    assert exit_code(figures) == 0
    _, fence, lines = table(figures).splitlines()
    assert (fence.split(), lines.split()[-1]) == (["the", "fence", "5.25", "ms"], "hand")


def test_a_test_that_did_not_pass_counts_as_failed_whatever_the_reason(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite tests="7" failures="1" errors="1" skipped="1"/></testsuites>'
    )
    assert read(report) == Checked(7, 3)
