"""Following runs on behalf of a screen: events are told, questions are passed on, what was shown is marked as delivered."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from channels.terminal_items import Activity, Item, Note, Question, Spoken, Typed
from daemon.cli.chat_story import Story
from daemon.core.clock import Clock
from daemon.door.base import ApprovalView, Delivery, Door, LiveEvent

Data = Mapping[str, object]


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
    _shown: set[tuple[str, int]] = field(default_factory=set)
    _told: set[str] = field(default_factory=set)
    _of_others: set[tuple[str, str]] = field(default_factory=set)

    async def follow(self, turn: str) -> Data:
        """Tell this run to its end; what `run.completed` says of it, nothing when the run is told already."""
        if turn in self.following or turn in self._told:
            return {}
        self.following.add(turn)
        story = Story(now=self.clock.monotonic)
        try:
            async for event in self.door.events(turn):
                await self._tell(turn, story, event)
            self._told.add(turn)
            await self._mark(turn)
        except KeyError:
            return {}  # no run of its own came of it: its text went into another one
        finally:
            self.following.discard(turn)
            self.screen.move(turn, None)
        return story.ended or {}

    async def _tell(self, turn: str, story: Story, event: LiveEvent) -> None:
        items = story.take(event)
        if event.name == "run.completed":
            await self.notices(of=turn)
        self.screen.move(turn, story.activity)
        if items:
            await self.screen.show(*items)
        match event.name:
            case "approval.asked":
                await self._ask(turn, str(event.data.get("call_id", "")))
            case "approval.answered":
                await self.asker.settled(turn, str(event.data.get("call_id", "")))

    async def _ask(self, turn: str, call_id: str) -> None:
        """Only what is still open is asked: an event may be an old one, told again."""
        for view in await self.door.approvals(session=self.session):
            if (view.turn, view.call_id) == (turn, call_id):
                await self.asker.asked(self._question_of(view))

    def _question_of(self, view: ApprovalView) -> Question:
        until = lapses(view.expires, self.clock.now())
        return Question(view.turn, view.call_id, view.tool, view.arguments, view.effect, view.label, until)

    async def others(self) -> None:
        """Questions of agents and loops that work for this session (A17, C12): their runs are not followed here, so this looks."""
        views = [view for view in await self.door.approvals(session=self.session) if view.session != self.session]
        gone = self._of_others.difference((view.turn, view.call_id) for view in views)
        self._of_others -= gone
        for turn, call_id in gone:
            await self.asker.settled(turn, call_id)
        for view in views:
            if (view.turn, view.call_id) not in self._of_others:
                self._of_others.add((view.turn, view.call_id))
                await self.asker.asked(self._question_of(view))

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


def lapses(expires: str, now: datetime) -> str:
    """Until when a question can be answered, in the person's words."""
    try:
        at = datetime.fromisoformat(expires)
    except ValueError:
        return ""
    minutes = (at - now).total_seconds() / 60
    if minutes > 90:
        return f"until {at.astimezone():%d %b %H:%M}"
    return f"lapses in {minutes:.0f} min" if minutes >= 1 else "lapses in less than a minute"
