"""What the house itself asks a person, in words: for more budget (F2), for a look at an answer (E10), at an attempt (C3)."""

import json
from collections.abc import Mapping

from daemon.agent.budgets import EXTEND, REVIEW
from daemon.core import value
from daemon.loops.events import REVIEW_TOOL

MIN_TWO_DECIMALS = 0.1


@value
class SystemQuestion:
    """The question, and the text that it is about, whole."""

    title: str
    text: str = ""

    @property
    def whole(self) -> str:
        """Both."""
        return "\n".join(part for part in (self.title, self.text) if part)


def parse_system_question(tool: str, arguments: str) -> SystemQuestion | None:
    """In words; None for a call of a tool, which is shown as it will run."""
    if tool not in (EXTEND, REVIEW, REVIEW_TOOL):
        return None
    try:
        about = json.loads(arguments)
    except ValueError:
        return None
    match tool:
        case "extend_budget":
            return SystemQuestion(_extension_title(about))
        case "review_answer":
            look_at = f" Look at this: {about['look_at']}." if about.get("look_at") else ""
            return SystemQuestion(
                f"Is this answer all right?{look_at}", str(about.get("answer", ""))
            )
        case _:
            return SystemQuestion(
                f"Will attempt {about.get('iteration', '')} do?", str(about.get("output", ""))
            )


def _extension_title(about: Mapping[str, object]) -> str:
    whose, kind = about.get("budget", "turn"), about.get("of")
    used, limit, more = (_number(about.get(name)) for name in ("used", "limit", "more"))
    what, plural = ("money", False) if kind == "usd" else ("tokens", True)
    gone = f"{_money(used)} of ${limit:g}" if kind == "usd" else f"{used:,.0f} of {limit:,.0f}"
    are, do = ("are", "do") if plural else ("is", "does")
    state = (
        f"{are} used up ({gone})"
        if used >= limit
        else f"{do} not suffice for the next step ({gone} used)"
    )
    return f"The {whose}'s {what} {state}. Go on with {f'${more:g}' if kind == 'usd' else f'{more:,.0f}'} more?"


def _money(usd: float) -> str:
    return f"${usd:.2f}" if usd >= MIN_TWO_DECIMALS else f"${usd:.4g}"


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
