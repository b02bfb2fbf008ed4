"""Packed bodies unpacked piece by piece, never further than there is room: a small packet may hold gigabytes."""

import zlib
from dataclasses import dataclass, field

from daemon.tools.base import ToolError

GZIP, RAW = 16 + zlib.MAX_WBITS, -zlib.MAX_WBITS
ACCEPTED = "gzip, deflate"


@dataclass(slots=True)
class Body:
    """A body as it comes in. `cut`: there was more than `limit` bytes of it."""

    encoding: str
    limit: int
    cut: bool = False
    _plain: bytearray = field(default_factory=bytearray)
    _unpacker: "zlib._Decompress | None" = None
    _first: bytes = b""

    def __post_init__(self) -> None:
        self.encoding = self.encoding.strip().lower()
        if self.encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ToolError("its answer is packed in a way that was not asked for")
        if self.encoding.endswith("gzip"):
            self._unpacker = zlib.decompressobj(GZIP)

    def feed(self, data: bytes) -> None:
        """More of it. Raises ToolError for what cannot be unpacked."""
        room = self.limit - len(self._plain)
        plain = self._unpacked(data, room + 1)
        self.cut = len(plain) > room
        self._plain += plain[:room]

    def plain(self) -> bytes:
        """What has come so far."""
        return bytes(self._plain)

    def _unpacked(self, data: bytes, most: int) -> bytes:
        if self.encoding in ("", "identity"):
            return data
        if self._unpacker is None:
            self._first = data = self._first + data
            if len(data) < 2:
                return b""
            self._unpacker = zlib.decompressobj(zlib.MAX_WBITS if _has_header(data) else RAW)
        try:
            return self._unpacker.decompress(data, most)
        except zlib.error as error:
            raise ToolError("its answer is damaged: it cannot be unpacked") from error


def _has_header(data: bytes) -> bool:
    """Deflate is sent with and without the header it should have."""
    return data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
