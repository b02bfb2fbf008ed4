"""Markdown in a terminal: whole texts, and drafts while they come."""

from functools import lru_cache
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.syntax import Syntax
from rich.theme import Theme

from channels.markup.sanitize import escape_controls

THEME = {
    "markdown.code": "bold cyan",
    "markdown.h1": "bold underline",
    "markdown.h2": "bold underline",
    "markdown.h3": "bold",
    "markdown.link": "underline",
    "markdown.link_url": "dim",
}


class LeftHeading(Heading):
    """A heading where the text is."""

    LEVEL_ALIGN: ClassVar = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class TightCodeBlock(CodeBlock):
    """A block of code without empty lines around it that are not in it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 1))


def create_parser() -> MarkdownIt:
    """Reads Markdown without HTML."""
    return MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")


class ChatMarkdown(Markdown):
    """Markdown as a chat means it: a line break breaks the line, and what looks like HTML is text
    and is not swallowed.
    """

    elements: ClassVar = Markdown.elements | {
        "heading_open": LeftHeading,
        "fence": TightCodeBlock,
        "code_block": TightCodeBlock,
    }

    def __init__(self, text: str, style: str = "none") -> None:
        super().__init__("", code_theme="ansi_dark", hyperlinks=False, style=style)
        self.parsed = create_parser().parse(escape_controls(text))
        for token in self.parsed:
            for child in token.children or ():
                child.content = escape_controls(child.content)  # what an entity stood for
                if child.type == "softbreak":
                    child.type = "hardbreak"


def create_console(width: int | None = None) -> Console:
    """A console with our colours; NO_COLOR and the terminal's own powers are respected."""
    return Console(theme=Theme(THEME), highlight=False, markup=False, emoji=False, width=width)


def render_draft(text: str, width: int) -> list[str]:
    """The lines of a text that is still coming, as the whole of it will look, with the escape
    codes of their styles. Each block is rendered once.
    """
    lines: list[str] = []
    for block in _split_blocks(escape_controls(text).rstrip()):
        lines += ["", *_render_block(block, width)]
    return lines[1:]


def _split_blocks(text: str) -> list[str]:
    """The source of each block at the top."""
    source = text.split("\n")
    blocks = (token.map for token in create_parser().parse(text) if token.level == 0 and token.map)
    return ["\n".join(source[start:end]).rstrip() for start, end in blocks]


@lru_cache(maxsize=512)
def _render_block(block: str, width: int) -> tuple[str, ...]:
    console = Console(theme=Theme(THEME), highlight=False, width=width, force_terminal=True)
    with console.capture() as captured:
        console.print(ChatMarkdown(block))
    return tuple(line.rstrip() for line in captured.get().rstrip().split("\n"))
