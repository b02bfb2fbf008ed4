"""A conversation at a terminal: lines, commands, questions and runs, all at any time."""

import asyncio
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

from daemon.cli.terminal.approvals import (
    TERMINAL_OWNER,
    AutoAnswer,
    QuestionNumbers,
    asks_for_view,
    is_answer_to,
    parse_answer,
)
from daemon.cli.terminal.follower import RunFollower
from daemon.cli.terminal.items import (
    ApprovalQuestion,
    AssistantText,
    ErrorLine,
    StatusNote,
    UserText,
)
from daemon.cli.terminal.screen import TerminalScreen
from daemon.client.protocol import DaemonClient
from daemon.commands.registry import parse_command
from daemon.core.clock import Clock
from daemon.core.events import Answer

POLL_S = 2.0
QUIT_COMMANDS = {"/quit", "/exit"}
KEYS = """

Keys: Enter sends, Alt-Enter or Esc Enter starts a new line, Tab completes commands, the arrow keys bring back what was typed.
Ctrl-C stops what runs, and leaves when pressed again; Ctrl-D or /quit leaves. While it works you may type: it will be told."""


@dataclass(slots=True)
class InteractiveChat:
    """One session on one terminal."""

    client: DaemonClient
    session: str
    clock: Clock
    new_id: Callable[[], str]
    fixed_answer: Answer | None = None
    screen: TerminalScreen = field(init=False)
    follower: RunFollower = field(init=False)
    questions: list[ApprovalQuestion] = field(default_factory=list)
    _places: QuestionNumbers = field(default_factory=QuestionNumbers)
    _always: AutoAnswer = field(init=False)
    _inputs: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)
    _runs: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def attach(
        self, make_screen: Callable[[Callable[[str], None], Callable[[], None]], TerminalScreen]
    ) -> None:
        """Give it its screen, which is given what to call."""
        self.screen = make_screen(self._inputs.put_nowait, lambda: self._inputs.put_nowait(None))
        self.follower = RunFollower(self.client, self.session, self.screen, self, self.clock)
        self._always = AutoAnswer(self.fixed_answer)

    async def run(self, greeting: str, leaving: str = "", notice: str = "") -> None:
        """Greet, tell what was missed, then talk until the person leaves. `leaving` is said when something runs then."""
        with self.screen.raw_mode():
            await self.screen.show(StatusNote(greeting), *([ErrorLine(notice)] if notice else []))
            async with asyncio.TaskGroup() as group, self.follower.follow_subagents():
                await self._catch_up(group)
                tasks = [
                    group.create_task(self._read_inputs(group)),
                    group.create_task(self._poll(group)),
                ]
                await self.screen.run()
                for task in [*tasks, *self._runs.values()]:
                    task.cancel()
        if self._runs:
            await self.screen.show(StatusNote(leaving))

    async def _catch_up(self, group: asyncio.TaskGroup) -> None:
        """What was said last, what was missed, and what was cut off; before anything new is heard."""
        await self._show_last_exchange()
        unfinished = await self.client.list_unfinished(self.session)
        await self.follower.show_undelivered(without=unfinished)
        for turn in unfinished:
            await self.screen.show(
                *await self.follower.load_user_message(turn),
                StatusNote("picking up where it was cut off …"),
            )
            self._start_following(turn, group)

    async def _poll(self, group: asyncio.TaskGroup) -> None:
        """Runs and notices that nobody here asked for: scheduled, or sent from another window."""
        while True:
            await asyncio.sleep(POLL_S)
            for turn in await self.client.list_unfinished(self.session):
                self._start_following(turn, group)
            await self.follower.show_undelivered()
            await self.follower.poll_questions()

    async def _show_last_exchange(self) -> None:
        """The last finished exchange, quietly, so that one sees where one was."""
        missed = {said.turn for said in await self.client.list_undelivered(self.session)}
        for line in await self.client.list_runs(self.session, limit=1):
            run = await self.client.get_run(line.turn) if line.turn not in missed else None
            if run and run.state == "ended" and run.reply:
                await self.screen.show(
                    *await self.follower.load_user_message(line.turn),
                    AssistantText(run.reply, past=True),
                )

    def _start_following(self, turn: str, group: asyncio.TaskGroup) -> None:
        if turn and turn not in self._runs:
            self._runs[turn] = group.create_task(self._follow_run(turn))

    async def _follow_run(self, turn: str) -> None:
        await self.follower.follow(turn)
        del self._runs[turn]

    async def _read_inputs(self, group: asyncio.TaskGroup) -> None:
        while True:
            line = await self._inputs.get()
            if line is None:
                await self._stop()
            elif line.strip() in QUIT_COMMANDS:
                self.screen.leave()
            elif (
                self.questions and not parse_command(line) and is_answer_to(line, self.questions[0])
            ):
                await self._answer(self.questions[0], line.strip())
            else:
                await self._send(line, group)

    async def _send(self, text: str, group: asyncio.TaskGroup) -> None:
        await self.screen.show(UserText(text))
        accepted = await self.client.send(self.session, text, self.new_id())
        if accepted.command:
            keys = KEYS if accepted.command.strip("/") == "help" else ""
            await self.screen.show(AssistantText(accepted.reply + keys))
        if accepted.steered:
            await self.screen.show(StatusNote("added to what it is working on"))
        self._start_following(accepted.turn or accepted.steered, group)

    async def _stop(self) -> None:
        await self.client.stop_session(self.session)
        for question in list(self.questions):
            await self.client.cancel_run(question.turn)

    async def show_question(self, question: ApprovalQuestion) -> None:
        """Answer it as the command line said, or put it to the person."""
        if answered := self._always.answer_for(question):
            await self.client.answer_approval(
                question.turn, question.call_id, answered[0], TERMINAL_OWNER, answered[1]
            )
            return
        self.questions.append(question)
        if len(self.questions) == 1:
            await self._show_next_question()

    async def close_question(self, turn: str, call_id: str) -> None:
        """It is answered, here or elsewhere: on to the next."""
        left = [
            question
            for question in self.questions
            if (question.turn, question.call_id) != (turn, call_id)
        ]
        self._places.count_answered(len(self.questions) - len(left), len(left))
        changed, self.questions = left[:1] != self.questions[:1], left
        if changed:
            await self._show_next_question()

    async def _show_next_question(self) -> None:
        if self.questions:
            place = self._places.number_next(len(self.questions))
            await self.screen.show(dataclasses.replace(self.questions[0], place=place))
        house = bool(self.questions and self.questions[0].title)
        self.screen.ask(bool(self.questions), "yes or no? " if house else "allow? ")

    async def _answer(self, question: ApprovalQuestion, text: str) -> None:
        if question.is_long and asks_for_view(text):
            self.questions[0] = dataclasses.replace(question, show_all=True)
            await self._show_next_question()
            return
        answer, reason = parse_answer(text, question)
        if not await self.client.answer_approval(
            question.turn, question.call_id, answer, TERMINAL_OWNER, reason
        ):
            await self.screen.show(StatusNote("that question is not open any more"))
        await self.close_question(question.turn, question.call_id)
