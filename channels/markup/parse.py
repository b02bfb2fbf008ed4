"""Markdown to tokens, by markdown-it, in bounded time: what would take it too long, or would vanish
in it, stands as it is.

Off are: HTML, references and headings by underlining, for what models write in their place
(footnotes, a rule right below a line) would be lost or misread. Formulas (\\( \\), \\[ \\], $$ $$)
are left alone.

Tables for a chat: narrow ones as monospaced columns, all others as cards, for a phone shows about
44 columns (A13).

From markdown, as language models write it, to blocks.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.parser_block import ParserBlock
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.table import escapedSplit, getLine, table
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from channels.markup.blocks import NO_TEXT, RULE, Block, Span, merge_spans
from channels.markup.graphemes import width
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


def parse_tokens(markdown: str) -> list[Token] | None:
    """The text's tokens; None where it is too much to be read as markdown."""
    if markdown.count("\n") > MAX_LINES:
        return None
    return _parser().parse(markdown, {})


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


def _parse_inline(state: StateCore) -> None:
    for token in state.tokens:
        if token.type != "inline":
            continue
        token.children = token.children or []
        if len(token.content) > MAX_PARAGRAPH or token.content.count("[") > MAX_BRACKETS:
            token.children.append(
                Token("text", "", 0, content=ESCAPE.sub(_unescape, token.content))
            )
        else:
            state.md.inline.parse(token.content, state.md, state.env, token.children)
            for child in token.children:
                if child.type == "text_special" and child.content in ("<", "|"):
                    child.content += ESCAPED


def _unescape(escaped: re.Match[str]) -> str:
    """What was escaped, as markdown shows it, and taken for nothing else."""
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
    columns = sum(token.type == "th_open" for token in made)
    cells: list[str] = []
    at = 0
    for token in made:
        if token.type == "tr_open" and token.map:
            line = getLine(state, token.map[0]).strip()
            cells, at = escapedSplit(line.removeprefix("|").removesuffix("|")), 0
        elif token.type == "inline":
            at += 1
            if at == columns < len(cells):
                token.content = " | ".join(cell.strip() for cell in cells[at - 1 :])


