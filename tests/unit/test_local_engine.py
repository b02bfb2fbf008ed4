"""The runtime of the embedded model refuses in words when the machine is not fit for it."""

import subprocess
import sys
from pathlib import Path

import pytest

from daemon.core.errors import ErrorClass, ProviderError
from daemon.providers.local.engine import check_memory, count_threads, get_free_memory

GIB = 1 << 30
NOWHERE = Path("/nowhere")


def test_less_than_three_gib_free_is_refused_and_points_to_init():
    with pytest.raises(
        ProviderError, match=r"needs 3 GiB .* 1\.5 GiB are free.*in config.toml"
    ) as failed:
        check_memory(GIB * 3 // 2)
    assert failed.value.kind is ErrorClass.NOT_FOUND


@pytest.mark.parametrize("free", [3 * GIB, None])
def test_enough_memory_or_a_machine_that_does_not_tell_is_accepted(free: int | None):
    check_memory(free)


def test_free_memory_is_what_the_machine_says(tmp_path: Path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9 kB\nMemAvailable:    2048 kB\n")
    assert get_free_memory(meminfo, NOWHERE) == 2 << 20


def test_a_container_with_less_than_the_machine_counts(tmp_path: Path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemAvailable: 8388608 kB\n")
    (tmp_path / "memory.max").write_text(f"{2 * GIB}\n")
    (tmp_path / "memory.current").write_text(f"{GIB}\n")
    (tmp_path / "memory.stat").write_text(f"anon 1\ninactive_file {GIB // 2}\n")
    assert get_free_memory(meminfo, tmp_path) == GIB * 3 // 2
    (tmp_path / "memory.max").write_text("max\n")
    assert get_free_memory(meminfo, tmp_path) == 8 * GIB


def test_a_machine_that_tells_nothing_is_unknown():
    assert get_free_memory(NOWHERE, NOWHERE) is None


def test_there_is_a_thread_for_each_core_that_the_process_may_use():
    own = "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); from daemon.providers.local.engine import count_threads"
    ran = subprocess.run(
        [sys.executable, "-c", f"{own}; print(count_threads())"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout == "1\n"
    assert count_threads() >= 1


def test_without_the_extra_the_pip_command_is_named():
    here = str(Path.cwd())
    code = f"import sys; sys.path.insert(0, {here!r}); from daemon.providers.local.engine import check_runtime; check_runtime()"
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (
        "ConfigError: the embedded model needs an extra that is not installed: pip install 'aidaemon[local]'"
        in ran.stderr
    )
