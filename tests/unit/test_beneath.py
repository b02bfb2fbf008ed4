"""Opening what lies beneath a folder: no link leads out of it (A6 of the reference)."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.tools.base import ToolError
from daemon.tools.workspace.fs import DIRECTORY_FLAGS, Workspace, open_beneath
from tests.fakes.files import write_bytes

SECRET = b"the secret of the house"
ODD = [
    "..",
    ".",
    "",
    "/",
    "//",
    "a",
    "a/b",
    "link",
    "up",
    "loop",
    "~",
    "\0",
    "\udc80",
    "\ud800",
    "x" * 300,
    "notes.txt",
    "proc",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return furnish(tmp_path)


def furnish(place: Path) -> Path:
    """inside/ with files and with links that lead out of it."""
    inside = place / "inside"
    (inside / "a/b").mkdir(parents=True)
    (place / "secret.txt").write_bytes(SECRET)
    (inside / "notes.txt").write_text("mine")
    (inside / "a/b/notes.txt").write_text("mine")
    (inside / "link").symlink_to(place / "secret.txt")
    (inside / "a/link").symlink_to("../../secret.txt")
    (inside / "up").symlink_to("..")
    (inside / "loop").symlink_to("loop")
    (inside / "proc").symlink_to("/proc/self")
    return inside


def test_what_is_beneath_is_opened(root: Path) -> None:
    for steps in ((), ("a",), ("a", "b"), ("notes.txt",), ("a", "b", "notes.txt")):
        os.close(open_beneath(root, steps, os.O_RDONLY))


@pytest.mark.parametrize(
    ("steps", "number"),
    [
        (("link",), errno.ELOOP), (("a", "link"), errno.ELOOP), (("up", "secret.txt"), errno.ENOTDIR), (("loop",), errno.ELOOP),
        (("proc", "environ"), errno.ENOTDIR), (("proc", "root", "etc", "passwd"), errno.ENOTDIR), (("proc", "cwd"), errno.ENOTDIR),
        (("..", "secret.txt"), errno.EXDEV), (("a", "..", "..", "secret.txt"), errno.EXDEV),
        (("a/../../secret.txt",), errno.EXDEV),
        (("/etc/passwd",), errno.EXDEV), (("",), errno.EXDEV), (("notes.txt\0.png",), errno.EXDEV), (("gone",), errno.ENOENT),
        (("notes.txt", "x"), errno.ENOTDIR),
    ],
)  # fmt: skip
def test_what_is_not_beneath_is_refused(root: Path, steps: tuple[str, ...], number: int) -> None:
    with pytest.raises(OSError) as caught:
        open_beneath(root, steps, os.O_RDONLY)
    assert caught.value.errno == number


def test_a_folder_that_is_a_link_is_refused(root: Path) -> None:
    with pytest.raises(OSError) as caught:
        open_beneath(root, ("up",), DIRECTORY_FLAGS)
    assert caught.value.errno == errno.ENOTDIR


def test_folders_are_made_but_never_through_a_link(root: Path, tmp_path: Path) -> None:
    for steps, expected in (
        (("a", "new", "newer"), ["a/new", "a/new/newer"]),
        (("a", "new"), []),
    ):
        created: list[str] = []
        os.close(open_beneath(root, steps, DIRECTORY_FLAGS, created))
        assert created == expected
    with pytest.raises(OSError):
        open_beneath(root, ("up", "planted"), DIRECTORY_FLAGS, [])
    assert not (tmp_path / "planted").exists()


def test_no_handle_is_left_open(root: Path, tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for steps in (("a", "b", "notes.txt"), ("link",), ("a", "gone", "x"), ("up", "secret.txt")):
        with suppress(OSError):
            os.close(open_beneath(root, steps, os.O_RDONLY))
        with suppress(OSError):
            os.close(open_beneath(root, steps, DIRECTORY_FLAGS, []))
    files = Workspace(tmp_path / "inside")
    for path in ("a", "link", "notes.txt", "gone"):
        with suppress(ToolError):
            files.read(path)
        with suppress(ToolError):
            write_bytes(files, path, b"new")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@given(
    st.lists(st.one_of(st.sampled_from(ODD), st.text(max_size=5)), min_size=1, max_size=6).map(
        "/".join
    )
)
def test_no_path_of_any_kind_leads_outside(path: str) -> None:
    with TemporaryDirectory() as place:
        inside = Workspace(furnish(Path(place)))
        assert read(inside, path) in {b"mine", b"refused"}
        with suppress(ToolError):
            write_bytes(inside, path, b"new")
        assert (Path(place) / "secret.txt").read_bytes() == SECRET
        assert sorted(one.name for one in Path(place).iterdir()) == ["inside", "secret.txt"]


def read(files: Workspace, path: str) -> bytes:
    try:
        return files.read(path)
    except ToolError:
        return b"refused"
