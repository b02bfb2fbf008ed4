"""Markdown as Discord has it (A13): nearly the same, but what stands there by chance is escaped,
and nobody can be called.
"""

import re
from collections.abc import Sequence

from channels.markup.blocks import Block, Span, add_marks, block_lines, render_blocks, render_nested
from channels.markup.parse import parse_blocks
from channels.markup.split import split_message as cut
from channels.message import MessagePart

LIMIT = 2000
NO_WIDTH = "\u200b"
MARKS = (
    ("spoiler", "||", "||"),
    ("bold", "**", "**"),
    ("italic", "*", "*"),
    ("strike", "~~", "~~"),
)
ACCIDENTAL = re.compile(r"[\\*_~`|]|\](?=\()|<(?=[@#:/]|a:|t:|id:|https?:)|@(?=everyone|here)")
RUN = re.compile(r"`(?=`)")
MENTION_ALL = re.compile("@(?=everyone|here)")
AT_START = re.compile(r"^(\s*)(?:(#{1,3}|-#|[-+>]|>>>)(?=\s)|(\d+)(\.)(?=\s))")
DEEPEST_HEADING = 3


def render_parts(markdown: str, limit: int = LIMIT) -> list[MessagePart]:
    """The text in pieces that each fit into one message, at least one."""
    return cut(parse_blocks(markdown), to_markdown, limit)


def to_markdown(told: Sequence[Block]) -> str:
    """Blocks in Discord's markdown."""
    return render_blocks(told, _render_block)


def _render_block(block: Block) -> str:
    if block.kind == "code":
        return f"```{block.lang}\n{block.text.replace('```', f'`{NO_WIDTH}`{NO_WIDTH}`')}\n```"
    quote = "> " if block.quote else ""
    large = block.kind == "heading" and block.level <= DEEPEST_HEADING and not block.hang
    sign = "#" * block.level + " " if large else ""
    bold = frozenset({"bold"} if block.kind == "heading" and not large else ())
    return "\n".join(
        quote + _list_lead(lead, block) + sign + _render_line(spans, bold)
        for lead, spans in block_lines(block)
    )


def _list_lead(lead: str, block: Block) -> str:
    if not lead.strip(" ›"):
        return lead
    marker = {"•": "-", "☐": "- ☐", "☑": "- ☑"}.get(block.marker, block.marker)
    return lead.replace(block.marker, marker, 1)


def _render_line(spans: Sequence[Span], more: frozenset[str]) -> str:
    told = render_nested(add_marks(spans, more), MARKS, _render_span)
    return AT_START.sub(_escape_start, told)


def _escape_start(found: re.Match[str]) -> str:
    space, sign, number, dot = found.groups()
    return f"{space}\\{sign}" if sign else f"{space}{number}\\{dot}"


def _render_span(span: Span) -> str:
    if not span.text.strip():
        return span.text
    if span.href:
        return _render_link(span.text, span.href)
    if "code" in span.marks:
        return (
            f"`` {RUN.sub(f'`{NO_WIDTH}', span.text)} ``" if "`" in span.text else f"`{span.text}`"
        )
    return _defuse(span.text)


def _render_link(label: str, href: str) -> str:
    if not href.lower().startswith(("http://", "https://")):
        return _defuse(label if href == f"mailto:{label}" else f"{label} ({href})")
    url = MENTION_ALL.sub("%40", href)
    if label == href:
        return url
    if "://" in label:
        return f"{_defuse(label)} ({url})"
    url = url.replace("(", "%28").replace(")", "%29").replace(" ", "%20")
    return f"[{_defuse(label).replace('[', '(').replace(']', ')')}]({url})"


def _defuse(text: str) -> str:
    return ACCIDENTAL.sub(
        lambda found: found[0] + NO_WIDTH if found[0] in "<@" else "\\" + found[0], text
    )
