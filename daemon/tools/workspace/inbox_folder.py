"""HOME/files/inbox: files that came with messages, unchanged. Tools read them as "inbox/...".

And what such files are called, and how the model hears of them.
"""

import asyncio
import json
import os
import re
import unicodedata
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from datetime import date
from glob import escape
from io import BufferedWriter, FileIO
from pathlib import Path
from secrets import token_hex

from channels.message import Attachment
from daemon.core import value
from daemon.core.clock import run_to_completion
from daemon.core.errors import AidaemonError
from daemon.core.quoted import normalize
from daemon.tools.workspace.fs import CREATE_FLAGS, DIRECTORY_FLAGS, READ_FLAGS, open_beneath

INBOX = "inbox"
UNFINISHED_SUFFIX = ".part"
DEFAULT_NAME = "file"
MAX_CHARS, MAX_BYTES, MAX_EXTENSION = 80, 160, 16
DROPPED_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
UNSAFE = re.compile(r"[\[\]<>|*?\":;`$&]")
MIME_TYPE = re.compile(r"[\w.+-]{1,40}/[\w.+-]{1,80}", re.ASCII)
TRIMMED = " .-~_"


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
class SavedFile:
    """A file of the inbox, of the message that began `turn` of this session on this day; `path` is
    what tools call it. `name`, `mime` and `kind` are those of its Attachment.
    """

    path: str
    size: int
    name: str
    mime: str
    kind: str
    day: date
    turn: str
    session: str

    def describe(self, more: str = "") -> str:
        """How the model hears of it."""
        return describe_saved_file(self.path, self.mime, self.size, more)


@value
class InboxFolder:
    """A folder for every day. Each is the owner's alone; nothing goes through a link."""

    root: Path

    @asynccontextmanager
    async def create(
        self, name: str, day: date, turn: str, max_bytes: int, mark: str = ""
    ) -> AsyncIterator[IncomingFile]:
        """A new file, on disk as a whole when the body is over, or not at all.

        The same name of the same turn replaces the first. `mark`: the end of a name of ours.
        Raises FileTooBig, OSError.
        """
        final = f"{make_safe_name(turn)}-{make_safe_name(name)}{mark}"
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

    def find(self, name: str, day: date, turn: str) -> tuple[str, int] | None:
        """Path and size of what `create` made of these, if it did."""
        final = f"{make_safe_name(turn)}-{make_safe_name(name)}"
        place = self.root / day.isoformat() / final
        path = f"{INBOX}/{day.isoformat()}/{final}"
        return (path, place.stat().st_size) if place.is_file() else None

    def read(self, path: str) -> bytes:
        """What a file of that path, as tools call it, holds. Raises OSError."""
        steps = path.split("/")[1:]
        with os.fdopen(open_beneath(self.root, steps, READ_FLAGS), "rb") as file:
            return file.read()

    def remove_unfinished(self) -> None:
        """Delete what an earlier daemon did not finish; before anything new arrives."""
        for left in self.root.glob(f"*/.*{UNFINISHED_SUFFIX}"):
            left.unlink(missing_ok=True)

    def remove_turns(self, turns: Iterable[str]) -> None:
        """Delete what came with the messages that began these."""
        for turn in turns:
            for file in self.root.glob(f"*/{escape(make_safe_name(turn))}-*"):
                file.unlink(missing_ok=True)

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


def attachments_to_json(files: Sequence[Attachment]) -> str:
    """As the journal keeps it."""
    return json.dumps([asdict(file) for file in files], ensure_ascii=False)


def attachments_from_json(text: str) -> tuple[Attachment, ...]:
    """The opposite of `attachments_to_json`."""
    return tuple(Attachment(**row) for row in json.loads(text or "[]"))


def make_safe_name(name: str) -> str:
    """One part of a path, printable, at most 80 characters, never empty. Keeps the extension."""
    chars = normalize("NFC", re.split(r"[/\\]", name)[-1] or name)
    shown = "".join(one for one in chars if unicodedata.category(one) not in DROPPED_CATEGORIES)
    plain = UNSAFE.sub("_", "_".join(re.split(r"[/\\]", " ".join(shown.split())))).strip(TRIMMED)
    stem, dot, ending = plain.rpartition(".")
    if not dot or len(ending) > MAX_EXTENSION:
        return _truncate(plain, "") or DEFAULT_NAME
    return (_truncate(stem.rstrip(TRIMMED), f".{ending}") or DEFAULT_NAME) + f".{ending}"


def make_unique_names(names: Iterable[str]) -> list[str]:
    """The same names, each only once: the second report.pdf of a message becomes report-2.pdf."""
    found: list[str] = []
    for name in names:
        stem, dot, ending = name.rpartition(".") if "." in name else (name, "", "")
        ends = (f"-{number}{dot}{ending}" for number in range(2, len(found) + 3))
        tries = (name, *(f"{_truncate(stem, end)}{end}" for end in ends))
        found.append(next(one for one in tries if one not in found))
    return found


def describe_saved_file(path: str, mime: str, size: int, more: str = "") -> str:
    """How the model hears of a file that was saved; `more` about what is in it."""
    kind = mime.partition(";")[0].strip()
    shown = f"{kind}, " if MIME_TYPE.fullmatch(kind) else ""
    return f"[file: {path}, {shown}{format_size(size)}{'; ' * bool(more)}{more}]"


def describe_missing_file(name: str, why: str) -> str:
    """How the model hears of a file that was not."""
    return f"[file {make_safe_name(name)} could not be fetched: {why}]"


def describe_too_big(size: int, most: int) -> str:
    """Why it was not."""
    return f"too big ({format_size(size)}, at most {format_size(most)})"


def format_size(size: int) -> str:
    """In MB, kB or bytes."""
    for unit, step in (("MB", 1 << 20), ("kB", 1 << 10)):
        if size >= step:
            digits = 1 if size < 10 * step else 0
            return f"{size / step:.{digits}f}".removesuffix(".0") + f" {unit}"
    return f"{size} bytes"


def _truncate(stem: str, ending: str) -> str:
    stem = stem[: MAX_CHARS - len(ending)]
    space = MAX_BYTES - len(ending.encode())
    return stem.encode()[:space].decode("utf-8", "ignore").rstrip(TRIMMED)
