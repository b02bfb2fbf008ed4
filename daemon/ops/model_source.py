"""Where the bytes of a model file come from: the seam, and the plain one, a web address."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from daemon.core.errors import AidaemonError

BLOCK = 1 << 20
CUTS_IN_A_ROW = 3

Progress = Callable[[int], None]


class SourceFailed(AidaemonError):
    """This source did not give the file."""


class Source(Protocol):
    """One place that has the file. All sources grow the same partial file, since what is in it is the same bytes."""

    @property
    def name(self) -> str:
        """What a person calls it."""
        ...

    def fill(self, partial: Path, size: int, progress: Progress) -> None:
        """Grow `partial` to `size` bytes, telling how many there are. Raises SourceFailed; what came stays for the next try."""
        ...


@dataclass(frozen=True, slots=True)
class WebFile:
    """A file at an address. Goes on where the last download stopped; `timeout_s` bounds the connect and each silence."""

    address: str
    timeout_s: float = 10.0

    @property
    def name(self) -> str:
        """The address."""
        return self.address

    def fill(self, partial: Path, size: int, progress: Progress) -> None:
        """Grow `partial` to `size` bytes. A cut connection is taken up again as long as each try brings something."""
        cuts = 0
        while (have := held(partial)) != size:
            try:
                self._continue(partial, size, progress)
            except urllib.error.HTTPError as exc:
                raise SourceFailed(f"the server says {exc}") from exc
            except urllib.error.URLError as exc:
                raise SourceFailed(f"cannot be reached: {exc.reason}") from exc
            except (http.client.HTTPException, OSError) as exc:
                cuts = cuts + 1 if held(partial) == have else 0
                if cuts == CUTS_IN_A_ROW:
                    raise SourceFailed(f"the connection was cut: {exc or type(exc).__name__}") from exc

    def _continue(self, partial: Path, size: int, progress: Progress) -> None:
        have = held(partial)
        have = 0 if have > size else have
        request = urllib.request.Request(self.address, headers={"Range": f"bytes={have}-"} if have else {})
        with urllib.request.urlopen(request, timeout=self.timeout_s) as answer:
            start = have if answer.status == http.HTTPStatus.PARTIAL_CONTENT else 0
            expect(answer.length, size - start)
            with partial.open("r+b" if partial.exists() else "wb") as out:
                out.truncate(start)
                out.seek(start)
                _copy(answer, out, size, progress)


def _copy(answer: http.client.HTTPResponse, out: BinaryIO, size: int, progress: Progress) -> None:
    while block := answer.read1(BLOCK):
        out.write(block)
        progress(out.tell())
    if out.tell() != size:
        raise http.client.IncompleteRead(b"", size - out.tell())


def expect(length: int | None, wanted: int) -> None:
    """Refuse a file of another size before it is fetched. Raises SourceFailed."""
    if length is not None and length != wanted:
        raise SourceFailed(f"has {length:,} bytes where {wanted:,} were expected: not the file that is known here")


def held(partial: Path) -> int:
    """Bytes that are there already."""
    return partial.stat().st_size if partial.exists() else 0
