"""Figures that are tests in themselves: how many of them fail."""

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.fakes.command_line import ROOT

HERE = Path(__file__).parent
WITHIN_S = 900
PASSED_OR_FAILED = (0, 1)


@dataclass(frozen=True, slots=True)
class Checked:
    """How many tests there are, and how many of them did not pass, for whatever reason."""

    tests: int
    failed: int


async def checked(pattern: str, place: Path) -> Checked:
    """Run the tests in the files of this pattern, in a process of their own; its report is left in `place`."""
    place.mkdir(parents=True, exist_ok=True)
    report = place / "report.xml"
    files = [str(file) for file in sorted(HERE.glob(pattern))]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
        *files,
    ]
    done = await asyncio.to_thread(
        subprocess.run,
        command,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
        cwd=ROOT,
    )
    if not files or done.returncode not in PASSED_OR_FAILED:
        raise RuntimeError(
            f"pytest ended with {done.returncode} for {pattern}: {done.stdout[-1000:]}{done.stderr[-1000:]}"
        )
    return read(report)


def read(report: Path) -> Checked:
    """The counts in pytest's report."""
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    counts = {
        name: sum(int(suite.get(name, 0)) for suite in suites)
        for name in ("tests", "failures", "errors", "skipped")
    }
    return Checked(counts["tests"], counts["failures"] + counts["errors"] + counts["skipped"])
