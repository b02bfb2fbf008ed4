"""The terminal: lines that stay scroll up, below them what moves now and the line being typed."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from rich.console import Console

from channels.terminal_input import patient_input
from channels.terminal_items import Activity, Item
from channels.terminal_render import drawn, new_console
from channels.terminal_status import FRAME_SECONDS, FRAMES, PLAIN_FRAMES, Status

STYLES = {
    "status": "ansicyan",
    "dim": "ansibrightblack",
    "doing": "bold",
    "hint": "ansiyellow",
    "prompt": "bold ansicyan",
    "ask": "bold ansiyellow",
}
ROOM_FOR_INPUT = 4
AGAIN = "Ctrl-C again to leave"


@dataclass(frozen=True, slots=True)
class CommandCompleter(Completer):
    """Completes /commands, at the start of the text only."""

    commands: Mapping[str, str]

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """The commands that begin with what stands before the cursor."""
        typed = document.text_before_cursor
        if typed.startswith("/") and not any(char.isspace() for char in typed):
            for name, what in self.commands.items():
                if name.startswith(typed):
                    yield Completion(name, start_position=-len(typed), display_meta=what)


def private_history(path: Path) -> FileHistory:
    """What was typed before, in a file for the owner alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    path.chmod(0o600)
    return FileHistory(path)


def quiet_output(stream: TextIO) -> Output:
    """A terminal that is never asked where its cursor is: the answer would mix with what is typed ahead."""
    term = os.environ.get("TERM")
    whole = Vt100_Output.from_pty(stream, term=term)
    return Vt100_Output(stream, whole.get_size, term=term, enable_cpr=False)


@dataclass(slots=True)
class Terminal:
    """The screen of an interactive conversation. It may be typed into at any time; what is typed goes to `on_line`."""

    history: Path
    commands: Mapping[str, str]
    monotonic: Callable[[], float]
    on_line: Callable[[str], None]
    on_interrupt: Callable[[], None]
    console: Console = field(default_factory=new_console)
    input: Input = field(default_factory=patient_input)
    output: Output | None = None
    status: Status = field(default_factory=Status)
    asking: bool = False
    asks_for: str = "allow? "
    _armed: bool = False
    _aside: Document | None = None
    _session: PromptSession[str] | None = None
    _moving: asyncio.Event = field(default_factory=asyncio.Event)

    def listening(self) -> AbstractContextManager[None]:
        """From here on no key is lost: the prompt, once it stands, reads what was typed before."""
        return self.input.raw_mode()

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

    @property
    def typed(self) -> str:
        """What stands in the input."""
        return self._session.default_buffer.text if self._session else ""

    def leave(self) -> None:
        """End `run`."""
        if self._session and self._session.app.is_running and not self._session.app.is_done:
            self._session.app.exit(result="")

    async def show(self, *items: Item) -> None:
        """Put these above what moves, for good."""
        if self._session and self._session.app.is_running:
            await run_in_terminal(lambda: self._draw(items))
        else:
            self._draw(items)

    def move(self, turn: str, activity: Activity | None) -> None:
        """Show what this run is doing now; None when it is over."""
        if activity is None:
            self.status.activities.pop(turn, None)
        else:
            self.status.activities[turn] = activity
        self._refresh()

    def ask(self, asking: bool, what: str = "allow? ") -> None:
        """The next line is an answer: what stood in the input is put aside, so that nobody says yes with half a sentence."""
        self.asking, self.asks_for = asking, what
        if self._session is None:
            return
        buffer = self._session.default_buffer
        if asking and self._aside is None:
            self._aside = buffer.document
            buffer.reset()
        elif not asking and self._aside is not None:
            self._aside, typed = None, self._aside
            if not buffer.text:
                buffer.reset(document=typed)
        self._refresh()

    def _draw(self, items: tuple[Item, ...]) -> None:
        for item in items:
            self.console.print(drawn(item))

    def _refresh(self) -> None:
        if self.status.busy:
            self._moving.set()
        else:
            self._moving.clear()
        if self._session:
            self._session.app.invalidate()

    async def _tick(self) -> None:
        while True:
            await self._moving.wait()
            await asyncio.sleep(FRAME_SECONDS)
            self._refresh()

    def _new_session(self) -> PromptSession[str]:
        session: PromptSession[str] = PromptSession(
            self._message,
            input=self.input,
            output=self.output or quiet_output(sys.stdout),
            history=private_history(self.history),
            completer=CommandCompleter(self.commands),
            complete_while_typing=Condition(lambda: session.default_buffer.text.startswith("/")),
            key_bindings=self._keys(),
            multiline=True,
            prompt_continuation="  ",
            style=Style.from_dict(STYLES),
            erase_when_done=True,
        )
        session.app.min_redraw_interval = FRAME_SECONDS / 3
        session.default_buffer.on_text_changed += self._disarm
        return session

    def _message(self) -> StyleAndTextTuples:
        size = self._session.output.get_size() if self._session else None
        width, height = (size.columns, size.rows) if size else (80, 24)
        lines = self.status.lines(width, max(height - ROOM_FOR_INPUT, 1), self.monotonic())
        above: StyleAndTextTuples = [(style, text + "\n") for style, text in lines]
        return [*above, ("class:ask", self.asks_for) if self.asking else ("class:prompt", "› ")]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        typing = has_focus(DEFAULT_BUFFER)
        keys.add("enter", filter=typing)(self._enter)
        keys.add("escape", "enter", filter=typing)(lambda event: event.current_buffer.newline())
        keys.add("c-c")(self._interrupt)
        keys.add("<sigint>")(self._interrupt)
        return keys

    def _enter(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        text = buffer.text
        if text.strip() and not self.asking:
            buffer.append_to_history()
        buffer.reset()
        self._disarm(buffer)
        if text.strip():
            self.on_line(text)

    def _interrupt(self, event: KeyPressEvent) -> None:
        if self._armed:
            self.leave()
            return
        event.app.current_buffer.reset()
        self._armed, self.status.hint = True, AGAIN
        self.on_interrupt()

    def _disarm(self, _: Buffer) -> None:
        self._armed, self.status.hint = False, ""
