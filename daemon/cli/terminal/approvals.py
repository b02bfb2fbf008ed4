"""What a person is asked in a chat, what is typed at the prompt, and what it means."""

from dataclasses import dataclass, field
from datetime import datetime

from daemon.agent.budgets import EXTEND
from daemon.cli.terminal.items import ApprovalQuestion
from daemon.client.protocol import ApprovalView
from daemon.core.events import Answer
from daemon.core.system_questions import parse_system_question
from daemon.core.trust import Person, Role

TERMINAL_OWNER = Person("terminal", Role.OWNER)
YES = dict.fromkeys(("y", "yes", "once"), Answer.ONCE)
NO = dict.fromkeys(("n", "no"), Answer.DENY)
SCOPES = {
    **dict.fromkeys(("s", "session"), Answer.SESSION),
    **dict.fromkeys(("a", "always"), Answer.ALWAYS),
}
NOBODY = "nobody could be asked: this is no terminal, and neither --yes nor --deny-all was given"
RAISED_ONCE = "--yes raises the budget of a run once"


def build_question(
    view: ApprovalView, now: datetime | None = None, agent: str = ""
) -> ApprovalQuestion:
    """A question as a person is put it: a call as it will run, a question of the house in words."""
    until = describe_expiry(view.expires, now) if now else ""
    asked = (view.turn, view.call_id, view.tool, view.arguments, view.effect, view.label, until)
    house = parse_system_question(view.tool, view.arguments)
    if house:
        return ApprovalQuestion(*asked, title=house.title, text=house.text, agent=agent)
    return ApprovalQuestion(*asked, agent=agent, preview=view.preview)


def parse_answer(text: str, question: ApprovalQuestion | None = None) -> tuple[Answer, str]:
    """The answer and its reason: any other text is a no, and says why. Only calls can be allowed for longer."""
    known = {**YES, **NO} if question and question.title else {**YES, **NO, **SCOPES}
    answer = known.get(text.strip().lower())
    return (answer, "") if answer else (Answer.DENY, text.strip())


def is_answer_to(text: str, question: ApprovalQuestion) -> bool:
    """What is typed is an answer. Any words are, but not to a question of a stranger's: that one came in between (A6)."""
    word = text.strip().lower()
    return (
        not question.outside
        or word in {**YES, **NO, **SCOPES}
        or (question.is_long and asks_for_view(word))
    )


def asks_for_view(text: str) -> bool:
    """A question too long to be shown whole is to be shown whole, asked for or not, before it can be allowed."""
    return text.strip().lower() in {"v", "view"} or parse_answer(text)[0] is not Answer.DENY


@dataclass(slots=True)
class QuestionNumbers:
    """Which of several questions one is: "2 of 3". Counted anew once all are settled."""

    answered: int = 0

    def number_next(self, waiting: int) -> str:
        """The place of the one that is put next; "" for one that waits alone and came alone."""
        return (
            f"{self.answered + 1} of {self.answered + waiting}"
            if self.answered + waiting > 1
            else ""
        )

    def count_answered(self, gone: int, left: int) -> None:
        """So many are settled, so many are left."""
        self.answered = self.answered + gone if left else 0


@dataclass(slots=True)
class AutoAnswer:
    """What --yes and --deny-all say to everything. A yes raises the budget of a run once: a limit stays one (F2); and none is
    said to a stranger, who was not there when it was given (A6).
    """

    answer: Answer | None
    _raised: set[str] = field(default_factory=set)

    def answer_for(self, question: ApprovalQuestion) -> tuple[Answer, str] | None:
        """The answer and its reason; None when the person is to be asked."""
        if self.answer is None or (question.outside and self.answer is not Answer.DENY):
            return None
        if (
            question.tool == EXTEND
            and self.answer is not Answer.DENY
            and question.turn in self._raised
        ):
            return Answer.DENY, RAISED_ONCE
        if question.tool == EXTEND:
            self._raised.add(question.turn)
        return self.answer, ""


def describe_expiry(expires: str, now: datetime) -> str:
    """Until when a question can be answered, in the person's words."""
    try:
        at = datetime.fromisoformat(expires)
    except ValueError:
        return ""
    minutes = (at - now).total_seconds() / 60
    if minutes > 90:
        return f"until {at.astimezone():%d %b %H:%M}"
    return f"lapses in {minutes:.0f} min" if minutes >= 1 else "lapses in less than a minute"
