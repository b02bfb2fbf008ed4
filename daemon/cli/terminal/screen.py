"""The terminal: finished things scroll up as rich draws them, below them what moves now and the
line being typed. No key is lost, whatever is drawn.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar, assert_never

from markdown_it import MarkdownIt
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from rich import box
from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.padding import Padding
from rich.panel import Panel
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from channels.markup.sanitize import escape_controls, shorten_line
from daemon.cli.terminal.items import (
    Activity,
    ApprovalQuestion,
    AssistantText,
    CorrectedReply,
    DroppedDraft,
    ErrorLine,
    PlanSteps,
    ScreenItem,
    StatusNote,
    SubagentLine,
    ToolLine,
    UserText,
    question_terms,
    question_title,
    to_plain_text,
)
from daemon.cli.terminal.pasted import PasteMarks, TypedLine
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
    # a long headline is cut, so the panel itself has the question
    is_short = item.title and not item.text
    body = Text().append(f"{item.title}\n" if is_short else "", "bold")
    for line in item.body():
        body.append(line + "\n", "yellow" if line.startswith("! ") else "")
    body.append(item.hint, "dim")
    headline = question_title(item)
    if is_short:
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


class RawInput(Vt100Input):
    """An input that stays raw while lines are drawn above it.

    In the usual ("cooked") state meanwhile the terminal itself would act on a Ctrl-D or Ctrl-C and
    echo letters into the text.
    """

    def cooked_mode(self) -> AbstractContextManager[None]:
        """Nothing changes: drawing needs no cooked terminal."""
        return nullcontext()


def open_input() -> Input:
    """The keys of this process's terminal; what stands in for them where it has none."""
    return RawInput(sys.stdin) if sys.stdin.isatty() else create_input()


FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PLAIN_FRAMES = "|/-\\"
FRAME_SECONDS = 0.1
SHOW_SECONDS_AFTER = 3.0
PLAN_LINES = 7
MARKS = {"done": ("class:dim", "[x]"), "doing": ("class:doing", "[>]")}

StyledLine = tuple[str, str]


@dataclass(slots=True)
class StatusArea:
    """Everything below the finished lines. `lines` is a pure picture of it."""

    activities: dict[str, Activity] = field(default_factory=dict)
    hint: str = ""
    frames: str = FRAMES

    def lines(self, width: int, height: int, now: float) -> list[StyledLine]:
        """(style, text) from top to bottom, at most `height` of them and none wider than the
        terminal.
        """
        drafts: list[StyledLine] = []
        below: list[StyledLine] = []
        for activity in self.activities.values():
            drafts += (("", line) for line in wrap_text(activity.draft, width))
            below += self._activity_lines(activity, width, now)
        if self.hint:
            below.append(("class:hint", cut_to_width(self.hint, width)))
        return [*drafts[-max(height - len(below), 1) :], *below][-height:]

    def _activity_lines(self, activity: Activity, width: int, now: float) -> list[StyledLine]:
        lines = render_plan(activity.plan, width)
        if activity.output:
            lines.append(
                ("class:dim", cut_to_width("  " + shorten_line(activity.output, width), width))
            )
        if activity.doing:
            frame = self.frames[int(now / FRAME_SECONDS) % len(self.frames)]
            seconds = now - activity.since
            waited = "" if seconds < SHOW_SECONDS_AFTER else f" · {int(seconds)} s"
            text = f"{frame} {activity.doing}{waited}"
            lines.append(("class:status", cut_to_width(text, width)))
        return lines


def render_plan(plan: PlanSteps, width: int) -> list[StyledLine]:
    """The plan as a small check list, gone once all is done; of a long one what is at hand, and how
    much there is beside.
    """
    if all(state == "done" for _, state in plan):
        return []
    at = next((place for place, (_, state) in enumerate(plan) if state != "done"), 0)
    first = max(0, min(at - 1, len(plan) - PLAN_LINES))
    lines: list[StyledLine] = [("class:dim", f"    … {first} done")] if first else []
    for text, state in plan[first : first + PLAN_LINES]:
        style, mark = MARKS.get(state, ("", "[ ]"))
        lines.append((style, cut_to_width(f"  {mark} {shorten_line(text, width)}", width)))
    rest = len(plan) - first - PLAN_LINES
    return [*lines, ("class:dim", f"    … {rest} more")] if rest > 0 else lines


def wrap_text(text: str, width: int) -> list[str]:
    """The text in lines that fit, broken between words where it can be."""
    if not text.strip():
        return []
    wrapped = Text(escape_controls(text).rstrip(), tab_size=4).wrap(Console(), width)
    return [line.plain.rstrip() for line in wrapped]


def cut_to_width(text: str, width: int) -> str:
    """The text, cut to so many cells."""
    return text if cell_len(text) <= width else chop_cells(text, max(width - 1, 1))[0] + "…"


STYLES = {
    "status": "ansicyan",
    "dim": "ansibrightblack",
    "doing": "bold",
    "hint": "ansiyellow",
    "prompt": "bold ansicyan",
    "ask": "bold ansiyellow",
}
INPUT_ROWS = 4
AGAIN = "Ctrl-C again to leave"


