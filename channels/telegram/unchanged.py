"""Edits that change no word: Telegram sends a message again as edited when it has only got a preview, or a reaction."""

import zlib
from collections import OrderedDict
from dataclasses import dataclass, field

from channels.message import Inbound

MOST = 2000


@dataclass(slots=True)
class Said:
    """What the latest messages said that were handed over, as sums; in memory only. `keep` or `forget` after each batch."""

    most: int = MOST
    _kept: OrderedDict[str, int] = field(default_factory=OrderedDict)
    _fresh: dict[str, int] = field(default_factory=dict)

    def anew(self, message: Inbound) -> bool:
        """Whether it says something else than when it was last heard of, or nobody knows."""
        name, now = message.edits or message.external_id, _sum(message)
        before = self._fresh.get(name, self._kept.get(name))
        self._fresh[name] = now
        return not message.edits or before != now

    def keep(self) -> None:
        """The house has all of it."""
        for name, now in self._fresh.items():
            self._kept[name] = now
            self._kept.move_to_end(name)
        self._fresh = {}
        while len(self._kept) > self.most:
            self._kept.popitem(last=False)

    def forget(self) -> None:
        """The house has not taken it: it comes again."""
        self._fresh = {}


def _sum(message: Inbound) -> int:
    files = [(file.kind, file.name, file.mime, file.size) for file in message.attachments]
    return zlib.crc32(repr((message.text, message.addressed, files)).encode())
