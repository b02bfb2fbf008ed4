"""Fetch a model file: from the first source that gives it, once at a time, kept only when its hash is right."""

import fcntl
import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from daemon.core.errors import AidaemonError
from daemon.ops.model_source import BLOCK, Source, SourceFailed, held
from daemon.ops.models import Model, partial_of

SPARE = 256 << 20


class ModelUnavailable(AidaemonError):
    """The model file could not be fetched."""


class Watcher(Protocol):
    """Whoever is shown how the fetch goes."""

    def say(self, text: str) -> None:
        """One line of news."""
        ...

    def advance(self, done: int) -> None:
        """So many bytes are there."""
        ...


def free_bytes(folder: Path) -> int:
    """Room left on the disk of this folder."""
    return shutil.disk_usage(folder).free


def fetch(model: Model, folder: Path, watcher: Watcher, free: Callable[[Path], int] = free_bytes) -> Path:
    """The model's file, fetched if need be, its SHA-256 checked in any case. Raises ModelUnavailable."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # it may be HOME, and this its first day
    folder.mkdir(exist_ok=True)
    with _alone(folder / f".{model.file}.lock", watcher):
        path = model.path(folder)
        if path.exists() and not _is_right(path, model, watcher):
            watcher.say(f"{path}: not the file that is known here; it was deleted and is fetched again")
            path.unlink()
        if not path.exists():
            _fetch_from_any(model, folder, watcher, free)
        return path


def _fetch_from_any(model: Model, folder: Path, watcher: Watcher, free: Callable[[Path], int]) -> None:
    failures: list[str] = []
    for source in model.sources:
        _check_room(model, folder, free(folder))
        watcher.say(f"fetching {model.name} from {source.name}")
        try:
            _fetch_from(source, model, folder, watcher)
            return
        except SourceFailed as exc:
            failures.append(f"  {source.name}: {exc}")
            watcher.say(f"no luck: {exc}")
    raise ModelUnavailable(_tell(model, failures, held(partial_of(model, folder))))


def _fetch_from(source: Source, model: Model, folder: Path, watcher: Watcher) -> None:
    partial = partial_of(model, folder)
    source.fill(partial, model.size, watcher.advance)
    if not _is_right(partial, model, watcher):
        partial.unlink()
        raise SourceFailed("the file it gave has the wrong SHA-256 and was deleted")
    partial.rename(model.path(folder))


def _is_right(path: Path, model: Model, watcher: Watcher) -> bool:
    watcher.say(f"checking the SHA-256 of {path.name}")
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest() == model.sha256


def _check_room(model: Model, folder: Path, free: int) -> None:
    needed = model.size - min(held(partial_of(model, folder)), model.size) + SPARE
    if free < needed:
        raise ModelUnavailable(
            f"{folder} has {_gb(free)} free and {model.name} needs {_gb(needed)} more. What was fetched before is kept. "
            "Make room, or set AIDAEMON_MODELS to a folder on another disk, and try again"
        )


def _tell(model: Model, failures: list[str], kept: int) -> str:
    lines = [f"{model.name} could not be fetched from any source:", *failures]
    if kept:
        lines.append(f"{_gb(kept)} of {_gb(model.size)} are kept; the next try goes on from there.")
    lines.append(f"Look at the network and try again with: aidaemon model pull {model.name}. Or use another model: aidaemon init")
    return "\n".join(lines)


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB"


@contextmanager
def _alone(lock: Path, watcher: Watcher) -> Iterator[None]:
    """One process fetches, others wait until it is done; the lock dies with its holder."""
    with lock.open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            watcher.say("another process is fetching this model; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
