"""`aidaemon` from the nursery: one for each process that runs tests, kept until that ends."""

import asyncio
import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile

from tests.fakes.nursery import Order

ROOT = Path(__file__).parents[2]
COMMANDS = "tests.fakes.nursery"
OWN = ("PYTHON", "LC_", "LANG", "LD_")
"""Who changes one of these needs an interpreter of its own."""


def may_bear(python: str, env: Mapping[str, str]) -> bool:
    """Nothing is asked for that must be there when the interpreter starts."""
    return python == sys.executable and not any(name.startswith(OWN) for name in env)


@dataclass(slots=True)
class Born:
    """A process of the nursery, as `asyncio.subprocess` would tell of it."""

    pid: int
    ended: asyncio.Task[int]

    @property
    def returncode(self) -> int | None:
        """None while it lives."""
        return self.ended.result() if self.ended.done() else None

    async def wait(self) -> int:
        """Its exit code, negative by a signal."""
        return await asyncio.shield(self.ended)

    def send_signal(self, number: int) -> None:
        """Unless it has ended."""
        if not self.ended.done():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9."""
        self.send_signal(signal.SIGKILL)


@cache
def door(*command: str) -> socket.socket:
    """To the nursery of this process that is run by this module, with these words behind it."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    with there:
        nursery = subprocess.Popen(
            (sys.executable, "-m", command[0], str(there.fileno()), *command[1:]),
            pass_fds=(there.fileno(),),
            stdin=subprocess.DEVNULL,
            env={**kept, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            start_new_session=True,
        )

    def close() -> None:
        here.close()
        nursery.wait()

    atexit.register(close)
    return here


@cache
def nothing() -> int:
    """/dev/null."""
    return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


def _ask(nursery: socket.socket, message: object, streams: Sequence[int]) -> socket.socket:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with there:
        socket.send_fds(nursery, [json.dumps(message).encode()], [there.fileno(), *streams])
    return here


async def bear(
    words: Sequence[str],
    streams: Sequence[int],
    env: Mapping[str, str],
    *,
    knows: Sequence[str] = (),
    terminal: bool = False,
) -> Born:
    """`aidaemon WORDS`, the leader of a session of its own, on these three files."""
    order = Order([*words], env, str(ROOT), [*knows], terminal)
    return await bear_at(door(COMMANDS), asdict(order), streams)


async def bear_at(nursery: socket.socket, message: object, streams: Sequence[int] = ()) -> Born:
    """What this nursery makes of this message."""
    told = _ask(nursery, message, streams)
    told.setblocking(False)
    loop = asyncio.get_running_loop()
    pid = int(await loop.sock_recv(told, 64))

    async def end() -> int:
        with told:
            return int(await loop.sock_recv(told, 64))

    return Born(pid, loop.create_task(end()))


async def bear_and_hear(
    words: Sequence[str], env: Mapping[str, str]
) -> tuple[Born, asyncio.StreamReader, Callable[[], None]]:
    """It reads nothing; what it says on stderr is heard until that is closed."""
    mine, its = os.pipe()
    with os.fdopen(its, "wb") as stderr:
        it = await bear(words, (nothing(), nothing(), stderr.fileno()), env)
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    pipe, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(mine, "rb", 0)
    )
    return it, reader, pipe.close


def run(
    words: Sequence[str],
    env: Mapping[str, str],
    cwd: Path = ROOT,
    text: str = "",
    within: float = 60,
) -> subprocess.CompletedProcess[str]:
    """`aidaemon WORDS < text`, to its end."""
    with TemporaryFile() as out, TemporaryFile() as errors:
        mine, its = os.pipe()
        with os.fdopen(its, "wb", 0) as stdin:  # nothing is left to be written when it is closed
            order = Order([*words], env, str(cwd), [], terminal=False)
            told = _ask(door(COMMANDS), asdict(order), (mine, out.fileno(), errors.fileno()))
            os.close(mine)
            left = text.encode()
            with suppress(BrokenPipeError):  # it need not read all, or anything
                while left:
                    left = left[stdin.write(left) :]
        with told:
            told.settimeout(within)
            pid = int(told.recv(64))
            try:
                code = int(told.recv(64))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(
            [*words], code, out.read().decode(), errors.read().decode()
        )
