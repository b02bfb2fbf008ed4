"""Questions in words: those that the daemon itself asks, for more budget (F2), a look at an answer
(E10) or at a loop's attempt (C3), and those of the model's `ask_user` (H1) and `ask_secret` (H2).
"""

import json

from daemon.core import value
from daemon.core.trust import ASK_TOOL, SECRET_TOOL

EXTEND_TOOL, ANSWER_REVIEW_TOOL, LOOP_REVIEW_TOOL = "extend_budget", "review_answer", "loop_review"


@value
class QuestionText:
    """The question, and the whole text that it is about. `options`: what may be chosen; `default`
    is the one that counts without an answer, "" for none. `secret`: the name of the one that is
    asked for, and its host.
    """

    title: str
    text: str = ""
    options: tuple[str, ...] = ()
    default: str = ""
    secret: tuple[str, str] = ("", "")

    @property
    def whole(self) -> str:
        """Both, and the options with their numbers."""
        lines = (f"{number}. {option}" for number, option in enumerate(self.options, 1))
        return "\n".join((f"{self.title}\n{self.text}".strip("\n"), *lines))

    def find_option(self, text: str) -> str:
        """The option that a person means by its words or, where no words are those, its number; ""
        for none, and for more than one.
        """
        said = text.strip()
        if said in self.options:
            return said
        near = [one for one in self.options if one.casefold() == said.casefold()]
        if near:
            return near[0] if len(near) == 1 else ""
        is_number = len(said) == 1 and said.isdecimal() and 1 <= int(said) <= len(self.options)
        return self.options[int(said) - 1] if is_number else ""


def how_to_store(name: str, host: str) -> str:
    """Where a secret is entered: never in a chat app, whose server would keep it."""
    return (
        "Enter it where aidaemon runs, in `aidaemon chat`, or by"
        f" `aidaemon secret set {name} --host {host}`."
    )


def parse_system_question(tool: str, arguments: str) -> QuestionText | None:
    """None for a call of a tool, which is shown as it will run."""
    if tool not in (EXTEND_TOOL, ANSWER_REVIEW_TOOL, LOOP_REVIEW_TOOL, ASK_TOOL, SECRET_TOOL):
        return None
    try:
        about = json.loads(arguments)
    except ValueError:
        return None
    if tool == ASK_TOOL:
        options = tuple(map(str, about.get("options") or ()))
        return QuestionText(str(about["question"]), "", options, str(about.get("default") or ""))
    if tool == SECRET_TOOL:
        name, host, why = (str(about.get(key) or "") for key in ("name", "host", "why"))
        title = f"Keep the secret {name}, for {host} alone?"
        return QuestionText(title, why and f"Because: {why}", secret=(name, host))
    if tool == LOOP_REVIEW_TOOL:
        return QuestionText(f"Will attempt {about['iteration']} do?", about["output"])
    if tool == ANSWER_REVIEW_TOOL:
        look_at = f" Look at this: {about['look_at']}." if about.get("look_at") else ""
        return QuestionText(f"Is this answer all right?{look_at}", about["answer"])
    used, limit, more = about["used"], about["limit"], about["more"]
    if about["of"] == "usd":
        money = f"${used:.2f}" if used >= 0.1 else f"${used:.4g}"
        unit, spent, extra = "money", f"{money} of ${limit:g}", f"${more:g}"
        state = "is used up" if used >= limit else "does not suffice for the next step"
    elif about["of"] == "seconds":
        unit, spent, extra = "time", f"{used:,.0f} of {limit:,g} s", f"{more:,g} s"
        state = "is used up"
    else:
        unit, spent, extra = "tokens", f"{used:,.0f} of {limit:,.0f}", f"{more:,.0f}"
        state = "are used up" if used >= limit else "do not suffice for the next step"
    spent = spent if used >= limit else f"{spent} used"
    return QuestionText(
        f"The {about['budget']}'s {unit} {state} ({spent}). Go on with {extra} more?"
    )
