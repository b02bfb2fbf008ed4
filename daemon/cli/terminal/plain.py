"""Chat without a screen: one message a line, or one in all; replies on stdout, everything else on
stderr.
"""

import asyncio
import json
import os
import re
import signal
import termios
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from select import select
from typing import TextIO, TypeVar

from channels.markup.sanitize import escape_controls
from daemon.cli.terminal.attachments import (
    PipedInput,
    find_named_files,
    is_piped,
    read_piped,
    upload_files,
)
from daemon.cli.terminal.follower import NOBODY, RunFollower
from daemon.cli.terminal.items import (
    Activity,
    ApprovalQuestion,
    AssistantText,
    ScreenItem,
    StatusNote,
    SubagentLine,
    ToolLine,
    to_plain_text,
)
from daemon.cli.terminal.pasted import TypedLine
from daemon.client.view_types import RunView, UndeliveredText
from daemon.core.ids import new_id
from daemon.core.trust import Answer

FAILURES = {"failed", "quarantined"}
INTERRUPTED = 130
POLL_S = 0.5
SILENT_S, AT_WORK = 3.0, "still at work; the answer comes when it is ready\n"
JSON_KEYS = ("reply", "turn", "session", "stop_reason", "iterations", "usage", "label")
COMMAND = re.compile(r"\s*/[A-Za-z_]+(@\w+)?(\s|$)")
PIPED_COMMAND = (
    "aidaemon: {}: lines from a pipe are data, so this command was not run; if every line is your"
    " own: aidaemon chat --trust-input\n"
)
T = TypeVar("T")


