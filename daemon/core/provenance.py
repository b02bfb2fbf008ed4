"""Who wrote what in a conversation: the ground on which an argument of a call may stand (trust.md,
argument provenance).

Where text from outside came into a turn: what `show` marks, and `/status` gives as the reason (F3).
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from enum import StrEnum

from daemon.core import value
from daemon.core.events import (
    ChildReturned,
    Event,
    HistoryCompressed,
    ModelAsked,
    ModelReplied,
    Outcome,
    RecordedEvent,
    Steered,
    ToolFinished,
    TurnResumed,
    UserSaid,
)
from daemon.core.labels import find_label
from daemon.core.quoted import SaidParts, Spans, split_said
from daemon.core.trust import OWNER_NAME, Effect, Label
from daemon.core.turn import Turn

Consult = Callable[[str, str, str], Awaitable[str | None]]
CHANGING_EFFECTS = (Effect.WRITE, Effect.EGRESS, Effect.DESTRUCTIVE)


class Origin(StrEnum):
    """Whose words a text is made of."""

    PERSON = "person"
    MEMORY = "memory"
    RESULT = "result"
    MODEL = "model"
    QUOTED = "quoted"
    OTHER = "other"


@value
class SourcedText:
    """One text of a conversation. `tool` is the one that was called, or whose result it is;
    `changes`: that call may have changed something. `owned`: the owner said it, or it came up in
    what they asked for; words and requests of other people are not theirs. `private`: it shows
    something of the owner's that is no public page. `records`: JSON of the owner's own records.
    `holds`: private sources that it may show by way of a file; `shows`: the file or tool itself.
    """

    text: str
    origin: Origin
    label: Label
    tool: str = ""
    changes: bool = False
    owned: bool = True
    private: bool = False
    records: str = ""
    holds: tuple[str, ...] = ()
    shows: str = ""


@value
class TrustContext:
    """What the calls of a turn stand in: its session's label, what was said before it, whether
    anybody may be asked, the conversation and the turn that it works for ("" for its own), what was
    said in that work above it, and how a model is asked beside the loop: (purpose, system prompt,
    question) -> its words. `by_itself`: no person began it, but a time, a mail or an event.
    """

    session_label: Label = Label.TRUSTED
    earlier: tuple[SourcedText, ...] = ()
    can_ask: bool = True
    root: str = ""
    root_turn: str = ""
    work: tuple[SourcedText, ...] = ()
    by_itself: bool = False
    consult: Consult | None = None

    @property
    def can_ask_back(self) -> bool:
        """Somebody of ours began this, and may be asked for something while a call runs."""
        outside = self.session_label is Label.UNTRUSTED
        return self.can_ask and not (self.by_itself or outside)


def collect_texts(turn: Turn) -> tuple[SourcedText, ...]:
    """Everything that was said in a turn, in order; what the model wrote as arguments of its calls,
    too.

    What tools say in a turn of somebody else's counts as theirs: they may have had it written where
    it was found.
    """
    owned = turn.is_owners
    return tuple(said for entry in turn.events for said in _iter_event_texts(entry.event, owned))


def iter_person_texts(
    text: str, role: str, label: Label, quoted: Spans = ()
) -> Iterator[SourcedText]:
    """What a person said themselves, and what they only pasted or quoted, which is a stranger's."""
    owned = role == OWNER_NAME
    parts = split_said(text, quoted) if quoted else SaidParts(text, "")
    if parts.said or not quoted:
        yield SourcedText(parts.said, Origin.PERSON if owned else Origin.OTHER, label, owned=owned)
    if quoted:
        yield SourcedText(parts.quoted, Origin.QUOTED, Label.UNTRUSTED, owned=False)


