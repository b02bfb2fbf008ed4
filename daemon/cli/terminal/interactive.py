"""A chat on a screen: messages, commands, questions and runs, all at any time."""

import asyncio
import os
import re
import signal
from dataclasses import dataclass, field, replace

from daemon.cli.terminal.approvals import asks_for_view, is_answer_to, parse_answer
from daemon.cli.terminal.follower import RunFollower
from daemon.cli.terminal.items import (
    ApprovalQuestion,
    AssistantText,
    ErrorLine,
    StatusNote,
    UserText,
)
from daemon.cli.terminal.plain import INTERRUPTED
from daemon.cli.terminal.screen import TerminalScreen

POLL_S = 2.0
COMMAND = re.compile(r"\s*/[A-Za-z_]+(@\w+)?(\s|$)")
QUIT_COMMANDS = {"/quit", "/exit"}
KEYS = """

Keys: Enter sends. Alt-Enter or Esc Enter starts a new line.
Tab completes commands. The arrow keys show earlier input.
Ctrl-C stops the current work; a second Ctrl-C leaves. Ctrl-D or /quit leaves.
You may type during the work: the text joins it."""


@dataclass(slots=True, kw_only=True)
class InteractiveChat(RunFollower[TerminalScreen]):
    """One session on one terminal."""

    questions: list[ApprovalQuestion] = field(default_factory=list)
    _runs: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def run(self, greeting: str, leaving: str = "", notice: str = "") -> None:
        """Greet, show what was missed, then talk until the person leaves. `leaving` is said when
        something runs then.
        """
        with self.screen.raw_mode():
            notices = [ErrorLine(notice)] if notice else []
            await self.screen.show(StatusNote(greeting), *notices)
            async with self.follow_subagents() as group:
                await self._catch_up(group)
                tasks = [
                    group.create_task(self._read_inputs(group)),
                    group.create_task(self._poll(group)),
                ]
                await self.screen.run()
                for task in [*tasks, *self._runs.values()]:
                    task.cancel()
        if self._runs:
            # nothing is lost by leaving at once: what runs is in the journal
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, os._exit, INTERRUPTED)
            await self.screen.show(StatusNote(leaving))

    async def _catch_up(self, group: asyncio.TaskGroup) -> None:
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
            self._start_following(turn, group)

    async def _poll(self, group: asyncio.TaskGroup) -> None:
        """Runs and notices from elsewhere: of schedules, or of another window."""
        while True:
            await asyncio.sleep(POLL_S)
            for turn in await self.client.list_unfinished(self.session):
                self._start_following(turn, group)
            await self.show_undelivered()
            await self.poll_questions()

    def _start_following(self, turn: str, group: asyncio.TaskGroup) -> None:
        if turn and turn not in self._runs:
            self._runs[turn] = group.create_task(self._follow_run(turn))

    async def _follow_run(self, turn: str) -> None:
        await self.follow(turn)
        del self._runs[turn]

    async def _read_inputs(self, group: asyncio.TaskGroup) -> None:
        while True:
            line = await self.screen.inputs.get()
            if line is None:
                await self.client.stop_session(self.session)
                for question in list(self.questions):
                    await self.client.cancel_run(question.turn)
            elif line.strip() in QUIT_COMMANDS:
                self.screen.leave()
            elif (
                self.questions and not COMMAND.match(line) and is_answer_to(line, self.questions[0])
            ):
                await self._answer(self.questions[0], line.strip())
            else:
                await self._send(line, group)

    async def _send(self, text: str, group: asyncio.TaskGroup) -> None:
        await self.screen.show(UserText(text))
        result = await self.client.send(self.session, text, self.new_id())
        if result.command:
            keys = KEYS if result.command.strip("/") == "help" else ""
            await self.screen.show(AssistantText(result.reply + keys))
        if result.steered:
            await self.screen.show(StatusNote("added to what it is working on"))
        self._start_following(result.turn or result.steered, group)

    async def show_question(self, question: ApprovalQuestion) -> None:
        if answered := self.auto.answer_for(question):
            await self.send_answer(question, answered)
            return
        self.questions.append(question)
        if len(self.questions) == 1:
            await self._show_first_question()

    async def close_question(self, turn: str, call_id: str) -> None:
        key, former = (turn, call_id), self.questions
        self.questions = [one for one in former if one.key != key]
        self.count_answered(len(former) - len(self.questions), len(self.questions))
        if self.questions[:1] != former[:1]:
            await self._show_first_question()

    async def _show_first_question(self) -> None:
        if not self.questions:
            self.screen.ask(False)
            return
        question = self.questions[0]
        place = self.number_next(len(self.questions))
        await self.screen.show(replace(question, place=place))
        self.screen.ask(True, "yes or no? " if question.title else "allow? ")

    async def _answer(self, question: ApprovalQuestion, text: str) -> None:
        if question.is_long and asks_for_view(text):
            self.questions[0] = replace(question, show_all=True)
            await self._show_first_question()
            return
        await self.send_answer(question, parse_answer(text, question))
        await self.close_question(*question.key)
