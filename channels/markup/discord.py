"""Markdown as Discord has it (A13): nearly the same, but accidental signs are escaped, and nobody
can be notified.
"""

import re
from functools import partial

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

LIMIT = 2000
MARKS = (
    ("spoiler", "||", "||"),
    ("bold", "**", "**"),
    ("italic", "*", "*"),
    ("strike", "~~", "~~"),
)
ESCAPED = re.compile(r"[\\*_~`|]|\](?=\()")
PARTED = re.compile(r"<(?=[@#:/]|a:|t:|id:|https?:)|@(?=everyone|here)")
BACKTICK_RUN = re.compile(r"`(?=`)")
MENTION_ALL = re.compile("@(?=everyone|here)")
AT_START = re.compile(r"^(\s*(?:\d+(?=\.\s))?)(#{1,3}|-#|[-+>]|>>>|(?<=\d)\.)(?=\s)")
MAX_HEADING = 3
MARKERS = {"•": "-", "☐": "- ☐", "☑": "- ☑"}


def _render_block(block: Block) -> str:
    if block.kind == "code":
        text = block.text.replace("```", f"`{NO_WIDTH}`{NO_WIDTH}`")
        return f"```{block.lang}\n{text}\n```"
    is_large = block.kind == "heading" and block.level <= MAX_HEADING and not block.hang
    sign = "#" * block.level + " " if is_large else ""
    more = BOLD if block.kind == "heading" and not is_large else NO_MARKS
    quote, lines = "> " if block.quote else "", []
    for lead, spans in block_lines(block, more):
        if lead.strip(" ›"):
            marker = MARKERS.get(block.marker, block.marker)
            lead = lead.replace(block.marker, marker, 1)
        text = AT_START.sub(r"\1\\\2", render_nested(spans, MARKS, _render_span))
        lines.append(quote + lead + sign + text)
    return "\n".join(lines)


def _render_span(span: Span) -> str:
    text, href = span.text, span.href
    if not text.strip():
        return text
    if href and not href.lower().startswith(("http://", "https://")):
        return _defuse(text if href == f"mailto:{text}" else f"{text} ({href})")
    if href:
        url = MENTION_ALL.sub("%40", href)
        if text == href:
            return url
        if "://" in text:
            return f"{_defuse(text)} ({url})"
        url = url.replace("(", "%28").replace(")", "%29").replace(" ", "%20")
        return f"[{_defuse(text).replace('[', '(').replace(']', ')')}]({url})"
    if "code" not in span.marks:
        return _defuse(text)
    return f"`` {BACKTICK_RUN.sub(f'`{NO_WIDTH}', text)} ``" if "`" in text else f"`{text}`"


def _defuse(text: str) -> str:
    return PARTED.sub(rf"\g<0>{NO_WIDTH}", ESCAPED.sub(r"\\\g<0>", text))


render_parts = partial(split_message, render=partial(render_blocks, _render_block), limit=LIMIT)
"""The text in parts that each fit into one message, at least one."""