def _iter_event_texts(event: Event, owned: bool) -> Iterator[SourcedText]:
    match event:
        case UserSaid():
            yield from (
                SourcedText(
                    hit.text, Origin.MEMORY, hit.label, owned=hit.owned, private=hit.private
                )
                for hit in event.memories
            )
            if event.composed:
                label = Label.UNTRUSTED if event.quoted else event.label
                yield SourcedText(event.text, Origin.OTHER, label)
            else:
                yield from iter_person_texts(event.text, event.role, event.label, event.quoted)
            if event.files:
                label = Label.UNTRUSTED if event.named else event.label
                yield SourcedText(event.files, Origin.OTHER, label, owned=False)
            if event.outcomes:
                yield SourcedText(event.outcomes, Origin.OTHER, event.label, owned=False)
        case Steered():
            yield from iter_person_texts(event.text, event.role, event.label, event.quoted)
        case ModelReplied():
            yield SourcedText(event.text, Origin.MODEL, Label.UNTRUSTED)
            yield from (
                SourcedText(call.arguments, Origin.MODEL, Label.UNTRUSTED, call.name)
                for call in event.calls
            )
        case ToolFinished():
            changes = event.effect in CHANGING_EFFECTS
            yield SourcedText(
                event.text,
                Origin.RESULT,
                event.label,
                event.tool,
                changes,
                owned and event.owned and event.outcome in (Outcome.OK, Outcome.REJECTED),
                not event.public,
                event.records if owned else "",
                event.holds,
                event.shows or event.tool,
            )
        case HistoryCompressed(summary=summary) if summary:
            yield SourcedText(summary, Origin.OTHER, event.label, private=True)
        case ChildReturned():
            yield SourcedText("", Origin.OTHER, event.label, owned=False, private=True)
        case _:
            return


def is_owners_word(text: SourcedText) -> bool:
    """The owner said it."""
    return text.origin is Origin.PERSON and text.owned and text.label is Label.TRUSTED


def list_typed(turn: Turn) -> list[str]:
    """What the owner themselves typed in the turn."""
    return [text.text for text in collect_texts(turn) if is_owners_word(text)]


def is_owners_text(turn: Turn, text: str) -> bool:
    """What the model words is the owner's: nothing was read that it may be from, or they typed it
    in this turn as it is, all that stands between two signs.
    """
    if not turn.private:
        return True
    parts = (part for said in list_typed(turn) for part in PART_END.split(said))
    typed = {" ".join(part.split()).rstrip(SIGNS) for part in parts}
    return " ".join(text.split()).rstrip(SIGNS) in typed


SIGNS = " .!?,;:"
PART_END = re.compile(r"(?<=[.!?,;:])\s+|\n")
MAX_SHOWN = 60
PASTED, NAMED = "text that you pasted or quoted", "the name of a file that you sent"
TAINTED_BY: dict[type, str] = {
    Steered: "a message from outside",
    TurnResumed: "what this chat has read while the turn waited",
    ToolFinished: "the result of {0.tool}",
    ChildReturned: "the answer of another agent ({0.key})",
    ModelAsked: "what a server says of its tools",
    HistoryCompressed: "a summary of text from outside",
}


@value
class TaintSource:
    """The first event by which a turn became untrusted. `inherited`: earlier turns of its session
    had made it so.
    """

    seq: int
    by: str
    inherited: bool = False


def find_taint(recorded: Sequence[RecordedEvent]) -> TaintSource | None:
    """Where; None for a turn that has seen nothing from outside."""
    for entry in recorded:
        event = entry.event
        if find_label(event) is not Label.UNTRUSTED:
            continue
        is_said = isinstance(event, UserSaid | Steered)
        if is_said and event.quoted and event.label is Label.TRUSTED:
            return TaintSource(entry.seq, PASTED)
        if not isinstance(event, UserSaid):
            return TaintSource(entry.seq, TAINTED_BY[type(event)].format(event))
        if event.label is Label.UNTRUSTED:
            return TaintSource(entry.seq, "the message itself came from outside")
        if event.named:
            return TaintSource(entry.seq, NAMED)
        for hit in event.memories:
            if hit.label is Label.UNTRUSTED:
                text = " ".join(hit.text.split())
                text = text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"
                return TaintSource(entry.seq, f"a memory from outside: {text}")
        return TaintSource(
            entry.seq, "earlier turns of this chat had read text from outside", inherited=True
        )
    return None
