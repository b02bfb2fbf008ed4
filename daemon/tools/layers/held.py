"""Files that a command may exchange for links while they are copied or moved, by the daemon and
outside of any sandbox: their folder is held by its descriptor, and no link is followed.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from daemon.core import value

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@value
class Held:
    """`name` in the folder of this descriptor."""

    folder: int
    name: str

    def open(self, _: str, flags: int) -> int:
        """For `open`: itself, never what a link leads to, nor a pipe that nobody writes."""
        safe = flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(self.name, safe, 0o644, dir_fd=self.folder)

    def read(self) -> str:
        with open(self.name, "rb", opener=self.open) as file:
            return file.read().decode("utf-8", "replace")

    def exists(self) -> bool:
        """A link that leads nowhere does, too."""
        try:
            os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def is_link(self) -> bool:
        return stat.S_ISLNK(os.stat(self.name, dir_fd=self.folder, follow_symlinks=False).st_mode)


@contextmanager
def hold(root: Path, path: Path | str) -> Iterator[Held]:
    """A place below `root`, which is without links. Raises OSError for one behind a link."""
    steps = os.fspath(path).removeprefix(f"{root}/").split("/")
    folder = os.open(root, FOLDER)
    try:
        for step in steps[:-1]:
            above, folder = folder, os.open(step, FOLDER, dir_fd=folder)
            os.close(above)
        yield Held(folder, steps[-1])
    finally:
        os.close(folder)


def make_readable(place: Path) -> None:
    """A file of a command that has ended, which may have closed it."""
    with suppress(OSError):
        place.chmod(stat.S_IMODE(place.lstat().st_mode) | 0o600)
