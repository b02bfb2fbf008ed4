"""A conversation at a terminal: lines, commands, questions and runs, all at any time."""

import asyncio
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

from channels.terminal import Terminal
from channels.terminal_items import Note, Question, Spoken, Trouble, Typed
from daemon.cli.chat_answers import BY, Places, Standing, is_meant, understood, wants_view
from daemon.cli.chat_follow import Follower
from daemon.commands.base import parse
from daemon.core.clock import Clock
from daemon.core.events import Answer
from daemon.door.base import Door

LOOK_EVERY_S = 2.0
LEAVING = {"/quit", "/exit"}
KEYS = """

Keys: Enter sends, Alt-Enter or Esc Enter starts a new line, Tab completes commands, the arrow keys bring back what was typed.
Ctrl-C stops what runs, and leaves when pressed again; Ctrl-D or /quit leaves. While it works you may type: it will be told."""


@dataclass(slots=True)
class Conversation:
    """One session on one terminal."""

    door: Door
    session: str
    clock: Clock
    new_id: Callable[[], str]
    standing: Answer | None = None
    screen: Terminal = field(init=False)
    follower: Follower = field(init=False)
    questions: list[Question] = field(default_factory=list)
    _places: Places = field(default_factory=Places)
    _always: Standing = field(init=False)
    _inputs: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)
    _runs: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def attach(self, make_screen: Callable[[Callable[[str], None], Callable[[], None]], Terminal]) -> None:
        """Give it its screen, which is given what to call."""
        self.screen = make_screen(self._inputs.put_nowait, lambda: self._inputs.put_nowait(None))
        self.follower = Follower(self.door, self.session, self.screen, self, self.clock)
        self._always = Standing(self.standing)

    async def run(self, greeting: str, leaving: str = "", notice: str = "") -> None:
        """Greet, tell what was missed, then talk until the person leaves. `leaving` is said when something runs then."""
        with self.screen.listening():
            await self.screen.show(Note(greeting), *([Trouble(notice)] if notice else []))
            async with asyncio.TaskGroup() as group, self.follower.accompanying():
                await self._catch_up(group)
                tasks = [group.create_task(self._listen(group)), group.create_task(self._look_out(group))]
                await self.screen.run()
                for task in [*tasks, *self._runs.values()]:
                    task.cancel()
        if self._runs:
            await self.screen.show(Note(leaving))

    async def _catch_up(self, group: asyncio.TaskGroup) -> None:
        """What was said last, what was missed, and what was cut off; before anything new is heard."""
        await self._greet_past()
        unfinished = await self.door.unfinished(self.session)
        await self.follower.notices(without=unfinished)
        for turn in unfinished:
            await self.screen.show(*await self.follower.question(turn), Note("picking up where it was cut off …"))
            self._follow(turn, group)

    async def _look_out(self, group: asyncio.TaskGroup) -> None:
        """Runs and notices that nobody here asked for: scheduled, or sent from another window."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            for turn in await self.door.unfinished(self.session):
                self._follow(turn, group)
            await self.follower.notices()
            await self.follower.others()

    async def _greet_past(self) -> None:
        """The last finished exchange, quietly, so that one sees where one was."""
        missed = {said.turn for said in await self.door.undelivered(self.session)}
        for line in await self.door.runs(self.session, limit=1):
            run = await self.door.run(line.turn) if line.turn not in missed else None
            if run and run.state == "ended" and run.reply:
                await self.screen.show(*await self.follower.question(line.turn), Spoken(run.reply, past=True))

    def _follow(self, turn: str, group: asyncio.TaskGroup) -> None:
        if turn and turn not in self._runs:
            self._runs[turn] = group.create_task(self._run(turn))

    async def _run(self, turn: str) -> None:
        await self.follower.follow(turn)
        del self._runs[turn]

    async def _listen(self, group: asyncio.TaskGroup) -> None:
        while True:
            line = await self._inputs.get()
            if line is None:
                await self._stop()
            elif line.strip() in LEAVING:
                self.screen.leave()
            elif self.questions and not parse(line) and is_meant(line, self.questions[0]):
                await self._answer(self.questions[0], line.strip())
            else:
                await self._send(line, group)

    async def _send(self, text: str, group: asyncio.TaskGroup) -> None:
        await self.screen.show(Typed(text))
        accepted = await self.door.send(self.session, text, self.new_id())
        if accepted.command:
            keys = KEYS if accepted.command.strip("/") == "help" else ""
            await self.screen.show(Spoken(accepted.reply + keys))
        if accepted.steered:
            await self.screen.show(Note("added to what it is working on"))
        self._follow(accepted.turn or accepted.steered, group)

    async def _stop(self) -> None:
        await self.door.stop(self.session)
        for question in list(self.questions):
            await self.door.cancel(question.turn)

    async def asked(self, question: Question) -> None:
        """Answer it as the command line said, or put it to the person."""
        if answered := self._always.to(question):
            await self.door.answer(question.turn, question.call_id, answered[0], BY, answered[1])
            return
        self.questions.append(question)
        if len(self.questions) == 1:
            await self._put()

    async def settled(self, turn: str, call_id: str) -> None:
        """It is answered, here or elsewhere: on to the next."""
        left = [question for question in self.questions if (question.turn, question.call_id) != (turn, call_id)]
        self._places.settle(len(self.questions) - len(left), len(left))
        changed, self.questions = left[:1] != self.questions[:1], left
        if changed:
            await self._put()

    async def _put(self) -> None:
        if self.questions:
            place = self._places.of_first(len(self.questions))
            await self.screen.show(dataclasses.replace(self.questions[0], place=place))
        house = bool(self.questions and self.questions[0].title)
        self.screen.ask(bool(self.questions), "yes or no? " if house else "allow? ")

    async def _answer(self, question: Question, text: str) -> None:
        if question.long and wants_view(text):
            self.questions[0] = dataclasses.replace(question, whole=True)
            await self._put()
            return
        answer, reason = understood(text, question)
        if not await self.door.answer(question.turn, question.call_id, answer, BY, reason):
            await self.screen.show(Note("that question is not open any more"))
        await self.settled(question.turn, question.call_id)
