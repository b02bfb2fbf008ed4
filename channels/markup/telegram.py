"""Markdown as Telegram's HTML (A13). Telegram counts only what is seen, in UTF-16 units; other
servers count the HTML, so that is held to the limit, too.
"""

from collections.abc import Sequence
from functools import partial
from html import escape
from itertools import groupby

from channels.markup.blocks import BOLD, NO_MARKS, Block, Span, block_lines, render_nested
from channels.markup.split import split_message

LIMIT = 4096
LONG_QUOTE = 500
TAGS = (
    ("spoiler", "<tg-spoiler>", "</tg-spoiler>"),
    ("bold", "<b>", "</b>"),
    ("italic", "<i>", "</i>"),
    ("strike", "<s>", "</s>"),
)
CODE = frozenset({"code"})
SCHEMES = ("http://", "https://", "mailto:", "tg://")


def _to_html(blocks: Sequence[Block]) -> str:
    """Neighbours in a quote share it."""
    parts = []
    for is_quote, group in groupby(
        blocks, lambda block: bool(block.quote) and block.kind != "code"
    ):
        first, *others = group
        parts += ["\n" * first.gap] if parts else []
        inner = _render_block(first)
        for block in others:
            inner += "\n" * block.gap + _render_block(block)
        if is_quote:
            is_long = sum(len(block.text) for block in (first, *others)) > LONG_QUOTE
            inner = f"<blockquote{' expandable' * is_long}>{inner}</blockquote>"
        parts.append(inner)
    return "".join(parts)


def _render_block(block: Block) -> str:
    if block.kind == "code":
        text = escape(block.text, quote=False)
        if block.lang:
            text = f'<code class="language-{escape(block.lang)}">{text}</code>'
        return f"<pre>{text}</pre>"
    lines = []
    for lead, spans in block_lines(block, BOLD if block.kind == "heading" else NO_MARKS):
        # Telegram allows no style around code
        spans = [Span(span.text, CODE) if _is_code(span) else span for span in spans]
        lines.append(escape(lead, quote=False) + render_nested(spans, TAGS, _render_span))
    return "\n".join(lines)


def _is_code(span: Span) -> bool:
    return "code" in span.marks and not span.href


def _render_span(span: Span) -> str:
    text, href = escape(span.text, quote=False), span.href
    if _is_code(span):
        return f"<code>{text}</code>"
    if href in ("", span.text):
        return text
    if href.lower().startswith(SCHEMES):
        return f'<a href="{escape(href)}">{text}</a>'
    return f"{text} ({escape(href, quote=False)})"


render_parts = partial(split_message, render=_to_html, limit=LIMIT)
"""The text in parts that each fit into one message, at least one."""
