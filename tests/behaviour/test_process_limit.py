"""K9: the kernel bounds the processes of one command for root too, however late anybody counts them."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from daemon.tools.shell.process_limit import KERNEL_LIMIT, find_group, kernel_limit

needs_groups = pytest.mark.skipif(
    os.getuid() != 0 or not os.access(find_group() or "/nonexistent", os.W_OK),
    reason="a control group for processes alone can be made by root, and here by nobody",
)
WAITS = "sleep 60 & read -r go; "


@needs_groups
def test_k9_the_kernel_refuses_root_more_processes_than_the_limit(tmp_path: Path) -> None:
    said = tmp_path / "said"
    line = WAITS + "i=0; while [ $i -lt 1200 ]; do sleep 5 & i=$((i+1)); done"
    with kernel_limit() as join, said.open("w") as errors:
        running = subprocess.Popen(
            ["/bin/dash", "-c", line], stdin=subprocess.PIPE, stderr=errors, start_new_session=True
        )
        try:
            join(running.pid)
            running.communicate(b"go\n", timeout=60)
            assert "fork" in said.read_text()
        finally:
            os.killpg(running.pid, signal.SIGKILL)


@needs_groups
def test_k9_what_bounds_the_daemon_bounds_its_commands_with_all_below_them() -> None:
    with kernel_limit() as join:
        line = "sleep 60 & echo $!; read -r go"
        running = subprocess.Popen(
            ["/bin/dash", "-c", line], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        try:
            assert running.stdout
            below = int(running.stdout.readline())
            join(running.pid)
            group = find_group(running.pid)
            assert group and group.parent == find_group() and group == find_group(below)
            assert (group / "pids.max").read_text().strip() == str(KERNEL_LIMIT)
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()


def test_a_server_outside_the_sandbox_is_left_as_it_is_configured() -> None:
    before = Path("/proc/self/cgroup").read_text()
    with kernel_limit(wanted=False) as join:
        join(os.getpid())
    assert Path("/proc/self/cgroup").read_text() == before
