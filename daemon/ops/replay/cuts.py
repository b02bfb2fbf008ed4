"""Reads off a record where a turn was cut: by a stop, by its time, or by a budget that was used
up. What was used up of a budget is outside of the turn, so it is read, too.
"""

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from daemon.agent.system_questions import EXTEND_TOOL
from daemon.agent.termination.conditions import DAY, OTHERS
from daemon.core import value
from daemon.core.errors import Shortage
from daemon.core.events import Alarm, ApprovalAsked, Event, Outcome, Stop, ToolFinished, TurnEnded
from daemon.core.rows import OF_GOAL

BUDGET_END = "budget-exhausted ("
SECONDS = "seconds"
COMPARED_CHARS = 100
NUMBER = r"\$?([\d.,]+(?:e[+-]?\d+)?)"
USED_UP = re.compile(
    rf"(?P<whose>.+?) (?P<what>tokens are|money is) (?P<how>used up|not enough|nearly used up)"
    rf".*?\((?:which may take )?{NUMBER} of {NUMBER}"
)
DECLARED = re.compile(rf"budget-exhausted \({NUMBER} of {NUMBER}\)")
TINY = 1e-12


@value
class Cut:
    """From the event `index` (from 0) on there is only the end."""

    index: int
    reason: Stop
    detail: str

    @property
    def is_stop(self) -> bool:
        """Somebody said stop."""
        return self.reason is Stop.CANCELLED

    @property
    def is_late(self) -> bool:
        """The time was used up."""
        return self.reason is Stop.DEADLINE

    @property
    def is_short(self) -> bool:
        """A budget was used up."""
        return not (self.is_stop or self.is_late)


def find_cut(events: Sequence[Event]) -> Cut | None:
    """Before the end: an alarm, and results of calls that did not run or were left."""
    end = events[-1] if events else None
    if not isinstance(end, TurnEnded):
        return None
    declared = end.reason is Stop.CONDITION and end.detail.startswith(BUDGET_END)
    if end.reason not in (Stop.CANCELLED, Stop.DEADLINE, Stop.OVER_BUDGET) and not declared:
        return None
    index = len(events) - 1
    if index and isinstance(events[index - 1], Alarm):
        index -= 1
    while index and _is_left(events[index - 1], end.detail):
        index -= 1
    return Cut(index, end.reason, end.detail)


def _is_left(event: Event, why: str) -> bool:
    if not isinstance(event, ToolFinished):
        return False
    begin = f"Not run: {why[:COMPARED_CHARS]}"
    not_run = event.outcome is Outcome.NOT_RUN and event.text.startswith(begin)
    return not_run or event.outcome is Outcome.UNKNOWN


def find_seconds_asked(event: Event) -> float | None:
    """How long the turn has worked, where the event asks for more time."""
    about = read_question(event)
    return float(about["used"]) if about and about["of"] == SECONDS else None


def read_question(event: Event | None) -> dict[str, Any] | None:
    """What a question for more budget is about."""
    if not isinstance(event, ApprovalAsked) or event.tool != EXTEND_TOOL:
        return None
    found: dict[str, Any] = json.loads(event.arguments)
    return found


def read_shortage(event: Event | None, turn: str) -> Shortage | None:
    """Of a question for more tokens or money."""
    about = read_question(event)
    if about is None or about["of"] == SECONDS:
        return None
    budget = DAY if about["budget"] == DAY else turn
    return Shortage(budget, about["of"], about["used"], about["limit"], about["more"])


def parse_shortage(cut: Cut, turn: str, session: str) -> Shortage:
    """Of the words of an end, so that it leads to the same words."""
    if declared := DECLARED.match(cut.detail):
        used, cap = map(_to_number, declared.groups())
        return Shortage(turn, "usd", max(used, TINY), cap)
    found = USED_UP.match(cut.detail)
    if found is None:
        return Shortage("", "sent", 1.0, 1.0)
    kind = "usd" if found["what"] == "money is" else "sent"
    names = {"the turn's": turn, "today's": DAY, "today's shared": OTHERS, OF_GOAL: session}
    budget, (used, cap) = names.get(found["whose"], ""), map(_to_number, found.groups()[-2:])
    match found["how"]:
        case "not enough":
            return Shortage(budget, kind, 0.0, cap, used - cap)
        case "nearly used up":
            return Shortage(budget, kind, max(TINY, min(used, math.nextafter(cap, 0.0))), cap)
        case _:
            return Shortage(budget, kind, max(used, cap, TINY), cap)


def _to_number(text: str) -> float:
    return float(text.replace(",", "").rstrip("."))
