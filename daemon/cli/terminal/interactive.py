"""A chat on a screen: messages, commands, questions and runs, all at any time."""

import asyncio
import signal
from dataclasses import dataclass, field
from functools import partial

from channels.markup.sanitize import shorten_line
from daemon.cli.terminal.attachments import find_named_files, upload_files
from daemon.cli.terminal.chat_renderer import ChatRenderer
from daemon.cli.terminal.follower import NOT_OPEN, RunFollower, is_answer_to
from daemon.cli.terminal.items import (
    Activity,
    AssistantText,
    ErrorLine,
    StatusNote,
    UserText,
)
from daemon.cli.terminal.pasted import TypedLine
from daemon.cli.terminal.plain import COMMAND
from daemon.cli.terminal.screen import TerminalScreen
from daemon.cli.terminal.status_area import UsageMeter
from daemon.client.http import ConnectionWatch
from daemon.client.protocol import COMPLETED
from daemon.client.view_types import ApprovalView, LiveEvent
from daemon.core.errors import AidaemonError
from daemon.core.ids import new_id
from daemon.core.trust import SECRET_TOOL

POLL_S = 2.0
QUIT_COMMANDS = {"/quit", "/exit"}
LOST = "the daemon is gone; waiting for it to come back. What you type is sent then; Ctrl-D leaves."
BACK = "connected again"
UNANSWERED = "the daemon did not say whether it has this: {}"
UNSENT = "not sent: {}"
NOTE_CHARS = 60
COMMANDING = ""  # in place of a turn
KEYS = """

Keys: Enter sends. Alt-Enter or Esc Enter starts a new line.
Tab completes commands, and @NAME to a file of the workspace. @~/FILE sends a file along.
The arrow keys show earlier input.
Ctrl-O shows all lines of the last output or change.
Ctrl-C stops the current work; a second Ctrl-C leaves. Ctrl-D or /quit leaves.
You may type during the work: the text joins it."""


