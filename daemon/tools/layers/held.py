"""Files that a command may exchange for links while they are copied or moved, by the daemon and
outside of any sandbox: their folder is held by its descriptor, and no link is followed.
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
    steps = (root / path).relative_to(root).parts
    folder = os.open(root, FOLDER)
    try:
        for step in steps[:-1]:
            above, folder = folder, os.open(step, FOLDER, dir_fd=folder)
            os.close(above)
        yield Held(folder, steps[-1])
    finally:
        os.close(folder)


def move_held(place: Held, to: Held) -> None:
    """A file or a folder; there is nothing at `to`. Raises OSError."""
    if to.exists():
        raise FileExistsError(errno.EEXIST, "something is there", to.name)
    try:
        os.rename(place.name, to.name, src_dir_fd=place.folder, dst_dir_fd=to.folder)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        copy_held(place, to)
        if stat.S_ISDIR(os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode):
            shutil.rmtree(place.name, dir_fd=place.folder)
        else:
            os.unlink(place.name, dir_fd=place.folder)


def copy_held(place: Held, to: Held) -> None:
    """With all that is in it; links stay links. Raises OSError."""
    info = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    mode = stat.S_IMODE(info.st_mode)
    if stat.S_ISLNK(info.st_mode):
        os.symlink(os.readlink(place.name, dir_fd=place.folder), to.name, dir_fd=to.folder)
    elif stat.S_ISDIR(info.st_mode):
        os.mkdir(to.name, 0o700, dir_fd=to.folder)
        with ExitStack() as opened:
            folders: list[int] = []
            for one in (place, to):
                folders.append(os.open(one.name, FOLDER, dir_fd=one.folder))
                opened.callback(os.close, folders[-1])
            with os.scandir(folders[0]) as entries:
                for entry in entries:
                    copy_held(*(Held(folder, entry.name) for folder in folders))
            os.fchmod(folders[1], mode)
    elif stat.S_ISREG(info.st_mode):
        with (
            open(place.name, "rb", opener=place.open) as file,
            open(to.name, "xb", opener=to.open) as copy,
        ):
            shutil.copyfileobj(file, copy)
            os.fchmod(copy.fileno(), mode)
            os.utime(copy.fileno(), ns=(info.st_atime_ns, info.st_mtime_ns))
