"""Follows the runs of a session and their sub-agents for a screen (A17): shows their events, asks
their questions, marks what was shown as delivered.
"""

import argparse
import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from daemon.agent.system_questions import EXTEND_TOOL, parse_system_question
from daemon.cli.terminal.chat_renderer import ChatRenderer, EventFields
from daemon.cli.terminal.items import (
    Activity,
    ApprovalQuestion,
    AssistantText,
    ErrorLine,
    ScreenItem,
    StatusNote,
    UserText,
)
from daemon.client.protocol import COMPLETED, DaemonClient
from daemon.client.view_types import ApprovalView, LiveEvent, UndeliveredText
from daemon.core.clock import Clock, system_clock
from daemon.core.errors import AidaemonError
from daemon.core.ids import new_id
from daemon.core.trust import ASK_TOOL, SECRET_TOOL, Answer, Label, Person, Role
from daemon.settings.redaction import is_usable

TERMINAL_OWNER = Person("terminal", Role.OWNER)
YES_OR_NO = {
    **dict.fromkeys(("y", "yes", "once"), Answer.ONCE),
    **dict.fromkeys(("n", "no"), Answer.DENY),
}
ANSWERS = {
    **YES_OR_NO,
    **dict.fromkeys(("s", "session"), Answer.SESSION),
    **dict.fromkeys(("a", "always"), Answer.ALWAYS),
}
NOBODY = "nobody could be asked: this is no terminal, and neither --yes nor --deny-all was given"
NOT_OPEN = "that question is not open any more"
TOO_SHORT = (
    "It is kept, but too short or too common to be taken out of what is shown: where it is printed,"
    " the model and the journal see it."
)
NOBODY_ANSWERS = "nobody is here to answer"
RAISED_ONCE = "--yes raises the budget of a run once"
VIEW_WORDS = ("v", "view")
LONG_MINUTES = 90

Answered = tuple[Answer, str]  # with the reason


def is_answer_to(text: str, question: ApprovalQuestion) -> bool:
    """Any text is one, except to a question of a stranger's run, which came in between (A6)."""
    word = text.strip().lower()
    return not question.outside or word in ANSWERS or (question.is_long and word in VIEW_WORDS)


@dataclass(slots=True)
class AutoAnswer:
    """The answer of --yes or --deny-all. A yes raises a run's budget once only (F2), and is never
    given for a stranger's run (A6).
    """

    answer: Answer | None
    raises_once: bool = True
    _raised: set[str] = field(default_factory=set)

    @classmethod
    def parse(cls, args: argparse.Namespace, raises_once: bool = True) -> "AutoAnswer":
        """The one that the command line gives."""
        answer = Answer.ONCE if args.yes else Answer.DENY if args.deny_all else None
        return cls(answer, raises_once)

    def answer_for(self, question: ApprovalQuestion) -> Answered | None:
        """None when the person is to be asked."""
        if self.answer is None or (question.outside and self.answer is not Answer.DENY):
            return None
        if question.asked:
            default = question.asked.default if self.answer is Answer.ONCE else ""
            return (Answer.CHOICE, default) if default else (Answer.DENY, NOBODY_ANSWERS)
        if self.answer is Answer.ONCE and self.raises_once and question.tool == EXTEND_TOOL:
            if question.turn in self._raised:
                return Answer.DENY, RAISED_ONCE
            self._raised.add(question.turn)
        return self.answer, ""


def describe_expiry(expires: str, now: datetime) -> str:
    """Until when a question can be answered."""
    at = datetime.fromisoformat(expires)
    minutes = (at - now).total_seconds() / 60
    if minutes > LONG_MINUTES:
        return f"until {at.astimezone():%d %b %H:%M}"
    return f"lapses in {minutes:.0f} min" if minutes >= 1 else "lapses in less than a minute"


class RunScreen(Protocol):
    """Where runs are shown."""

    async def show(self, *items: ScreenItem) -> None:
        """Show these for good, in order."""
        ...

    def move(self, turn: str, activity: Activity | None) -> None:
        """Show what this run is doing now; None when it has ended."""
        ...


ScreenT = TypeVar("ScreenT", bound=RunScreen)


