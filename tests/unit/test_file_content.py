"""A file is read to its end, whatever size it says it has."""

from pathlib import Path

import pytest

from daemon.tools.workspace.fs import read_all


@pytest.mark.parametrize("size", [0, 1, 70_000])
def test_all_of_a_file_is_read(tmp_path: Path, size: int):
    path = tmp_path / "file"
    path.write_bytes(bytes(size))
    with path.open("rb") as file:
        assert read_all(file) == bytes(size)


def test_a_file_that_holds_more_than_it_says_is_read_whole():
    path = Path("/proc/self/limits")
    with path.open("rb") as file:
        assert path.stat().st_size == 0 and read_all(file) == path.read_bytes()
