"""Why a turn may have to stop: a list of pure conditions over the turn (D1, E1)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daemon.core.budget import Shortage
from daemon.core.outcomes import Stop
from daemon.core.terms import BudgetExhausted
from daemon.core.turn import Turn

DAY = "day"


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop, for this reason. `coach` is a message to try first, when the condition gives the model another chance.

    A `coachable` one is void when the user steers meanwhile: that is a new chance, too.
    """

    reason: Stop
    detail: str
    coach: str = ""
    coachable: bool = False


HaltCondition = Callable[[Turn], Halt | None]


@dataclass(frozen=True, slots=True)
class Today:
    """What the whole daemon has used up since midnight UTC, and what it may. `unpriced`: calls of unknown price come on top."""

    tokens: int = 0
    usd: float = 0.0
    unpriced: bool = False
    max_tokens: int = 0
    max_usd: float = 0.0


def first(conditions: Sequence[HaltCondition], turn: Turn) -> Halt | None:
    """The first condition that holds, in order."""
    return next((halt for condition in conditions if (halt := condition(turn))), None)


def past_deadline(turn: Turn, seconds: float) -> Halt | None:
    """The turn has worked for longer than it may; waiting for a person did not count."""
    limit = turn.limits.max_seconds
    return Halt(Stop.DEADLINE, f"the time for one turn is used up ({limit:g} s)") if seconds >= limit else None


def over_budget(turn: Turn, short: Shortage) -> Halt:
    """The turn's own tokens or USD are used up, or those of who set it to work, or the day's (A19, F2); where a condition
    says that this is its end, it is that condition (B2).
    """
    money = short.kind == "usd"
    used = f"${short.used:.4f} of ${short.cap:g}" if money else f"{short.used:,.0f} of {short.cap:,.0f}"
    if money and short.account == turn.id and any(isinstance(one, BudgetExhausted) for one in turn.terms.conditions):
        return Halt(Stop.CONDITION, f"budget-exhausted ({used})")
    whose = {turn.id: "the turn's", DAY: "today's"}.get(short.account, "the calling agent's")
    what = f"{whose} {'money is' if money else 'tokens are'}"
    how = "used up" if short.used >= short.cap else "nearly used up, and the next call could take more than is left"
    until = ", until 0:00 UTC" if short.account == DAY else ""
    return Halt(Stop.OVER_BUDGET, f"{what} {how} ({used}{until})")


def out_of_iterations(turn: Turn) -> Halt | None:
    """The last iteration that was allowed has been used (A12)."""
    if turn.iterations < turn.max_iterations:
        return None
    return Halt(Stop.MAX_ITERATIONS, f"all {turn.max_iterations} iterations are used up")
