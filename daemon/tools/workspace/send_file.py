"""send_file: sends a copy of a file of the workspace to the people of the conversation."""

import asyncio
import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

from daemon.core import value
from daemon.core.clock import run_to_completion
from daemon.core.rows import OutboxRow, SessionRow
from daemon.core.trust import Effect
from daemon.store.journal import Store, Tx
from daemon.tools.base import ToolContext, ToolError
from daemon.tools.signature import tool
from daemon.tools.workspace.fs import CREATE_FLAGS, Workspace, explain_os_errors
from daemon.tools.workspace.inbox_folder import describe_too_big, format_size, make_safe_name

FILE_ROLE = "file"
MAX_SEND_BYTES = 50 << 20
CHUNK = 1 << 20
CHANNELS_WITHOUT_FILES = frozenset(("", "web", "http", "terminal", "event", "loop", "agent"))
NO_FILES_HERE = (
    "this conversation cannot take files; say where in the workspace the file is instead."
    " Nothing was sent."
)


@value
class FileSender:
    """Copies stay in `folder` (HOME/files/outbox) until they are delivered. `max_bytes`: how much
    a channel takes.
    """

    workspace: Workspace
    folder: Path
    journal: Store
    new_id: Callable[[], str]
    max_bytes: Callable[[str], int]

    async def find_recipient(self, session: str) -> SessionRow:
        """The conversation that hears this session. Raises ToolError if it takes no files."""
        row = await self.journal.read(lambda tx: _find_session(tx, session))
        if row is None or row.channel.rpartition("/")[2] in CHANNELS_WITHOUT_FILES:
            raise ToolError(NO_FILES_HERE)
        return row

    async def send(self, to: SessionRow, path: str, caption: str, context: ToolContext) -> str:
        """Copy it and queue it: both or neither. Raises ToolError, StoreUnavailable."""
        name = make_safe_name(PurePosixPath(path).name)
        copy = self.folder / f"{self.new_id()}-{name}"
        with ExitStack() as undo:
            undo.callback(copy.unlink, missing_ok=True)
            size = await asyncio.to_thread(self._copy, path, copy, self.max_bytes(to.channel))
            file = {"path": str(copy), "name": name, "caption": caption, "size": size}
            row = OutboxRow(
                context.turn.id, -1, to.id, to.channel, to.chat, FILE_ROLE,
                json.dumps(file, ensure_ascii=False), context.clock.now(),
            )  # fmt: skip
            await self.journal.write(lambda tx: tx.post_delivery(row))
            undo.pop_all()
        return f"{name} ({format_size(size)}) is on its way"

    def _copy(self, path: str, copy: Path, max_bytes: int) -> int:
        """Its size, however fast the file grows meanwhile at most `max_bytes`."""
        size = 0
        with self.workspace.open_file(path, max_bytes) as source, explain_os_errors(path):
            for folder in (self.folder.parent, self.folder):
                folder.mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(os.open(copy, CREATE_FLAGS, 0o600), "wb") as file:
                while data := source.read(CHUNK):
                    size += len(data)
                    if size > max_bytes:
                        reason = describe_too_big(size, max_bytes)
                        raise ToolError(f"{path}: {reason}; nothing was sent")
                    file.write(data)
                file.flush()
                os.fsync(file.fileno())
        return size


@tool(effect=Effect.EGRESS, critical=("path",), paths=("path",), timeout_s=120)
async def send_file(sender: FileSender, context: ToolContext, path: str, caption: str = "") -> str:
    """Send a file of the workspace to the people of this conversation, with a caption if you
    like.
    """
    recipient = await sender.find_recipient(context.session_id)
    return await run_to_completion(sender.send(recipient, path, caption.strip(), context))


def _find_session(tx: Tx, session: str) -> SessionRow | None:
    own = tx.get_session(session)
    return tx.get_session(own.root) if own and own.root else own
