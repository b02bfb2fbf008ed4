"""Channels of which something may be missing, and what comes there meanwhile: it waits until what is missing has been read."""

from dataclasses import dataclass, field
from typing import Any

MOST_HELD = 500
Event = tuple[str, dict[str, Any]]


@dataclass(slots=True)
class Gap:
    """What is missing in one channel. `after`: read on after this id; `tries`: how often it went wrong, `due`: when to try again.
    `again`: more came meanwhile than is held; history has it. `anew`: something may be missing that came after the page was read.
    """

    after: int
    tries: int = 0
    due: float = 0.0
    again: bool = False
    anew: bool = False
    held: list[Event] = field(default_factory=list)

    def hold(self, event: Event) -> None:
        """Keep what came; it is handled after what is missing."""
        if len(self.held) < MOST_HELD and not self.again:
            self.held.append(event)
        else:
            self.again = True


@dataclass(slots=True)
class Gaps:
    """All of them, by channel."""

    by_channel: dict[str, Gap] = field(default_factory=dict)

    def open(self, channel: str, after: int) -> Gap:
        """Something may be missing there since then."""
        gap = self.by_channel.setdefault(channel, Gap(after))
        gap.after, gap.anew = min(gap.after, after), True
        return gap

    def holds(self, channel: str, event: Event) -> bool:
        """Whether this event has to wait; it is kept then."""
        gap = self.by_channel.get(channel)
        if gap is not None:
            gap.hold(event)
        return gap is not None

    def next(self, now: float) -> str:
        """A channel to read on in, each in its turn; "" for none."""
        due = next((channel for channel, gap in self.by_channel.items() if gap.due <= now), "")
        if due:
            self.by_channel[due] = self.by_channel.pop(due)
        return due

    def wait(self, now: float) -> float | None:
        """Seconds until one is due; None when there is none."""
        return min((max(0.0, gap.due - now) for gap in self.by_channel.values()), default=None)

    def close(self, channel: str) -> list[Event]:
        """All has been read there: what was held; nothing, and the gap stays, when there is still more."""
        gap = self.by_channel[channel]
        if gap.again:
            gap.again = False
            gap.held.clear()
            return []
        if gap.anew:
            return []
        return self.by_channel.pop(channel).held
