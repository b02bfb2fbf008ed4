"""Markdown as Slack's mrkdwn (A13). It knows no escapes but & < >: what would be read as markup by chance is parted by a space of
no width, and nothing in it can call a person, a group or a channel.
"""

import re
from collections.abc import Sequence

from channels.message import Piece
from channels.text.blocks import Block, Span, lines, nested, stacked, styled
from channels.text.cutting import pieces as cut
from channels.text.reading import blocks

LIMIT = 3800
NO_WIDTH = "\u200b"
SIGNS = (("bold", "*", "*"), ("italic", "_", "_"), ("strike", "~", "~"))
CHANCE = re.compile(r"(?<![^\W_])([*_~`])(?=\S)|^(&gt;)", re.M)
SCHEMES = ("http://", "https://", "mailto:")


def pieces(markdown: str, limit: int = LIMIT) -> list[Piece]:
    """The text in pieces that each fit into one message, at least one."""
    return cut(blocks(markdown), mrkdwn, limit)


def mrkdwn(told: Sequence[Block]) -> str:
    """Blocks as mrkdwn."""
    return stacked(told, _block)


def _block(block: Block) -> str:
    if block.kind == "code":
        return f"```\n{_escaped(block.text).replace('```', f'`{NO_WIDTH}`{NO_WIDTH}`')}\n```"
    bold = frozenset({"bold"} if block.kind == "heading" else ())
    quote = "> " if block.quote else ""
    return "\n".join(quote + lead + _line(spans, bold) for lead, spans in lines(block))


def _line(spans: Sequence[Span], more: frozenset[str]) -> str:
    return nested(styled(spans, more), SIGNS, _leaf, _parted)


def _parted(before: str, after: str) -> str:
    """Signs count only between spaces or punctuation; elsewhere a space of no width makes them count."""
    signs = sum(char in "*_~`" for char in (before[-1], after[0]))
    glued = signs == 2 or (signs == 1 and (before[-1] + after[0]).strip("*_~`").isalnum())
    return NO_WIDTH if glued else ""


def _leaf(span: Span) -> str:
    if not span.text.strip():
        return span.text
    if span.href:
        return _link(span.text, span.href)
    return f"`{_escaped(span.text)}`" if "code" in span.marks and "`" not in span.text else _harmless(span.text)


def _link(label: str, href: str) -> str:
    url = _escaped(href).replace("|", "%7C").replace(" ", "%20")
    if not href.lower().startswith(SCHEMES):
        return _harmless(f"{label} ({href})")
    return f"<{url}>" if label == href else f"<{url}|{_harmless(label).replace('|', '¦')}>"


def _harmless(text: str) -> str:
    return CHANCE.sub(lambda found: f"{found[0]}{NO_WIDTH}" if found[1] else NO_WIDTH + found[0], _escaped(text))


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
