"""Packed bodies: whole when there is room, never larger in memory than what is wanted of them."""

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.tools.base import ToolError
from daemon.tools.web.client import BodyDecoder


def raw(data: bytes) -> bytes:
    """Deflate without its header."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKERS = {
    "": bytes, "identity": bytes, "GZIP": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress, "deflate ": raw,
}  # fmt: skip


@given(
    st.binary(max_size=400), st.sampled_from(list(PACKERS)), st.integers(1, 500), st.integers(1, 50)
)
def test_what_comes_out_is_what_went_in_as_far_as_there_is_room(
    data: bytes, encoding: str, limit: int, step: int
):
    body = BodyDecoder(encoding, limit)
    packed = PACKERS[encoding](data)
    for start in range(0, len(packed), step):
        if not body.truncated:
            body.feed(packed[start : start + step])
    assert body.content == data[:limit] and body.truncated == (len(data) > limit)


def test_a_bomb_takes_no_more_memory_than_there_is_room_for():
    bomb = gzip.compress(b"0" * 50_000_000, 9)
    tracemalloc.start()
    body = BodyDecoder("gzip", 10_000)
    body.feed(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert body.truncated and len(body.content) == 10_000 and peak < 500_000


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress"])
def test_packings_that_were_not_asked_for_are_refused(encoding: str):
    with pytest.raises(ToolError, match="not asked for"):
        BodyDecoder(encoding, 100)


def test_damage_is_told():
    body = BodyDecoder("gzip", 100)
    with pytest.raises(ToolError, match="damaged"):
        body.feed(b"this is no gzip at all")
