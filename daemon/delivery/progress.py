"""What is to be seen of a turn while it works. Pure."""

from dataclasses import dataclass, field

from daemon.core.events import Event, ModelReplied, Recorded, Suspended, ToolFinished, ToolStarted, TurnEnded
from daemon.core.live import DraftDropped, Glimpse, Over, SetAside, TextDelta

STATUS_AFTER_S = 3.0


@dataclass(slots=True)
class Progress:
    """What is to be seen of a turn. The text of a finished model call stays until the next one writes. `unanswered`: it stops
    here without a reply, now at least.
    """

    text: str = ""
    fresh: bool = True
    running: dict[str, str] = field(default_factory=dict)
    over: bool = False
    unanswered: bool = False

    def see(self, item: Glimpse) -> None:
        """Take one thing in."""
        match item:
            case TextDelta():
                self.text = item.text if self.fresh else self.text + item.text
                self.fresh = False
            case DraftDropped():
                self.text, self.fresh = "", True
            case Over():
                self.over = True
            case SetAside():
                self.over = self.unanswered = True
            case Recorded():
                self._happened(item.event)
            case _:
                return

    def _happened(self, event: Event) -> None:
        match event:
            case ModelReplied():
                self.text, self.fresh = event.text, True
            case ToolStarted():
                self.running[event.call_id] = event.tool
            case ToolFinished():
                self.running.pop(event.call_id, None)
            case Suspended():
                self.over = self.unanswered = True
            case TurnEnded():
                self.over, self.unanswered = True, not event.reply
            case _:
                return

    def shown(self, waited: float) -> str:
        """The draft: the text so far, and what runs now if it takes its time; "" for nothing to show."""
        status = f"⏳ _{', '.join(dict.fromkeys(self.running.values()))} …_" if self.running and waited >= STATUS_AFTER_S else ""
        return "\n\n".join(part for part in (self.text.strip(), status) if part)
