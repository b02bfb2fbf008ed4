"""Why a turn may have to stop: a list of pure conditions over the turn (D1, E1).

The latest part of a turn, read backwards: what was said and done since the user last spoke.

Whoever looks here stops when they have seen enough; nobody reads the whole turn at each step.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from daemon.core import value
from daemon.core.budget import Shortage
from daemon.core.events import (
    Coached,
    ModelReplied,
    Outcome,
    RecordedEvent,
    Steered,
    ToolFinished,
    UserSaid,
)
from daemon.core.messages import ToolCall
from daemon.core.trust import Stop
from daemon.core.turn import Turn
from daemon.core.turn_spec import BudgetExhausted

DAY = "day"


@value
class Halt:
    """Stop, for this reason. `coach` is a message to try first, when the condition gives the model another chance.

    A `coachable` one is void when the user steers meanwhile: that is a new chance, too.
    """

    reason: Stop
    detail: str
    coach: str = ""
    coachable: bool = False


HaltCondition = Callable[[Turn], Halt | None]


@value
class UsageToday:
    """What the whole daemon has used up since midnight UTC, and what it may. `unpriced`: calls of unknown price come on top."""

    tokens: int = 0
    usd: float = 0.0
    unpriced: bool = False
    max_tokens: int = 0
    max_usd: float = 0.0


def find_halt(conditions: Sequence[HaltCondition], turn: Turn) -> Halt | None:
    """The first condition that holds, in order."""
    return next((halt for condition in conditions if (halt := condition(turn))), None)


def check_deadline(turn: Turn, seconds: float) -> Halt | None:
    """The turn has worked for longer than it may; waiting for a person did not count."""
    limit = turn.limits.max_seconds
    return (
        Halt(Stop.DEADLINE, f"the time for one turn is used up ({limit:g} s)")
        if seconds >= limit
        else None
    )


def halt_over_budget(turn: Turn, short: Shortage) -> Halt:
    """The turn's own tokens or USD are used up, or those of who set it to work, or the day's (A19, F2); where a condition
    says that this is its end, it is that condition (B2).
    """
    money = short.kind == "usd"
    used = (
        f"${short.used:.4f} of ${short.cap:g}"
        if money
        else f"{short.used:,.0f} of {short.cap:,.0f}"
    )
    if (
        money
        and short.budget == turn.id
        and any(isinstance(one, BudgetExhausted) for one in turn.spec.conditions)
    ):
        return Halt(Stop.CONDITION, f"budget-exhausted ({used})")
    whose = {turn.id: "the turn's", DAY: "today's"}.get(short.budget, "the calling agent's")
    what = f"{whose} {'money is' if money else 'tokens are'}"
    how = (
        "used up"
        if short.used >= short.cap
        else "nearly used up, and the next call could take more than is left"
    )
    until = ", until 0:00 UTC" if short.budget == DAY else ""
    return Halt(Stop.OVER_BUDGET, f"{what} {how} ({used}{until})")


def check_iterations(turn: Turn) -> Halt | None:
    """The last iteration that was allowed has been used (A12)."""
    if turn.iterations < turn.max_iterations:
        return None
    return Halt(Stop.MAX_ITERATIONS, f"all {turn.max_iterations} iterations are used up")


LOOKED = 96
Done = tuple[ToolFinished, ToolCall]
BY_USER = (UserSaid, Steered)
CIRCLING = (Stop.STALLED.value, Stop.REPEATING.value)


def events_since_user(turn: Turn) -> Iterator[RecordedEvent]:
    """Events, latest first; what a user says mid-turn is a new chance for the model, so older ones do not count."""
    return takewhile(
        lambda recorded: not isinstance(recorded.event, BY_USER), reversed(turn.events)
    )


def iterate_replies(turn: Turn) -> Iterator[tuple[ModelReplied, tuple[Done, ...]]]:
    """Replies, latest first, each with what came of its calls."""
    results: list[ToolFinished] = []
    for recorded in reversed(turn.events):
        event = recorded.event
        if isinstance(event, ToolFinished):
            results.append(event)
        elif isinstance(event, ModelReplied):
            yield event, tuple([(result, _asked(event, result)) for result in reversed(results)])
            results = []
        elif isinstance(event, BY_USER):
            return


def iterate_results(turn: Turn) -> Iterator[tuple[Done, ...]]:
    """What the iterations did, latest first; those without a call are left out."""
    return (done for _, done in iterate_replies(turn) if done)


def has_new_results(turn: Turn) -> bool:
    """The latest iteration went well, brought only what no earlier one did, and said nothing: no circle can be in that."""
    reply = turn.reply
    if reply is None or reply.text or not reply.calls or not turn.settled_calls:
        return reply is None
    count = len(reply.calls)
    latest = [result for result, _ in turn.settled_calls[-count:]]
    if any(result.outcome is not Outcome.OK or result.repeat_of for result in latest):
        return False
    before = {result.text for result, _ in turn.settled_calls[-count - LOOKED : -count]}
    return before.isdisjoint(result.text for result in latest)


def is_just_coached(turn: Turn) -> bool:
    """The model was told that it goes in circles, and has not answered yet."""
    for recorded in events_since_user(turn):
        match recorded.event:
            case Coached(kind=kind) if kind in CIRCLING:
                return True
            case ModelReplied():
                return False
            case _:
                continue
    return False


def _asked(reply: ModelReplied, result: ToolFinished) -> ToolCall:
    return reply.calls[int(result.call_id.partition(".")[2])]
