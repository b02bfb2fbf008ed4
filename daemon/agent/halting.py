"""Why a turn may have to stop: a list of pure conditions over the turn (D1, E1)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from daemon.agent.stall import WINDOW, coaching, stuck_on
from daemon.core.events import Stop
from daemon.core.turn import Turn


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


def over_budget(turn: Turn, today: Today) -> Halt | None:
    """The turn's own tokens or USD, or the day's, are used up (A19). What was reserved and never settled counts as spent."""
    spent, limits = turn.spent, turn.limits
    tokens = spent.input_tokens + spent.reserved_tokens
    usd = spent.usd + spent.reserved_usd
    if limits.max_input_tokens is not None and tokens >= limits.max_input_tokens:
        return Halt(Stop.OVER_BUDGET, f"the turn's tokens are used up ({tokens:,} of {limits.max_input_tokens:,})")
    if limits.max_usd is not None and usd >= limits.max_usd:
        return Halt(Stop.OVER_BUDGET, f"the turn's money is used up (${usd:.4f} of ${limits.max_usd:g})")
    if today.max_tokens and today.tokens >= today.max_tokens:
        return Halt(Stop.OVER_BUDGET, f"today's tokens are used up ({today.tokens:,} of {today.max_tokens:,} until 0:00 UTC)")
    if today.max_usd and today.usd >= today.max_usd:
        return Halt(Stop.OVER_BUDGET, f"today's money is used up (${today.usd:.4f} of ${today.max_usd:g}, until 0:00 UTC)")
    return None


def out_of_iterations(turn: Turn) -> Halt | None:
    """The last iteration that was allowed has been used (A12)."""
    if turn.iterations < turn.max_iterations:
        return None
    return Halt(Stop.MAX_ITERATIONS, f"all {turn.max_iterations} iterations are used up")


def stalled(on_stall: Literal["coach", "stop"]) -> HaltCondition:
    """The same call with the same outcome again and again; coached once, unless told to stop at once (A11)."""

    def check(turn: Turn) -> Halt | None:
        tool = stuck_on(turn)
        if not tool or turn.coached.get(Stop.STALLED) == turn.iterations:
            return None
        coach = coaching(tool) if on_stall == "coach" and Stop.STALLED not in turn.coached else ""
        return Halt(Stop.STALLED, f"{tool} was called {WINDOW} times running with the same outcome", coach, coachable=True)

    return check
