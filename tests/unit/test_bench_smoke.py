"""`python -m tests.bench` prints figures; whether they are good is not for a test to say."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from daemon.store.migrate import open_writer
from tests.bench.figures import Figure, table
from tests.bench.floor_server import ROWS
from tests.bench.machine import filesystem, is_disk
from tests.fakes.command_line import ROOT


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.bench", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False, cwd=ROOT
    )


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder that does not lie in memory, as those of other tests may."""
    with TemporaryDirectory(dir="/var/tmp", prefix="aidaemon-bench-smoke-") as folder:
        yield Path(folder)


def test_a_section_runs_against_the_real_daemon_and_prints_its_figures_beside_the_targets(
    disk: Path,
) -> None:
    done = bench("prompt", "--dir", str(disk))
    assert done.returncode == 0, done.stderr
    head, _, *rows = done.stdout.splitlines()
    assert head.startswith(f"journals in {disk}") and "synchronous = 2 (2: FULL)" in head
    told = next(row for row in rows if row.startswith('bare "hi": system prompt and tools'))
    assert "tokens" in told and "<= 640" in told


def test_what_channels_cost_is_measured_at_fakes_in_processes_of_their_own(disk: Path) -> None:
    done = bench("channels", "--dir", str(disk))
    assert done.returncode == 0, done.stderr
    start, idle = (row for row in done.stdout.splitlines() if "three channels" in row)
    assert "<= 1.2" in start and "<= 110" in idle


def test_the_stub_writes_into_the_schema_of_now(tmp_path: Path) -> None:
    with closing(open_writer(tmp_path / "journal.db")) as db:
        for number, statements in enumerate(ROWS):
            for statement in statements:
                db.execute(statement, {"turn": "t1", "number": number})
        (events,) = db.execute("SELECT count(*) FROM events").fetchone()
    assert events == 4


def test_two_versions_are_measured_by_turns(disk: Path) -> None:
    done = bench("turn", "--beside", str(ROOT), "--rounds", "2", "--dir", str(disk))
    assert done.returncode == 0, done.stderr
    _, turn, *_ = (row.split() for row in done.stdout.splitlines())
    assert turn[:3] == ["trivial", "turn", "100"], done.stdout
    assert 0.5 < float(turn[-4]) < 2, done.stdout  # both are this version


def test_a_kind_of_work_that_is_not_compared_is_told_which_ones_are() -> None:
    done = bench("pages", "--beside", str(ROOT))
    assert done.returncode == 2 and "turn, looks, files, parallel, fifty" in done.stderr


def test_a_folder_that_is_no_checkout_is_not_measured(tmp_path: Path, disk: Path) -> None:
    done = bench("--beside", str(tmp_path), "--dir", str(disk))
    assert done.returncode == 1 and f"{tmp_path} is no checkout" in done.stderr


def test_an_unknown_section_is_told_which_ones_there_are() -> None:
    done = bench("nothing")
    assert done.returncode == 2 and "thousand" in done.stderr


def test_what_lies_in_memory_is_no_disk_because_a_flush_costs_nothing_there(tmp_path: Path) -> None:
    mounted = tmp_path / "mounts"
    mounted.write_text(
        "/dev/a / ext4 rw 0 0\nnone /quick tmpfs rw 0 0\n/dev/b /quick/slow xfs rw 0 0\n"
    )
    assert not is_disk(Path("/quick/home"), mounted)
    assert is_disk(Path("/quicker"), mounted)
    assert filesystem(Path("/quick/slow/home"), mounted) == "xfs"


def test_a_figure_says_its_ratio_and_whether_it_is_within_its_target() -> None:
    rows = table(
        [
            Figure("slow", 10, "ms", 5),
            Figure("fast", 300, "turns/s", 200, at_least=True),
            Figure("told", 1, "MB"),
        ]
    )
    _, slow, fast, told = (row.split() for row in rows.splitlines())
    assert slow[-2:] == ["2.00", "NO"]
    assert fast[-2:] == ["1.50", "yes"]
    assert told == ["told", "1", "MB"]
