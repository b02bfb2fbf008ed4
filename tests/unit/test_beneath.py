"""Opening what lies beneath a folder, by the kernel and by hand: the same promises (A6 of the reference)."""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.tools.base import ToolError
from daemon.tools.workspace.fs import Workspace
from daemon.tools.workspace.openat import (
    DIRECTORY_FLAGS,
    OpenBeneath,
    has_openat2,
    make_directories,
    open_beneath,
    open_by_kernel,
    open_by_steps,
)

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


@pytest.fixture(params=[open_by_kernel, open_by_steps])
def opening(request: pytest.FixtureRequest) -> OpenBeneath:
    return request.param


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    furnish(tmp_path)
    handle = os.open(tmp_path / "inside", DIRECTORY_FLAGS)
    yield handle
    os.close(handle)


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


def test_this_kernel_is_asked_where_it_can() -> None:
    assert open_beneath is (open_by_kernel if has_openat2() else open_by_steps)


def test_what_is_beneath_is_opened(root: int, opening: OpenBeneath) -> None:
    for steps in ((), ("a",), ("a", "b"), ("notes.txt",), ("a", "b", "notes.txt")):
        os.close(opening(root, steps, os.O_RDONLY))


@pytest.mark.parametrize(
    ("steps", "number"),
    [
        (("link",), errno.ELOOP), (("a", "link"), errno.ELOOP), (("up", "secret.txt"), errno.ELOOP), (("loop",), errno.ELOOP),
        (("proc", "environ"), errno.ELOOP), (("proc", "root", "etc", "passwd"), errno.ELOOP), (("proc", "cwd"), errno.ELOOP),
        (("..", "secret.txt"), errno.EXDEV), (("a", "..", "..", "secret.txt"), errno.EXDEV),
        (("a/../../secret.txt",), errno.EXDEV),
        (("/etc/passwd",), errno.EXDEV), (("",), errno.EXDEV), (("notes.txt\0.png",), errno.EXDEV), (("gone",), errno.ENOENT),
        (("notes.txt", "x"), errno.ENOTDIR),
    ],
)  # fmt: skip
def test_what_is_not_beneath_is_refused(
    root: int, opening: OpenBeneath, steps: tuple[str, ...], number: int
) -> None:
    with pytest.raises(OSError) as caught:
        opening(root, steps, os.O_RDONLY)
    assert caught.value.errno == number


def test_a_folder_that_is_a_link_is_refused_as_a_link(root: int, opening: OpenBeneath) -> None:
    with pytest.raises(OSError) as caught:
        opening(root, ("up",), DIRECTORY_FLAGS)
    assert caught.value.errno == errno.ELOOP


def test_folders_are_made_but_never_through_a_link(
    root: int, opening: OpenBeneath, tmp_path: Path
) -> None:
    handle, made = make_directories(opening, root, ("a", "new", "newer"))
    os.close(handle)
    assert made == ("a/new", "a/new/newer")
    handle, made = make_directories(opening, root, ("a", "new"))
    os.close(handle)
    assert made == ()
    with pytest.raises(OSError):
        make_directories(opening, root, ("up", "planted"))
    assert not (tmp_path / "planted").exists()


def test_no_handle_is_left_open(root: int, opening: OpenBeneath, tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for steps in (("a", "b", "notes.txt"), ("link",), ("a", "gone", "x"), ("up", "secret.txt")):
        with suppress(OSError):
            os.close(opening(root, steps, os.O_RDONLY))
        with suppress(OSError):
            os.close(make_directories(opening, root, steps)[0])
    files = Workspace(tmp_path / "inside", opener=opening)
    for path in ("a", "link", "notes.txt", "gone"):
        with suppress(ToolError):
            files.read(path)
        with suppress(ToolError):
            files.write(path, b"new")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@given(
    st.lists(st.one_of(st.sampled_from(ODD), st.text(max_size=5)), min_size=1, max_size=6).map(
        "/".join
    )
)
def test_no_path_of_any_kind_leads_outside_and_both_ways_agree(path: str) -> None:
    with TemporaryDirectory() as place:
        inside = furnish(Path(place))
        found = {
            opening: read(Workspace(inside, opener=opening), path)
            for opening in (open_by_kernel, open_by_steps)
        }
        assert SECRET not in found.values()
        assert set(found.values()) <= {b"mine", b"refused"}
        assert len(set(found.values())) == 1
        for opening in found:
            with suppress(ToolError):
                Workspace(inside, opener=opening).write(path, b"new")
        assert (Path(place) / "secret.txt").read_bytes() == SECRET
        assert sorted(one.name for one in Path(place).iterdir()) == ["inside", "secret.txt"]


def read(files: Workspace, path: str) -> bytes:
    try:
        return files.read(path)
    except ToolError:
        return b"refused"
