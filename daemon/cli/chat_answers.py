"""What a person types at an approval, and what it means."""

from daemon.core.events import Answer

BY = "terminal"
ANSWERS = {
    **dict.fromkeys(("y", "yes", "once"), Answer.ONCE),
    **dict.fromkeys(("s", "session"), Answer.SESSION),
    **dict.fromkeys(("a", "always"), Answer.ALWAYS),
    **dict.fromkeys(("n", "no"), Answer.DENY),
}


def understood(text: str) -> tuple[Answer, str]:
    """The answer and its reason: any other text is a no, and says why."""
    answer = ANSWERS.get(text.strip().lower())
    return (answer, "") if answer else (Answer.DENY, text.strip())


def wants_view(text: str) -> bool:
    """A question too long to be shown whole is to be shown whole, asked for or not, before it can be allowed."""
    return text.strip().lower() in {"v", "view"} or understood(text)[0] is not Answer.DENY
