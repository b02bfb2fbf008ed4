"""What a person is asked in a chat, what is typed at the prompt, and what it means."""

from dataclasses import dataclass, field
from datetime import datetime

from channels.terminal_items import Question
from daemon.agent.money.questions import EXTEND
from daemon.core.events import Answer
from daemon.core.roles import Person, Role
from daemon.door.base import ApprovalView
from daemon.loops.questions import house_question

BY = Person("terminal", Role.OWNER)
YES = dict.fromkeys(("y", "yes", "once"), Answer.ONCE)
NO = dict.fromkeys(("n", "no"), Answer.DENY)
SCOPES = {**dict.fromkeys(("s", "session"), Answer.SESSION), **dict.fromkeys(("a", "always"), Answer.ALWAYS)}
NOBODY = "nobody could be asked: this is no terminal, and neither --yes nor --deny-all was given"
RAISED_ONCE = "--yes raises the budget of a run once"


def question_of(view: ApprovalView, now: datetime | None = None, agent: str = "") -> Question:
    """A question as a person is put it: a call as it will run, a question of the house in words."""
    until = lapses(view.expires, now) if now else ""
    asked = (view.turn, view.call_id, view.tool, view.arguments, view.effect, view.label, until)
    house = house_question(view.tool, view.arguments)
    if house:
        return Question(*asked, title=house.title, text=house.text, agent=agent)
    return Question(*asked, agent=agent, preview=view.preview)


def understood(text: str, question: Question | None = None) -> tuple[Answer, str]:
    """The answer and its reason: any other text is a no, and says why. Only calls can be allowed for longer."""
    known = {**YES, **NO} if question and question.title else {**YES, **NO, **SCOPES}
    answer = known.get(text.strip().lower())
    return (answer, "") if answer else (Answer.DENY, text.strip())


def is_meant(text: str, question: Question) -> bool:
    """What is typed is an answer. Any words are, but not to a question of a stranger's: that one came in between (A6)."""
    word = text.strip().lower()
    return not question.outside or word in {**YES, **NO, **SCOPES} or (question.long and wants_view(word))


def wants_view(text: str) -> bool:
    """A question too long to be shown whole is to be shown whole, asked for or not, before it can be allowed."""
    return text.strip().lower() in {"v", "view"} or understood(text)[0] is not Answer.DENY


@dataclass(slots=True)
class Places:
    """Which of several questions one is: "2 of 3". Counted anew once all are settled."""

    settled: int = 0

    def of_first(self, waiting: int) -> str:
        """The place of the one that is put next; "" for one that waits alone and came alone."""
        return f"{self.settled + 1} of {self.settled + waiting}" if self.settled + waiting > 1 else ""

    def settle(self, gone: int, left: int) -> None:
        """So many are settled, so many are left."""
        self.settled = self.settled + gone if left else 0


@dataclass(slots=True)
class Standing:
    """What --yes and --deny-all say to everything. A yes raises the budget of a run once: a limit stays one (F2); and none is
    said to a stranger, who was not there when it was given (A6).
    """

    answer: Answer | None
    _raised: set[str] = field(default_factory=set)

    def to(self, question: Question) -> tuple[Answer, str] | None:
        """The answer and its reason; None when the person is to be asked."""
        if self.answer is None or (question.outside and self.answer is not Answer.DENY):
            return None
        if question.tool == EXTEND and self.answer is not Answer.DENY and question.turn in self._raised:
            return Answer.DENY, RAISED_ONCE
        if question.tool == EXTEND:
            self._raised.add(question.turn)
        return self.answer, ""


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
