"""Tables for a chat: narrow ones as monospaced columns, all others as cards, for a phone shows about 44 columns (A13)."""

import re
from collections.abc import Iterator, Sequence

from channels.text.blocks import Block, Span
from channels.text.graphemes import width

WIDEST = 44
TURNED = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff]")
Cell = tuple[Span, ...]


class Table:
    """A table as it is read, row by row; the first row are its headers."""

    def __init__(self) -> None:
        self._rows: list[list[Cell]] = []
        self._right: list[bool] = []

    def column(self, right: bool) -> None:
        """The next column, and whether it stands to the right."""
        self._right.append(right)

    def row(self) -> None:
        """A new row begins."""
        self._rows.append([])

    def cell(self, spans: Cell) -> None:
        """The next cell of the row."""
        self._rows[-1].append(spans)

    def blocks(self) -> list[Block]:
        """What is shown of it."""
        texts = [["".join(span.text for span in cell) for cell in row] for row in self._rows]
        if self._needs_cards(texts):
            return list(_cards(self._rows))
        widths = [max(width(row[at]) for row in texts) for at in range(len(texts[0]))]
        if sum(widths) + 2 * (len(widths) - 1) > WIDEST:
            return list(_cards(self._rows))
        rule = ["─" * columns for columns in widths]
        return [Block("code", (Span("\n".join(_line(row, widths, self._right) for row in (texts[0], rule, *texts[1:]))),))]

    def _needs_cards(self, texts: list[list[str]]) -> bool:
        """Lines in a cell, letters that run from right to left and links find no place in columns."""
        if any("\n" in text or TURNED.search(text) for row in texts for text in row):
            return True
        return any(span.href not in ("", span.text) for row in self._rows for cell in row for span in cell)


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells: list[str] = []
    for text, columns, flush in zip(row, widths, right, strict=True):
        space = " " * (columns - width(text))
        cells.append(space + text if flush else text + space)
    return "  ".join(cells).rstrip()


def _cards(rows: list[list[Cell]]) -> Iterator[Block]:
    headers, *others = rows
    if not others:
        yield Block("text", tuple(span for header in headers for span in (*_bold(header), Span(" "))))
    for row in others:
        gap = 2
        for at, (header, cell) in enumerate(zip(headers, row, strict=True)):
            if cell:
                named = (*header, Span(": ")) if header else ()
                yield Block("text", (*named, *(cell if at else _bold(cell))), gap=gap)
                gap = 1


def _bold(cell: Cell) -> Cell:
    return tuple(Span(span.text, span.marks | {"bold"}, span.href) for span in cell)
