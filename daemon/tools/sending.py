"""send_file: a copy of a file of the workspace goes to the people of the conversation, so that it is the one that was meant."""

import asyncio
import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol, TypeVar

from daemon.core.files import safe_name, shown_size, too_big
from daemon.core.label import Effect
from daemon.core.rows import OutboxRow, SessionRow
from daemon.core.waiting import uninterrupted
from daemon.tools.base import ToolContext, ToolError
from daemon.tools.decorate import tool
from daemon.tools.draft import CREATE
from daemon.tools.workspace import Workspace, told

T = TypeVar("T")

FILE = "file"
MOST = 50 << 20
CHUNK = 1 << 20
NO_FILES = frozenset(("", "web", "http", "terminal", "event", "loop", "agent"))
CANNOT = "this conversation cannot take files; say where in the workspace the file lies instead. Nothing was sent."


class Knowing(Protocol):
    """Reading of conversations."""

    def session(self, session: str) -> SessionRow | None:
        """One session."""
        ...


class Posting(Knowing, Protocol):
    """Writing, as one atomic unit."""

    def post(self, row: OutboxRow) -> None:
        """Something to deliver; a negative part becomes the turn's next."""
        ...


class Journal(Protocol):
    """The journal, as far as sending sees it."""

    async def write(self, work: Callable[[Posting], T]) -> T:
        """Run as one atomic unit; on disk when this returns. Raises StoreUnavailable."""
        ...

    async def read(self, look: Callable[[Knowing], T]) -> T:
        """Run over what is committed."""
        ...


@dataclass(frozen=True, slots=True)
class Sending:
    """What is on its way lies in `folder` (HOME/files/outbox) until it is delivered. `most`: bytes that a channel takes."""

    workspace: Workspace
    folder: Path
    journal: Journal
    new_id: Callable[[], str]
    most: Callable[[str], int]

    async def people_of(self, session: str) -> SessionRow:
        """The conversation whose people are told what this session has to say. Raises ToolError where none takes files."""
        row = await self.journal.read(lambda tx: _people_of(tx, session))
        if row is None or row.channel.rpartition("/")[2] in NO_FILES:
            raise ToolError(CANNOT)
        return row

    async def send(self, to: SessionRow, path: str, caption: str, context: ToolContext) -> str:
        """Copy it and post it: both or neither. Raises ToolError, StoreUnavailable."""
        name = safe_name(PurePosixPath(path).name)
        copy = self.folder / f"{self.new_id()}-{name}"
        with ExitStack() as undo:
            undo.callback(copy.unlink, missing_ok=True)
            size = await asyncio.to_thread(self._copy, path, copy, self.most(to.channel))
            body = json.dumps({"path": str(copy), "name": name, "caption": caption, "size": size}, ensure_ascii=False)
            row = OutboxRow(context.turn.id, -1, to.id, to.channel, to.chat, FILE, body, context.clock.now())
            await self.journal.write(lambda tx: tx.post(row))
            undo.pop_all()
        return f"{name} ({shown_size(size)}) is on its way"

    def _copy(self, path: str, copy: Path, most: int) -> int:
        with self.workspace.reading(path, most=most) as source:
            self.folder.parent.mkdir(mode=0o700, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            with told(path), os.fdopen(os.open(copy, CREATE, 0o600), "wb") as file:
                return _poured(source, file, path, most)


@tool(effect=Effect.EGRESS, critical=("path",), paths=("path",), timeout_s=120)
async def send_file(sending: Sending, context: ToolContext, path: str, caption: str = "") -> str:
    """Send a file of the workspace to the people of this conversation, with a caption if you like."""
    people = await sending.people_of(context.session_id)
    return await uninterrupted(sending.send(people, path, caption.strip(), context))


def _people_of(tx: Knowing, session: str) -> SessionRow | None:
    own = tx.session(session)
    return tx.session(own.root) if own and own.root else own


def _poured(source: BinaryIO, file: BinaryIO, path: str, most: int) -> int:
    """All of it, however fast it grows meanwhile: never more than may be sent."""
    size = 0
    while data := source.read(CHUNK):
        size += len(data)
        if size > most:
            raise ToolError(f"{path}: {too_big(size, most)}; nothing was sent")
        file.write(data)
    file.flush()
    os.fsync(file.fileno())
    return size