@dataclass(slots=True, kw_only=True)
class RunFollower(Generic[ScreenT]):
    """The base of a chat: follows runs of one session on one screen."""

    client: DaemonClient
    session: str
    auto: AutoAnswer
    screen: ScreenT
    clock: Clock = field(default_factory=system_clock)
    questions: list[ApprovalQuestion] = field(default_factory=list)
    _answered: int = 0
    _group: asyncio.TaskGroup | None = None
    _following: set[str] = field(default_factory=set)
    _finished: set[str] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _open: set[tuple[str, str]] = field(default_factory=set)
    _shown: set[tuple[str, int]] = field(default_factory=set)

    @abstractmethod
    async def put_question(self) -> None:
        """Ask the first of `questions`, or ask no more."""

    async def show_question(self, question: ApprovalQuestion) -> None:
        """A call waits for a yes or no."""
        if answered := self.auto.answer_for(question):
            await self.send_answer(question, answered)
            return
        self.questions.append(question)
        if len(self.questions) == 1:
            await self.put_question()

    async def close_question(self, turn: str, call_id: str) -> None:
        """It waits no longer, whoever answered."""
        key, former = (turn, call_id), self.questions
        self._open.discard(key)
        self.questions = [one for one in former if one.key != key]
        answered = self._answered + len(former) - len(self.questions)
        self._answered = answered if self.questions else 0
        if self.questions[:1] != former[:1]:
            await self.put_question()

    async def answer_question(self, question: ApprovalQuestion, text: str) -> None:
        """Take what a person said to the first question: any other text is a no with this reason.
        A long question is shown in full, asked for or not, before it can be allowed. Of `ask_user`
        it takes an option; any other text goes to the chat, where it is the answer.
        """
        word = text.strip().lower()
        if question.is_secret:
            await self._take_secret(question, text)
            return
        if asked := question.asked:
            option = asked.find_option(word) if word else asked.default
            if option or not word:
                answered = (Answer.CHOICE, option) if option else (Answer.DENY, "")
                await self.send_answer(question, answered)
            else:
                await self.client.send(self.session, text.strip(), new_id())
            await self._close_answered(question)
            return
        if question.is_long and (word in VIEW_WORDS or ANSWERS.get(word, "deny") != Answer.DENY):
            self.questions[0] = replace(question, show_all=True)
            await self.put_question()
            return
        # only calls can be allowed for longer than once
        answer = (YES_OR_NO if question.title else ANSWERS).get(word)
        await self.send_answer(question, (answer, "") if answer else (Answer.DENY, text.strip()))
        await self._close_answered(question)

    async def _take_secret(self, question: ApprovalQuestion, text: str) -> None:
        """First the yes to its name and host, then the value. Nothing else is sent anywhere."""
        if not question.confirmed and YES_OR_NO.get(text.strip().lower()) is Answer.ONCE:
            self.questions[0] = replace(question, confirmed=True)
            await self.put_question()
            return
        if question.confirmed:
            try:
                if not await self.client.keep_secret(question.turn, question.meant, text):
                    await self.screen.show(StatusNote(NOT_OPEN))
                elif question.asked and not is_usable(text, question.asked.secret[:1]):
                    await self.screen.show(StatusNote(TOO_SHORT))
            except AidaemonError as error:
                await self.screen.show(ErrorLine(str(error)))
                await self.put_question()
                return
        else:
            await self.send_answer(question, (Answer.DENY, ""))
        await self._close_answered(question)

    async def _close_answered(self, question: ApprovalQuestion) -> None:
        await self.close_question(*question.key)
        self._open.add(question.key)  # until an event or the next poll says that it is closed

    async def show_first_question(self) -> None:
        """With its number, "2 of 3", where several wait together."""
        if self.questions[0].confirmed:
            return  # it stands above
        total = self._answered + len(self.questions)
        place = f"{self._answered + 1} of {total}" if total > 1 else ""
        await self.screen.show(replace(self.questions[0], place=place))

    async def send_answer(self, question: ApprovalQuestion, answered: Answered) -> None:
        """Answer a question; show a note when it is not open any more."""
        answer, reason = answered
        if not await self.client.answer_approval(
            question.turn, question.meant, answer, TERMINAL_OWNER, reason
        ):
            await self.screen.show(StatusNote(NOT_OPEN))

    @asynccontextmanager
    async def follow_subagents(self) -> AsyncGenerator[asyncio.TaskGroup, None]:
        """Meanwhile sub-agents are followed too, those in the background beyond the end of their
        run.
        """
        async with asyncio.TaskGroup() as self._group:
            yield self._group
            for task in self._tasks:
                task.cancel()

    def start_following(self, turn: str, renderer: ChatRenderer | None = None) -> None:
        """Follow this run in a task of its own."""
        if turn and self._group:
            task = self._group.create_task(self.follow(turn, renderer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def follow(self, turn: str, renderer: ChatRenderer | None = None) -> None:
        """Show this run to its end, unless it is shown already."""
        if turn in self._following or turn in self._finished:
            return
        renderer = renderer or ChatRenderer(self.clock.monotonic)
        self._following.add(turn)
        try:
            async for event in self.client.stream_events(turn):
                await self._handle_event(turn, renderer, event)
            self._finished.add(turn)
        except KeyError:
            pass  # its text was added to another run
        finally:
            self._following.discard(turn)
            self.screen.move(turn, None)
        await self.show_undelivered(of=turn)

    async def _handle_event(self, turn: str, renderer: ChatRenderer, event: LiveEvent) -> None:
        items, data = renderer.render(event), EventFields(event.data)
        if event.name == COMPLETED:
            await self.show_undelivered(of=turn)
        self.screen.move(turn, renderer.activity)
        if items:
            await self.screen.show(*items)
        match event.name:
            case "approval.asked":
                await self._ask_if_open((turn, data.call_id), renderer.agent)
            case "approval.answered":
                await self.close_question(turn, data.call_id)
            case "agent.started":
                agent = data.agent, data.task, bool(data.background)
                self.start_following(data.turn, ChatRenderer(self.clock.monotonic, *agent))
            case "run.completed":
                for of, call_id in list(self._open):
                    if of == turn:
                        await self.close_question(turn, call_id)

    async def _ask_if_open(self, key: tuple[str, str], agent: str) -> None:
        """The event may be an old one."""
        for view in await self.client.list_approvals(session=self.session):
            if (view.turn, view.call_id) == key and key not in self._open:
                await self.open_question(view, agent)

    async def open_question(self, view: ApprovalView, agent: str, outside: bool = False) -> None:
        """Show a question that waits, a call or one of the daemon itself in words; of this agent,
        where it is not the run itself.
        """
        system = parse_system_question(view.tool, view.arguments)
        question = ApprovalQuestion(
            view.turn,
            view.call_id,
            view.tool,
            view.arguments,
            view.effect,
            view.label,
            describe_expiry(view.expires, self.clock.now()),
            title=system.title if system else "",
            text=system.whole.removeprefix(system.title).strip("\n") if system else "",
            asked=system if view.tool in (ASK_TOOL, SECRET_TOOL) else None,
            agent=agent,
            preview="" if system else view.preview,
            outside=outside,
            question=view.question,
        )
        self._open.add(question.key)
        await self.show_question(question)

    async def list_questions(self) -> list[ApprovalView]:
        """Those that wait, of this session and of what works for it."""
        return await self.client.list_approvals(session=self.session)

    async def poll_questions(self) -> None:
        """Put questions of sub-agents and loops of this session (A17, C12) whose runs are not
        followed here.
        """
        views = await self.list_questions()
        gone = self._open - {(view.turn, view.call_id) for view in views}
        for turn, call_id in gone:
            if turn not in self._following:
                await self.close_question(turn, call_id)
        for view in views:
            key = view.turn, view.call_id
            is_known = view.turn in self._following or key in self._open
            if view.session == self.session or is_known:
                continue
            self._open.add(key)
            run = await self.client.get_run(view.turn)
            session = await self.client.get_session(view.session)
            outside = session is None or session.label != Label.TRUSTED
            await self.open_question(view, run.agent if run and run.parent else "", outside)

    async def show_undelivered(self, *, of: str = "", without: Collection[str] = ()) -> None:
        """Show texts that were not shown yet; of one run, or of all. Replies of followed runs come
        with their events.
        """
        for text in await self.client.list_undelivered(self.session):
            waits = text.turn in self._following or text.turn in without
            if of in ("", text.turn) and not (waits and text.kind != "notice"):
                await self._deliver(text)

    async def _deliver(self, text: UndeliveredText) -> None:
        key, is_notice = (text.turn, text.part), text.kind == "notice"
        is_new = key not in self._shown and (is_notice or text.turn not in self._finished)
        self._shown.add(key)
        if is_new and text.kind == "reply":
            message = await self.load_user_message(text.turn)
            await self.screen.show(*message, AssistantText(text.body))
        elif is_new:
            await self.screen.show(StatusNote(text.body))
        await self.client.mark_delivered(*key)

    async def load_user_message(self, turn: str) -> list[UserText]:
        """The message that began this run."""
        first = (await self.client.get_transcript(turn))[:1]
        return [UserText(str(event["text"]), past=True) for event in first if "text" in event]
