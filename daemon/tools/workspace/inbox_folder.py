"""HOME/files/inbox: what came with messages, as it came. Only the house writes there; tools read it as "inbox/..."."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from datetime import date
from io import BufferedWriter, FileIO
from pathlib import Path
from secrets import token_hex

from daemon.core import value
from daemon.core.clock import run_to_completion
from daemon.core.errors import AidaemonError
from daemon.tools.workspace.attachment_names import format_size, make_safe_name
from daemon.tools.workspace.fs import CREATE_FLAGS
from daemon.tools.workspace.openat import DIRECTORY_FLAGS, open_by_steps

INBOX = "inbox"
UNFINISHED_SUFFIX = ".part"


class FileTooBig(AidaemonError):
    """The file is bigger than what may be kept; nothing of it was."""


class IncomingFile(BufferedWriter):
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
            raise FileTooBig(f"it is bigger than {format_size(self._most)}")
        return super().write(data)


@value
class InboxFolder:
    """The folder, and a folder in it for every day. Each is the owner's alone; nothing goes through a link."""

    root: Path

    @asynccontextmanager
    async def create(
        self, name: str, day: date, turn: str, most: int
    ) -> AsyncIterator[IncomingFile]:
        """A file of this turn to write: there when the body is over, whole and on disk, or not at all. The same one again takes
        the place of the first. Raises TooBig, OSError.
        """
        last, draft = (
            f"{make_safe_name(turn)}-{make_safe_name(name)}",
            f".{token_hex(8)}{UNFINISHED_SUFFIX}",
        )
        folder = await asyncio.to_thread(self._folder, day.isoformat())
        with ExitStack() as after:
            after.callback(os.close, folder)
            file = IncomingFile(
                os.open(draft, CREATE_FLAGS, 0o600, dir_fd=folder),
                f"{INBOX}/{day.isoformat()}/{last}",
                most,
            )
            after.callback(_discard, file, draft, folder)
            yield file
            await run_to_completion(asyncio.to_thread(_commit, file, draft, last, folder))

    def remove_unfinished(self) -> None:
        """Take away what a daemon that died had not finished; before anything new arrives."""
        for left in self.root.glob(f"*/.*{UNFINISHED_SUFFIX}"):
            left.unlink(missing_ok=True)

    def _folder(self, day: str) -> int:
        for place in (self.root.parent, self.root):
            place.mkdir(mode=0o700, exist_ok=True)
        root = os.open(self.root, DIRECTORY_FLAGS)
        try:
            with suppress(FileExistsError):
                os.mkdir(day, 0o700, dir_fd=root)
            return open_by_steps(root, (day,), DIRECTORY_FLAGS)
        finally:
            os.close(root)


def _discard(file: IncomingFile, draft: str, folder: int) -> None:
    """Let go of it; what was not kept by now is no more."""
    with suppress(OSError):
        file.close()
    with suppress(OSError):
        os.unlink(draft, dir_fd=folder)


def _commit(file: IncomingFile, draft: str, last: str, folder: int) -> None:
    file.flush()
    os.fsync(file.fileno())
    os.rename(draft, last, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)
