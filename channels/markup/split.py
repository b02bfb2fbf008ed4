"""Text into parts that each fit into one message: cut between blocks, else lines, sentences, words
(A13).
"""

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from channels.markup.blocks import Block, render_plain
from channels.markup.parse import is_visible, parse_blocks
from channels.message import MessagePart

Render = Callable[[Sequence[Block]], str]
MOST_HEADINGS = 3
GAP_CHARS = 8
"""Characters that may be between two blocks, at most."""
UNBREAKABLE_CHARS = 400
"""Links and code of so many characters are not cut apart."""
MAX_GRAPHEME = 64
"""Characters; what piles up more (accents upon accents) may be cut."""
PLAIN = re.compile(r"[^\W\d_](?:[^\W_]|[ ,.!?'\"])*(?<! )", re.ASCII)
"""What is the same in every dialect, as most short replies are."""
SENTENCE = re.compile(r"[.!?…。！？؟।][\"'”’)\]]*(?=\s|[\u3000-\u9fff])|[。！？]")


def split_message(markdown: str, render: Render, limit: int) -> list[MessagePart]:
    """The parts, in order, at least one. Each has at most `limit` UTF-16 units, with its markup and
    without.
    """
    if len(markdown) <= limit and PLAIN.fullmatch(markdown):
        return [MessagePart(markdown, markdown)]
    blocks = parse_blocks(markdown)
    fits = _size(blocks, render, limit) <= limit
    return [
        MessagePart(render(part).strip("\n"), render_plain(part).strip("\n"))
        for part in ([blocks] if fits else _pack_blocks(blocks, render, limit))
        if any(is_visible(block.text) for block in part)
    ]


def utf16_length(text: str) -> int:
    """Its length as the platforms count: UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def truncate(text: str, limit: int) -> str:
    """Its beginning, where it is too long."""
    if utf16_length(text) <= limit:
        return text
    return text.encode("utf-16-le")[: 2 * (limit - 1)].decode("utf-16-le", "ignore") + "…"


def _size(blocks: Sequence[Block], render: Render, limit: int) -> int:
    """With its markup or without, whichever is longer. What is too long without is not rendered."""
    length = sum(len(block.text) for block in blocks)
    if length > limit:
        return length
    return max(utf16_length(render_plain(blocks)), utf16_length(render(blocks)))


def _pack_blocks(blocks: Sequence[Block], render: Render, limit: int) -> list[list[Block]]:
    """The blocks of each part. A heading is not left alone at the end of one."""
    waiting, parts = deque(blocks), []
    part: list[Block] = []
    room = limit
    while waiting:
        block = waiting.popleft()
        need = _size([block], render, limit) + GAP_CHARS
        if need <= room:
            part.append(block)
            room -= need
            continue
        is_crowded = room < limit // 4 or (need <= limit and limit - room >= limit // 3)
        first = _size([_first_chars(block, 1)], render, limit) + GAP_CHARS
        if part and (is_crowded or first > room):
            waiting.appendleft(block)
            for _ in range(min(MOST_HEADINGS, len(part) - 1)):
                if part[-1].kind == "heading":
                    waiting.appendleft(part.pop())
        else:
            head, tail = _split_block(block, render, room - GAP_CHARS)
            part.append(head)
            waiting.extendleft([tail] if tail.text else [])
        parts.append(part)
        part, room = [], limit
    return [*parts, part]


def _split_block(block: Block, render: Render, room: int) -> tuple[Block, Block]:
    """As much of the block as fits into the room, at least one character, and the rest: without the
    break at which it is cut, but with the indent of code.
    """
    most = max(min(len(block.text), room), 1)
    while most > 1 and (size := _size([_first_chars(block, most)], render, most)) > room:
        most = max(min(most - 1, most * room // size), 1)
    at = left = most if most == len(block.text) else _cut_position(block, most)
    rest = list(block.spans)
    while rest and left >= len(rest[0].text):
        left -= len(rest.pop(0).text)
    if rest:
        text = rest[0].text[left:]
        text = text.removeprefix("\n") if block.kind == "code" else text.lstrip()
        rest[:1] = [rest[0]._replace(text=text)] if text else []
    tail = replace(block, spans=tuple(rest), indent=block.hang, marker="", gap=1)
    return _first_chars(block, at), tail


def _first_chars(block: Block, count: int) -> Block:
    spans = []
    for span in block.spans:
        if count <= 0:
            break
        spans.append(span._replace(text=span.text[:count]))
        count -= len(span.text)
    return replace(block, spans=tuple(spans))


def _cut_position(block: Block, most: int) -> int:
    """Where to cut within the first `most` characters: before a short link or code, rather than in
    it.
    """
    text = _first_chars(block, most + 2).text
    at = text.rfind("\n", most // 3, most + 1)
    if at <= 0 and block.kind != "code":
        ends = [found.end() for found in SENTENCE.finditer(text, most // 3, most + 1)]
        at = max((end for end in ends if end <= most), default=0)
    if at <= 0:
        at = max(text.rfind(space, most // 4, most + 1) for space in (" ", "\t", "\u3000"))
    if at <= 0:
        from wcwidth import grapheme_boundary_before  # lazy: 20 ms, and seldom needed

        at = grapheme_boundary_before(text, most + 1)
        at = at if at > max(most - MAX_GRAPHEME, 0) else most
    start = 0
    for span in block.spans:
        end = start + len(span.text)
        if start < at < end:
            is_whole = (span.href or "code" in span.marks) and len(span.text) <= UNBREAKABLE_CHARS
            return start if is_whole and start > 0 else at
        start = end
    return at
