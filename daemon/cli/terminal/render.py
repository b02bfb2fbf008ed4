"""Finished things as rich draws them: markdown, quiet lines, the approval panel."""

from typing import ClassVar, assert_never

from markdown_it import MarkdownIt
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.padding import Padding
from rich.panel import Panel
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from channels.markup.sanitize import escape_controls
from daemon.cli.terminal.items import (
    ApprovalQuestion,
    AssistantText,
    CorrectedReply,
    DroppedDraft,
    ErrorLine,
    ScreenItem,
    StatusNote,
    SubagentLine,
    ToolLine,
    UserText,
    question_terms,
    question_title,
    to_plain_text,
)
from daemon.core import value

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


@value
class FittedLine:
    """A finished call, or an agent at work, on one line of whatever width there is."""

    line: ToolLine | SubagentLine

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        style = "green" if isinstance(self.line, SubagentLine) else "dim"
        yield Text(self.line.fit_width(options.max_width), style, no_wrap=True, overflow="ellipsis")


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
        parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")
        self.parsed = parser.parse(escape_controls(text))
        for token in self.parsed:
            for child in token.children or ():
                if child.type == "softbreak":
                    child.type = "hardbreak"


def create_console(width: int | None = None) -> Console:
    """A console with our colours; NO_COLOR and the terminal's own powers are respected."""
    return Console(theme=Theme(THEME), highlight=False, markup=False, emoji=False, width=width)


def render_item(item: ScreenItem) -> RenderableType:
    """The item, ready for a console."""
    match item:
        case UserText():
            color, bold = ("dim", "dim") if item.past else ("bold cyan", "bold")
            text = escape_controls(item.text).replace("\n", "\n  ")
            return Text("› ", color).append(text, bold)
        case AssistantText():
            return Padding(ChatMarkdown(item.text, "dim" if item.past else "none"), (0, 0, 1, 0))
        case DroppedDraft() | StatusNote():
            return Text(to_plain_text(item), "dim")
        case CorrectedReply():
            return Padding(ChatMarkdown(f"**Correction:**\n\n{item.text}"), (0, 0, 1, 0))
        case ToolLine() | SubagentLine():
            return FittedLine(item)
        case ErrorLine():
            return Text(to_plain_text(item), "red")
        case ApprovalQuestion():
            return _render_question(item)
        case _:
            assert_never(item)


def _render_question(item: ApprovalQuestion) -> Panel:
    body = Text().append(f"{item.title}\n" if item.title and not item.text else "", "bold")
    for line in item.body():
        body.append(line + "\n", "yellow" if line.startswith("! ") else "")
    body.append(item.hint, "dim")
    headline = question_title(item)
    if item.title and not item.text:  # a long headline is cut, so the panel itself has the question
        headline = f"agent {item.agent} asks" if item.agent else "a question"
    return Panel(
        body,
        title=Text(headline, "bold yellow"),
        title_align="left",
        subtitle=Text(question_terms(item), "yellow"),
        subtitle_align="left",
        box=box.ROUNDED,
        border_style="yellow",
    )
