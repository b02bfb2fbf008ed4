"""Following runs on behalf of a screen: events are told, questions are passed on, what was shown is marked as delivered.

Agents that a run sets to work are followed beside it: what they do is seen, what they ask is asked here (A17).
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from channels.terminal_items import Activity, Item, Note, Question, Spoken, Typed
from daemon.cli.chat_answers import question_of
from daemon.cli.chat_errand import ErrandStory
from daemon.cli.chat_story import Story
from daemon.cli.chat_words import Data, text_of
from daemon.core.clock import Clock
from daemon.core.label import Label
from daemon.door.base import Delivery, Door, LiveEvent


class Screen(Protocol):
    """Where a conversation is shown."""

    async def show(self, *items: Item) -> None:
        """Put these there for good, in order."""
        ...

    def move(self, turn: str, activity: Activity | None) -> None:
        """Show what this run is doing now; None when it is over."""
        ...


class Asker(Protocol):
    """Who gets questions answered."""

    async def asked(self, question: Question) -> None:
        """A call waits for a yes or no."""
        ...

    async def settled(self, turn: str, call_id: str) -> None:
        """It waits no longer, whoever answered."""
        ...


@dataclass(slots=True)
class Follower:
    """Tells runs of one session on one screen."""

    door: Door
    session: str
    screen: Screen
    asker: Asker
    clock: Clock
    following: set[str] = field(default_factory=set)
    _group: asyncio.TaskGroup | None = None
    _errands: set[asyncio.Task[None]] = field(default_factory=set)
    _open: set[tuple[str, str]] = field(default_factory=set)
    _shown: set[tuple[str, int]] = field(default_factory=set)
    _told: set[str] = field(default_factory=set)

    @asynccontextmanager
    async def accompanying(self) -> AsyncIterator[None]:
        """As long as this lasts, agents are followed too, those in the background beyond the end of their run."""
        async with asyncio.TaskGroup() as self._group:
            yield
            for task in self._errands:
                task.cancel()

    async def follow(self, turn: str) -> Data:
        """Tell this run to its end; what `run.completed` says of it, nothing when the run is told already."""
        return await self._follow(turn, Story(now=self.clock.monotonic), "")

    async def _follow(self, turn: str, story: Story | ErrandStory, agent: str) -> Data:
        if turn in self.following or turn in self._told:
            return {}
        self.following.add(turn)
        try:
            async for event in self.door.events(turn):
                await self._tell(turn, story, event, agent)
            self._told.add(turn)
            await self._mark(turn)
        except KeyError:
            return {}  # no run of its own came of it: its text went into another one
        finally:
            self.following.discard(turn)
            self.screen.move(turn, None)
        return story.ended or {}

    async def _tell(self, turn: str, story: Story | ErrandStory, event: LiveEvent, agent: str) -> None:
        items = story.take(event)
        if event.name == "run.completed":
            await self.notices(of=turn)
        self.screen.move(turn, story.activity)
        if items:
            await self.screen.show(*items)
        match event.name:
            case "approval.asked":
                await self._ask(turn, text_of(event.data, "call_id"), agent)
            case "approval.answered":
                await self._settled(turn, text_of(event.data, "call_id"))
            case "agent.started":
                self._accompany(event.data)
            case "run.completed":
                for call_id in [call_id for of, call_id in self._open if of == turn]:
                    await self._settled(turn, call_id)

    def _accompany(self, started: Data) -> None:
        if self._group is None:
            return
        agent, turn = text_of(started, "agent"), text_of(started, "turn")
        story = Story(now=self.clock.monotonic)
        errand = ErrandStory(agent, text_of(started, "task"), bool(started.get("background")), story)
        task = self._group.create_task(self._beside(turn, errand))
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _beside(self, turn: str, errand: ErrandStory) -> None:
        await self._follow(turn, errand, errand.agent)

    async def _ask(self, turn: str, call_id: str, agent: str) -> None:
        """Only what is still open is asked: an event may be an old one, told again."""
        for view in await self.door.approvals(session=self.session):
            if (view.turn, view.call_id) == (turn, call_id) and (turn, call_id) not in self._open:
                self._open.add((turn, call_id))
                await self.asker.asked(question_of(view, self.clock.now(), agent))

    async def _settled(self, turn: str, call_id: str) -> None:
        self._open.discard((turn, call_id))
        await self.asker.settled(turn, call_id)

    async def others(self) -> None:
        """Questions of agents and loops that work for this session (A17, C12), where their run is not followed here."""
        views = await self.door.approvals(session=self.session)
        waiting = {(view.turn, view.call_id) for view in views}
        for turn, call_id in [gone for gone in self._open - waiting if gone[0] not in self.following]:
            await self._settled(turn, call_id)
        for view in views:
            known = view.turn in self.following or (view.turn, view.call_id) in self._open
            if view.session != self.session and not known:
                self._open.add((view.turn, view.call_id))
                run = await self.door.run(view.turn)
                question = question_of(view, self.clock.now(), run.agent if run and run.parent else "")
                await self.asker.asked(dataclasses.replace(question, outside=await self._from_outside(view.session)))

    async def _from_outside(self, session: str) -> bool:
        """A stranger's words began it: nothing that was said for this conversation was meant for it."""
        label = next((view.label for view in await self.door.sessions() if view.id == session), "")
        return label != Label.TRUSTED

    async def notices(self, *, of: str = "", without: Collection[str] = ()) -> None:
        """Show what was said to the session and not seen yet; of one run, or of all. Replies to runs that are followed
        come with their events.
        """
        for said in await self.door.undelivered(self.session):
            waits = said.kind != "notice" and (said.turn in self.following or said.turn in without)
            if of in {"", said.turn} and not waits:
                await self._deliver(said)

    async def _deliver(self, said: Delivery) -> None:
        new = (said.turn, said.part) not in self._shown and not (said.turn in self._told and said.kind != "notice")
        self._shown.add((said.turn, said.part))
        if new and said.kind == "reply":
            await self.screen.show(*await self.question(said.turn), Spoken(said.body))
        elif new:
            await self.screen.show(Note(said.body))
        await self.door.delivered(said.turn, said.part)

    async def question(self, turn: str) -> list[Typed]:
        """What the person had said to begin this run, for showing it again."""
        first = (await self.door.transcript(turn))[:1]
        return [Typed(str(event["text"]), past=True) for event in first if "text" in event]

    async def _mark(self, turn: str) -> None:
        for said in await self.door.undelivered(self.session):
            if said.turn == turn:
                await self._deliver(said)
