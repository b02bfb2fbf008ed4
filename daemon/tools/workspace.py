"""The one directory that file tools can reach; no link leads out of it (tools/beneath.py)."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from daemon.tools.base import ToolError
from daemon.tools.beneath import DIRECTORY, Opening, making, open_beneath
from daemon.tools.draft import READ, Draft, content, ordinary

OUTSIDE = "outside the workspace {root}; use a path inside it"


@dataclass(frozen=True, slots=True)
class Workspace:
    """Files under `root`, which is absolute and without links. `max_chars` is how much of a file one result can hold."""

    root: Path
    max_chars: int = 4000
    opening: Opening = field(default=open_beneath, repr=False)

    def parts(self, path: str) -> tuple[str, ...]:
        """The steps from the root to here. Raises ToolError for a path that would leave it."""
        if "\0" in path:
            raise ToolError(f"{path!r}: a path cannot hold a NUL character")
        given = PurePosixPath(path)
        if given.is_absolute():
            if not given.is_relative_to(self.root):
                raise ToolError(self._outside(path))
            given = given.relative_to(self.root)
        if ".." in given.parts or path.startswith("~"):
            raise ToolError(f"{self._outside(path)}, without '..' or '~'")
        return given.parts

    def name(self, path: str) -> str:
        """The one name of this place, from the root on; "" for the root. Raises ToolError."""
        return "/".join(self.parts(path))

    @contextmanager
    def directory(self, path: str) -> Iterator[int]:
        """This directory, open. Raises ToolError."""
        steps = self.parts(path)
        with self._root(path) as root, told(path):
            place = self.opening(root, steps, DIRECTORY)
        try:
            yield place
        finally:
            os.close(place)

    @contextmanager
    def reading(self, path: str) -> Iterator[BinaryIO]:
        """This file, open for reading. Raises ToolError for what is no ordinary file of reasonable size."""
        steps = self._steps_to_file(path)
        with self._root(path) as root, told(path):
            handle = self.opening(root, steps, READ)
        with ordinary(path, handle) as file, told(path):
            yield file

    def is_file(self, path: str) -> bool:
        """An ordinary file stands here."""
        steps = self.parts(path)
        if not steps:
            return False
        with self.directory("/".join(steps[:-1])) as place, told(path):
            return stat.S_ISREG(os.stat(steps[-1], dir_fd=place, follow_symlinks=False).st_mode)

    def exists(self, path: str) -> bool:
        """Something stands here, a link perhaps."""
        steps = self.parts(path)
        try:
            with self.directory("/".join(steps[:-1])) as place:
                return not steps or bool(os.stat(steps[-1], dir_fd=place, follow_symlinks=False))
        except (OSError, ToolError):
            return False

    def read(self, path: str) -> bytes:
        """All of this file."""
        with self.reading(path) as file:
            return content(file)

    @contextmanager
    def draft(self, path: str, make: bool = True) -> Iterator[Draft]:
        """A change of this file to be; directories on the way are made where `make` says so. Raises ToolError."""
        steps = self._steps_to_file(path)
        folder, made = steps[:-1], ()
        with self._root(path) as root, told(path):
            if make:
                place, made = making(self.opening, root, folder)
            else:
                place = self.opening(root, folder, DIRECTORY)
        draft = Draft(path, place, steps[-1], made)
        try:
            with told(path):
                draft.look()
                yield draft
        finally:
            draft.close()

    def write(self, path: str, data: bytes) -> None:
        """The file holds this from now on, whole or not at all; directories on the way are made. Raises ToolError."""
        with self.draft(path) as draft:
            draft.hold(data)
            draft.put()

    def _outside(self, path: str) -> str:
        return f"{path}: {OUTSIDE.format(root=self.root)}"

    def _steps_to_file(self, path: str) -> tuple[str, ...]:
        steps = self.parts(path)
        if not steps:
            raise ToolError(f"{path or '.'}: this is the workspace itself; name a file in it")
        return steps

    @contextmanager
    def _root(self, path: str) -> Iterator[int]:
        with told(path):
            root = os.open(self.root, DIRECTORY)
        try:
            yield root
        finally:
            os.close(root)


@contextmanager
def told(path: str) -> Iterator[None]:
    """Troubles of the file system in words for the model."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolError(f"{path}: no such file or directory; list_dir shows what there is") from error
    except NotADirectoryError as error:
        raise ToolError(f"{path}: a part of it is not a directory") from error
    except IsADirectoryError as error:
        raise ToolError(f"{path}: this is a directory; use list_dir") from error
    except OSError as error:
        raise ToolError(f"{path}: {_why(error)}") from error
    except UnicodeEncodeError as error:
        raise ToolError(f"{path}: the path or the text holds broken characters; nothing was changed") from error


def _why(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "it is, or leads through, a symbolic link, which is not followed; use the real path"
    return f"{error.strerror or error}; nothing was changed"