def open_history(path: Path) -> FileHistory:
    """What was typed before, in a file for the owner alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(0o600)
    path.chmod(0o600)
    return FileHistory(path)


def create_quiet_output() -> Output:
    """A terminal that is never asked where its cursor is: the answer would mix with what is typed
    ahead.
    """
    term = os.environ.get("TERM")
    whole = Vt100_Output.from_pty(sys.stdout, term=term)
    return Vt100_Output(sys.stdout, whole.get_size, term=term, enable_cpr=False)


@dataclass(slots=True)
class TerminalScreen:
    """The screen of an interactive chat. `inputs` gets what is typed, at any time; None for
    Ctrl-C.
    """

    history: Path
    commands: Mapping[str, str]
    monotonic: Callable[[], float]
    console: Console = field(default_factory=create_console)
    input: Input = field(default_factory=open_input)
    output: Output | None = None
    status: StatusArea = field(default_factory=StatusArea)
    inputs: asyncio.Queue[TypedLine | None] = field(default_factory=asyncio.Queue)
    question: str = ""
    pasted: PasteMarks = field(default_factory=PasteMarks)
    _saved_input: Document | None = None
    _session: PromptSession[str] | None = None

    async def run(self) -> None:
        """Until the person leaves: Ctrl-D, or Ctrl-C twice."""
        encoding = (self.console.encoding or "").lower()
        self.status.frames = FRAMES if encoding.startswith("utf") else PLAIN_FRAMES
        self._session = self._new_session()
        ticker = asyncio.create_task(self._tick())
        try:
            await self._session.prompt_async()
        except EOFError:
            return
        finally:
            ticker.cancel()
            self._session = None

    def leave(self) -> None:
        """End `run`."""
        if self._session and self._session.app.is_running and not self._session.app.is_done:
            self._session.app.exit(result="")

    async def show(self, *items: ScreenItem) -> None:
        """Put these above what moves, for good."""
        if self._session and self._session.app.is_running:
            await run_in_terminal(partial(self._draw, items))
        else:
            self._draw(items)

    def move(self, turn: str, activity: Activity | None) -> None:
        """Show what this run is doing now; None when it is over."""
        if activity is None:
            self.status.activities.pop(turn, None)
        else:
            self.status.activities[turn] = activity
        self._refresh()

    def ask(self, question: str) -> None:
        """The next line is an answer, unless the question is "": what stood in the input is put
        aside, so that nobody says yes with half a sentence.
        """
        self.question = question
        if self._session is None:
            return
        buffer = self._session.default_buffer
        if question and self._saved_input is None:
            self._saved_input = buffer.document
            buffer.reset()
        elif not question and self._saved_input is not None:
            self._saved_input, typed = None, self._saved_input
            if not buffer.text:
                buffer.reset(document=typed)
        self._refresh()

    def _draw(self, items: tuple[ScreenItem, ...]) -> None:
        for item in items:
            self.console.print(render_item(item))

    def _refresh(self) -> None:
        if self._session:
            self._session.app.invalidate()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(FRAME_SECONDS)
            if self.status.activities:
                self._refresh()

    def _new_session(self) -> PromptSession[str]:
        session: PromptSession[str] = PromptSession(
            self._message,
            input=self.input,
            output=self.output or create_quiet_output(),
            history=open_history(self.history),
            completer=WordCompleter([*self.commands], meta_dict=self.commands, sentence=True),
            complete_while_typing=Condition(lambda: session.default_buffer.text.startswith("/")),
            key_bindings=self._keys(),
            multiline=True,
            prompt_continuation="  ",
            style=Style.from_dict(STYLES),
            erase_when_done=True,
        )
        session.app.min_redraw_interval = FRAME_SECONDS / 3
        session.default_buffer.on_text_changed += self._disarm
        session.default_buffer.on_text_changed += lambda buffer: self.pasted.follow(buffer.text)
        return session

    def _message(self) -> StyleAndTextTuples:
        height, width = get_app().output.get_size()
        lines = self.status.lines(width, max(height - INPUT_ROWS, 1), self.monotonic())
        above: StyleAndTextTuples = [(style, text + "\n") for style, text in lines]
        return [*above, ("class:ask", self.question) if self.question else ("class:prompt", "› ")]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        typing = has_focus(DEFAULT_BUFFER)
        keys.add("enter", filter=typing)(self._enter)
        keys.add("escape", "enter", filter=typing)(lambda event: event.current_buffer.newline())
        keys.add(Keys.BracketedPaste, filter=typing)(self._paste)
        keys.add("c-c")(self._interrupt)
        keys.add("<sigint>")(self._interrupt)
        return keys

    def _enter(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        text = buffer.text
        line = self.pasted.take(text)
        if text.strip() and not self.question:
            buffer.append_to_history()
        buffer.reset()
        self._disarm(buffer)
        if text.strip():
            self.inputs.put_nowait(line)

    def _paste(self, event: KeyPressEvent) -> None:
        pasted = event.data.replace("\r\n", "\n").replace("\r", "\n")
        event.current_buffer.insert_text(pasted)
        self.pasted.mark(pasted, event.current_buffer.cursor_position)

    def _interrupt(self, event: KeyPressEvent) -> None:
        if self.status.hint:
            self.leave()
            return
        event.app.current_buffer.reset()
        self.status.hint = AGAIN
        self.inputs.put_nowait(None)

    def _disarm(self, _: Buffer) -> None:
        self.status.hint = ""
