"""A text between markdown and the platforms' markup: blocks of spans. What is visible is in them as
it will be read; renderers only add signs, so a text can be cut anywhere and markup is never cut
(A13).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

NO_MARKS: frozenset[str] = frozenset()
BOLD = frozenset({"bold"})
NO_WIDTH = "\u200b"
"""A space of no width: parts what would be read as markup."""
Mark = tuple[str, str, str]
"""A mark, and what is before and after the text that has it."""


@dataclass(frozen=True, slots=True)
class Span:
    """Text in one style. marks: "bold", "italic", "strike", "code", "spoiler"; `href`: where a link
    leads, "" for none.
    """

    text: str
    marks: frozenset[str] = NO_MARKS
    href: str = ""


@dataclass(frozen=True, slots=True)
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
    for span in add_marks(block.spans, more):
        first, *rest = span.text.split("\n")
        line += [Span(first, span.marks, span.href)] if first else []
        for part in rest:
            yield lead, line
            lead = deeper + " " * block.hang
            line = [Span(part, span.marks, span.href)] if part else []
    yield lead, line


def add_marks(spans: Sequence[Span], more: frozenset[str]) -> Sequence[Span]:
    """The spans, all with further marks."""
    return [Span(span.text, span.marks | more, span.href) for span in spans] if more else spans


def render_nested(
    spans: Sequence[Span],
    signs: Sequence[Mark],
    leaf: Callable[[Span], str],
    between: Callable[[str, str], str] | None = None,
) -> str:
    """The spans of a line with their signs, as few as possible, and none next to a space within.
    `between`: what has to be between two runs of text.
    """
    parts = []
    used = [sign for sign in signs if any(sign[0] in span.marks for span in spans)]
    if used:
        mark, opening, closing = used[0]
        for is_marked, group in groupby(spans, key=lambda span: mark in span.marks):
            text = render_nested(list(group), used[1:], leaf, between)
            core = text.strip()
            parts.append(
                text.replace(core, opening + core + closing, 1) if is_marked and core else text
            )
    else:
        parts = [leaf(span) for span in spans]
    if between is None:
        return "".join(parts)
    joined = []
    for part in parts:
        joined += [between(joined[-1], part) if joined and joined[-1] and part else "", part]
    return "".join(joined)


def render_blocks(blocks: Sequence[Block], render: Callable[[Block], str]) -> str:
    """Blocks one below the other, where each line of a quote begins with a sign of its own."""
    parts: list[str] = []
    above: Block | None = None
    for block in blocks:
        if above:
            within = above.quote and block.quote and "code" not in (above.kind, block.kind)
            parts.append("\n> \n" if within and block.gap > 1 else "\n" * block.gap)
        parts.append(render(block))
        above = block
    return "".join(parts)


def render_plain(blocks: Sequence[Block]) -> str:
    """The text without any markup; where a link leads is behind it."""
    parts: list[str] = []
    for block in blocks:
        parts.append("\n" * block.gap if parts else "")
        if not (block.quote or block.hang or any(span.href for span in block.spans)):
            parts.append(block.text)
            continue
        quote, lines = "> " if block.quote else "", []
        for lead, spans in block_lines(block):
            text = "".join(map(_span_text, spans))
            lines.append(quote + lead + text)
        parts.append("\n".join(lines))
    return "".join(parts)


def _span_text(span: Span) -> str:
    text, href = span.text, span.href
    return text if href in ("", text) or href == f"mailto:{text}" else f"{text} ({href})"