MAX_WIDTH = 44
RIGHT_TO_LEFT = re.compile(
    r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
Cell = tuple[Span, ...]


class Table:
    """A table as it is read, row by row; the first row are its headers."""

    def __init__(self) -> None:
        self._rows: list[list[Cell]] = []
        self._right: list[bool] = []

    def column(self, right: bool) -> None:
        """The next column, and whether it stands to the right."""
        self._right.append(right)

    def row(self) -> None:
        """A new row begins."""
        self._rows.append([])

    def cell(self, spans: Cell) -> None:
        """The next cell of the row."""
        self._rows[-1].append(spans)

    def blocks(self) -> list[Block]:
        """What is shown of it."""
        texts = [["".join(span.text for span in cell) for cell in row] for row in self._rows]
        if self._needs_cards(texts):
            return list(_table_cards(self._rows))
        widths = [max(width(row[at]) for row in texts) for at in range(len(texts[0]))]
        if sum(widths) + 2 * (len(widths) - 1) > MAX_WIDTH:
            return list(_table_cards(self._rows))
        rule = ["─" * columns for columns in widths]
        return [
            Block(
                "code",
                (
                    Span(
                        "\n".join(
                            _table_line(row, widths, self._right)
                            for row in (texts[0], rule, *texts[1:])
                        )
                    ),
                ),
            )
        ]

    def _needs_cards(self, texts: list[list[str]]) -> bool:
        """Lines in a cell, letters that run from right to left and links find no place in columns."""
        if any("\n" in text or RIGHT_TO_LEFT.search(text) for row in texts for text in row):
            return True
        return any(
            span.href not in ("", span.text) for row in self._rows for cell in row for span in cell
        )


def _table_line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells: list[str] = []
    for text, columns, flush in zip(row, widths, right, strict=True):
        space = " " * (columns - width(text))
        cells.append(space + text if flush else text + space)
    return "  ".join(cells).rstrip()


def _table_cards(rows: list[list[Cell]]) -> Iterator[Block]:
    headers, *others = rows
    if not others:
        yield Block(
            "text", tuple(span for header in headers for span in (*_bold_cell(header), Span(" ")))
        )
    for row in others:
        gap = 2
        for at, (header, cell) in enumerate(zip(headers, row, strict=True)):
            if cell:
                named = (*header, Span(": ")) if header else ()
                yield Block("text", (*named, *(cell if at else _bold_cell(cell))), gap=gap)
                gap = 1


def _bold_cell(cell: Cell) -> Cell:
    return tuple(Span(span.text, span.marks | {"bold"}, span.href) for span in cell)


MAX_LINK = 400
MAX_SPOILERS = 200
MAX_INDENT = 12
MARKS = {"strong": "bold", "em": "italic", "s": "strike"}
TASK = re.compile(r"\[([ xX])\][ \u00a0]")
AUTOLINK = re.compile(
    r"(?P<url>https?://[^\s<>\"`|\\^{}\u200b]+)|\|\|(?=\S)(?P<spoiler>[^|\n]*[^|\s])\|\||(?P<br><br\s?/?>)",
    re.IGNORECASE,
)
TRAILING = ".,;:!?'\"*_~)]}"
BLANK = re.compile(
    r"[\s\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0]*"
)
HOST = re.compile(
    r"\s*(?:[a-z][a-z0-9+.-]*://)?(?:[^/\s@]*@)?([^/\s:?#]+\.[^/\s:?#]+)", re.IGNORECASE
)


def parse_blocks(markdown: str) -> list[Block]:
    """The text's blocks, from top to bottom; at least one, and never without anything to see."""
    source = escape_controls(markdown)
    parsed = parse_tokens(source)
    found = (
        [Block("text", (Span(source.strip("\n")),))]
        if parsed is None
        else _BlockParser().read(parsed)
    )
    shown = [block for block in found if block.marker or is_visible(block.text)]
    return (
        shown
        if any(is_visible(block.text) for block in shown)
        else [Block("text", (Span(NO_TEXT),))]
    )


def is_visible(text: str) -> bool:
    """Whether there is anything to see."""
    return BLANK.fullmatch(text) is None


@dataclass(slots=True)
class _List:
    indent: int
    ordered: bool
    number: int
    hang: int = 0


@dataclass(slots=True)
class _BlockParser:
    """Where the walk through the tokens is: in which lists and quotes, and on which line the last
    block ended.
    """

    found: list[Block] = field(default_factory=list)
    lists: list[_List] = field(default_factory=list)
    quote: int = 0
    marker: str = ""
    ended: int = 0
    heading: int = 0
    table: Table | None = None

    def read(self, parsed: Sequence[Token]) -> list[Block]:
        for token in parsed:
            self._take(token)
        return self.found

    def _take(self, token: Token) -> None:
        match token.type:
            case "inline" if self.table:
                self.table.cell(parse_spans(token.children or []))
            case "th_open" if self.table:
                self.table.column(str(token.attrs.get("style", "")).endswith("right"))
            case "inline":
                self._paragraph(token)
            case "heading_open":
                self.heading = int(token.tag[1])
            case "heading_close":
                self.heading = 0
            case "fence" | "code_block":
                self._code(token)
            case "hr":
                self._add(Block("text", (Span(RULE),)), token)
            case "blockquote_open":
                self.quote += 1
            case "blockquote_close":
                self.quote -= 1
            case _:
                self._list_or_table(token)

    def _list_or_table(self, token: Token) -> None:
        match token.type:
            case "bullet_list_open" | "ordered_list_open":
                above = self.lists[-1].hang if self.lists else 0
                self.lists.append(
                    _List(
                        min(above, MAX_INDENT),
                        token.type[0] == "o",
                        int(token.attrs.get("start", 1)),
                    )
                )
            case "bullet_list_close" | "ordered_list_close":
                self.lists.pop()
            case "list_item_open":
                self._item(token.markup)
            case "list_item_close" if self.marker:
                self._add(Block("text", ()), token)
            case "table_open":
                self.table = Table()
            case "tr_open" if self.table:
                self.table.row()
            case "table_close" if self.table:
                table, self.table = self.table, None
                for at, block in enumerate(table.blocks()):
                    self._add(block, token, inner=at > 0)

    def _item(self, sign: str) -> None:
        if self.marker:
            self._add(Block("text", ()), None)
        here = self.lists[-1]
        self.marker = f"{here.number}{sign}" if here.ordered else "•"
        here.number += 1
        here.hang = here.indent + len(self.marker) + 1

    def _paragraph(self, token: Token) -> None:
        told = parse_spans(token.children or [])
        if self.heading:
            self._add(Block("heading", told, level=self.heading), token)
            return
        if self.marker and told and (task := TASK.match(told[0].text)):
            box = "☐" if task[1] == " " else "☑"
            self.marker = box if self.marker == "•" else f"{self.marker} {box}"
            told = merge_spans(
                (Span(told[0].text[task.end() :], told[0].marks, told[0].href), *told[1:])
            )
        self._add(Block("text", told), token)

    def _code(self, token: Token) -> None:
        if self.marker:
            self._add(Block("text", ()), token)
        lang = token.info.split()[0] if token.info.strip() else ""
        self._add(Block("code", (Span(token.content.removesuffix("\n")),), lang=lang), token)

    def _add(self, block: Block, token: Token | None, inner: bool = False) -> None:
        """Below what stands there already, as near to it as it was written; what is `inner` knows
        that itself.
        """
        start, end = token.map if token and token.map else (self.ended, self.ended)
        above = self.found[-1].kind if self.found else ""
        near = start <= self.ended or "code" in (block.kind, above) or above == "heading"
        hang = self.lists[-1].hang if self.lists else 0
        self.found.append(
            replace(
                block,
                gap=1 if near and not inner else block.gap,
                indent=self.lists[-1].indent if self.marker else hang,
                marker=self.marker,
                quote=self.quote,
            )
        )
        self.marker, self.ended = "", max(end, self.ended)


def parse_spans(children: Sequence[Token]) -> tuple[Span, ...]:
    """The spans of a paragraph."""
    told: list[Span] = []
    marks: list[str] = []
    href: list[str] = []
    for child in children:
        kind, _, side = child.type.rpartition("_")
        if kind in MARKS:
            marks.append(MARKS[kind]) if side == "open" else marks.remove(MARKS[kind])
        elif child.type == "link_open":
            href.append(str(child.attrs.get("href", "")))
        elif child.type == "link_close":
            _finish_link(told, href.pop())
        else:
            told += _token_spans(child, frozenset(marks), href[-1] if href else "")
    return merge_spans(told)


def _token_spans(child: Token, marks: frozenset[str], href: str) -> list[Span]:
    match child.type:
        case "code_inline":
            return [Span(child.content, marks | {"code"}, href)]
        case "softbreak" | "hardbreak":
            return [Span("\n", marks, href)]
        case "image":
            source = str(child.attrs.get("src", ""))
            return [Span(child.content.replace(ESCAPED, "") or source, marks, href or source)]
        case _:
            return (
                [Span(child.content.replace(ESCAPED, ""), marks, href)]
                if href
                else _autolink(child.content, marks)
            )


def _autolink(text: str, marks: frozenset[str]) -> list[Span]:
    """Bare addresses as links, ||spoilers||, and the one bit of HTML that models write everywhere:
    <br>.
    """
    if text.count("||") > MAX_SPOILERS:
        return [Span(text.replace(ESCAPED, ""), marks)]
    told: list[Span] = []
    at = 0
    for found in AUTOLINK.finditer(text):
        told.append(Span(text[at : found.start()].replace(ESCAPED, ""), marks))
        at = found.end()
        if found["url"]:
            url = _trim_url(found["url"])
            told.append(Span(url, marks, url if len(url) <= MAX_LINK else ""))
            at = found.start() + len(url)
        elif found["spoiler"]:
            told.append(Span(found["spoiler"].replace(ESCAPED, ""), marks | {"spoiler"}))
        else:
            told.append(Span("\n", marks))
    return [*told, Span(text[at:].replace(ESCAPED, ""), marks)]


def _trim_url(url: str) -> str:
    """Without the punctuation of the sentence; a bracket that was opened in the address stays."""
    while url[-1] in TRAILING and not (url[-1] == ")" and url.count("(") >= url.count(")")):
        url = url[:-1]
    return url


def _finish_link(told: list[Span], href: str) -> None:
    """A link without text gets its address; where it leads elsewhere than it says, that is said,
    too.
    """
    label = ""
    for span in reversed(told):
        if span.href != href:
            break
        label = span.text + label
    if not label:
        told.append(Span(href, frozenset(), href))
    elif len(href) > MAX_LINK or links_elsewhere(label, href):
        told.append(Span(f" ({href})"))


def links_elsewhere(label: str, href: str) -> bool:
    """Whether the label looks like an address on another host than the link's."""
    said, real = HOST.match(label), HOST.match(href)
    if not said or " " in label.strip():
        return False
    return not real or said[1].lower() != real[1].lower()
