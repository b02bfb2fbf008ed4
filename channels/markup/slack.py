"""Markdown as Slack's mrkdwn (A13). It knows no escapes but & < >: what would be read as markup by
chance is parted by a space of no width, and nothing in it can call a person, a group or a channel.
"""

import re
from collections.abc import Sequence

from channels.markup.blocks import Block, Span, add_marks, block_lines, render_blocks, render_nested
from channels.markup.parse import parse_blocks
from channels.markup.split import split_message as cut
from channels.message import MessagePart

LIMIT = 3800
NO_WIDTH = "\u200b"
MARKS = (("bold", "*", "*"), ("italic", "_", "_"), ("strike", "~", "~"))
ACCIDENTAL = re.compile(r"(?<![^\W_])([*_~`])(?=\S)|^(&gt;)", re.M)
SCHEMES = ("http://", "https://", "mailto:")


def render_parts(markdown: str, limit: int = LIMIT) -> list[MessagePart]:
    """The text in pieces that each fit into one message, at least one."""
    return cut(parse_blocks(markdown), to_mrkdwn, limit)


def to_mrkdwn(told: Sequence[Block]) -> str:
    """Blocks as mrkdwn."""
    return render_blocks(told, _render_block)


def _render_block(block: Block) -> str:
    if block.kind == "code":
        return f"```\n{_escape(block.text).replace('```', f'`{NO_WIDTH}`{NO_WIDTH}`')}\n```"
    bold = frozenset({"bold"} if block.kind == "heading" else ())
    quote = "> " if block.quote else ""
    return "\n".join(quote + lead + _render_line(spans, bold) for lead, spans in block_lines(block))


def _render_line(spans: Sequence[Span], more: frozenset[str]) -> str:
    return render_nested(add_marks(spans, more), MARKS, _render_span, _separator)


def _separator(before: str, after: str) -> str:
    """Signs count only between spaces or punctuation; elsewhere a space of no width makes them
    count.
    """
    signs = sum(char in "*_~`" for char in (before[-1], after[0]))
    glued = signs == 2 or (signs == 1 and (before[-1] + after[0]).strip("*_~`").isalnum())
    return NO_WIDTH if glued else ""


def _render_span(span: Span) -> str:
    if not span.text.strip():
        return span.text
    if span.href:
        return _render_link(span.text, span.href)
    return (
        f"`{_escape(span.text)}`"
        if "code" in span.marks and "`" not in span.text
        else _defuse(span.text)
    )


def _render_link(label: str, href: str) -> str:
    url = _escape(href).replace("|", "%7C").replace(" ", "%20")
    if not href.lower().startswith(SCHEMES):
        return _defuse(f"{label} ({href})")
    return f"<{url}>" if label == href else f"<{url}|{_defuse(label).replace('|', '¦')}>"


def _defuse(text: str) -> str:
    return ACCIDENTAL.sub(
        lambda found: f"{found[0]}{NO_WIDTH}" if found[1] else NO_WIDTH + found[0], _escape(text)
    )


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
