"""Looking for hundreds of strings at once in long texts: most texts hold none of them, and that is known fast.

A text is cut into blocks of 8 bytes. Wherever a string of 15 bytes or more lies, one block lies wholly inside it, and its
bytes are one of the string's first eight blocks; so one look-up of a block in a set settles it. Shorter strings have blocks
of 4 bytes, and those of 6 are simply searched for.
"""

import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

WIDE, NARROW = 8, 4
HEAD = 3

Span = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Strings that are at least twice as long as a block, less one byte: where each possible block lies in which of them."""

    width: int
    known: frozenset[int]
    places: Mapping[int, tuple[tuple[bytes, int], ...]]

    @classmethod
    def of(cls, needles: Iterable[bytes], width: int) -> "Blocks":
        """Made once for a set of strings."""
        places: dict[int, list[tuple[bytes, int]]] = defaultdict(list)
        for needle in needles:
            for offset in range(width):
                places[int.from_bytes(needle[offset : offset + width], sys.byteorder)].append((needle, offset))
        return cls(width, frozenset(places), {key: tuple(found) for key, found in places.items()})

    def find(self, data: bytes) -> list[tuple[int, bytes]]:
        """Where which of them begins."""
        whole = memoryview(data)[: len(data) // self.width * self.width]
        blocks = whole.cast("Q") if self.width == WIDE else whole.cast("I")
        return [] if self.known.isdisjoint(blocks) else list(self._near(data, blocks))

    def _near(self, data: bytes, blocks: memoryview) -> Iterator[tuple[int, bytes]]:
        for index, block in enumerate(blocks):
            for needle, offset in self.places.get(block, ()):
                start = index * self.width - offset
                if start >= 0 and data.startswith(needle, start):
                    yield start, needle


@dataclass(frozen=True, slots=True)
class Needles:
    """Strings to look for, each with the name it goes by."""

    names: Mapping[bytes, str]
    ordered: tuple[bytes, ...]
    heads: frozenset[bytes]
    blocks: tuple[Blocks, ...]
    short: tuple[bytes, ...]
    longest: int

    @classmethod
    def of(cls, names: Mapping[bytes, str]) -> "Needles":
        """Made once for a set of strings."""
        groups: dict[int, list[bytes]] = {WIDE: [], NARROW: []}
        short: list[bytes] = []
        for needle in names:
            width = next((width for width in groups if len(needle) >= 2 * width - 1), 0)
            groups.get(width, short).append(needle)
        blocks = tuple(Blocks.of(group, width) for width, group in groups.items() if group)
        heads = frozenset(needle[:HEAD] for needle in names)
        return cls(names, tuple(sorted(names)), heads, blocks, tuple(short), max(map(len, names), default=0))

    def find(self, data: bytes) -> list[Span]:
        """(start, end, name) of all that is there, by where it starts, the longest first."""
        found: list[tuple[int, bytes]] = []
        for table in self.blocks:
            found += table.find(data)
        for needle in self.short:
            start = data.find(needle)
            while start >= 0:
                found.append((start, needle))
                start = data.find(needle, start + 1)
        if not found:
            return []
        spans = [(start, start + len(needle), self.names[needle]) for start, needle in found]
        return sorted(spans, key=lambda span: (span[0], -span[1]))

    def unfinished(self, data: bytes) -> int:
        """Where the earliest string begins that goes on behind the end; the end when none does."""
        for start in range(max(0, len(data) - self.longest + 1), len(data)):
            head = data[start : start + HEAD]
            if (len(head) < HEAD or head in self.heads) and self._begins(data[start:]):
                return start
        return len(data)

    def _begins(self, piece: bytes) -> bool:
        at = bisect_left(self.ordered, piece)
        if at < len(self.ordered) and self.ordered[at] == piece:
            at += 1
        return at < len(self.ordered) and self.ordered[at].startswith(piece)
