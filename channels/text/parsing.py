"""Markdown to tokens, by markdown-it, in bounded time: what would take it too long, or would vanish in it, stands as it is.

Off are: HTML, references and headings by underlining, for what models write in their place (footnotes, a rule right below a line)
would be lost or misread. Formulas (\\( \\), \\[ \\], $$ $$) are left alone.
"""

import re
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.parser_block import ParserBlock
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.table import escapedSplit, getLine, table
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

LONGEST_PARAGRAPH, MOST_BRACKETS = 16_000, 400
MOST_LINES = 12_000
MOST_COLUMNS, MOST_CELLS = 20, 10_000
DEEPEST = 24
MATHS = re.compile(r"(?<!\\)(?:[_^={}]|\\[a-z])", re.IGNORECASE)
"""What makes a formula of escaped brackets."""
ESCAPED = "\ufdd0"
"""Stands behind a < or | that was escaped, so that it is taken for nothing else; no character of any text."""
ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
FORMULAS = (("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$"))


def tokens(markdown: str) -> list[Token] | None:
    """The text's tokens; None where it is too much to be read as markdown."""
    if markdown.count("\n") > MOST_LINES:
        return None
    return _parser().parse(markdown, {})


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": DEEPEST, "html": False})
    parser.block = _Blocks()
    parser.enable(["table", "strikethrough"]).disable(["reference", "lheading", "html_block", "html_inline"])
    parser.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    parser.core.ruler.at("inline", _inline)
    parser.inline.ruler.before("escape", "formula", _formula)
    return parser


class _Blocks(ParserBlock):
    """What is nested too deep stands as text, instead of being left out."""

    def tokenize(self, state: StateBlock, startLine: int, endLine: int) -> None:
        """One level of blocks."""
        if state.level < DEEPEST - 1:
            super().tokenize(state, startLine, endLine)
            return
        state.push("paragraph_open", "p", 1).map = [startLine, endLine]
        inline = state.push("inline", "", 0)
        inline.content = state.getLines(startLine, endLine, state.blkIndent, False).strip()
        inline.map, inline.children = [startLine, endLine], []
        state.push("paragraph_close", "p", -1)
        state.line = endLine


def _inline(state: StateCore) -> None:
    for token in state.tokens:
        if token.type != "inline":
            continue
        token.children = token.children or []
        if len(token.content) > LONGEST_PARAGRAPH or token.content.count("[") > MOST_BRACKETS:
            token.children.append(Token("text", "", 0, content=ESCAPE.sub(_bare, token.content)))
        else:
            state.md.inline.parse(token.content, state.md, state.env, token.children)
            for child in token.children:
                if child.type == "text_special" and child.content in ("<", "|"):
                    child.content += ESCAPED


def _bare(escaped: re.Match[str]) -> str:
    """What was escaped, as markdown shows it, and taken for nothing else."""
    return escaped[1] + ESCAPED * (escaped[1] in "<|")


def _formula(state: StateInline, silent: bool) -> bool:
    for opening, closing in FORMULAS:
        if state.src.startswith(opening, state.pos):
            end = state.src.find(closing, state.pos + 2, state.posMax)
            if end <= state.pos + 2 or not MATHS.search(state.src, state.pos + 2, end):
                return False
            if not silent:
                state.pending += state.src[state.pos : end + 2]
            state.pos = end + 2
            return True
    return False


def _table(state: StateBlock, startLine: int, endLine: int, silent: bool) -> bool:
    """A table of bounded size; what a row holds beyond the last column goes into that."""
    columns = len(escapedSplit(getLine(state, startLine)))
    rows = (MOST_CELLS - state.env.get("cells", 0)) // columns
    if columns > MOST_COLUMNS or rows < 3:
        return False
    before = len(state.tokens)
    if not table(state, startLine, min(endLine, startLine + rows), silent):
        return False
    if not silent:
        state.env["cells"] = state.env.get("cells", 0) + columns * (state.line - startLine)
        _keep_surplus(state, state.tokens[before:])
    return True


def _keep_surplus(state: StateBlock, made: list[Token]) -> None:
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
