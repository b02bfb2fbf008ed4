"""HOME/files/inbox: what came with messages, as it came. Only the house writes there; tools read it as "inbox/..."."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import date
from io import BufferedWriter, FileIO
from pathlib import Path
from secrets import token_hex

from daemon.core.errors import AidaemonError
from daemon.core.files import safe_name, shown_size
from daemon.core.waiting import uninterrupted
from daemon.tools.beneath import DIRECTORY, by_steps
from daemon.tools.draft import CREATE

NAME = "inbox"
UNFINISHED = ".part"


class TooBig(AidaemonError):
    """The file is bigger than what may be kept; nothing of it was."""


class Arriving(BufferedWriter):
    """A file that is being written, of at most so many bytes. `path` is what tools will call it, `size` what it holds so far."""

    def __init__(self, handle: int, path: str, most: int) -> None:
        super().__init__(FileIO(handle, "wb"))
        self.path = path
        self.size = 0
        self._most = most

    def write(self, data: "bytes | bytearray | memoryview", /) -> int:  # type: ignore[override]
        """Raises TooBig."""
        self.size += memoryview(data).nbytes
        if self.size > self._most:
            raise TooBig(f"it is bigger than {shown_size(self._most)}")
        return super().write(data)


@dataclass(frozen=True, slots=True)
class FilesInbox:
    """The folder, and a folder in it for every day. Each is the owner's alone; nothing goes through a link."""

    root: Path

    @asynccontextmanager
    async def place(self, name: str, day: date, turn: str, most: int) -> AsyncIterator[Arriving]:
        """A file of this turn to write: there when the body is over, whole and on disk, or not at all. The same one again takes
        the place of the first. Raises TooBig, OSError.
        """
        last, draft = f"{safe_name(turn)}-{safe_name(name)}", f".{token_hex(8)}{UNFINISHED}"
        folder = await asyncio.to_thread(self._folder, day.isoformat())
        with ExitStack() as after:
            after.callback(os.close, folder)
            file = Arriving(os.open(draft, CREATE, 0o600, dir_fd=folder), f"{NAME}/{day.isoformat()}/{last}", most)
            after.callback(_drop, file, draft, folder)
            yield file
            await uninterrupted(asyncio.to_thread(_keep, file, draft, last, folder))

    def tidy(self) -> None:
        """Take away what a daemon that died had not finished; before anything new arrives."""
        for left in self.root.glob(f"*/.*{UNFINISHED}"):
            left.unlink(missing_ok=True)

    def _folder(self, day: str) -> int:
        for place in (self.root.parent, self.root):
            place.mkdir(mode=0o700, exist_ok=True)
        root = os.open(self.root, DIRECTORY)
        try:
            with suppress(FileExistsError):
                os.mkdir(day, 0o700, dir_fd=root)
            return by_steps(root, (day,), DIRECTORY)
        finally:
            os.close(root)


def _drop(file: Arriving, draft: str, folder: int) -> None:
    """Let go of it; what was not kept by now is no more."""
    with suppress(OSError):
        file.close()
    with suppress(OSError):
        os.unlink(draft, dir_fd=folder)


def _keep(file: Arriving, draft: str, last: str, folder: int) -> None:
    file.flush()
    os.fsync(file.fileno())
    os.rename(draft, last, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)
