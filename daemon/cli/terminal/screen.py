"""The terminal: finished things scroll up as rich draws them, below them what moves now and the
line being typed. No key is lost, whatever is drawn.
"""

import asyncio
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import assert_never

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import (
    CompleteEvent,
    Completer,
    Completion,
    WordCompleter,
    merge_completers,
)
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.panel import Panel
from rich.text import Text

from channels.markup.sanitize import escape_controls
from daemon.cli.terminal.items import (
    Activity,
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
from daemon.cli.terminal.markdown import ChatMarkdown, create_console
from daemon.cli.terminal.pasted import PasteMarks, TypedLine
from daemon.cli.terminal.status_area import (
    ANSI_LINE,
    FRAME_SECONDS,
    FRAMES,
    PLAIN_FRAMES,
    StatusArea,
    cut_to_width,
)
from daemon.core import value

MARKED = re.compile(r"(?:^|\s)@([^@\n]*)$")
MAX_NAMES = 200


@dataclass(frozen=True)
class FileCompleter(Completer):
    """Names under `root`, folder by folder; hidden ones once their dot is typed."""

    root: Path

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """The names that begin as what stands behind the last @."""
        marked = MARKED.search(document.text_before_cursor)
        folder, _, begin = marked[1].rpartition("/") if marked else ("", "", "")
        if marked is None:
            return
        for name in list_names(self.root, folder):
            if name.startswith(begin) and (begin or not name.startswith(".")):
                yield Completion(name, -len(begin), display=name)


def list_names(root: Path, folder: str) -> list[str]:
    """What is in this folder under `root`, folders with a slash; nothing of a folder elsewhere. A
    name that cannot be shown as it is is left out.
    """
    place = (root / folder).resolve()
    if not place.is_relative_to(root):
        return []
    try:
        with os.scandir(place) as entries:
            found = [one.name + ("/" if one.is_dir() else "") for one in entries]
    except OSError:
        return []
    return sorted(name for name in found if name.isprintable())[:MAX_NAMES]


DIFF_STYLES = {"+": "green", "-": "red"}


@value
class FittedLine:
    """A finished call, or an agent at work, on one line of whatever width there is; below a call
    what it changed or printed, the end of it or, `unfolded`, all.
    """

    line: ToolLine | SubagentLine
    unfolded: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        style, width = "dim", options.max_width
        if isinstance(self.line, SubagentLine):
            style = "green"
        yield Text(self.line.fit_width(width), style, no_wrap=True, overflow="ellipsis")
        if isinstance(self.line, ToolLine):
            for line in self.line.details if self.unfolded else self.line.fold():
                style = DIFF_STYLES.get(line[:1], "dim") if self.line.is_diff else "dim"
                fitted = line if self.unfolded else cut_to_width(line, max(width - 4, 1))
                yield Text(f"    {fitted}", style)


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
    """An input that stays raw while lines are drawn above it: in the usual ("cooked") state the
    terminal itself would act on Ctrl-D and Ctrl-C and echo letters into the text.
    """

    def cooked_mode(self) -> AbstractContextManager[None]:
        """Nothing changes: drawing needs no cooked terminal."""
        return nullcontext()


def open_input() -> Input:
    """The keys of this process's terminal; what stands in for them where it has none."""
    return RawInput(sys.stdin) if sys.stdin.isatty() else create_input()


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
    workspace: Path = Path()
    console: Console = field(default_factory=create_console)
    input: Input = field(default_factory=open_input)
    output: Output | None = None
    status: StatusArea = field(default_factory=StatusArea)
    inputs: asyncio.Queue[TypedLine | None] = field(default_factory=asyncio.Queue)
    question: str = ""
    is_hidden: bool = False
    pasted: PasteMarks = field(default_factory=PasteMarks)
    _saved_input: Document | None = None
    _folded: ToolLine | None = None
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

    def ask(self, question: str, *, hidden: bool = False) -> None:
        """The next line is an answer, unless the question is "": what stood in the input is put
        aside, so that nobody says yes with half a sentence. A `hidden` one is not shown.
        """
        was_hidden, self.is_hidden = self.is_hidden, hidden
        self.question = question
        if self._session is None:
            return
        buffer = self._session.default_buffer
        if was_hidden:  # half of a secret is nobody's message
            buffer.reset()
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
            if isinstance(item, ToolLine) and item.is_folded:
                self._folded = item

    async def unfold(self) -> None:
        """Show all that the last call changed or printed of which only a part was shown."""
        if self._folded:
            folded, self._folded = self._folded, None
            await run_in_terminal(lambda: self.console.print(FittedLine(folded, unfolded=True)))

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
            completer=merge_completers(
                [
                    WordCompleter([*self.commands], meta_dict=self.commands, sentence=True),
                    FileCompleter(self.workspace),
                ]
            ),
            complete_while_typing=Condition(lambda: session.default_buffer.text.startswith("/")),
            key_bindings=self._keys(),
            multiline=True,
            is_password=Condition(lambda: self.is_hidden),
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
        above: StyleAndTextTuples = []
        for style, text in lines:
            if style == ANSI_LINE:
                above += to_formatted_text(ANSI(text + "\n"))
            else:
                above.append((style, text + "\n"))
        return [*above, ("class:ask", self.question) if self.question else ("class:prompt", "› ")]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        typing = has_focus(DEFAULT_BUFFER)
        keys.add("enter", filter=typing)(self._enter)
        keys.add("escape", "enter", filter=typing)(lambda event: event.current_buffer.newline())
        keys.add(Keys.BracketedPaste, filter=typing)(self._paste)
        keys.add("c-o")(lambda event: event.app.create_background_task(self.unfold()))
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
            self.inputs.put_nowait(line._replace(hidden=self.is_hidden))

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
