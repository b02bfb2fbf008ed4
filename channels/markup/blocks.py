"""A text between markdown and the platforms' markup: blocks of spans. What is visible is in them as
it will be read; renderers only add signs, so a text can be cut anywhere and markup is never cut
(A13).
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from channels import value

NO_MARKS: frozenset[str] = frozenset()
BOLD = frozenset({"bold"})
NO_WIDTH = "\u200b"
"""A space of no width: parts what would be read as markup."""
Mark = tuple[str, str, str]
"""A mark, and what is before and after the text that has it."""


class Span(NamedTuple):
    """Text in one style. marks: "bold", "italic", "strike", "code", "spoiler"; `href`: where a link
    leads, "" for none.
    """

    text: str
    marks: frozenset[str] = NO_MARKS
    href: str = ""


@value
class Block:
    """A paragraph, heading, list item or code block. kind: "text", "heading", "code".

    `gap`: line breaks between it and what is above. `indent`: columns, of lists. `marker`: "•",
    "1.", "☐" of a list item. `quote`: how deep in quotes. `level` of a heading. `lang` of code.
    """

    kind: str
    spans: tuple[Span, ...]
    gap: int = 2
    indent: int = 0
    marker: str = ""
    quote: int = 0
    level: int = 0
    lang: str = ""

    @property
    def text(self) -> str:
        """Without marker and indent."""
        return "".join(span.text for span in self.spans)

    @property
    def hang(self) -> int:
        """The column in which its lines begin, below the marker."""
        return self.indent + (len(self.marker) + 1 if self.marker else 0)


def block_lines(
    block: Block, more: frozenset[str] = NO_MARKS
) -> Iterator[tuple[str, Sequence[Span]]]:
    """Each line: what is before it, and its spans, with these marks and no line break."""
    deeper = "› " * (block.quote - 1)
    lead = deeper + " " * block.indent + (block.marker + " " if block.marker else "")
    line = []
    for span in block.spans:
        for at, text in enumerate(span.text.split("\n")):
            if at:
                yield lead, line
                lead, line = deeper + " " * block.hang, []
            if text:
                line.append(Span(text, span.marks | more, span.href))
    yield lead, line


def render_nested(
    spans: Sequence[Span],
    signs: Sequence[Mark],
    leaf: Callable[[Span], str],
    between: Callable[[str, str], str] | None = None,
) -> str:
    """The spans of a line with their signs, as few as possible, and none next to a space within.
    `between`: what has to be between two runs of text.
    """
    marks = frozenset().union(*(span.marks for span in spans))
    used = [sign for sign in signs if sign[0] in marks]
    parts = [] if used else [leaf(span) for span in spans]
    for mark, opening, closing in used[:1]:
        for is_marked, group in groupby(spans, key=lambda span: mark in span.marks):
            text = render_nested(list(group), used[1:], leaf, between)
            core = text.strip() if is_marked else ""
            parts.append(text.replace(core, opening + core + closing, 1) if core else text)
    if between is None:
        return "".join(parts)
    joined = ""
    for part in filter(None, parts):
        joined += (between(joined, part) if joined else "") + part
    return joined


def render_blocks(render: Callable[[Block], str], blocks: Sequence[Block]) -> str:
    """Blocks one below the other, where each line of a quote begins with a sign of its own."""
    text = ""
    for above, block in zip((None, *blocks), blocks, strict=False):
        if above:
            within = above.quote and block.quote and "code" not in (above.kind, block.kind)
            text += "\n> \n" if within and block.gap > 1 else "\n" * block.gap
        text += render(block)
    return text


def render_plain(blocks: Sequence[Block]) -> str:
    """The text without any markup; where a link leads is behind it."""
    parts: list[str] = []
    for block in blocks:
        parts.append("\n" * block.gap if parts else "")
        quote, lines = "> " if block.quote else "", []
        for lead, spans in block_lines(block):
            for span in spans:
                is_shown = span.href in ("", span.text, f"mailto:{span.text}")
                lead += span.text if is_shown else f"{span.text} ({span.href})"
            lines.append(quote + lead)
        parts.append("\n".join(lines))
    return "".join(parts)
