"""Lines from standard input, for when there is no screen to draw on.

chat without a screen: one message a line, or one message in all; replies on stdout, everything else on stderr.
"""

import asyncio
import codecs
import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TextIO

from channels.markup.sanitize import escape_controls
from daemon.cli.terminal.approvals import (
    NOBODY,
    TERMINAL_OWNER,
    AutoAnswer,
    QuestionNumbers,
    asks_for_view,
    parse_answer,
)
from daemon.cli.terminal.follower import RunFollower
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
from daemon.client.protocol import DaemonClient, RunView, UndeliveredText
from daemon.core.clock import Clock
from daemon.core.events import Answer

CHUNK_BYTES = 65536


@dataclass(slots=True)
class LineReader:
    """Reads a file descriptor in a thread of its own: files, pipes and terminals alike, and nothing is held at exit."""

    descriptor: int
    _queue: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)

    def start(self) -> None:
        """Begin to read; the thread ends with the input, or with the process."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), daemon=True).start()

    def close(self) -> None:
        """No more lines are wanted."""
        self._queue.put_nowait(None)

    async def read_line(self) -> str | None:
        """The next line without its end; None after the last."""
        line = await self._queue.get()
        if line is None:
            self._queue.put_nowait(None)
        return line

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self.read_line()) is not None:
            yield line

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        rest, data = "", b"-"
        while data:
            data = self._read_chunk()
            *lines, rest = (rest + decoder.decode(data, final=not data)).split("\n")
            if not data and rest:
                lines.append(rest)
            if not self._publish_lines(loop, [*lines, *([] if data else [None])]):
                return

    def _read_chunk(self) -> bytes:
        try:
            return os.read(self.descriptor, CHUNK_BYTES)
        except OSError:
            return b""

    def _publish_lines(self, loop: asyncio.AbstractEventLoop, lines: list[str | None]) -> bool:
        try:
            for line in lines:
                loop.call_soon_threadsafe(
                    self._queue.put_nowait, line.removesuffix("\r") if line else line
                )
        except RuntimeError:
            return False  # the loop has ended: nobody listens any more
        return True


FAILURES = {"failed", "quarantined"}
INTERRUPTED = 130
POLL_S = 0.5


@dataclass(slots=True)
class PlainScreen:
    """Where lines go: replies to `out`, what happens on the way to `err`. `prompt` is what waits for a line to be typed."""

    out: TextIO
    err: TextIO
    prompt: str = ""

    async def show(self, *items: ScreenItem) -> None:
        """What happens on the way. The reply is printed by who asked for it, when the run has ended."""
        for item in items:
            if isinstance(item, StatusNote | ToolLine | SubagentLine | ApprovalQuestion) or (
                isinstance(item, AssistantText) and item.interim
            ):
                self.write_status(to_plain_text(item) + "\n")

    def write_status(self, text: str) -> None:
        """To stderr, now; below the line of an open prompt, which is then shown again."""
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
        """To stdout, now."""
        self.out.write(text + "\n")
        self.out.flush()

    def move(self, turn: str, activity: Activity | None) -> None:
        """Nothing moves on paper."""


@dataclass(slots=True)
class PlainChat:
    """One session, told in plain lines. `ask` says that a person sits there who can be asked."""

    client: DaemonClient
    session: str
    clock: Clock
    new_id: Callable[[], str]
    fixed_answer: Answer | None
    ask: bool
    screen: PlainScreen
    lines: LineReader
    as_json: bool = False
    failed: bool = False
    interrupted: bool = False
    follower: RunFollower = field(init=False)
    _places: QuestionNumbers = field(default_factory=QuestionNumbers)
    _always: AutoAnswer = field(init=False)
    _prompt: asyncio.Lock = field(default_factory=asyncio.Lock)
    _asking: dict[tuple[str, str], asyncio.Task[None]] = field(default_factory=dict)
    _group: asyncio.TaskGroup | None = None

    def __post_init__(self) -> None:
        """The follower tells on these pages."""
        self.follower = RunFollower(self.client, self.session, self.screen, self, self.clock)
        self._always = AutoAnswer(self.fixed_answer)

    async def run(self) -> int:
        """Every line a message, until there are no more; first what an earlier visit left open."""
        self.lines.start()
        async with self._polling_questions():
            await self._catch_up()
            while not self.interrupted:
                line = await self._read_line("> " if self.ask else "")
                if line is None:
                    break
                if line.strip():
                    await self._send_and_wait(line)
        return self._exit_code()

    async def run_once(self, text: str) -> int:
        """One message and its reply."""
        if self.ask:
            self.lines.start()
        async with self._polling_questions():
            await self._send_and_wait(text)
        return self._exit_code()

    @asynccontextmanager
    async def _polling_questions(self) -> AsyncIterator[None]:
        """What is asked meanwhile, by agents and loops at work for this session too, is answered."""
        async with asyncio.TaskGroup() as self._group, self.follower.follow_subagents():
            looking = self._group.create_task(self._poll())
            yield
            for task in (looking, *self._asking.values()):
                task.cancel()

    async def _read_line(self, prompt: str) -> str | None:
        """The next line; who asks for it second waits."""
        async with self._prompt:
            return await self.screen.read_answer(prompt, self.lines)

    def _exit_code(self) -> int:
        return INTERRUPTED if self.interrupted else int(self.failed)

    async def stop(self) -> None:
        """Ctrl-C: what runs is stopped, and nothing more is read."""
        self.interrupted = True
        self.lines.close()
        await self.client.stop_session(self.session)

    async def _catch_up(self) -> None:
        unfinished = await self.client.list_unfinished(self.session)
        for said in await self.client.list_undelivered(self.session):
            if said.turn not in unfinished:
                await self._show_missed(said)
        for turn in unfinished:
            await self.screen.show(StatusNote("picking up where it was cut off …"))
            await self._wait_and_print(turn)

    async def _show_missed(self, said: UndeliveredText) -> None:
        if said.kind == "reply":
            view = await self.client.get_run(said.turn)
            self._print_run(view or RunView(said.turn, self.session, "ended", reply=said.body))
        else:
            await self.screen.show(StatusNote(said.body))
        await self.client.mark_delivered(said.turn, said.part)

    async def _send_and_wait(self, text: str) -> None:
        accepted = await self.client.send(self.session, text, self.new_id(), stream=False)
        turn = accepted.turn or accepted.steered
        if turn and not accepted.command:
            await self._wait_and_print(turn)
        else:
            self._print_run(RunView("", self.session, "ended", reply=accepted.reply))

    async def _wait_and_print(self, turn: str) -> None:
        await self.follower.follow(turn)
        view = await self.client.get_run(turn)
        if view:
            self._print_run(view)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            await self.follower.poll_questions()

    def _print_run(self, view: RunView) -> None:
        failed = view.stop_reason in FAILURES or view.state == "quarantined"
        self.failed |= failed
        if self.as_json:
            self.screen.write_reply(reply_json(view))
        elif not failed:
            self.screen.write_reply(escape_controls(view.reply or ""))
        if failed:
            self.screen.write_status(f"aidaemon: {escape_controls(failure_text(view))}\n")

    async def show_question(self, question: ApprovalQuestion) -> None:
        """As the command line said; else a person at the terminal, in their own time; else no. A stranger's waits for one."""
        if question.outside and not self.ask and not self._always.answer_for(question):
            return
        answered = self._always.answer_for(question) or (
            None if self.ask else (Answer.DENY, NOBODY)
        )
        if answered or self._group is None:
            await self._answer(question, *(answered or (Answer.DENY, NOBODY)))
        else:
            self._asking[question.turn, question.call_id] = self._group.create_task(
                self._prompt_user(question)
            )

    async def close_question(self, turn: str, call_id: str) -> None:
        """Nobody need type an answer any more."""
        if asking := self._asking.pop((turn, call_id), None):
            self._places.count_answered(1, len(self._asking))
            asking.cancel()

    async def _answer(self, question: ApprovalQuestion, answer: Answer, reason: str) -> None:
        if not await self.client.answer_approval(
            question.turn, question.call_id, answer, TERMINAL_OWNER, reason
        ):
            await self.screen.show(StatusNote("that question is not open any more"))

    async def _prompt_user(self, question: ApprovalQuestion) -> None:
        async with self._prompt:
            question = replace(question, place=self._places.number_next(len(self._asking)))
            text = await self._read_choice(question)
            while text is not None and question.is_long and asks_for_view(text):
                question = replace(question, show_all=True)
                text = await self._read_choice(question)
        if self._asking.pop((question.turn, question.call_id), None):
            self._places.count_answered(1, len(self._asking))
        if text is not None or not question.outside:
            await self._answer(
                question,
                *((Answer.DENY, NOBODY) if text is None else parse_answer(text or "no", question)),
            )

    async def _read_choice(self, question: ApprovalQuestion) -> str | None:
        await self.screen.show(question)
        return await self.screen.read_answer(f"{question.choices}: ", self.lines)


def reply_json(view: RunView) -> str:
    """The run as CONTRACT's one object."""
    shown = asdict(view)
    keys = ("reply", "turn", "session", "stop_reason", "iterations", "usage", "label")
    return json.dumps({key: shown[key] for key in keys}, ensure_ascii=False)


def failure_text(view: RunView) -> str:
    """Why there is no reply."""
    return (
        view.reply
        or " ".join(view.notices)
        or f"the message could not be answered; see: aidaemon show {view.turn}"
    )


async def run_interruptible(chat: PlainChat, work: Coroutine[None, None, int]) -> int:
    """Run it; the first Ctrl-C stops the turn, a second one leaves at once."""
    loop = asyncio.get_running_loop()
    pressed = asyncio.Event()
    loop.add_signal_handler(signal.SIGINT, pressed.set)

    async def stop() -> None:
        await pressed.wait()
        loop.remove_signal_handler(signal.SIGINT)
        await chat.stop()

    async with asyncio.TaskGroup() as group:
        stopper = group.create_task(stop())
        code = await work
        stopper.cancel()
    return code
