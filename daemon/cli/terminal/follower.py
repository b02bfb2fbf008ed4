"""Following runs on behalf of a screen: events are told, questions are passed on, what was shown is marked as delivered.

Agents that a run sets to work are followed beside it: what they do is seen, what they ask is asked here (A17).
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from daemon.cli.terminal.approvals import build_question
from daemon.cli.terminal.chat_renderer import ChatRenderer, EventData, SubagentRenderer, get_text
from daemon.cli.terminal.items import (
    Activity,
    ApprovalQuestion,
    AssistantText,
    ScreenItem,
    StatusNote,
    UserText,
)
from daemon.client.protocol import DaemonClient, LiveEvent, UndeliveredText
from daemon.core.clock import Clock
from daemon.core.trust import Label


class RunScreen(Protocol):
    """Where a conversation is shown."""

    async def show(self, *items: ScreenItem) -> None:
        """Put these there for good, in order."""
        ...

    def move(self, turn: str, activity: Activity | None) -> None:
        """Show what this run is doing now; None when it is over."""
        ...


class ApprovalPrompt(Protocol):
    """Who gets questions answered."""

    async def show_question(self, question: ApprovalQuestion) -> None:
        """A call waits for a yes or no."""
        ...

    async def close_question(self, turn: str, call_id: str) -> None:
        """It waits no longer, whoever answered."""
        ...


@dataclass(slots=True)
class RunFollower:
    """Tells runs of one session on one screen."""

    client: DaemonClient
    session: str
    screen: RunScreen
    prompt: ApprovalPrompt
    clock: Clock
    following: set[str] = field(default_factory=set)
    _group: asyncio.TaskGroup | None = None
    _subagent_tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _open_questions: set[tuple[str, str]] = field(default_factory=set)
    _shown_parts: set[tuple[str, int]] = field(default_factory=set)
    _finished: set[str] = field(default_factory=set)

    @asynccontextmanager
    async def follow_subagents(self) -> AsyncIterator[None]:
        """As long as this lasts, agents are followed too, those in the background beyond the end of their run."""
        async with asyncio.TaskGroup() as self._group:
            yield
            for task in self._subagent_tasks:
                task.cancel()

    async def follow(self, turn: str) -> EventData:
        """Tell this run to its end; what `run.completed` says of it, nothing when the run is told already."""
        return await self._follow(turn, ChatRenderer(now=self.clock.monotonic), "")

    async def _follow(
        self, turn: str, story: ChatRenderer | SubagentRenderer, agent: str
    ) -> EventData:
        if turn in self.following or turn in self._finished:
            return {}
        self.following.add(turn)
        try:
            async for event in self.client.stream_events(turn):
                await self._handle_event(turn, story, event, agent)
            self._finished.add(turn)
            await self._mark_delivered(turn)
        except KeyError:
            return {}  # no run of its own came of it: its text went into another one
        finally:
            self.following.discard(turn)
            self.screen.move(turn, None)
        return story.ended or {}

    async def _handle_event(
        self, turn: str, story: ChatRenderer | SubagentRenderer, event: LiveEvent, agent: str
    ) -> None:
        items = story.render(event)
        if event.name == "run.completed":
            await self.show_undelivered(of=turn)
        self.screen.move(turn, story.activity)
        if items:
            await self.screen.show(*items)
        match event.name:
            case "approval.asked":
                await self._ask_if_open(turn, get_text(event.data, "call_id"), agent)
            case "approval.answered":
                await self._close_question(turn, get_text(event.data, "call_id"))
            case "agent.started":
                self._start_subagent(event.data)
            case "run.completed":
                for call_id in [call_id for of, call_id in self._open_questions if of == turn]:
                    await self._close_question(turn, call_id)

    def _start_subagent(self, started: EventData) -> None:
        if self._group is None:
            return
        agent, turn = get_text(started, "agent"), get_text(started, "turn")
        story = ChatRenderer(now=self.clock.monotonic)
        errand = SubagentRenderer(
            agent, get_text(started, "task"), bool(started.get("background")), story
        )
        task = self._group.create_task(self._follow_subagent(turn, errand))
        self._subagent_tasks.add(task)
        task.add_done_callback(self._subagent_tasks.discard)

    async def _follow_subagent(self, turn: str, errand: SubagentRenderer) -> None:
        await self._follow(turn, errand, errand.agent)

    async def _ask_if_open(self, turn: str, call_id: str, agent: str) -> None:
        """Only what is still open is asked: an event may be an old one, told again."""
        for view in await self.client.list_approvals(session=self.session):
            if (view.turn, view.call_id) == (turn, call_id) and (
                turn,
                call_id,
            ) not in self._open_questions:
                self._open_questions.add((turn, call_id))
                await self.prompt.show_question(build_question(view, self.clock.now(), agent))

    async def _close_question(self, turn: str, call_id: str) -> None:
        self._open_questions.discard((turn, call_id))
        await self.prompt.close_question(turn, call_id)

    async def poll_questions(self) -> None:
        """Questions of agents and loops that work for this session (A17, C12), where their run is not followed here."""
        views = await self.client.list_approvals(session=self.session)
        waiting = {(view.turn, view.call_id) for view in views}
        for turn, call_id in [
            gone for gone in self._open_questions - waiting if gone[0] not in self.following
        ]:
            await self._close_question(turn, call_id)
        for view in views:
            known = view.turn in self.following or (view.turn, view.call_id) in self._open_questions
            if view.session != self.session and not known:
                self._open_questions.add((view.turn, view.call_id))
                run = await self.client.get_run(view.turn)
                question = build_question(
                    view, self.clock.now(), run.agent if run and run.parent else ""
                )
                await self.prompt.show_question(
                    dataclasses.replace(question, outside=await self._is_from_outside(view.session))
                )

    async def _is_from_outside(self, session: str) -> bool:
        """A stranger's words began it: nothing that was said for this conversation was meant for it."""
        label = next(
            (view.label for view in await self.client.list_sessions() if view.id == session), ""
        )
        return label != Label.TRUSTED

    async def show_undelivered(self, *, of: str = "", without: Collection[str] = ()) -> None:
        """Show what was said to the session and not seen yet; of one run, or of all. Replies to runs that are followed
        come with their events.
        """
        for said in await self.client.list_undelivered(self.session):
            waits = said.kind != "notice" and (said.turn in self.following or said.turn in without)
            if of in {"", said.turn} and not waits:
                await self._deliver(said)

    async def _deliver(self, said: UndeliveredText) -> None:
        new = (said.turn, said.part) not in self._shown_parts and not (
            said.turn in self._finished and said.kind != "notice"
        )
        self._shown_parts.add((said.turn, said.part))
        if new and said.kind == "reply":
            await self.screen.show(
                *await self.load_user_message(said.turn), AssistantText(said.body)
            )
        elif new:
            await self.screen.show(StatusNote(said.body))
        await self.client.mark_delivered(said.turn, said.part)

    async def load_user_message(self, turn: str) -> list[UserText]:
        """What the person had said to begin this run, for showing it again."""
        first = (await self.client.get_transcript(turn))[:1]
        return [UserText(str(event["text"]), past=True) for event in first if "text" in event]

    async def _mark_delivered(self, turn: str) -> None:
        for said in await self.client.list_undelivered(self.session):
            if said.turn == turn:
                await self._deliver(said)
