"""What a conversation puts on a screen, one finished thing at a time, and each as plain text."""

from dataclasses import dataclass
from typing import assert_never

from channels.markup.approval_prompt import describe_effect
from channels.markup.sanitize import (
    argument_fields,
    escape_controls,
    escape_invisible,
    find_suspicious,
    shorten_line,
)
from daemon.agent.system_questions import QuestionText
from daemon.core import value

LONG_CHARS = 500
STEP_WIDTH = 160
CHOICES = "[y]es once · [s]ession · [a]lways · [n]o"
PLAIN_CHOICES = "[y]es · [n]o"
TASK_CHARS = 60
SHOWN_DETAILS = 6

PlanSteps = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Activity:
    """One running turn: what it does since when, what it has said so far, what its tool prints, its
    plan as (step, state).
    """

    doing: str = ""
    since: float = 0.0
    draft: str = ""
    output: str = ""
    plan: PlanSteps = ()


@value
class UserText:
    """What the person wrote; `past` when it is shown again from an earlier visit."""

    text: str
    past: bool = False


@value
class AssistantText:
    """A finished text of the assistant. `interim`: more work follows; `past`: shown again from an
    earlier visit.
    """

    text: str
    interim: bool = False
    past: bool = False


@value
class DroppedDraft:
    """A text that was seen while it came, and that is not the answer."""

    text: str


@value
class CorrectedReply:
    """The checked reply, where another one had been on the screen (E12)."""

    text: str


@value
class StatusNote:
    """One quiet line about what happens."""

    text: str


@value
class ToolLine:
    """A tool call that is over, and how it ended: one quiet line, however narrow the screen.
    `details`: the lines that a command printed, or the change of a file as a diff.
    """

    call: str
    outcome: str
    details: tuple[str, ...] = ()
    is_diff: bool = False

    def fit_width(self, width: int) -> str:
        """The line; the call gives way before the outcome does."""
        return _join_outcome("· ", self.call, self.outcome, width)

    @property
    def is_folded(self) -> bool:
        """There are more details than are shown."""
        return len(self.details) > SHOWN_DETAILS + 1

    def fold(self) -> list[str]:
        """A few of the details, and how many more there are: the begin of a diff, the end of what
        was printed.
        """
        if not self.is_folded:
            return [*self.details]
        more = f"… {len(self.details) - SHOWN_DETAILS} more lines · Ctrl-O shows all"
        if self.is_diff:
            return [*self.details[:SHOWN_DETAILS], more]
        return [more, *self.details[-SHOWN_DETAILS:]]


@value
class SubagentLine:
    """An agent at work for the run: its task; and once it is over, how it ended and what it
    answered. One line.
    """

    agent: str
    task: str
    ended: str = ""
    answer: str = ""

    def fit_width(self, width: int) -> str:
        """The line; the task gives way before the outcome does."""
        head = f"• agent {shorten_line(self.agent, TASK_CHARS)}: "
        if not self.ended:
            return head + shorten_line(self.task, max(width - len(head), 1))
        outcome = f"{self.ended}: {self.answer}" if self.answer else self.ended
        return _join_outcome(head, self.task, outcome, width)


@value
class ErrorLine:
    """Something went wrong."""

    text: str


