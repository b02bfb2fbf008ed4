"""Markdown as Telegram's HTML (A13). Telegram counts only what is seen, in UTF-16 units; other
servers count the HTML, so that is held to the limit, too.
"""

from collections.abc import Sequence
from html import escape
from itertools import groupby

from channels.markup.blocks import Block, Span, add_marks, block_lines, render_nested
from channels.markup.parse import parse_blocks
from channels.markup.split import split_message as cut
from channels.message import MessagePart

LIMIT = 4096
LONG_QUOTE = 500
TAGS = (("bold", "<b>", "</b>"), ("italic", "<i>", "</i>"), ("strike", "<s>", "</s>"))
SPOILER = ("spoiler", "<tg-spoiler>", "</tg-spoiler>")
CODE = frozenset({"code"})
SCHEMES = ("http://", "https://", "mailto:", "tg://")


def render_parts(markdown: str, limit: int = LIMIT) -> list[MessagePart]:
    """The text in pieces that each fit into one message, at least one."""
    return cut(parse_blocks(markdown), to_html, limit)


def to_html(told: Sequence[Block]) -> str:
    """Blocks as HTML; neighbours in a quote share it."""
    parts: list[str] = []
    for quoted, group in groupby(
        told, key=lambda block: bool(block.quote) and block.kind != "code"
    ):
        run = list(group)
        parts += ["\n" * run[0].gap] if parts else []
        inner = "".join(
            "\n" * block.gap * (block is not run[0]) + _render_block(block) for block in run
        )
        parts.append(_render_quote(inner, run) if quoted else inner)
    return "".join(parts)


def _render_quote(inner: str, run: Sequence[Block]) -> str:
    long = sum(len(block.text) for block in run) > LONG_QUOTE
    return f"<blockquote{' expandable' * long}>{inner}</blockquote>"


def _render_block(block: Block) -> str:
    if block.kind == "code":
        return _render_code(block)
    bold = frozenset({"bold"} if block.kind == "heading" else ())
    return "\n".join(
        escape(lead, False) + _render_line(spans, bold) for lead, spans in block_lines(block)
    )


def _render_line(spans: Sequence[Span], more: frozenset[str]) -> str:
    """Code stands in nothing else: Telegram allows no style around it."""
    apart = [Span(span.text, CODE) if _is_code(span) else span for span in add_marks(spans, more)]
    return render_nested(apart, (SPOILER, *TAGS), _render_span)


def _is_code(span: Span) -> bool:
    return "code" in span.marks and not span.href


def _render_code(block: Block) -> str:
    text = escape(block.text, quote=False)
    return (
        f'<pre><code class="language-{escape(block.lang)}">{text}</code></pre>'
        if block.lang
        else f"<pre>{text}</pre>"
    )


def _render_span(span: Span) -> str:
    text = escape(span.text, quote=False)
    if _is_code(span):
        return f"<code>{text}</code>"
    return _render_link(text, span.href) if span.href and span.href != span.text else text


def _render_link(text: str, href: str) -> str:
    return (
        f'<a href="{escape(href)}">{text}</a>'
        if href.lower().startswith(SCHEMES)
        else f"{text} ({escape(href, False)})"
    )
