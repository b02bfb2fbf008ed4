"""Blocks into pieces that each fit into one message: cut between blocks or else lines, sentences,
words (A13).
"""

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from channels.markup.blocks import Block, Span, drop_chars, render_plain, take_chars
from channels.markup.graphemes import last_cut
from channels.markup.parse import is_visible
from channels.message import MessagePart

Render = Callable[[Sequence[Block]], str]
Size = Callable[[Block], int]
GAP_CHARS = 8
"""Characters that may stand between two blocks, at most."""
UNBREAKABLE_CHARS = 400
"""Links and code of so many characters are not cut apart."""
SENTENCE = re.compile(r"[.!?…。！？؟।][\"'”’)\]]*(?=\s|[\u3000-\u9fff])|[。！？]")


def split_message(blocks: Sequence[Block], render: Render, limit: int) -> list[MessagePart]:
    """The pieces, in order. Each has at most `limit` UTF-16 units, with its markup and without."""

    def size(block: Block) -> int:
        return max(utf16_length(render_plain([block])), utf16_length(render([block]))) + GAP_CHARS

    parts = [
        part
        for part in pack_blocks(blocks, size, limit)
        if any(is_visible(block.text) for block in part)
    ]
    return [MessagePart(render(part).strip("\n"), render_plain(part).strip("\n")) for part in parts]


def utf16_length(text: str) -> int:
    """Its length as the platforms count: UTF-16 units."""
    return len(text) if text.isascii() else len(text) + sum(char > "\uffff" for char in text)


def pack_blocks(blocks: Sequence[Block], size: Size, limit: int) -> list[list[Block]]:
    """The blocks of each piece. A heading is not left alone at the end of one."""
    waiting, parts = deque(blocks), list[list[Block]]()
    part: list[Block] = []
    used = 0
    while waiting:
        block = waiting.popleft()
        need = size(block) if len(block.text) <= limit else limit + 1
        if used + need <= limit:
            part.append(block)
            used += need
            continue
        crowded = limit - used < limit // 4 or (need <= limit and used >= limit // 3)
        if part and (crowded or size(_head_of(block, 1)) > limit - used):
            part, carried = _detach_headings(part)
            waiting.extendleft(reversed([*carried, block]))
        else:
            head, tail = split_block(block, size, limit - used)
            part.append(head)
            waiting.extendleft([tail] if tail else [])
        parts.append(part)
        part, used = [], 0
    return [*parts, part] if part else parts


def _detach_headings(part: list[Block]) -> tuple[list[Block], list[Block]]:
    end = len(part)
    while end and part[end - 1].kind == "heading":
        end -= 1
    return (part[:end], part[end:]) if end else (part, [])


def split_block(block: Block, size: Size, room: int) -> tuple[Block, Block | None]:
    """As much of the block as fits into the room, at least one character, and the rest."""
    most = max(min(len(block.text), room - GAP_CHARS), 1)
    while most > 1 and (taken := size(_head_of(block, most))) > room:
        most = max(min(most - 1, most * room // taken), 1)
    at = most if most == len(block.text) else _cut_position(block, most)
    head, tail = _head_of(block, at), drop_chars(block.spans, at)
    rest = replace(block, spans=_strip_break(block, tail), indent=block.hang, marker="", gap=1)
    return head, rest if rest.text else None


def _head_of(block: Block, count: int) -> Block:
    return replace(block, spans=take_chars(block.spans, count))


def _strip_break(block: Block, spans: tuple[Span, ...]) -> tuple[Span, ...]:
    """Without the break at which it was cut; the indent of code stays."""
    if not spans:
        return ()
    text = spans[0].text.removeprefix("\n") if block.kind == "code" else spans[0].text.lstrip()
    return (replace(spans[0], text=text), *spans[1:]) if text else spans[1:]


def _cut_position(block: Block, most: int) -> int:
    """Where to cut within the first `most` characters."""
    text = "".join(span.text for span in take_chars(block.spans, most + 2))
    line = text.rfind("\n", most // 3, most + 1)
    if line > 0:
        return line
    if block.kind != "code":
        ends = [
            found.end()
            for found in SENTENCE.finditer(text, most // 3, most + 1)
            if found.end() <= most
        ]
        if ends:
            return _before_unbreakable(block, ends[-1])
    word = max(text.rfind(space, most // 4, most + 1) for space in (" ", "\t", "\u3000"))
    return _before_unbreakable(block, word if word > 0 else last_cut(text, most))


def _before_unbreakable(block: Block, at: int) -> int:
    """Before a short link or bit of code, rather than in it."""
    start = 0
    for span in block.spans:
        end = start + len(span.text)
        if start < at < end:
            whole = (span.href or "code" in span.marks) and len(span.text) <= UNBREAKABLE_CHARS
            return start if whole and start > 0 else at
        if end >= at:
            return at
        start = end
    return at


def truncate(text: str, limit: int) -> str:
    """Its beginning, where it is too long."""
    if utf16_length(text) <= limit:
        return text
    return text.encode("utf-16-le")[: 2 * (limit - 1)].decode("utf-16-le", "ignore") + "…"
