"""At the limit a person is asked whether the turn, or the day, may use up more (F2)."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from math import ceil

from daemon.agent.context import Scene
from daemon.agent.halting import DAY
from daemon.agent.money.budgets import caps_of
from daemon.agent.money.ledger import Ledger
from daemon.agent.money.questions import EXTEND, house_question
from daemon.core.budget import Shortage
from daemon.core.clock import Clock
from daemon.core.events import ApprovalAsked, BudgetRaised, Limits
from daemon.core.label import Label
from daemon.core.turn import Turn

MONEY = 4
TURN = "turn"


@dataclass(frozen=True, slots=True)
class Extending:
    """Asks, and knows what a yes means: as much again as the limit was at first."""

    ledger: Ledger
    clock: Clock
    new_token: Callable[[], str]
    minutes: float

    def question(self, turn: Turn, scene: Scene, short: Shortage) -> ApprovalAsked | None:
        """The question, where somebody may be asked and has not said no yet: not for sub-agents, not for strangers."""
        refused = any(one.answered and not one.agreed for one in turn.questions.values() if one.asked.tool == EXTEND)
        theirs = short.account not in (turn.id, DAY) or scene.setting.session_label is Label.UNTRUSTED
        if turn.terms.on_budget != "ask" or refused or theirs or turn.parent or turn.session.startswith("loop:"):
            return None
        name = f"budget.{len(turn.questions) + 1}"
        whose = DAY if short.account == DAY else TURN
        used, more = round(short.used, MONEY), max(self._more(turn, short), _rounded_up(short))
        what = {"budget": whose, "of": short.kind, "used": used, "limit": short.cap, "more": more}
        expires = self.clock.now() + timedelta(minutes=self.minutes)
        return house_question(name, EXTEND, what, self.new_token(), expires)

    def raised(self, turn: Turn, scene: Scene) -> BudgetRaised | None:
        """What a yes means for the limits; the accounts know it at once."""
        asked_for = ((name, one) for name, one in turn.questions.items() if one.asked.tool == EXTEND)
        agreed = next((name for name, one in asked_for if one.agreed and not one.settled), "")
        if not agreed:
            return None
        asked = json.loads(turn.questions[agreed].asked.arguments)
        raised = _raised(agreed, turn.limits, asked)
        scene.account.caps = caps_of(raised.limits)
        self.ledger.raised(raised)
        return raised

    def _more(self, turn: Turn, short: Shortage) -> float:
        """The first limit once more: what it was at the beginning of the turn, or of the day, not what it has grown to."""
        if short.account == DAY:
            return self.ledger.budget.daily_usd if short.kind == "usd" else self.ledger.budget.daily_tokens
        asked = (json.loads(one.asked.arguments) for one in turn.questions.values() if one.asked.tool == EXTEND)
        return next((what["limit"] for what in asked if (what["budget"], what["of"]) == (TURN, short.kind)), short.cap)


def _rounded_up(short: Shortage) -> float:
    """What is missing for the next call: one yes is enough for it, however small the limit was."""
    return ceil(short.missing * 10**MONEY) / 10**MONEY if short.kind == "usd" else short.missing


def _raised(name: str, limits: Limits, asked: dict[str, float | str]) -> BudgetRaised:
    more = float(asked["more"])
    match asked["budget"], asked["of"]:
        case "day", "usd":
            return BudgetRaised(name, limits, day_usd=more)
        case "day", _:
            return BudgetRaised(name, limits, day_tokens=int(more))
        case _, "usd":
            return BudgetRaised(name, replace(limits, max_usd=(limits.max_usd or 0.0) + more))
        case _:
            return BudgetRaised(name, replace(limits, max_input_tokens=(limits.max_input_tokens or 0) + int(more)))
