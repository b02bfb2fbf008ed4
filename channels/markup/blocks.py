"""A text between markdown and the dialects: blocks, one below the other, made of spans. What is
visible stands in them as it will be read; each dialect only adds its markup, so that a text can be
cut anywhere and markup is never cut (A13).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

RULE = "──────────"
NO_TEXT = "(no text)"
Mark = tuple[str, str, str]
"""A mark, and what stands before and after the text that has it."""
Separator = Callable[[str, str], str]
"""What has to stand between two runs of text."""


@dataclass(frozen=True, slots=True)
class Span:
    """Text in one style. marks: "bold", "italic", "strike", "code", "spoiler"; `href` is where a
    link leads, "" for none.
    """

    text: str
    marks: frozenset[str] = frozenset()
    href: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, heading, list item or code block. kind: "text", "heading", "code".

    `gap`: line breaks between it and what stands above. `indent`: columns, of lists. `marker`: "•",
    "1.", "☐" of a list item. `quote`: how deep in quotes. `level` of a heading. `lang` of a code
    block.
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
        """What is read, without marker and indent."""
        return "".join(span.text for span in self.spans)

    @property
    def hang(self) -> int:
        """The column in which its lines begin, below the marker."""
        return self.indent + (len(self.marker) + 1 if self.marker else 0)


def block_lines(block: Block) -> Iterator[tuple[str, list[Span]]]:
    """Each line of a block: what stands before it, and its spans, which then hold no line break."""
    deeper = "› " * (block.quote - 1)
    below = deeper + " " * block.hang
    lead = deeper + " " * block.indent + (block.marker + " " if block.marker else "")
    line: list[Span] = []
    for span in block.spans:
        if "\n" not in span.text:
            line.append(span)
            continue
        first, *rest = span.text.split("\n")
        line += [Span(first, span.marks, span.href)] if first else []
        for part in rest:
            yield lead, line
            lead, line = below, [Span(part, span.marks, span.href)] if part else []
    yield lead, line


def take_chars(spans: Sequence[Span], count: int) -> tuple[Span, ...]:
    """The spans up to so many characters."""
    taken: list[Span] = []
    for span in spans:
        if count <= 0:
            break
        taken.append(span if len(span.text) <= count else replace(span, text=span.text[:count]))
        count -= len(span.text)
    return tuple(taken)


def drop_chars(spans: Sequence[Span], count: int) -> tuple[Span, ...]:
    """The spans after so many characters."""
    for index, span in enumerate(spans):
        if count < len(span.text):
            return (replace(span, text=span.text[count:]), *spans[index + 1 :])
        count -= len(span.text)
    return ()


def merge_spans(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Neighbours of the same style as one; none is empty."""
    told: list[Span] = []
    parts: list[str] = []
    for span in spans:
        if told and (told[-1].marks, told[-1].href) == (span.marks, span.href):
            parts.append(span.text)
            continue
        _close_run(told, parts)
        told.append(span)
        parts = [span.text]
    _close_run(told, parts)
    return tuple(span for span in told if span.text)


def _close_run(told: list[Span], parts: list[str]) -> None:
    if told and len(parts) > 1:
        told[-1] = replace(told[-1], text="".join(parts))


def no_separator(before: str, after: str) -> str:
    """Runs of text need nothing between them."""
    return ""


def render_nested(
    spans: Sequence[Span],
    signs: Sequence[Mark],
    leaf: Callable[[Span], str],
    between: Separator = no_separator,
) -> str:
    """The spans of a line with their signs, as few as possible, and none next to a space within."""
    used = [sign for sign in signs if any(sign[0] in span.marks for span in spans)]
    if not used:
        return _join([leaf(span) for span in spans], between)
    mark, opening, closing = used[0]
    told: list[str] = []
    for marked, group in groupby(spans, key=lambda span: mark in span.marks):
        text = render_nested(list(group), used[1:], leaf, between)
        core = text.strip()
        if marked and core:
            before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
            text = f"{before}{opening}{core}{closing}{after}"
        told.append(text)
    return _join(told, between)


def _join(parts: Sequence[str], between: Separator) -> str:
    if len(parts) < 2 or between is no_separator:
        return "".join(parts)
    told = [parts[0]]
    for before, after in pairwise(parts):
        told += [between(before, after) if before and after else "", after]
    return "".join(told)


def add_marks(spans: Sequence[Span], more: frozenset[str]) -> Sequence[Span]:
    """The spans, all with further marks."""
    return [Span(span.text, span.marks | more, span.href) for span in spans] if more else spans


def render_blocks(blocks: Sequence[Block], shown: Callable[[Block], str]) -> str:
    """Blocks one below the other, where each line of a quote begins with a sign of its own."""
    parts: list[str] = []
    for above, block in zip((None, *blocks), blocks, strict=False):
        if above:
            within = above.quote and block.quote and "code" not in (above.kind, block.kind)
            parts.append("\n> \n" if within and block.gap > 1 else "\n" * block.gap)
        parts.append(shown(block))
    return "".join(parts)


def render_plain(blocks: Sequence[Block]) -> str:
    """The text without any markup; where a link leads stands behind it."""
    told: list[str] = []
    for block in blocks:
        told += ["\n" * block.gap] if told else []
        told.append(_plain(block))
    return "".join(told)


def _plain(block: Block) -> str:
    if not (block.quote or block.hang or any(span.href for span in block.spans)):
        return block.text
    return "\n".join(
        _quote_lead(block, lead) + "".join(_span_text(span) for span in spans)
        for lead, spans in block_lines(block)
    )


def _quote_lead(block: Block, lead: str) -> str:
    return f"> {lead}" if block.quote else lead


def _span_text(span: Span) -> str:
    return (
        f"{span.text} ({span.href})"
        if span.href and span.href not in (span.text, f"mailto:{span.text}")
        else span.text
    )
