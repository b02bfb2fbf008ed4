"""Follows the runs of a session for a screen: shows their events, puts their questions, marks what
was shown as delivered.

The sub-agents of a run are followed with it: what they do is shown, what they ask is asked here
(A17).
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from daemon.cli.terminal.approvals import (
    TERMINAL_OWNER,
    Answered,
    AutoAnswer,
    build_question,
)
from daemon.cli.terminal.chat_renderer import ChatRenderer, EventFields
from daemon.cli.terminal.items import (
    Activity,
    ApprovalQuestion,
    AssistantText,
    ScreenItem,
    StatusNote,
    UserText,
)
from daemon.client.protocol import COMPLETED, DaemonClient, LiveEvent, UndeliveredText
from daemon.core.clock import Clock
from daemon.core.trust import Label


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
    clock: Clock
    new_id: Callable[[], str]
    auto: AutoAnswer
    screen: ScreenT
    _answered: int = 0
    _group: asyncio.TaskGroup | None = None
    _following: set[str] = field(default_factory=set)
    _finished: set[str] = field(default_factory=set)
    _subagents: set[asyncio.Task[None]] = field(default_factory=set)
    _open: set[tuple[str, str]] = field(default_factory=set)
    _shown: set[tuple[str, int]] = field(default_factory=set)

    @abstractmethod
    async def show_question(self, question: ApprovalQuestion) -> None:
        """A call waits for a yes or no."""

    @abstractmethod
    async def close_question(self, turn: str, call_id: str) -> None:
        """It waits no longer, whoever answered."""

    def number_next(self, waiting: int) -> str:
        """The number of the next of questions that wait together, "2 of 3"; "" for one alone."""
        total = self._answered + waiting
        return f"{self._answered + 1} of {total}" if total > 1 else ""

    def count_answered(self, number: int, left: int) -> None:
        """So many were answered, so many are left."""
        self._answered = self._answered + number if left else 0

    async def send_answer(self, question: ApprovalQuestion, answered: Answered) -> None:
        """Answer a question; show a note when it is not open any more."""
        answer, reason = answered
        if not await self.client.answer_approval(*question.key, answer, TERMINAL_OWNER, reason):
            await self.screen.show(StatusNote("that question is not open any more"))

    @asynccontextmanager
    async def follow_subagents(self) -> AsyncGenerator[asyncio.TaskGroup, None]:
        """Meanwhile sub-agents are followed too, those in the background beyond the end of their
        run.
        """
        async with asyncio.TaskGroup() as self._group:
            yield self._group
            for task in self._subagents:
                task.cancel()

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
            for text in await self.client.list_undelivered(self.session):
                if text.turn == turn:
                    await self._deliver(text)
        except KeyError:
            pass  # its text was added to another run
        finally:
            self._following.discard(turn)
            self.screen.move(turn, None)

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
                await self._close_question(turn, data.call_id)
            case "agent.started" if self._group:
                agent = data.agent, data.task, bool(data.background)
                follow = self.follow(data.turn, ChatRenderer(self.clock.monotonic, *agent))
                task = self._group.create_task(follow)
                self._subagents.add(task)
                task.add_done_callback(self._subagents.discard)
            case "run.completed":
                for of, call_id in list(self._open):
                    if of == turn:
                        await self._close_question(turn, call_id)

    async def _ask_if_open(self, key: tuple[str, str], agent: str) -> None:
        """The event may be an old one."""
        for view in await self.client.list_approvals(session=self.session):
            if (view.turn, view.call_id) == key and key not in self._open:
                self._open.add(key)
                await self.show_question(build_question(view, self.clock.now(), agent))

    async def _close_question(self, turn: str, call_id: str) -> None:
        self._open.discard((turn, call_id))
        await self.close_question(turn, call_id)

    async def poll_questions(self) -> None:
        """Put questions of sub-agents and loops of this session (A17, C12) whose runs are not
        followed here.
        """
        views = await self.client.list_approvals(session=self.session)
        gone = self._open - {(view.turn, view.call_id) for view in views}
        for turn, call_id in gone:
            if turn not in self._following:
                await self._close_question(turn, call_id)
        for view in views:
            key = view.turn, view.call_id
            is_known = view.turn in self._following or key in self._open
            if view.session == self.session or is_known:
                continue
            self._open.add(key)
            run = await self.client.get_run(view.turn)
            question = build_question(
                view, self.clock.now(), run.agent if run and run.parent else ""
            )
            session = await self.client.get_session(view.session)
            outside = session is None or session.label != Label.TRUSTED
            await self.show_question(replace(question, outside=outside))

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
