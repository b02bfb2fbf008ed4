"""send_file: a copy of a file of the workspace goes to the people of the conversation, so that it is the one that was meant."""

import asyncio
import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol, TypeVar

from daemon.core import value
from daemon.core.clock import run_to_completion
from daemon.core.rows import OutboxRow, SessionRow
from daemon.core.trust import Effect
from daemon.tools.base import ToolContext, ToolError
from daemon.tools.signature import tool
from daemon.tools.workspace.attachment_names import describe_too_big, format_size, make_safe_name
from daemon.tools.workspace.fs import CREATE_FLAGS, Workspace, explain_os_errors

T = TypeVar("T")

FILE_ROLE = "file"
MAX_SEND_BYTES = 50 << 20
CHUNK = 1 << 20
CHANNELS_WITHOUT_FILES = frozenset(("", "web", "http", "terminal", "event", "loop", "agent"))
NO_FILES_HERE = "this conversation cannot take files; say where in the workspace the file lies instead. Nothing was sent."


class SessionReader(Protocol):
    """Reading of conversations."""

    def get_session(self, session: str) -> SessionRow | None:
        """One session."""
        ...


class OutboxWriter(SessionReader, Protocol):
    """Writing, as one atomic unit."""

    def post_delivery(self, row: OutboxRow) -> None:
        """Something to deliver; a negative part becomes the turn's next."""
        ...


class SendStore(Protocol):
    """The journal, as far as sending sees it."""

    async def write(self, work: Callable[[OutboxWriter], T]) -> T:
        """Run as one atomic unit; on disk when this returns. Raises StoreUnavailable."""
        ...

    async def read(self, look: Callable[[SessionReader], T]) -> T:
        """Run over what is committed."""
        ...


@value
class FileSender:
    """What is on its way lies in `folder` (HOME/files/outbox) until it is delivered. `most`: bytes that a channel takes."""

    workspace: Workspace
    folder: Path
    journal: SendStore
    new_id: Callable[[], str]
    max_bytes: Callable[[str], int]

    async def find_recipient(self, session: str) -> SessionRow:
        """The conversation whose people are told what this session has to say. Raises ToolError where none takes files."""
        row = await self.journal.read(lambda tx: _find_session(tx, session))
        if row is None or row.channel.rpartition("/")[2] in CHANNELS_WITHOUT_FILES:
            raise ToolError(NO_FILES_HERE)
        return row

    async def send(self, to: SessionRow, path: str, caption: str, context: ToolContext) -> str:
        """Copy it and post it: both or neither. Raises ToolError, StoreUnavailable."""
        name = make_safe_name(PurePosixPath(path).name)
        copy = self.folder / f"{self.new_id()}-{name}"
        with ExitStack() as undo:
            undo.callback(copy.unlink, missing_ok=True)
            size = await asyncio.to_thread(self._copy, path, copy, self.max_bytes(to.channel))
            body = json.dumps(
                {"path": str(copy), "name": name, "caption": caption, "size": size},
                ensure_ascii=False,
            )
            row = OutboxRow(
                context.turn.id,
                -1,
                to.id,
                to.channel,
                to.chat,
                FILE_ROLE,
                body,
                context.clock.now(),
            )
            await self.journal.write(lambda tx: tx.post_delivery(row))
            undo.pop_all()
        return f"{name} ({format_size(size)}) is on its way"

    def _copy(self, path: str, copy: Path, most: int) -> int:
        with self.workspace.open_file(path, most=most) as source:
            self.folder.parent.mkdir(mode=0o700, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            with (
                explain_os_errors(path),
                os.fdopen(os.open(copy, CREATE_FLAGS, 0o600), "wb") as file,
            ):
                return _copy_stream(source, file, path, most)


@tool(effect=Effect.EGRESS, critical=("path",), paths=("path",), timeout_s=120)
async def send_file(sending: FileSender, context: ToolContext, path: str, caption: str = "") -> str:
    """Send a file of the workspace to the people of this conversation, with a caption if you like."""
    people = await sending.find_recipient(context.session_id)
    return await run_to_completion(sending.send(people, path, caption.strip(), context))


def _find_session(tx: SessionReader, session: str) -> SessionRow | None:
    own = tx.get_session(session)
    return tx.get_session(own.root) if own and own.root else own


def _copy_stream(source: BinaryIO, file: BinaryIO, path: str, most: int) -> int:
    """All of it, however fast it grows meanwhile: never more than may be sent."""
    size = 0
    while data := source.read(CHUNK):
        size += len(data)
        if size > most:
            raise ToolError(f"{path}: {describe_too_big(size, most)}; nothing was sent")
        file.write(data)
    file.flush()
    os.fsync(file.fileno())
    return size
