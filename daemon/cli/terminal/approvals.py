"""Questions in a chat: how they are put, what an answer means, and answers that the command line
gives.
"""

import argparse
from dataclasses import dataclass, field
from datetime import datetime

from daemon.agent.system_questions import EXTEND_TOOL, parse_system_question
from daemon.cli.terminal.items import ApprovalQuestion
from daemon.client.protocol import ApprovalView
from daemon.core.trust import Answer, Person, Role

TERMINAL_OWNER = Person("terminal", Role.OWNER)
YES_OR_NO = {
    **dict.fromkeys(("y", "yes", "once"), Answer.ONCE),
    **dict.fromkeys(("n", "no"), Answer.DENY),
}
ANSWERS = {
    **YES_OR_NO,
    **dict.fromkeys(("s", "session"), Answer.SESSION),
    **dict.fromkeys(("a", "always"), Answer.ALWAYS),
}
NOBODY = "nobody could be asked: this is no terminal, and neither --yes nor --deny-all was given"
RAISED_ONCE = "--yes raises the budget of a run once"
LONG_MINUTES = 90

Answered = tuple[Answer, str]  # with the reason


def fixed_answer(args: argparse.Namespace) -> Answer | None:
    """The answer of --yes or --deny-all."""
    return Answer.ONCE if args.yes else Answer.DENY if args.deny_all else None


def build_question(
    view: ApprovalView, now: datetime | None = None, agent: str = ""
) -> ApprovalQuestion:
    """A call as it will run, or a question of the daemon itself in words."""
    system = parse_system_question(view.tool, view.arguments)
    return ApprovalQuestion(
        view.turn,
        view.call_id,
        view.tool,
        view.arguments,
        view.effect,
        view.label,
        describe_expiry(view.expires, now) if now else "",
        title=system.title if system else "",
        text=system.text if system else "",
        agent=agent,
        preview="" if system else view.preview,
    )


def parse_answer(text: str, question: ApprovalQuestion | None = None) -> Answered:
    """Any other text is a no with this reason. Only calls can be allowed for longer than once."""
    known = YES_OR_NO if question and question.title else ANSWERS
    answer = known.get(text.strip().lower())
    return (answer, "") if answer else (Answer.DENY, text.strip())


def is_answer_to(text: str, question: ApprovalQuestion) -> bool:
    """Any text is one, except to a question of a stranger's run, which came in between (A6)."""
    word = text.strip().lower()
    return not question.outside or word in ANSWERS or (question.is_long and asks_for_view(word))


def asks_for_view(text: str) -> bool:
    """A long question is shown in full, asked for or not, before it can be allowed."""
    return text.strip().lower() in ("v", "view") or parse_answer(text)[0] is not Answer.DENY


@dataclass(slots=True)
class AutoAnswer:
    """The answer of --yes or --deny-all. A yes raises a run's budget once only (F2), and is never
    given for a stranger's run (A6).
    """

    answer: Answer | None
    _raised: set[str] = field(default_factory=set)

    def answer_for(self, question: ApprovalQuestion) -> Answered | None:
        """None when the person is to be asked."""
        if self.answer is None or (question.outside and self.answer is not Answer.DENY):
            return None
        if question.tool == EXTEND_TOOL and self.answer is not Answer.DENY:
            if question.turn in self._raised:
                return Answer.DENY, RAISED_ONCE
            self._raised.add(question.turn)
        return self.answer, ""


def describe_expiry(expires: str, now: datetime) -> str:
    """Until when a question can be answered."""
    try:
        at = datetime.fromisoformat(expires)
    except ValueError:
        return ""
    minutes = (at - now).total_seconds() / 60
    if minutes > LONG_MINUTES:
        return f"until {at.astimezone():%d %b %H:%M}"
    return f"lapses in {minutes:.0f} min" if minutes >= 1 else "lapses in less than a minute"
