"""The paths in an index of git, as git reads them: it checks none of them when it writes their
files, so one may lie in a repository.
"""

import re
from collections.abc import Iterator
from itertools import islice

from daemon.tools.workspace.fs import casefold_name

MAX_INDEX, MAX_PATH, MAX_BLOCKS = 100_000_000, 4096, 10_000
HASHES, FULL, EXTENDED = (20, 32), 0xFFF, 0x4000


def is_fine_index(data: bytes, *, long: bool) -> bool:
    """It can be read, and no file in it would be written into a repository or out of the tree.
    `long`: its hashes are SHA-256.
    """
    starts = dict[int, int]()
    try:
        entries = _list_entries(data, HASHES[long], starts)
        if not all(_is_fine(path[folders:]) for path, folders, _ in entries):
            return False
        blocks = [*islice(_list_blocks(data), MAX_BLOCKS + 1)]
    except (IndexError, ValueError):
        return False
    return len(blocks) <= MAX_BLOCKS and all(starts.get(block) == 0 for block in blocks)


def read_entries(data: bytes | None, *, long: bool) -> set[tuple[bytes, bytes]]:
    """The path and the hash of each file in an index; none of what cannot be read."""
    try:
        return {(path, found) for path, _, found in _list_entries(data or b"", HASHES[long], {})}
    except (IndexError, ValueError):
        return set()


def _is_fine(path: bytes) -> bool:
    names = path.removesuffix(b"/").decode("utf-8", "replace").split("/") if path else []
    return not any(casefold_name(one) in ("", ".", "..", ".git", "git~1") for one in names)


def _list_entries(
    data: bytes, hash_size: int, starts: dict[int, int]
) -> Iterator[tuple[bytes, int, bytes]]:
    """Of each: its path, how much of that are the folders of the path before, and its hash.
    `starts`: where each entry begins, and how much it takes of the path before.
    """
    version, count = _number(data, 4), _number(data, 8)
    if data[:4] != b"DIRC" or version not in (2, 3, 4):
        raise ValueError
    at, path = 12, b""
    for _ in range(count):
        name = at + 40 + hash_size + 2
        found = data[at + 40 : name - 2]
        flags = _number(data, name - 2, 2)
        name += 2 if version > 2 and flags & EXTENDED else 0
        starts[at], length = 0, flags & FULL
        if version == 4:
            back, name = _read_back(data, name)
            starts[at] = max(len(path) - back, 0)
        kept = path[: starts[at]]
        end = data.index(b"\0", name) if length == FULL else name + length - len(kept)
        if not name <= end < len(data):
            raise ValueError
        path = kept + data[name:end]
        if len(path) > MAX_PATH:
            raise ValueError
        yield path, kept.rfind(b"/") + 1, found
        at = end + 1 if version == 4 else at + (end - at + 8) // 8 * 8


def _read_back(data: bytes, at: int) -> tuple[int, int]:
    """How much of the path before is not in this one, and where its own part begins."""
    value = data[at] & 127
    while data[at] & 128 and value <= MAX_INDEX:
        at += 1
        value = ((value + 1) << 7) + (data[at] & 127)
    return value, at + 1


def _list_blocks(data: bytes) -> Iterator[int]:
    """Where git begins to read, too, when it reads an index in several threads."""
    for found in re.finditer(rb"IEOT", data):
        at, size = found.end() + 8, _number(data, found.end())
        for entry in range(at, min(at - 4 + size, len(data) - 7), 8):
            yield _number(data, entry)


def _number(data: bytes, at: int, size: int = 4) -> int:
    if len(data) < at + size:
        raise IndexError
    return int.from_bytes(data[at : at + size], "big")
