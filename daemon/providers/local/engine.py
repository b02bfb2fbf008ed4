"""The llama.cpp runtime in its own process: loaded late, one slot, never with too little memory."""

import importlib
import importlib.util
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from daemon.core.errors import ConfigError, ErrorClass, ProviderError
from daemon.providers.local.process import ModelProcess

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
