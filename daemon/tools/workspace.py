"""The one directory that file tools can reach; no link leads out of it (tools/beneath.py)."""

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from daemon.tools.base import ToolError
from daemon.tools.beneath import DIRECTORY, Opening, making, open_beneath
from daemon.tools.draft import MAX_BYTES, READ, Draft, content, ordinary

OUTSIDE = "outside the workspace {root}; use a path inside it"
READ_ONLY = "{path}: what came with messages can only be read; copy_file makes a copy that can be changed. Nothing was changed."


@dataclass(frozen=True, slots=True)
class Workspace:
    """Files under `root`, which is absolute and without links. `max_chars` is how much of a file one result can hold.

    `beside` are folders elsewhere that can be read, never written, as if they lay in the root under these names, as soon as they
    exist. What stands in them came from outside.
    """

    root: Path
    max_chars: int = 4000
    opening: Opening = field(default=open_beneath, repr=False)
    beside: Mapping[str, Path] = field(default_factory=dict, repr=False)

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
        return path_of(self.parts(path))

    @property
    def guests(self) -> list[str]:
        """The names of the folders beside it that exist."""
        return [name for name, place in self.beside.items() if place.is_dir()]

    def is_guest(self, path: str) -> bool:
        """It lies in a folder beside the workspace, or is one."""
        steps = self.parts(path)
        return bool(steps) and steps[0] in self.beside and self.beside[steps[0]].is_dir()

    def came_from_outside(self, path: str) -> bool:
        """It lies in a folder beside the workspace: somebody sent it."""
        return self.is_guest(path) and len(self.parts(path)) > 1

    @contextmanager
    def directory(self, path: str) -> Iterator[int]:
        """This directory, open. Raises ToolError."""
        with self._root(path) as (root, steps), told(path):
            place = self.opening(root, steps, DIRECTORY)
        try:
            yield place
        finally:
            os.close(place)

    @contextmanager
    def reading(self, path: str, most: int = MAX_BYTES) -> Iterator[BinaryIO]:
        """This file, open for reading. Raises ToolError for what is no ordinary file of at most so many bytes."""
        self._steps_to_file(path)
        with self._root(path) as (root, steps), told(path):
            handle = self.opening(root, steps, READ)
        with ordinary(path, handle, most) as file, told(path):
            yield file

    def is_file(self, path: str) -> bool:
        """An ordinary file stands here."""
        steps = self.parts(path)
        if not steps or path_of(steps) in self.guests:
            return False
        with self.directory(path_of(steps[:-1])) as place, told(path):
            return stat.S_ISREG(os.stat(steps[-1], dir_fd=place, follow_symlinks=False).st_mode)

    def exists(self, path: str) -> bool:
        """Something stands here, a link perhaps."""
        steps = self.parts(path)
        if path_of(steps) in self.guests:
            return True
        try:
            with self.directory(path_of(steps[:-1])) as place:
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
        if self.is_guest(path):
            raise ToolError(READ_ONLY.format(path=path))
        folder, made = steps[:-1], ()
        with self._root(path) as (root, _), told(path):
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
    def _root(self, path: str) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Where the path begins, open, and its steps from there."""
        steps, place = self.parts(path), self.root
        if self.is_guest(path):
            place, steps = self.beside[steps[0]], steps[1:]
        with told(path):
            root = os.open(place, DIRECTORY)
        try:
            yield root, steps
        finally:
            os.close(root)


def path_of(steps: Sequence[str]) -> str:
    """The steps, as they are written."""
    return "/".join(steps)


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
