"""What a conversation puts on a screen, one finished thing at a time, and each as plain text."""

from dataclasses import dataclass
from typing import assert_never

from channels.terminal_text import exact, fields, one_line, readable, suspects

LONG = 500
STEP_WIDTH = 160
CHOICES = "[y]es once · [s]ession · [a]lways · [n]o"
PLAIN_CHOICES = "[y]es · [n]o"
TASK = 60

Plan = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Activity:
    """One running turn: what it does since when, what it has said so far, what its tool prints, its plan as (step, state)."""

    doing: str = ""
    since: float = 0.0
    draft: str = ""
    output: str = ""
    plan: Plan = ()


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
        return _then("· ", self.call, self.outcome, width)


@dataclass(frozen=True, slots=True)
class Errand:
    """An agent at work for the run: its task; and once it is over, how it ended and what it answered. One line."""

    agent: str
    task: str
    ended: str = ""
    answer: str = ""

    def fitted(self, width: int) -> str:
        """The line; the task gives way before the outcome does."""
        head = f"• agent {one_line(self.agent, TASK)}: "
        if not self.ended:
            return head + one_line(self.task, max(width - len(head), 1))
        return _then(head, self.task, f"{self.ended}: {self.answer}" if self.answer else self.ended, width)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something went wrong."""

    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A call that waits for a yes or no. `until` says when the question lapses, in the person's words.

    A question of the house itself has a `title` in words, and a `text` that it is about, which is always shown whole. `agent`
    is the one at work that asks, where it is not the run itself. `preview` is shown beside the arguments: a change as a diff,
    say. `place` is "2 of 3" where several wait. `outside`: it is asked because of something that a stranger sent.
    """

    turn: str
    call_id: str
    tool: str
    arguments: str
    effect: str
    label: str = ""
    until: str = ""
    whole: bool = False
    title: str = ""
    text: str = ""
    agent: str = ""
    preview: str = ""
    place: str = ""
    outside: bool = False

    @property
    def long(self) -> bool:
        """Too long to be shown whole at once: it has to be viewed before it can be allowed."""
        return len(self.arguments) + len(self.preview) > LONG and not self.whole and not self.title

    @property
    def choices(self) -> str:
        """What can be answered."""
        return PLAIN_CHOICES if self.title else CHOICES

    @property
    def hint(self) -> str:
        """The choices, and what any other words are taken for: a no, and this."""
        other = "or say what to change" if self.title else "or say what to do instead"
        if self.title and not self.text:
            other = "anything else is a no"
        if self.outside:
            other = "all else goes to the chat"
        return f"{self.choices} · {other}"

    def body(self) -> list[str]:
        """The lines that say exactly what would be done, or what the question is about."""
        lines = readable(self.text).split("\n") if self.title and self.text else []
        if not self.title:
            lines = [line for name, value in fields(self.arguments) for line in _argument(name, value)]
            lines += [f"    {exact(line)}" for line in self.preview.split("\n")] if self.preview else []
        if self.long:
            text = "\n".join(lines)
            lines = f"{text[: LONG // 2]}\n… {len(text) - LONG // 2} more characters; v shows them all".split("\n")
        if self.label == "untrusted":
            lines.append("! this turn has read text from outside; it may not be your wish")
        suspect = "" if self.title else f"{self.arguments}\n{self.preview}"
        lines.extend(f"! {suspicion}" for suspicion in suspects(suspect))
        return lines


Item = Typed | Spoken | Draft | Correction | Note | Step | Errand | Trouble | Question


def _then(lead: str, what: str, outcome: str, width: int) -> str:
    """`what → outcome` on one line; the outcome has half of it, and what room the other leaves."""
    taken = len(one_line(what, width)) + len(lead) + 3
    outcome = one_line(outcome, max(width // 2, width - taken, 1))
    return f"{lead}{one_line(what, max(width - len(lead) - len(outcome) - 3, 1))} → {outcome}"


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
        case Step() | Errand():
            return item.fitted(STEP_WIDTH)
        case Question():
            terms = f" ({question_terms(item)})" if question_terms(item) else ""
            return "\n".join([question_title(item) + terms, *("  " + line for line in item.body())])
        case _:
            assert_never(item)


def question_title(question: Question) -> str:
    """The headline of an approval."""
    who = f"agent {one_line(exact(question.agent), TASK)}: " if question.agent else ""
    return who + (readable(question.title) or f"allow {exact(question.tool)}?")


def question_terms(question: Question) -> str:
    """Which of several it is, what the call does to the world, and how long it can be answered."""
    parts = (question.place, "" if question.title else question.effect, question.until)
    return ", ".join(part for part in parts if part)
