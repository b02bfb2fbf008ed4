"""The embedded model in its own process: its work stops nothing else, its end ends nothing else.

Both ways a line is a JSON message. In: a run with its number and body, or the number of a run that
is to stop. Out: that it is ready or why not, then the pieces of each run and its end.
"""

import json
import os
import queue
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from daemon.core.errors import ErrorClass, ProviderError

if TYPE_CHECKING:
    from daemon.providers.local.engine import LocalEngine

CHILD = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from daemon.providers.local.engine import load_llama
from daemon.providers.local.process import serve
serve(load_llama, sys.argv[2])
"""
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH")
Message = Mapping[str, object]


class ModelProcess:
    """A LocalEngine: each call blocks its thread until the run is over. Raises EOFError where the
    process has ended; the constructor ProviderError, where it cannot load the file.
    """

    def __init__(self, path: Path) -> None:
        argv = [sys.executable, "-c", CHILD, json.dumps(sys.path), str(path)]
        env = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        # a session of its own: Ctrl-C in a chat is for the chat
        self._process = subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._number = 0
        self.end = weakref.finalize(self, _end, self._process)
        try:
            failed = self._read().get("failed")
        except EOFError:
            failed = "its process ended while it loaded it"
        if failed:
            self.end()
            text = f"the embedded model in {path} cannot be loaded: {failed}"
            raise ProviderError(ErrorClass.NOT_FOUND, text)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def __call__(
        self, body: dict[str, object], on_chunk: Callable[[dict[str, object]], bool]
    ) -> None:
        """One run; raises ValueError for a body that the model cannot take."""
        self._number += 1
        stopped = False
        self._write({"run": self._number, "body": body})
        while True:
            message = self._read()
            chunk = message.get("chunk")
            if message.get("run") != self._number:
                continue  # of a run that broke off here
            if isinstance(chunk, dict):
                if on_chunk(chunk) and not stopped:
                    stopped = True
                    self._write({"stop": self._number})
            elif refused := message.get("refused"):
                raise ValueError(refused)
            else:
                return

    def _write(self, message: Message) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError) as error:
            raise EOFError from error

    def _read(self) -> Message:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        return json.loads(line)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # what was to be written has nobody to read it
            if pipe:
                pipe.close()


def serve(load: "Callable[[Path], LocalEngine]", path: str) -> None:
    """The child's life, until nobody asks any more. What the runtime prints is not ours to send."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    runs, asked = queue.SimpleQueue[Message](), _Stops()
    threading.Thread(target=asked.listen, args=(runs,), daemon=True).start()
    try:
        engine = load(Path(path))
    except ProviderError as error:
        _tell(out, {"failed": str(error)})
        return
    _tell(out, {"ready": True})
    while True:
        message = runs.get()
        number = message["run"]

        def on_chunk(chunk: dict[str, object], number: object = number) -> bool:
            _tell(out, {"run": number, "chunk": chunk})
            return asked.stopped == number

        try:
            engine(dict(message["body"]), on_chunk)  # pyrefly: ignore[no-matching-overload]
            _tell(out, {"run": number})
        except ValueError as error:
            _tell(out, {"run": number, "refused": str(error) or "it is not understood"})


class _Stops:
    """Reads what is asked, also while a run goes on."""

    stopped: object = None

    def listen(self, runs: "queue.SimpleQueue[Message]") -> None:
        """Until the input ends, and with it the process."""
        for line in sys.stdin:
            message = json.loads(line)
            if "stop" in message:
                self.stopped = message["stop"]
            else:
                runs.put(message)
        os._exit(0)


def _tell(out: TextIO, message: Message) -> None:
    out.write(json.dumps(message) + "\n")
    out.flush()
