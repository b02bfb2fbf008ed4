"""Markdown, as language models write it, to blocks, by markdown-it and in bounded time: what would
take it too long, or would vanish in it, stands as it is.

Off are: HTML, references and headings by underlining, for what models write in their place
(footnotes, a rule right below a line) would be lost or misread. Formulas (\\( \\), \\[ \\], $$ $$)
are left alone. Narrow tables are monospaced columns, all others cards: a phone shows about 44
columns (A13).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from unicodedata import east_asian_width

from markdown_it import MarkdownIt
from markdown_it.parser_block import ParserBlock
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.table import escapedSplit, getLine, table
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Scanned
from markdown_it.token import Token

from channels.markup.blocks import BOLD, NO_MARKS, Block, Span
from channels.markup.sanitize import escape_controls

MAX_PARAGRAPH, MAX_BRACKETS = 16_000, 400
MAX_LINES = 12_000
MAX_COLUMNS, MAX_CELLS = 20, 10_000
MAX_NESTING = 24
MATH = re.compile(r"(?<!\\)(?:[_^={}]|\\[a-z])", re.IGNORECASE)
"""What makes a formula of escaped brackets."""
ESCAPED = "\ufdd0"
"""Stands behind a < or | that was escaped, so that it is taken for nothing else; no character of
any text.
"""
ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
FORMULAS = (("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$"))


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING, "html": False})
    parser.block = _Blocks()
    parser.enable(["table", "strikethrough"]).disable(
        ["reference", "lheading", "html_block", "html_inline"]
    )
    parser.block.ruler.at("table", _table_rule, {"alt": ["paragraph", "reference"]})
    parser.core.ruler.at("inline", _parse_inline)
    parser.inline.ruler.before("escape", "formula", _formula_rule)
    return parser


class _Blocks(ParserBlock):
    """What is nested too deep stands as text, instead of being left out."""

    def tokenize(self, state: StateBlock, startLine: int, endLine: int) -> None:
        """One level of blocks."""
        if state.level < MAX_NESTING - 1:
            super().tokenize(state, startLine, endLine)
            return
        state.push("paragraph_open", "p", 1).map = [startLine, endLine]
        inline = state.push("inline", "", 0)
        inline.content = state.getLines(startLine, endLine, state.blkIndent, False).strip()
        inline.map, inline.children = [startLine, endLine], []
        state.push("paragraph_close", "p", -1)
        state.line = endLine


class _InlineState(StateInline):
    def scanDelims(self, start: int, canSplitWord: bool) -> Scanned:
        """Whether marks may open or close something. In scripts without spaces those beside
        punctuation count as elsewhere between words: **「A」**は, **注意：**这是.
        """
        found = super().scanDelims(start, canSplitWord)
        end = start + found.length
        before = self.src[max(0, start - 1) : start]
        after = self.src[end : min(end + 1, self.posMax)]
        opens, closes = canSplitWord and _is_wide(before), canSplitWord and _is_wide(after)
        return found._replace(
            can_open=found.can_open or bool(opens and after.strip()),
            can_close=found.can_close or bool(closes and before.strip()),
        )


def _is_wide(sign: str) -> bool:
    return bool(sign) and east_asian_width(sign) in "WF"


def _parse_inline(state: StateCore) -> None:
    for token in state.tokens:
        if token.type != "inline":
            continue
        token.children, content = token.children or [], token.content
        if len(content) > MAX_PARAGRAPH or content.count("[") > MAX_BRACKETS:
            token.children.append(Token("text", "", 0, content=ESCAPE.sub(_unescape, content)))
            continue
        inline = _InlineState(content, state.md, state.env, token.children)
        state.md.inline.tokenize(inline)
        for rule in state.md.inline.ruler2.getRules(""):
            rule(inline)
        for child in token.children:
            if child.type == "text_special" and child.content in ("<", "|"):
                child.content += ESCAPED


def _unescape(escaped: re.Match[str]) -> str:
    return escaped[1] + ESCAPED * (escaped[1] in "<|")


def _formula_rule(state: StateInline, silent: bool) -> bool:
    for opening, closing in FORMULAS:
        if state.src.startswith(opening, state.pos):
            end = state.src.find(closing, state.pos + 2, state.posMax)
            if end <= state.pos + 2 or not MATH.search(state.src, state.pos + 2, end):
                return False
            if not silent:
                state.pending += state.src[state.pos : end + 2]
            state.pos = end + 2
            return True
    return False


def _table_rule(state: StateBlock, startLine: int, endLine: int, silent: bool) -> bool:
    """A table of bounded size; what a row holds beyond the last column goes into that."""
    columns = len(escapedSplit(getLine(state, startLine)))
    rows = (MAX_CELLS - state.env.get("cells", 0)) // columns
    if columns > MAX_COLUMNS or rows < 3:
        return False
    before = len(state.tokens)
    if not table(state, startLine, min(endLine, startLine + rows), silent):
        return False
    if not silent:
        state.env["cells"] = state.env.get("cells", 0) + columns * (state.line - startLine)
        _keep_extra_cells(state, state.tokens[before:])
    return True


def _keep_extra_cells(state: StateBlock, made: list[Token]) -> None:
    columns, cells, at = sum(token.type == "th_open" for token in made), [], 0
    for token in made:
        if token.type == "tr_open" and token.map:
            line = getLine(state, token.map[0]).strip()
            cells, at = escapedSplit(line.removeprefix("|").removesuffix("|")), 0
        elif token.type == "inline":
            at += 1
            if at == columns < len(cells):
                token.content = " | ".join(map(str.strip, cells[at - 1 :]))


MAX_WIDTH = 44
"""Columns of a phone."""
RIGHT_TO_LEFT = re.compile(
    r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
Cell = tuple[Span, ...]


def cell_width(text: str) -> int:
    """Columns in a monospaced font."""
    if text.isascii():
        return len(text)
    from wcwidth import width  # lazy: 20 ms, and seldom needed

    return width(text)


def _table_blocks(rows: list[list[Cell]], right: list[bool]) -> Iterable[Block]:
    """In monospaced columns; else as cards. The first row are the headers; `right`: the columns to
    be set right.
    """
    cells = [cell for row in rows for cell in row]
    texts = ["".join(span.text for span in cell) for cell in cells]
    has_links = any(span.href not in ("", span.text) for cell in cells for span in cell)
    if has_links or any("\n" in text or RIGHT_TO_LEFT.search(text) for text in texts):
        return _table_cards(rows)
    widths = [max(map(cell_width, texts[at :: len(right)])) for at in range(len(right))]
    if sum(widths) + 2 * (len(widths) - 1) > MAX_WIDTH:
        return _table_cards(rows)
    texts[len(right) : len(right)] = ["─" * width for width in widths]
    lines = []
    for start in range(0, len(texts), len(right)):
        line = []
        for text, width, is_right in zip(texts[start:], widths, right, strict=False):
            space = " " * (width - cell_width(text))
            line.append(space + text if is_right else text + space)
        lines.append("  ".join(line).rstrip())
    return [Block("code", (Span("\n".join(lines)),))]


def _table_cards(rows: list[list[Cell]]) -> Iterator[Block]:
    headers, *others = rows
    if not others:
        yield Block("text", tuple(span for cell in headers for span in (*_bold(cell), Span(" "))))
    for row in others:
        gap = 2
        for at, (header, cell) in enumerate(zip(headers, row, strict=True)):
            if cell:
                named = (*header, Span(": ")) if header else ()
                yield Block("text", (*named, *(cell if at else _bold(cell))), gap=gap)
                gap = 1


def _bold(spans: Cell) -> Cell:
    return tuple(Span(span.text, span.marks | BOLD, span.href) for span in spans)


MAX_LINK, MAX_SPOILERS, MAX_INDENT = 400, 200, 12
MARKS = {"strong": "bold", "em": "italic", "s": "strike"}
TASK = re.compile(r"\[([ xX])\][ \u00a0]")
AUTOLINK = re.compile(
    r"(?P<url>https?://[^\s<>\"`|\\^{}\u200b]+)|\|\|(?=\S)(?P<spoiler>[^|\n]*[^|\s])\|\||<br\s?/?>",
    re.IGNORECASE,
)
TRAILING = ".,;:!?'\"*_~)]}"
BLANK = re.compile(
    r"[\s\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202f\u205f-\u206f"
    r"\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0]*"
)
HOST = re.compile(
    r"\s*(?:[a-z][a-z0-9+.-]*://)?(?:[^/\s@]*@)?([^/\s:?#]+\.[^/\s:?#]+)", re.IGNORECASE
)


def parse_blocks(markdown: str) -> list[Block]:
    """The text's blocks, from top to bottom; at least one, and never without anything to see."""
    source, parser = escape_controls(markdown), _BlockParser()
    if source.count("\n") > MAX_LINES:
        parser.blocks.append(Block("text", (Span(source.strip("\n")),)))
    else:
        for token in _parser().parse(source, {}):
            parser.parse(token)
    blocks = [block for block in parser.blocks if block.marker or is_visible(block.text)]
    is_empty = not any(is_visible(block.text) for block in blocks)
    return [Block("text", (Span("(no text)"),))] if is_empty else blocks


