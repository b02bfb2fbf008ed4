"""What strangers' files hold or held: a copy is a stranger's, too, also when it comes back.

Only digests are kept. A file that is a little different is another one.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable
from hashlib import sha256
from itertools import islice

from daemon.core import value
from daemon.store.tables.file_state import ForeignContent

MAX_CONTENTS, MAX_OWN, TINY = 20_000, 5_000, 24
# A few letters may be anybody's. These may not: an address, a host, a number of digits.
TELLING = re.compile(rb"@|\w\.[A-Za-z]{2}|\d{4}")


@value
class HeldContent:
    """What a place of the workspace holds; `head`: all of a tiny file."""

    path: str
    digest: str
    size: int
    head: bytes

    @classmethod
    def of(cls, path: str, digest: str, data: bytes) -> "HeldContent":
        return cls(path, digest, len(data), data[:TINY])

    @property
    def key(self) -> str:
        """A tiny content counts only where it was."""
        is_tiny = self.size < TINY and not TELLING.search(self.head)
        return list_keys(self.path, self.digest)[is_tiny]


def list_keys(path: str, digest: str) -> tuple[str, str]:
    """For this content anywhere, and at this path."""
    here = f"{digest} {path}".encode(errors="surrogateescape")
    return digest, sha256(here).hexdigest()


class ForeignContents:
    """The newest; of too many, the turn that brought the most gives up its oldest first, so that
    a flood hides only itself. `own` are contents that were seen as the owner's: a stranger's copy
    of such a one tells nothing of the original.
    """

    def __init__(self, rows: Iterable[ForeignContent]) -> None:
        self.by_key = {row.key: row for row in rows}
        self.sizes = {row.size for row in self.by_key.values()}
        self.own: dict[str, None] = {}

    def has(self, path: str, digest: str) -> bool:
        """A stranger's file held this."""
        return bool(self.by_key) and any(key in self.by_key for key in list_keys(path, digest))

    def note_own(self, digest: str) -> None:
        """Seen with a good label."""
        self.own.pop(digest, None)
        self.own[digest] = None
        if len(self.own) > MAX_OWN:
            del self.own[next(iter(self.own))]

    def find_new(
        self, held: Iterable[HeldContent], turn: str, own: Container[str]
    ) -> list[ForeignContent]:
        """The rows for these, but for the digests that are the owner's, too."""
        found = {one.key: one.size for one in held if one.digest and one.digest not in own}
        return [
            ForeignContent(key, size, turn) for key, size in found.items() if key not in self.by_key
        ]

    def list_surplus(self, added: Iterable[ForeignContent], most: int = MAX_CONTENTS) -> list[str]:
        """The keys that go when these come."""
        rows = {**self.by_key, **{one.key: one for one in added}}
        surplus: list[str] = []
        kept = most * 9 // 10 if len(rows) > most else most
        while len(rows) > kept:
            turn, count = Counter(one.turn for one in rows.values()).most_common(1)[0]
            of_turn = (key for key, one in rows.items() if one.turn == turn)
            gone = list(islice(of_turn, max(1, min(count // 2, len(rows) - kept))))
            surplus += gone
            for key in gone:
                del rows[key]
        return surplus

    def change(self, added: Iterable[ForeignContent], removed: Iterable[str]) -> None:
        """The journal has it."""
        for one in added:
            self.by_key.setdefault(one.key, one)
            self.sizes.add(one.size)
        gone = [self.by_key.pop(key, None) for key in removed]
        if any(gone):
            self.sizes = {row.size for row in self.by_key.values()}