@dataclass(slots=True, kw_only=True)
class InteractiveChat(RunFollower[TerminalScreen]):
    """One session on one terminal."""

    files: tuple[str, ...] = ()
    meter: UsageMeter = field(default_factory=UsageMeter)
    watch: ConnectionWatch = field(default_factory=ConnectionWatch)
    _lines: asyncio.Queue[tuple[TypedLine | None, bool]] = field(default_factory=asyncio.Queue)
    _sending: str = ""

    async def run(self, greeting: str, leaving: str = "", notice: str = "") -> None:
        """Greet, show what was missed, then talk until the person leaves. `leaving` is said when
        something runs then.
        """
        self.watch.tell = self._tell_connection
        # from here on no key is lost: the prompt, once it stands, reads what was typed before
        with self.screen.input.raw_mode():
            notices = [ErrorLine(notice)] if notice else []
            await self.screen.show(StatusNote(greeting), *notices)
            await self._update_cost()
            async with self.follow_subagents() as group:
                await self._catch_up()
                tasks = [
                    group.create_task(self._read_inputs()),
                    group.create_task(self._work_off_lines()),
                    group.create_task(self._poll()),
                ]
                await self.screen.run()
                is_working = bool(self._tasks)
                for task in tasks:
                    task.cancel()
        if self.watch.is_lost:
            await self._list_unsent()
        elif is_working:
            # nothing is lost by leaving at once: what runs is in the journal
            interrupt = partial(signal.default_int_handler, signal.SIGINT, None)
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupt)
            await self.screen.show(StatusNote(leaving))

    async def _handle_event(self, turn: str, renderer: ChatRenderer, event: LiveEvent) -> None:
        self.meter.count(turn, event, is_agent=bool(renderer.agent))
        if event.name == COMPLETED:
            await self._update_cost()
        self.screen.status.summary = self.meter.render()
        await super(InteractiveChat, self)._handle_event(turn, renderer, event)

    async def _update_cost(self) -> None:
        """What is over counts as the journal has it; what runs is counted by its events."""
        if session := await self.client.get_session(self.session):
            self.meter.ended = session.usd
        self.screen.status.summary = self.meter.render()

    async def _catch_up(self) -> None:
        """The last exchange, what was missed, and interrupted runs."""
        missed = {text.turn for text in await self.client.list_undelivered(self.session)}
        for line in await self.client.list_runs(self.session, limit=1):
            run = await self.client.get_run(line.turn) if line.turn not in missed else None
            if run and run.state == "ended" and run.reply:
                message = await self.load_user_message(line.turn)
                await self.screen.show(*message, AssistantText(run.reply, past=True))
        unfinished = await self.client.list_unfinished(self.session)
        await self.show_undelivered(without=unfinished)
        for turn in unfinished:
            message = await self.load_user_message(turn)
            await self.screen.show(*message, StatusNote("resuming the interrupted run …"))
            self.start_following(turn)

    async def _poll(self) -> None:
        """Runs and notices from elsewhere: of schedules, or of another window."""
        while True:
            await asyncio.sleep(POLL_S)
            for turn in await self.client.list_unfinished(self.session):
                self.start_following(turn)
            await self.show_undelivered()
            await self.poll_questions()

    async def _tell_connection(self, is_lost: bool) -> None:
        await self.screen.show(ErrorLine(LOST) if is_lost else StatusNote(BACK))

    async def _list_unsent(self) -> None:
        """What the daemon did not say that it has."""
        sending = [UNANSWERED.format(self._sending)] if self._sending else []
        queued = (self._lines.get_nowait() for _ in range(self._lines.qsize()))
        unsent = [UNSENT.format(line.text) for line, _ in queued if line and not line.hidden]
        await self.screen.show(*map(ErrorLine, (*sending, *unsent)))

    async def _read_inputs(self) -> None:
        """Leaving works at any time, also while the daemon is away."""
        while True:
            typed = await self.screen.inputs.get()
            if typed and typed.text.strip() in QUIT_COMMANDS:
                self.screen.leave()
            else:
                self._lines.put_nowait((typed, bool(self.questions)))
                if typed and self.watch.is_lost and not typed.hidden:
                    text = shorten_line(typed.text, NOTE_CHARS)
                    await self.screen.show(StatusNote(f"sent once the daemon is back: {text}"))

    async def _work_off_lines(self) -> None:
        while True:
            typed, saw_question = await self._lines.get()
            line = typed.text if typed else ""
            if typed is None:
                await self.client.stop_session(self.session)
                for question in list(self.questions):
                    await self.client.cancel_run(question.turn)
            elif typed.hidden:  # a secret: it goes to its question, or nowhere
                if self.questions and self.questions[0].confirmed:
                    await self.answer_question(self.questions[0], line)
                else:
                    await self.screen.show(StatusNote(NOT_OPEN))
            elif (
                self.questions
                and saw_question
                and not (typed.data or COMMAND.match(line))
                and is_answer_to(line, self.questions[0])
            ):
                await self.answer_question(self.questions[0], line.strip())
            else:
                self._sending = line
                await self._send(typed)
                self._sending = ""

    async def _send(self, line: TypedLine) -> None:
        await self.screen.show(UserText(line.text))
        try:
            named = find_named_files(line.text, line.data)
            kept = self.files if COMMAND.match(line.text) else ()
            given = () if kept else self.files
            files = (*given, *await upload_files(self.client, named))
        except AidaemonError as error:
            await self.screen.show(ErrorLine(f"not sent: {error}"))
            return
        if command := COMMAND.match(line.text):
            doing = f"waiting for the answer to {command[0].strip()}"
            self.screen.move(COMMANDING, Activity(doing, self.clock.monotonic()))
        try:
            # with its id the message is accepted once, however often it is sent
            result = await self.client.send(
                self.session, line.text, new_id(), data=line.data, files=files
            )
            self.files = kept
        finally:
            self.screen.move(COMMANDING, None)
        if result.command:
            keys = KEYS if result.command.strip("/") == "help" else ""
            await self.screen.show(AssistantText(result.reply + keys))
        if result.steered:
            await self.screen.show(StatusNote("added to what it is working on"))
        self.start_following(result.turn or result.steered)

    async def list_questions(self) -> list[ApprovalView]:
        """And those for a secret, wherever they were asked: here nobody reads along."""
        own = await super(InteractiveChat, self).list_questions()
        all_open = await self.client.list_approvals()
        return own + [one for one in all_open if one.tool == SECRET_TOOL and one not in own]

    async def put_question(self) -> None:
        prompt, is_hidden = "", False
        if self.questions:
            await self.show_first_question()
            prompt = self.questions[0].prompt
            is_hidden = self.questions[0].confirmed
        self.screen.ask(prompt, hidden=is_hidden)