@value
class ApprovalQuestion:
    """A call that waits for a yes or no. `until` says when the question lapses, in the person's
    words.

    A question of the daemon itself has a `title` in words, and a `text` that it is about, which is
    always shown whole. `agent`: the sub-agent that asks, "" for the run itself. `preview` is shown
    beside the arguments, such as a diff. `place` is "2 of 3" where several wait. `outside`:
    something that a stranger sent is behind it. `asked`: what `ask_user` or `ask_secret` asks;
    `confirmed`: the secret is typed next, unseen.
    """

    turn: str
    call_id: str
    tool: str
    arguments: str
    effect: str
    label: str = ""
    until: str = ""
    show_all: bool = False
    title: str = ""
    text: str = ""
    agent: str = ""
    preview: str = ""
    place: str = ""
    outside: bool = False
    question: str = ""
    asked: QuestionText | None = None
    confirmed: bool = False

    @property
    def is_secret(self) -> bool:
        """It asks for a secret."""
        return self.asked is not None and bool(self.asked.secret[0])

    @property
    def prompt(self) -> str:
        """What stands before the answer."""
        if self.confirmed and self.asked:
            return f"{self.asked.secret[0]} (not shown): "
        if self.asked and not self.is_secret:
            return "your answer? "
        return "yes or no? " if self.title else "allow? "

    @property
    def key(self) -> tuple[str, str]:
        """Of its run and call."""
        return self.turn, self.call_id

    @property
    def meant(self) -> str:
        """Its call, and which question about that."""
        return "/".join(filter(None, (self.call_id, self.question)))

    @property
    def is_long(self) -> bool:
        """Too long to be shown whole at once: it has to be viewed before it can be allowed."""
        is_short = len(self.arguments) + len(self.preview) <= LONG_CHARS
        return not (is_short or self.show_all or self.title)

    @property
    def choices(self) -> str:
        """What can be answered."""
        if self.asked and not self.is_secret:
            return f"1 to {len(self.asked.options)}" if self.asked.options else "your answer"
        return PLAIN_CHOICES if self.title else CHOICES

    @property
    def hint(self) -> str:
        """The choices, and what any other words are taken for: a no, and this."""
        other = "or say what to change" if self.title else "or say what to do instead"
        if self.title and not self.text:
            other = "anything else is a no"
        if self.is_secret:
            other = "the value is asked for next, and not shown"
        elif self.asked:
            other = "or write your own" if self.asked.options else "in your own words"
        if self.outside:
            other = "all else goes to the chat"
        return f"{self.choices} · {other}"

    def body(self) -> list[str]:
        """The lines that say exactly what would be done, or what the question is about."""
        lines = escape_controls(self.text).split("\n") if self.title and self.text else []
        if self.asked and self.asked.default:
            lines.append(f"without an answer: {escape_invisible(self.asked.default)}")
        if not self.title:
            does, preview = describe_effect(self.tool, self.effect, self.preview)
            lines.append(f"It {does}:")
            for name, text in argument_fields(self.arguments):
                first, *rest = escape_invisible(text).split("\n")
                lines.append(f"{escape_invisible(name)}: {first}" if name else first)
                lines += (f"    {line}" for line in rest)
            if preview:
                lines += (f"    {escape_invisible(line)}" for line in preview.split("\n"))
        if self.is_long:
            text, shown = "\n".join(lines), LONG_CHARS // 2
            missing = f"… {len(text) - shown} more characters; v shows them all"
            lines = [*text[:shown].split("\n"), missing]
        if self.label == "untrusted":
            lines.append("! this turn has read text from outside; it may not be your wish")
        if not self.title:
            suspicious = find_suspicious(f"{self.arguments}\n{self.preview}")
            lines += (f"! {warning}" for warning in suspicious)
        return lines


ScreenItem = (
    UserText
    | AssistantText
    | DroppedDraft
    | CorrectedReply
    | StatusNote
    | ToolLine
    | SubagentLine
    | ErrorLine
    | ApprovalQuestion
)


def _join_outcome(lead: str, what: str, outcome: str, width: int) -> str:
    """`what → outcome` on one line; the outcome has half of it, and what room the other leaves."""
    taken = len(shorten_line(what, width)) + len(lead) + 3
    outcome = shorten_line(outcome, max(width // 2, width - taken, 1))
    return f"{lead}{shorten_line(what, max(width - len(lead) - len(outcome) - 3, 1))} → {outcome}"


def to_plain_text(item: ScreenItem) -> str:
    """The item without any styling, safe for every terminal."""
    match item:
        case UserText():
            return "\n".join(f"> {line}" for line in escape_controls(item.text).split("\n"))
        case AssistantText() | DroppedDraft() | ErrorLine():
            return escape_controls(item.text)
        case CorrectedReply():
            return f"Correction:\n{escape_controls(item.text)}"
        case StatusNote():
            return "· " + escape_controls(item.text)
        case ToolLine() | SubagentLine():
            return item.fit_width(STEP_WIDTH)
        case ApprovalQuestion():
            terms = f" ({question_terms(item)})" if question_terms(item) else ""
            return "\n".join([question_title(item) + terms, *("  " + line for line in item.body())])
        case _:
            assert_never(item)


def question_title(question: ApprovalQuestion) -> str:
    """The headline of an approval."""
    agent = shorten_line(escape_invisible(question.agent), TASK_CHARS)
    return (f"agent {agent}: " if agent else "") + (
        escape_controls(question.title) or f"allow {escape_invisible(question.tool)}?"
    )


def question_terms(question: ApprovalQuestion) -> str:
    """Which of several it is, what the call does to the world, and how long it can be answered."""
    parts = (question.place, "" if question.title else question.effect, question.until)
    return ", ".join(part for part in parts if part)
