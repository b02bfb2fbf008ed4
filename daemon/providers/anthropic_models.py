"""What a Claude wants to be asked, by its name: the forms of thinking changed from model to model (E13)."""

import re
from dataclasses import dataclass
from typing import Literal

VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2}))?(?!\d)")
FIRST_THINKING = (3, 7)
FIRST_ADAPTIVE = (4, 6)
FIRST_BOUND = (5, 1)
BUDGETS = {"low": 2048, "medium": 8192, "high": 16_384, "max": 24_000}
DEEP = ("high", "max")


@dataclass(frozen=True, slots=True)
class Talents:
    """How a model thinks. `bound`: its thinking counts only behind exactly what it was thought about."""

    thinking: Literal["none", "budget", "adaptive"]
    bound: bool = False

    def limits(self, wanted: int | None, effort: str | None) -> tuple[int, int]:
        """(max_tokens, of which for thinking or 0): the API must be told, and a budget of thinking counts towards it."""
        if self.thinking == "none":
            return wanted or 4096, 0
        if self.thinking == "adaptive":
            return wanted or (32_000 if effort in DEEP else 16_000), 0
        budget = BUDGETS.get(effort, BUDGETS["high"]) if effort else 0
        return (wanted or 8000) + budget, budget


def talents(model: str) -> Talents:
    """Those of this model; one with a name that is not Claude's speaks the oldest form."""
    if "claude" not in model:
        return Talents("budget")
    found = VERSION.search(model)
    if not found:
        return Talents("adaptive", bound=True)
    version = int(found[1]), int(found[2] or 0)
    if version < FIRST_THINKING:
        return Talents("none")
    if version < FIRST_ADAPTIVE:
        return Talents("budget")
    return Talents("adaptive", bound=version >= FIRST_BOUND)
