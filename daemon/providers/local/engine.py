"""The llama.cpp runtime in its own process: loaded late, one slot, never with too little memory.
Its work stops nothing else, its end ends nothing else.

Both ways a line is a JSON message. In: a run with its number and body, or the number of a run that
is to stop. Out: that it is ready or why not, then the pieces of each run and its end.
"""

import importlib
import importlib.util
import json
import os
import queue
import secrets
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from daemon.core.errors import ConfigError, ErrorClass, ProviderError

RUNTIME = "xllamacpp"
CONTEXT = 8192
MAX_THREADS = 8
PROMPT_BATCH = 64
PREFIX_CACHE_MIB = 256
NEEDED_MEMORY = 3 << 30
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")

ChunkCallback = Callable[[dict[str, object]], bool]
# A loaded model runs one chat completion, giving each piece to the callback: it blocks its thread;
# a callback that answers True ends it soon. Raises ValueError for a body it cannot take.
LocalEngine = Callable[[dict[str, object], ChunkCallback], object]
EngineOpener = Callable[[Path], LocalEngine]


def check_runtime() -> None:
    """For start-up. Raises ConfigError with the pip command when the `local` extra is not
    installed.
    """
    if importlib.util.find_spec(RUNTIME) is None:
        raise ConfigError(
            "the embedded model needs an extra that is not installed: pip install "
            "'aidaemon[local]'. "
            "Or choose a model that runs elsewhere: [provider] in config.toml"
        )


def open_llama(path: Path) -> LocalEngine:
    """A process that has loaded the file; blocks for seconds. Raises ProviderError when there is
    too little memory.
    """
    size = path.stat().st_size if path.exists() else 0
    check_memory(get_free_memory(), size)
    return ModelProcess(path)


def load_llama(path: Path) -> LocalEngine:
    """Load the file in this process. Raises ProviderError."""
    runtime = importlib.import_module(RUNTIME)
    settings = runtime.CommonParams()
    settings.model.path = str(path)
    settings.n_ctx, settings.n_parallel = CONTEXT, 1
    settings.n_batch = settings.n_ubatch = (
        PROMPT_BATCH  # a cancel is heard between two batches, also while it reads the prompt
    )
    settings.cache_ram_mib = PREFIX_CACHE_MIB
    settings.warmup, settings.verbosity = False, -1
    for cpu in (settings.cpuparams, settings.cpuparams_batch):
        cpu.n_threads, cpu.poll = count_threads(), 0
    # The runtime always opens a port on loopback: nobody gets the key to it.
    settings.api_keys = [secrets.token_urlsafe(32)]
    settings.ui = settings.endpoint_slots = settings.endpoint_props = settings.endpoint_metrics = (
        False
    )
    try:
        return runtime.Server(settings).handle_chat_completions
    except (RuntimeError, ValueError, MemoryError) as exc:
        raise ProviderError(ErrorClass.NOT_FOUND, str(exc)) from exc


def count_threads() -> int:
    """One for each core that this process may use: more of them wait for each other and are many
    times slower.
    """
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(mine, MAX_THREADS)


def find_needed_memory(size: int) -> int:
    """Bytes for a model whose file has so many: its weights, half of them again, and 1 GiB."""
    return max(NEEDED_MEMORY, size * 3 // 2 + (1 << 30))


def check_memory(free: int | None, size: int = 0) -> None:
    """Raises ProviderError when less is free than a model of this size needs; None is a machine
    that does not tell.
    """
    needed = find_needed_memory(size)
    if free is None or free >= needed:
        return
    raise ProviderError(
        ErrorClass.NOT_FOUND,
        f"the embedded model needs {needed / (1 << 30):.2g} GiB of free memory and "
        f"{free / (1 << 30):.1f} GiB are free; it was not loaded. "
        "Free some memory, or choose a model that runs elsewhere: [provider] in config.toml",
    )


def get_free_memory(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int | None:
    """Bytes that a new process could have: the machine's, or what the container leaves, whichever
    is less.
    """
    known: list[int] = []
    with suppress(OSError):
        lines = meminfo.read_text().splitlines()
        free = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
        known.extend(int(size) * 1024 for size in free)
    with suppress(OSError, ValueError):
        limit, used = ((cgroup / name).read_text() for name in ("memory.max", "memory.current"))
        statistics = (line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        cached = next((int(size) for name, size in statistics if name == "inactive_file"), 0)
        known.append(int(limit) - int(used) + cached)
    return min(known, default=None)


CHILD = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from daemon.providers.local.engine import load_llama, serve
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


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # what was to be written has nobody to read it
            if pipe:
                pipe.close()


def serve(load: EngineOpener, path: str) -> None:
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

    def listen(self, runs: queue.SimpleQueue[Message]) -> None:
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
