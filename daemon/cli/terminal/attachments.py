"""Files that go with a message of the terminal: by `-f FILE`, by @PATH in a typed line, and what is
piped into `chat --once`.
"""

import asyncio
import os
import re
import stat
import sys
import threading
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from select import select
from typing import TYPE_CHECKING, NamedTuple

from daemon.core.errors import UsageError

if TYPE_CHECKING:
    from daemon.client.protocol import DaemonClient

MAX_BYTES, MAX_INLINE = 20_000_000, 20_000
NAMED = re.compile(r'(?:^|(?<=\s))@(?:"([^"\n]+)"|((?:/|~/|\.{1,2}/)\S+))')
CLOSING = ".,;:!?)"
FIRST_BYTE_S = 3.0
NOTHING_CAME = "aidaemon: nothing came from stdin in 3 s; the message is sent without it\n"


class PipedInput(NamedTuple):
    """What was piped in: a text that is put into the message, or a file that goes with it."""

    text: str = ""
    file: bytes = b""
    name: str = ""


async def upload_files(client: "DaemonClient", names: Iterable[str]) -> tuple[str, ...]:
    """Their tokens. Raises UsageError for what cannot be read."""
    found: list[str] = []
    for name in names:
        data = await asyncio.to_thread(_read_file, name)
        found.append(await client.upload(Path(name).name, data))
    return tuple(found)


def _read_file(name: str) -> bytes:
    path = Path(name).expanduser()
    try:
        if not path.is_file():
            raise UsageError(f"{name}: there is no such file")
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{name}: it cannot be read: {error.strerror or error}") from error


def find_named_files(text: str, pasted: Collection[str]) -> Sequence[str]:
    """Files outside the workspace that a typed line names: "@~/lease.pdf", '@"/a b.pdf"'. What was
    pasted attaches nothing.
    """
    typed = [one for one in NAMED.finditer(text) if not _is_in(one[0], pasted)]
    named = [one[1] or one[2] for one in typed]
    ended = [one if _is_file(one) else one.rstrip(CLOSING) for one in named]
    return [one for one in dict.fromkeys(ended) if _is_file(one)]


def _is_file(name: str) -> bool:
    with suppress(OSError, RuntimeError):  # RuntimeError: nobody has such a home
        return Path(name).expanduser().is_file()
    return False


def _is_in(word: str, pasted: Collection[str]) -> bool:
    return any(word in one for one in pasted)


def is_piped(descriptor: int) -> bool:
    """Something else writes there, or it is a file from its beginning on: of one that was begun, as
    in `while read`, the rest is its reader's. No terminal, and not /dev/null.
    """
    with suppress(OSError):
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            return os.lseek(descriptor, 0, os.SEEK_CUR) == 0
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    return False


def read_piped(descriptor: int) -> "asyncio.Future[PipedInput]":
    """All that comes, read in a thread that nobody waits for."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[PipedInput] = loop.create_future()

    def work() -> None:
        found = _read(descriptor)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(_finish, result, found)

    threading.Thread(target=work, daemon=True).start()
    return result


def _finish(result: "asyncio.Future[PipedInput]", found: PipedInput) -> None:
    if not result.done():
        result.set_result(found)


def _read(descriptor: int) -> PipedInput:
    data = bytearray()
    with suppress(OSError):
        if not select([descriptor], [], [], FIRST_BYTE_S)[0]:
            sys.stderr.write(NOTHING_CAME)
            return PipedInput()
        while len(data) <= MAX_BYTES and (piece := os.read(descriptor, 1 << 16)):
            data += piece
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return PipedInput(file=bytes(data), name="input")
    if "\0" in text or len(text) > MAX_INLINE:
        return PipedInput(file=bytes(data), name="input.txt")
    return PipedInput(text.strip("\n"))
