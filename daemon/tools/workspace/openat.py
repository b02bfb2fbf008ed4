"""Opening what lies beneath a folder and nothing else, whatever links are slipped in meanwhile (A6 of the reference).

Where the kernel has openat2 (Linux 5.6), it does so in one call; else every step of the path is opened by hand. Resolving a path
first and opening it then would leave a moment in which a link can be slipped in.
"""

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPENAT2 = 437
NO_MAGICLINKS, NO_SYMLINKS, BENEATH = 0x02, 0x04, 0x08
RETRY_ERRORS = (errno.EINTR, errno.EAGAIN)
MAX_TRIES = 100

OpenBeneath = Callable[[int, Sequence[str], int], int]


class _OpenHow(ctypes.Structure):
    """The kernel's `struct open_how`."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_by_kernel(folder: int, steps: Sequence[str], flags: int) -> int:
    """One openat2. Raises OSError; ELOOP for a link on the way."""
    _check_steps(steps)
    path = os.fsencode("/".join(steps) or ".")
    # O_NOFOLLOW would call a link "not a directory"; NO_SYMLINKS refuses it all the same.
    how = _OpenHow(flags & ~os.O_NOFOLLOW, 0, BENEATH | NO_MAGICLINKS | NO_SYMLINKS)
    for tries_left in reversed(range(MAX_TRIES)):
        handle = int(_LIBC.syscall(OPENAT2, folder, path, ctypes.byref(how), ctypes.sizeof(how)))
        if handle >= 0:
            return handle
        number = ctypes.get_errno()
        if number not in RETRY_ERRORS or not tries_left:
            raise OSError(number, os.strerror(number))
    raise AssertionError("the last try raises")


def open_by_steps(folder: int, steps: Sequence[str], flags: int) -> int:
    """One folder after the other, none through a link. Raises OSError; ELOOP for a link on the way."""
    _check_steps(steps)
    if not steps:
        return os.open(".", flags, dir_fd=folder)
    place = os.dup(folder)
    try:
        for step in steps[:-1]:
            following = _open_step(place, step, DIRECTORY_FLAGS)
            os.close(place)
            place = following
        return _open_step(place, steps[-1], flags)
    finally:
        os.close(place)


def make_directories(
    opening: OpenBeneath, folder: int, steps: Sequence[str]
) -> tuple[int, tuple[str, ...]]:
    """This folder below `folder`, open, and what of it had to be made, as paths. Raises OSError."""
    with suppress(FileNotFoundError):
        return opening(folder, steps, DIRECTORY_FLAGS), ()
    made: list[str] = []
    place = os.dup(folder)
    try:
        for count, step in enumerate(steps, 1):
            with suppress(FileExistsError):
                os.mkdir(step, dir_fd=place)
                made.append("/".join(steps[:count]))
            following = opening(place, (step,), DIRECTORY_FLAGS)
            os.close(place)
            place = following
        return os.dup(place), tuple(made)
    finally:
        os.close(place)


def has_openat2() -> bool:
    """This kernel has openat2, and nothing that fences us in forbids it."""
    if not sys.platform.startswith("linux"):
        return False
    root = os.open("/", DIRECTORY_FLAGS)
    try:
        os.close(open_by_kernel(root, (), DIRECTORY_FLAGS))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


def _check_steps(steps: Sequence[str]) -> None:
    """What is no plain name leads nowhere. Raises OSError."""
    if any(step in ("", ".", "..") or "/" in step or "\0" in step for step in steps):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


def _open_step(place: int, step: str, flags: int) -> int:
    try:
        return os.open(step, flags | os.O_NOFOLLOW, dir_fd=place)
    except OSError as error:
        if _is_link(step, place):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error
        raise


def _is_link(name: str, place: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode)
    except OSError:
        return False


_LIBC = ctypes.CDLL(None, use_errno=True)
open_beneath: OpenBeneath = open_by_kernel if has_openat2() else open_by_steps
