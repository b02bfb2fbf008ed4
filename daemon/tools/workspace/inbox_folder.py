"""HOME/files/inbox: files that came with messages, unchanged. Tools read them as "inbox/..."."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import date
from io import BufferedWriter, FileIO
from pathlib import Path
from secrets import token_hex

from daemon.core import value
from daemon.core.clock import run_to_completion
from daemon.core.errors import AidaemonError
from daemon.tools.workspace.attachment_names import format_size, make_safe_name
from daemon.tools.workspace.fs import CREATE_FLAGS, DIRECTORY_FLAGS

INBOX = "inbox"
UNFINISHED_SUFFIX = ".part"


class FileTooBig(AidaemonError):
    """The file is bigger than what may be kept; nothing of it was."""


class IncomingFile(BufferedWriter):
    """Takes a limited number of bytes. `path` is what tools will call it, `size` so far."""

    def __init__(self, handle: int, path: str, max_bytes: int) -> None:
        super().__init__(FileIO(handle, "wb"))
        self.path, self.size, self._max_bytes = path, 0, max_bytes

    def write(self, data: "bytes | bytearray | memoryview", /) -> int:  # type: ignore[override]
        """Raises FileTooBig."""
        self.size += memoryview(data).nbytes
        if self.size > self._max_bytes:
            raise FileTooBig(f"it is bigger than {format_size(self._max_bytes)}")
        return super().write(data)


@value
class InboxFolder:
    """A folder for every day. Each is the owner's alone; nothing goes through a link."""

    root: Path

    @asynccontextmanager
    async def create(
        self, name: str, day: date, turn: str, max_bytes: int
    ) -> AsyncIterator[IncomingFile]:
        """A new file, on disk as a whole when the body is over, or not at all.

        The same name of the same turn replaces the first. Raises FileTooBig, OSError.
        """
        final = f"{make_safe_name(turn)}-{make_safe_name(name)}"
        temp, day_name = f".{token_hex(8)}{UNFINISHED_SUFFIX}", day.isoformat()
        folder = await asyncio.to_thread(self._open_folder, day_name)
        try:
            handle = os.open(temp, CREATE_FLAGS, 0o600, dir_fd=folder)
            file = IncomingFile(handle, f"{INBOX}/{day_name}/{final}", max_bytes)
            try:
                yield file
                await run_to_completion(asyncio.to_thread(_commit, file, temp, final, folder))
            finally:
                with suppress(OSError):
                    file.close()
                with suppress(OSError):
                    os.unlink(temp, dir_fd=folder)
        finally:
            os.close(folder)

    def remove_unfinished(self) -> None:
        """Delete what an earlier daemon did not finish; before anything new arrives."""
        for left in self.root.glob(f"*/.*{UNFINISHED_SUFFIX}"):
            left.unlink(missing_ok=True)

    def _open_folder(self, day: str) -> int:
        for place in (self.root.parent, self.root):
            place.mkdir(mode=0o700, exist_ok=True)
        root = os.open(self.root, DIRECTORY_FLAGS)
        try:
            with suppress(FileExistsError):
                os.mkdir(day, 0o700, dir_fd=root)
            return os.open(day, DIRECTORY_FLAGS, dir_fd=root)
        finally:
            os.close(root)


def _commit(file: IncomingFile, temp: str, final: str, folder: int) -> None:
    file.flush()
    os.fsync(file.fileno())
    os.rename(temp, final, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)