def is_visible(text: str) -> bool:
    """Whether there is anything to see."""
    return BLANK.fullmatch(text) is None


@dataclass
class _List:
    indent: int
    ordered: bool
    number: int
    hang: int = 0


@dataclass
class _BlockParser:
    """Where the walk through the tokens is: in which lists and quotes; `line`: where the last block
    ended.
    """

    blocks: list[Block] = field(default_factory=list)
    lists: list[_List] = field(default_factory=list)
    quote: int = 0
    marker: str = ""
    line: int = 0
    level: int = 0
    rows: list[list[Cell]] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)

    def parse(self, token: Token) -> None:
        match token.type:
            case "inline" if self.rows:
                self.rows[-1].append(parse_spans(token.children or []))
            case "inline":
                self._paragraph(token)
            case "heading_open" | "heading_close":
                self.level = int(token.tag[1]) if token.nesting > 0 else 0
            case "fence" | "code_block":
                if self.marker:
                    self._add("text", token=token)
                self._add("code", (Span(token.content.removesuffix("\n")),), token)
            case "hr":
                self._add("text", (Span("──────────"),), token)
            case "blockquote_open" | "blockquote_close":
                self.quote += token.nesting
            case "tr_open":
                self.rows.append([])
            case "th_open":
                self.right.append(str(token.attrs.get("style", "")).endswith("right"))
            case "table_close" if self.rows:
                for at, block in enumerate(_table_blocks(self.rows, self.right)):
                    self._add(block.kind, block.spans, token, gap=block.gap if at else 0)
                self.rows, self.right = [], []
            case _:
                self._list(token)

    def _list(self, token: Token) -> None:
        match token.type:
            case "bullet_list_open" | "ordered_list_open":
                above = self.lists[-1].hang if self.lists else 0
                first = int(token.attrs.get("start", 1))
                self.lists.append(_List(min(above, MAX_INDENT), token.type[0] == "o", first))
            case "bullet_list_close" | "ordered_list_close":
                self.lists.pop()
            case "list_item_open":
                if self.marker:
                    self._add("text")
                here = self.lists[-1]
                self.marker = f"{here.number}{token.markup}" if here.ordered else "•"
                here.number += 1
                here.hang = here.indent + len(self.marker) + 1
            case "list_item_close" if self.marker:
                self._add("text", token=token)

    def _paragraph(self, token: Token) -> None:
        spans = parse_spans(token.children or [])
        if self.marker and not self.level and spans and (task := TASK.match(spans[0].text)):
            box = "☐" if task[1] == " " else "☑"
            self.marker = box if self.marker == "•" else f"{self.marker} {box}"
            first = spans[0]._replace(text=spans[0].text[task.end() :])
            spans = (first, *spans[1:]) if first.text else spans[1:]
        self._add("heading" if self.level else "text", spans, token)

    def _add(
        self, kind: str, spans: Cell = (), token: Token | None = None, *, gap: int = 0
    ) -> None:
        """Below what is there, as near to it as it was written, unless `gap` says how far."""
        start, end = token.map if token and token.map else (self.line, self.line)
        above = self.blocks[-1].kind if self.blocks else ""
        is_near = start <= self.line or "code" in (kind, above) or above == "heading"
        here = self.lists[-1] if self.lists else _List(0, False, 0)
        indent = here.indent if self.marker else here.hang
        lang = next(iter(token.info.split()), "") if token and kind == "code" else ""
        gap = gap or (1 if is_near else 2)
        block = Block(kind, spans, gap, indent, self.marker, self.quote, self.level, lang)
        self.blocks.append(block)
        self.marker, self.line = "", max(end, self.line)