@dataclass(slots=True)
class LineReader:
    """Lines of a file descriptor, read in a thread: files, pipes and terminals alike, and the exit
    waits for none. `pasted` is the last line, if it came with others at once: nobody types so fast.
    """

    descriptor: int
    pasted: tuple[str, ...] = ()
    _queue: asyncio.Queue[TypedLine | None] = field(default_factory=asyncio.Queue)

    def start(self) -> None:
        """Begin to read; the thread ends with the input, or with the process."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), daemon=True).start()

    def close(self) -> None:
        """`read_line` gives None from now on."""
        self._queue.put_nowait(None)

    async def read_line(self) -> str | None:
        """The next line without its end; None after the last."""
        line = await self._queue.get()
        if line is None:
            self._queue.put_nowait(None)
            return None
        self.pasted = line.data
        return line.text

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(RuntimeError):  # the loop has ended
            with (
                suppress(OSError),
                os.fdopen(
                    self.descriptor, encoding="utf-8", errors="replace", newline="\n", closefd=False
                ) as lines,
            ):
                more, is_typed = False, os.isatty(self.descriptor)
                for line in lines:
                    text = line.removesuffix("\n").removesuffix("\r")
                    before, more = more, is_typed and bool(select([self.descriptor], [], [], 0)[0])
                    given = TypedLine(text, (text,) if before or more else ())
                    loop.call_soon_threadsafe(self._queue.put_nowait, given)
            loop.call_soon_threadsafe(self._queue.put_nowait, None)


@dataclass(slots=True)
class PlainScreen:
    """Replies go to `out`, everything else to `err`. `prompt` is shown while a line is awaited."""

    out: TextIO
    err: TextIO
    prompt: str = ""

    async def show(self, *items: ScreenItem) -> None:
        """Notes, calls and questions; the chat prints the reply when the run has ended."""
        for item in items:
            if isinstance(item, StatusNote | ToolLine | SubagentLine | ApprovalQuestion) or (
                isinstance(item, AssistantText) and item.interim
            ):
                self.write_status(to_plain_text(item) + "\n")

    def write_status(self, text: str) -> None:
        """To stderr; below an open prompt, which is then shown again."""
        self.err.write(f"\n{text}{self.prompt}" if self.prompt else text)
        self.err.flush()

    async def read_answer(self, prompt: str, lines: LineReader) -> str | None:
        """The line that is typed at this prompt."""
        self.write_status(prompt)
        self.prompt = prompt
        try:
            return await lines.read_line()
        finally:
            self.prompt = ""

    def write_reply(self, text: str) -> None:
        """To stdout."""
        self.out.write(text + "\n")
        self.out.flush()

    def move(self, turn: str, activity: Activity | None) -> None:
        """Plain text does not move."""


@dataclass(slots=True, kw_only=True)
class PlainChat(RunFollower[PlainScreen]):
    """One session in plain lines. `can_ask`: a person is at the terminal; `leaves_questions`: what
    nobody answers here waits for somebody elsewhere. `piped`: nobody types the lines, so they are
    data.
    """

    can_ask: bool
    lines: LineReader
    files: tuple[str, ...] = ()
    piped: bool = False
    as_json: bool = False
    failed: bool = False
    interrupted: bool = False
    leaves_questions: bool = False
    _prompt: asyncio.Lock = field(default_factory=asyncio.Lock)
    _reading: asyncio.Task[None] | None = None
    _waiting: bool = True
    _piping: asyncio.Future[PipedInput] | None = None

    async def run(self, once: str | None = None) -> int:
        """One message and its reply; without it every line is one, after what an earlier visit left
        open.
        """
        if self.can_ask or once is None:
            self.lines.start()
        async with self.follow_subagents() as group:
            polling = group.create_task(self._poll())
            await (self._talk() if once is None else self._send_once(once))
            polling.cancel()
            if self._reading:
                self._reading.cancel()
        return INTERRUPTED if self.interrupted else int(self.failed)

    async def _send_once(self, text: str) -> None:
        """With what is piped in: nobody's order, unless it is said to be the owner's."""
        data: tuple[str, ...] = ()
        if is_piped(self.lines.descriptor):
            self._piping = read_piped(self.lines.descriptor)
            await asyncio.wait((self._piping,))
            if self._piping.cancelled():
                return
            found = self._piping.result()
            if found.file:
                token = await self.client.upload(found.name, found.file)
                self.files = (*self.files, token)
            elif found.text:
                text, data = f"{text}\n\n{found.text}", (found.text,) if self.piped else ()
        await self._send_and_wait(text, data)

    async def _talk(self) -> None:
        await self._catch_up()
        while not self.interrupted:
            self._waiting = False
            async with self._prompt:
                prompt = "> " if self.can_ask else ""
                line = await self.screen.read_answer(prompt, self.lines)
            self._waiting = True
            if line is None:
                return
            if self.piped and COMMAND.match(line):
                self.screen.write_status(PIPED_COMMAND.format(line.split()[0]))
                self.failed = True
            elif line.strip():
                await self._send_and_wait(line, data=(line,) if self.piped else self.lines.pasted)

    async def _poll(self) -> None:
        """Questions, and between two lines what comes by itself, as of schedules."""
        while True:
            await asyncio.sleep(POLL_S)
            await self.poll_questions()
            if not self._waiting:
                await self._show_waiting(())

    async def stop(self) -> None:
        """Ctrl-C: stop the runs, and read no more."""
        self.interrupted = True
        self.lines.close()
        if self._piping:
            self._piping.cancel()
        await self.client.stop_session(self.session)

    async def _catch_up(self) -> None:
        unfinished = await self.client.list_unfinished(self.session)
        await self._show_waiting(unfinished)
        for turn in unfinished:
            await self.screen.show(StatusNote("resuming the interrupted run …"))
            await self._wait_and_print(turn)

    async def _show_waiting(self, without: Collection[str]) -> None:
        for text in await self.client.list_undelivered(self.session):
            if text.turn not in without:
                await self._show_missed(text)

    async def _show_missed(self, text: UndeliveredText) -> None:
        if text.kind == "reply":
            view = await self.client.get_run(text.turn)
            self._print_run(view or RunView(text.turn, self.session, "ended", reply=text.body))
        else:
            await self.screen.show(StatusNote(text.body))
        await self.client.mark_delivered(text.turn, text.part)

    async def _send_and_wait(self, text: str, data: Sequence[str] = ()) -> None:
        telling = asyncio.get_running_loop().call_later(SILENT_S, self.screen.write_status, AT_WORK)
        files = () if COMMAND.match(text) else self.files
        try:
            if self.can_ask:
                files += await upload_files(self.client, find_named_files(text, data))
            result = await self.client.send(
                self.session, text, new_id(), stream=False, data=data, files=files
            )
            self.files = self.files if COMMAND.match(text) else ()
        finally:
            telling.cancel()
        turn = result.turn or result.steered
        if turn and not result.command:
            await self._wait_and_print(turn)
        else:
            self._print_run(RunView("", self.session, "ended", reply=result.reply))

    async def _wait_and_print(self, turn: str) -> None:
        await self.follow(turn)
        view = await self.client.get_run(turn)
        if view:
            self._print_run(view)

    def _print_run(self, view: RunView) -> None:
        failed = view.stop_reason in FAILURES or view.state == "quarantined"
        self.failed |= failed
        if self.as_json:
            run = asdict(view)
            shown = {key: run[key] for key in JSON_KEYS}
            text = json.dumps(shown, ensure_ascii=False)
            # a terminal acts on signs that are not to be seen: they are written as JSON knows them
            signs = (c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
            self.screen.write_reply(text if text.isprintable() else "".join(signs))
        elif not failed:
            self.screen.write_reply(escape_controls(view.reply or ""))
        if failed:
            see = f"the message could not be answered; see: aidaemon show {view.turn}"
            why = view.reply or " ".join(view.notices) or see
            self.screen.write_status(f"aidaemon: {escape_controls(why)}\n")

    async def show_question(self, question: ApprovalQuestion) -> None:
        """By the command line; else by a person, in their own time; else no. A stranger's run waits
        for a person.
        """
        if self.can_ask:
            await super(PlainChat, self).show_question(question)
        elif answered := self.auto.answer_for(question):
            await self.send_answer(question, answered)
        else:
            await self._deny(question)

    async def _deny(self, question: ApprovalQuestion) -> None:
        if not (question.outside or self.leaves_questions):
            await self.send_answer(question, (Answer.DENY, NOBODY))

    async def put_question(self) -> None:
        if self._reading:
            self._reading.cancel()
        if self.questions and self._group:
            self._reading = self._group.create_task(self._read_answer())

    async def _read_answer(self) -> None:
        async with self._prompt:
            question = self.questions[0]
            await self.show_first_question()
            prompt = question.prompt if question.confirmed else f"{question.choices}: "
            with hide_typed(self.lines.descriptor) if question.confirmed else nullcontext():
                text = await self.screen.read_answer(prompt, self.lines)
        self._reading = None
        if text is None:  # the input has ended
            await self._deny(question)
            await self.close_question(*question.key)
        elif self.lines.pasted and not question.confirmed:
            await self.put_question()  # what was pasted is no answer
        else:
            await self.answer_question(question, text)


@contextmanager
def hide_typed(descriptor: int) -> Iterator[None]:
    """What is typed at this terminal is not shown meanwhile."""
    try:
        before = termios.tcgetattr(descriptor)
    except termios.error:  # no terminal
        yield
        return
    silent = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(descriptor, termios.TCSAFLUSH, silent)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)  # half of a secret is dropped


async def run_interruptible(
    work: Coroutine[None, None, T],
    interrupt: Callable[[], Awaitable[None]],
    signals: tuple[signal.Signals, ...] = (signal.SIGINT,),
) -> T:
    """The first signal calls `interrupt`, a second one ends the process."""
    loop, pressed = asyncio.get_running_loop(), asyncio.Event()
    for number in signals:
        loop.add_signal_handler(number, pressed.set)
    running, waiting = asyncio.ensure_future(work), asyncio.ensure_future(pressed.wait())
    await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if pressed.is_set():
        for number in signals:
            loop.remove_signal_handler(number)
        await interrupt()
    return await running
