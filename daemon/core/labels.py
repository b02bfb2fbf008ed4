"""What each event makes of its turn's label: whether it shows a stranger's text, and what of the
owner's own (trust.md).
"""

from daemon.core.events import (
    ChildReturned,
    Event,
    HistoryCompressed,
    ModelAsked,
    Steered,
    ToolFinished,
    TurnResumed,
    UserSaid,
)
from daemon.core.trust import Label, Sources, join_all

TAINTING = (Steered, ModelAsked, ToolFinished, ChildReturned, HistoryCompressed, TurnResumed)
LABELLED = (UserSaid, *TAINTING)
"""All others show the model nothing that it has not seen."""


def find_label(event: Event) -> Label:
    """What the event makes of its turn's label."""
    if isinstance(event, UserSaid):
        return join_all((event.own_label, event.before))
    if isinstance(event, Steered) and event.quoted:
        return Label.UNTRUSTED
    return event.label if isinstance(event, TAINTING) else Label.TRUSTED


def find_private(event: Event) -> Sources:
    """What of the owner's own the event shows: memory, the tools whose results show it, what files
    may hold of it, and what was shown before.
    """
    match event:
        case UserSaid() if any(hit.private for hit in event.memories):
            return ("memory", *event.private)
        case ToolFinished():
            return () if event.public else (event.shows or event.tool, *event.holds)
        case UserSaid() | TurnResumed() | ChildReturned():
            return event.private
        case _:
            return ()
