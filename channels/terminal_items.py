"""What a conversation puts on a screen, one finished thing at a time, and each as plain text."""

from dataclasses import dataclass
from typing import assert_never

from channels.terminal_text import exact, fields, lookalikes, one_line, readable

LONG = 2000
STEP_WIDTH = 160
CHOICES = "[y]es once · [s]ession · [a]lways · [n]o"


@dataclass(slots=True)
class Activity:
    """One running turn: what it does since when, what it has said so far, what its tool prints."""

    doing: str = ""
    since: float = 0.0
    draft: str = ""
    output: str = ""


@dataclass(frozen=True, slots=True)
class Typed:
    """What the person wrote; `past` when it is shown again from an earlier visit."""

    text: str
    past: bool = False


@dataclass(frozen=True, slots=True)
class Spoken:
    """A finished text of the assistant. `interim`: more work follows; `past`: shown again from an earlier visit."""

    text: str
    interim: bool = False
    past: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """A text that was seen while it came, and that is not the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Correction:
    """The checked reply, where another one had been on the screen (E12)."""

    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """One quiet line about what happens."""

    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """A tool call that is over, and how it ended: one quiet line, however narrow the screen."""

    call: str
    outcome: str

    def fitted(self, width: int) -> str:
        """The line; the call gives way before the outcome does."""
        outcome = one_line(self.outcome, max(width // 2, 1))
        return f"· {one_line(self.call, max(width - len(outcome) - 5, 1))} → {outcome}"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something went wrong."""

    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A call that waits for a yes or no. `until` says when the question lapses, in the person's words."""

    turn: str
    call_id: str
    tool: str
    arguments: str
    effect: str
    label: str = ""
    until: str = ""
    whole: bool = False

    @property
    def long(self) -> bool:
        """Too long to be shown whole at once: it has to be viewed before it can be allowed."""
        return len(self.arguments) > LONG and not self.whole

    def body(self) -> list[str]:
        """The lines that say exactly what would be done."""
        lines = [line for name, value in fields(self.arguments) for line in _argument(name, value)]
        if self.long:
            text = "\n".join(lines)
            lines = f"{text[: LONG // 2]}\n… {len(text) - LONG // 2} more characters; v shows them all".split("\n")
        if self.label == "untrusted":
            lines.append("! this turn has read text from outside; it may not be your wish")
        lines.extend(f"! letters of different alphabets that look alike: {word}" for word in lookalikes(self.arguments))
        return lines


Item = Typed | Spoken | Draft | Correction | Note | Step | Trouble | Question


def _argument(name: str, value: str) -> list[str]:
    first, *rest = exact(value).split("\n")
    lead = f"{exact(name)}: " if name else ""
    return [lead + first, *("    " + line for line in rest)]


def plain(item: Item) -> str:
    """The item without any styling, safe for every terminal."""
    match item:
        case Typed():
            return "\n".join(f"> {line}" for line in readable(item.text).split("\n"))
        case Spoken() | Draft() | Trouble():
            return readable(item.text)
        case Correction():
            return f"Correction:\n{readable(item.text)}"
        case Note():
            return "· " + readable(item.text)
        case Step():
            return item.fitted(STEP_WIDTH)
        case Question():
            return "\n".join([f"{question_title(item)} ({question_terms(item)})", *("  " + line for line in item.body())])
        case _:
            assert_never(item)


def question_title(question: Question) -> str:
    """The headline of an approval."""
    return f"allow {exact(question.tool)}?"


def question_terms(question: Question) -> str:
    """What the call does to the world, and how long it can be answered."""
    return f"{question.effect}, {question.until}" if question.until else question.effect
