"""Markdown as Slack's mrkdwn (A13). It knows no escapes but & < >: what would be read as markup by
accident is parted by a space of no width, and nothing in it can notify a person, group or channel.
"""

import re
from functools import partial
from html import escape

from channels.markup.blocks import (
    BOLD,
    NO_MARKS,
    NO_WIDTH,
    Block,
    Span,
    block_lines,
    render_blocks,
    render_nested,
)
from channels.markup.split import split_message

LIMIT = 3800
MARKS = (("bold", "*", "*"), ("italic", "_", "_"), ("strike", "~", "~"))
ACCIDENTAL = re.compile(r"(?<![^\W_])([*_~`])(?=\S)")
QUOTE_SIGN = re.compile(r"^(?=&gt;)", re.MULTILINE)
_escape = partial(escape, quote=False)
SCHEMES = ("http://", "https://", "mailto:")


def _render_block(block: Block) -> str:
    if block.kind == "code":
        return f"```\n{_escape(block.text).replace('```', f'`{NO_WIDTH}`{NO_WIDTH}`')}\n```"
    quote, lines = "> " if block.quote else "", []
    for lead, spans in block_lines(block, BOLD if block.kind == "heading" else NO_MARKS):
        lines.append(quote + lead + render_nested(spans, MARKS, _render_span, _separator))
    return "\n".join(lines)


def _separator(before: str, after: str) -> str:
    """Signs count only between spaces or punctuation; a space of no width makes them count
    elsewhere.
    """
    around = before[-1] + after[0]
    signs = sum(char in "*_~`" for char in around)
    is_glued = signs == 2 or (signs == 1 and around.strip("*_~`").isalnum())
    return NO_WIDTH if is_glued else ""


def _render_span(span: Span) -> str:
    text, href = span.text, span.href
    if not text.strip():
        return text
    if href.lower().startswith(SCHEMES):
        url = _escape(href).replace("|", "%7C").replace(" ", "%20")
        return f"<{url}>" if text == href else f"<{url}|{_defuse(text).replace('|', '¦')}>"
    if "code" in span.marks and "`" not in text and not href:
        return f"`{_escape(text)}`"
    return _defuse(f"{text} ({href})" if href else text)


def _defuse(text: str) -> str:
    return QUOTE_SIGN.sub(NO_WIDTH, ACCIDENTAL.sub(rf"\1{NO_WIDTH}", _escape(text)))


render_parts = partial(split_message, render=partial(render_blocks, _render_block), limit=LIMIT)
"""The text in parts that each fit into one message, at least one."""
