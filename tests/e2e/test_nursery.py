"""The process that forks the tests' command lines lives on when a test gives up on one."""

from pathlib import Path

import pytest

from tests.fakes.command_line import aidaemon


def test_a_command_line_that_took_too_long_breaks_no_later_one(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        aidaemon("--version", home=tmp_path, within=0.000_001)
    assert aidaemon("--version", home=tmp_path).returncode == 0
    assert aidaemon("--version", home=tmp_path).returncode == 0
