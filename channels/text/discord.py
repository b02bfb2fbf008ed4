"""Markdown as Discord has it (A13): nearly the same, but what stands there by chance is escaped, and nobody can be called."""

import re
from collections.abc import Sequence

from channels.message import Piece
from channels.text.blocks import Block, Span, lines, nested, stacked, styled
from channels.text.cutting import pieces as cut
from channels.text.reading import blocks

LIMIT = 2000
NO_WIDTH = "\u200b"
SIGNS = (("spoiler", "||", "||"), ("bold", "**", "**"), ("italic", "*", "*"), ("strike", "~~", "~~"))
CHANCE = re.compile(r"[\\*_~`|]|\](?=\()|<(?=[@#:/]|a:|t:|id:|https?:)|@(?=everyone|here)")
RUN = re.compile(r"`(?=`)")
CALLED = re.compile("@(?=everyone|here)")
AT_START = re.compile(r"^(\s*)(?:(#{1,3}|-#|[-+>]|>>>)(?=\s)|(\d+)(\.)(?=\s))")
DEEPEST_HEADING = 3


def pieces(markdown: str, limit: int = LIMIT) -> list[Piece]:
    """The text in pieces that each fit into one message, at least one."""
    return cut(blocks(markdown), rendered, limit)


def rendered(told: Sequence[Block]) -> str:
    """Blocks in Discord's markdown."""
    return stacked(told, _block)


def _block(block: Block) -> str:
    if block.kind == "code":
        return f"```{block.lang}\n{block.text.replace('```', f'`{NO_WIDTH}`{NO_WIDTH}`')}\n```"
    quote = "> " if block.quote else ""
    large = block.kind == "heading" and block.level <= DEEPEST_HEADING and not block.hang
    sign = "#" * block.level + " " if large else ""
    bold = frozenset({"bold"} if block.kind == "heading" and not large else ())
    return "\n".join(quote + _lead(lead, block) + sign + _line(spans, bold) for lead, spans in lines(block))


def _lead(lead: str, block: Block) -> str:
    if not lead.strip(" ›"):
        return lead
    marker = {"•": "-", "☐": "- ☐", "☑": "- ☑"}.get(block.marker, block.marker)
    return lead.replace(block.marker, marker, 1)


def _line(spans: Sequence[Span], more: frozenset[str]) -> str:
    told = nested(styled(spans, more), SIGNS, _leaf)
    return AT_START.sub(_unsigned, told)


def _unsigned(found: re.Match[str]) -> str:
    space, sign, number, dot = found.groups()
    return f"{space}\\{sign}" if sign else f"{space}{number}\\{dot}"


def _leaf(span: Span) -> str:
    if not span.text.strip():
        return span.text
    if span.href:
        return _link(span.text, span.href)
    if "code" in span.marks:
        return f"`` {RUN.sub(f'`{NO_WIDTH}', span.text)} ``" if "`" in span.text else f"`{span.text}`"
    return _harmless(span.text)


def _link(label: str, href: str) -> str:
    if not href.lower().startswith(("http://", "https://")):
        return _harmless(label if href == f"mailto:{label}" else f"{label} ({href})")
    url = CALLED.sub("%40", href)
    if label == href:
        return url
    if "://" in label:
        return f"{_harmless(label)} ({url})"
    url = url.replace("(", "%28").replace(")", "%29").replace(" ", "%20")
    return f"[{_harmless(label).replace('[', '(').replace(']', ')')}]({url})"


def _harmless(text: str) -> str:
    return CHANCE.sub(lambda found: found[0] + NO_WIDTH if found[0] in "<@" else "\\" + found[0], text)
