"""A process that has imported what `aidaemon` imports, and forks one for each command line: `python -m tests.fakes.nursery FD`.

What it bears is a real process, with streams, an environment and a HOME of its own; only the imports are done already. It has no
event loop and no thread when it forks. It gets a message in JSON and four files at a time: where to tell of it (its pid, as soon
as it leads a session of its own, and its exit code), its standard input, its output, its errors.
"""

import atexit
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import selectors
import socket
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import daemon.cli
import daemon.cli.terminal
from daemon.addons import load_class

NEEDED = ("daemon.app.serve", "daemon.app.channels", "daemon.http.app")
PACKAGES = (daemon.cli, daemon.cli.terminal)
MOST = 200_000


@dataclass(frozen=True, slots=True)
class Order:
    """A command line. `knows`: the channels that it will need. `terminal`: its input is to be its terminal."""

    words: list[str]
    env: Mapping[str, str]
    cwd: str
    knows: list[str]
    terminal: bool


@dataclass(frozen=True, slots=True)
class Newborn:
    """A child: what it is to do, where its pid and its end are told, and the files that it was given."""

    message: bytes
    told: socket.socket
    files: list[int]

    def tell(self) -> None:
        """It is there."""
        try:
            with self.told:
                self.told.send(str(os.getpid()).encode())
        except ConnectionError:
            os._exit(1)  # nobody waits for it


@dataclass(slots=True)
class Nursery:
    """Serves until whoever asks is gone. `prepare` is done for each message, before the fork."""

    door: socket.socket
    prepare: Callable[[bytes], None] = lambda message: None
    chooser: selectors.DefaultSelector = field(default_factory=selectors.DefaultSelector)
    living: dict[int, tuple[int, socket.socket]] = field(default_factory=dict)

    def serve(self) -> Newborn | None:
        """None when nobody asks any more; in a child, what it is to do."""
        self.chooser.register(self.door, selectors.EVENT_READ)
        while True:
            for key, _ in self.chooser.select():
                if key.fd in self.living:
                    self._bury(key.fd)
                    continue
                message, files, _, _ = socket.recv_fds(self.door, MOST, 4)
                if not message:
                    return None
                self.prepare(message)
                if newborn := self._bear(message, files):
                    return newborn

    def _bear(self, message: bytes, files: list[int]) -> Newborn | None:
        assert threading.active_count() == 1
        told = socket.socket(fileno=files[0])
        pid = os.fork()
        if pid == 0:
            self._close()
            return Newborn(message, told, files[1:])
        for file in files[1:]:
            os.close(file)
        end = os.pidfd_open(pid)
        self.living[end] = (pid, told)
        self.chooser.register(end, selectors.EVENT_READ)
        return None

    def _bury(self, end: int) -> None:
        pid, told = self.living.pop(end)
        self.chooser.unregister(end)
        os.close(end)
        _, status = os.waitpid(pid, 0)
        with told, suppress(ConnectionError):  # whoever asked may wait no longer
            told.send(str(os.waitstatus_to_exitcode(status)).encode())

    def _close(self) -> None:
        self.chooser.close()
        self.door.close()
        for end, (_, told) in self.living.items():
            os.close(end)
            told.close()


def _learn(message: bytes) -> None:
    for name in json.loads(message)["knows"]:
        load_class("channels", name)
    gc.freeze()


def _settle(order: Order, streams: list[int]) -> None:
    """As if it had been started on its own."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if order.terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(order.cwd)
    os.environ.clear()
    os.environ.update(order.env)
    time.tzset()
    sys.path[0] = order.cwd
    sys.argv[1:] = order.words
    sys.stdin = _text(0, "rb", sys.stdin.errors or "strict")
    sys.stdout = _text(1, "wb", sys.stdout.errors or "strict", lines=os.isatty(1))
    sys.stderr = _text(2, "wb", "backslashreplace", lines=True)


def _text(file: int, mode: str, errors: str, *, lines: bool = False) -> io.TextIOWrapper:
    """A standard stream."""
    opened = open(file, mode, closefd=False)  # noqa: SIM115 - it stays open
    return io.TextIOWrapper(opened, sys.stdout.encoding, errors, line_buffering=lines)


def main() -> None:
    """Until nobody asks any more; in a child, `python -m daemon`."""
    for package in PACKAGES:
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    for name in NEEDED:
        importlib.import_module(name)
    load_class("providers", "openai")
    newborn = Nursery(socket.socket(fileno=int(sys.argv[1])), _learn).serve()
    if newborn:
        _settle(Order(**json.loads(newborn.message)), newborn.files)
        newborn.tell()
        try:
            runpy.run_module("daemon", run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            _leave(int(ended.code or 0))


def _leave(code: int) -> None:
    """As the interpreter does, but for what it clears away then: that would have to be copied first, and is most of the work."""
    threading._shutdown()  # type: ignore[attr-defined] # waits for threads
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(BrokenPipeError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