def parse_spans(children: Sequence[Token]) -> Cell:
    """The spans of a paragraph."""
    spans: list[Span] = []
    marks: list[str] = []
    href: list[str] = []
    for child in children:
        kind, _, side = child.type.rpartition("_")
        style, link, text = frozenset(marks), href[-1] if href else "", child.content
        if kind in MARKS:
            marks.append(MARKS[kind]) if side == "open" else marks.remove(MARKS[kind])
        elif child.type == "link_open":
            href.append(str(child.attrs.get("href", "")))
        elif child.type == "link_close":
            _finish_link(spans, href.pop())
        elif child.type == "code_inline":
            spans.append(Span(text, style | {"code"}, link))
        elif child.type in ("softbreak", "hardbreak"):
            spans.append(Span("\n", style, link))
        elif child.type == "image":
            source = str(child.attrs.get("src", ""))
            spans.append(Span(text or source, style, link or source))
        else:
            spans += [Span(text, style, link)] if link else _autolink(text, style)
    merged = []
    for (style, link), group in groupby(spans, key=lambda span: (span.marks, span.href)):
        if text := "".join(span.text for span in group).replace(ESCAPED, ""):
            merged.append(Span(text, style, link))
    return tuple(merged)


def _autolink(text: str, marks: frozenset[str]) -> list[Span]:
    """Bare addresses as links, ||spoilers||, and the one bit of HTML that models write: <br>."""
    spans = []
    at = 0
    for found in AUTOLINK.finditer(text) if text.count("||") <= MAX_SPOILERS else ():
        spans.append(Span(text[at : found.start()], marks))
        at = found.end()
        if url := found["url"]:
            end, unopened = len(url), url.count(")") - url.count("(")
            while url[end - 1] in TRAILING and not (url[end - 1] == ")" and unopened <= 0):
                end, unopened = end - 1, unopened - (url[end - 1] == ")")
            url = url[:end]  # without the punctuation of the sentence
            spans.append(Span(url, marks, url if len(url) <= MAX_LINK else ""))
            at = found.start() + len(url)
        elif found["spoiler"]:
            spans.append(Span(found["spoiler"], marks | {"spoiler"}))
        else:
            spans.append(Span("\n", marks))
    return [*spans, Span(text[at:], marks)]


def _finish_link(spans: list[Span], href: str) -> None:
    """A link without text gets its address; so does one whose text looks like another address."""
    label = ""
    for span in reversed(spans):
        if span.href != href:
            break
        label = span.text + label
    if not label:
        spans.append(Span(href, NO_MARKS, href))
        return
    named, real = HOST.match(label), HOST.match(href)
    is_elsewhere = named and not (real and named[1].lower() == real[1].lower())
    if len(href) > MAX_LINK or (is_elsewhere and " " not in label.strip()):
        spans.append(Span(f" ({href})"))
