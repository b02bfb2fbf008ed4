"""A file is read to its end, whatever size it says it has."""

import os
from pathlib import Path

import pytest

from daemon.tools.workspace.fs import Workspace


@pytest.mark.parametrize("size", [0, 1, 70_000])
def test_all_of_a_file_is_read(tmp_path: Path, size: int):
    (tmp_path / "file").write_bytes(bytes(size))
    assert Workspace(tmp_path.resolve()).read("file") == bytes(size)


def test_a_file_that_holds_more_than_it_says_is_read_whole():
    root = Path(f"/proc/{os.getpid()}")
    assert (root / "limits").stat().st_size == 0
    assert Workspace(root).read("limits") == (root / "limits").read_bytes()
