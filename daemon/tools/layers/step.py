"""What is done with one change of a command."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Literal

from daemon.core import value
from daemon.tools.layers.changes import Change
from daemon.tools.workspace.fs import READ_FLAGS

# keep: of both, the owner's stays; remove: a whole folder, which is put aside; say: nothing.
Action = Literal["merge", "hold", "drop", "keep", "remove", "say"]
MAX_READ = 1_000_000  # of what is judged by its text


@value
class Step:
    """What is done with one change. `cleaned`: what of its text comes over all the same."""

    change: Change
    action: Action
    reason: str = ""
    cleaned: str | None = None


def read(place: Path, limit: int = MAX_READ) -> str | None:
    """An ordinary file's text; None of another, or of too much."""
    data = read_bytes(place, limit)
    return None if data is None else data.decode("utf-8", "replace")


def read_bytes(place: Path, limit: int) -> bytes | None:
    """All of an ordinary file; None of another, or of more than this."""
    with suppress(OSError), os.fdopen(os.open(place, READ_FLAGS), "rb") as file:
        info = os.fstat(file.fileno())
        if stat.S_ISREG(info.st_mode) and info.st_size <= limit:
            return file.read(limit)
    return None
