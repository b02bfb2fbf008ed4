"""Where pasted text stands in the line that is being typed: it is nobody's order (trust.md)."""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_SAID = 80
MAX_REMEMBERED = 50


class TypedLine(NamedTuple):
    """What somebody entered; `data` are the parts that they pasted; `hidden`: it was not shown."""

    text: str
    data: tuple[str, ...] = ()
    hidden: bool = False


def is_data(pasted: str) -> bool:
    """A short piece of one line is a word copied into an order; all else is somebody's text."""
    return len(pasted) > MAX_SAID or len(pasted.strip().splitlines()) > 1


@dataclass(slots=True)
class PasteMarks:
    """The marks move with the text, however it is edited: what is typed into a pasted part belongs
    to it. What was pasted before and comes back, by the history or by undo, is known again.
    """

    _text: str = ""
    _spans: list[tuple[int, int]] = field(default_factory=list)
    _seen: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_REMEMBERED))

    def mark(self, pasted: str, end: int) -> None:
        """This was put in just now, and ends here."""
        if is_data(pasted):
            self._spans.append((end - len(pasted), end))
            self._seen.append(pasted)

    def follow(self, text: str) -> None:
        """The text was changed to this, in one place."""
        old, self._text = self._text, text
        head = _common_length(old, text)
        tail = _common_length(old[head:][::-1], text[head:][::-1])
        grown, cut = len(text) - len(old), len(old) - tail
        moved = (
            (
                start + grown if start >= cut else min(start, head),
                end if end <= head else max(end, cut) + grown,
            )
            for start, end in self._spans
        )
        self._spans = [one for one in moved if one[0] < one[1]]

    def take(self, text: str) -> TypedLine:
        """The line is entered; the next one begins without marks."""
        self.follow(text)
        parts = [text[start:end] for start, end in self._spans]
        parts += [one for one in self._seen if one in text]
        self.follow("")
        return TypedLine(text, tuple(dict.fromkeys(parts)))


def _common_length(one: str, other: str) -> int:
    """Of the beginning that both have."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
