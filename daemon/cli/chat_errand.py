"""An agent at work for a run, as the chat of that run tells it: what it is doing, what it asks, what became of it (A17). Pure."""

from dataclasses import dataclass, field

from channels.terminal_items import Activity, Errand, Item, Note
from daemon.cli.chat_story import Story
from daemon.cli.chat_words import Data, text_of
from daemon.door.base import LiveEvent

TOLD = {"approval.answered", "budget.raised"}


@dataclass(slots=True)
class ErrandStory:
    """Its words are for the agent that set it to work, so they are not shown. `background`: nobody waits for it."""

    agent: str
    task: str
    background: bool
    story: Story
    _shown: Activity = field(default_factory=Activity)

    @property
    def ended(self) -> Data | None:
        """What `run.completed` says of it."""
        return self.story.ended

    @property
    def activity(self) -> Activity:
        """What it is doing now, under its name and without its words."""
        now, shown = self.story.activity, self._shown
        shown.doing = f"agent {self.agent}: {now.doing}" if now.doing else ""
        shown.since, shown.output = now.since, now.output
        return shown

    def take(self, event: LiveEvent) -> list[Item]:
        """What is to be shown for good after this event."""
        items = self.story.take(event)
        if event.name == "run.completed" and self.background:
            ended = text_of(event.data, "stop_reason").replace("_", " ")
            return [Errand(self.agent, self.task, ended, text_of(event.data, "reply"))]
        return [kept for item in items if (kept := self._kept(item, event.name))]

    def _kept(self, item: Item, name: str) -> Item | None:
        if isinstance(item, Note) and name in TOLD:
            return Note(f"agent {self.agent}: {item.text}")
        return item if isinstance(item, Errand) else None
