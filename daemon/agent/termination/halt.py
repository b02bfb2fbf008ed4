"""Why a turn stops (D1, E1), and its latest events for the conditions: read backwards, no further
than needed.
"""

from collections.abc import Iterator

from daemon.core import value
from daemon.core.budget import Shortage
from daemon.core.events import (
    Coached,
    ModelReplied,
    Outcome,
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
    """Stop, for this reason. `coach` is a message to try first, when the condition gives the model
    another chance.

    A `coachable` one is void when the user steers meanwhile: that is a new chance, too.
    """

    reason: Stop
    detail: str
    coach: str = ""
    coachable: bool = False


def halt_over_budget(turn: Turn, short: Shortage) -> Halt:
    """The tokens or USD of the turn, of its parent, or of the day are used up (A19, F2); a
    condition may declare that (B2).
    """
    money = short.kind == "usd"
    form = "${:.4f} of ${:g}" if money else "{:,.0f} of {:,.0f}"
    used = form.format(short.used, short.cap)
    declared = any(isinstance(one, BudgetExhausted) for one in turn.spec.conditions)
    if money and short.budget == turn.id and declared:
        return Halt(Stop.CONDITION, f"budget-exhausted ({used})")
    whose = {turn.id: "the turn's", DAY: "today's"}.get(short.budget, "the calling agent's")
    what = "money is" if money else "tokens are"
    how = "used up"
    if short.used < short.cap:
        how = "nearly used up, and the next call could take more than is left"
    until = ", until 0:00 UTC" if short.budget == DAY else ""
    return Halt(Stop.OVER_BUDGET, f"{whose} {what} {how} ({used}{until})")


def check_iterations(turn: Turn) -> Halt | None:
    """The last iteration that was allowed has been used (A12)."""
    if turn.iterations < turn.max_iterations:
        return None
    return Halt(Stop.MAX_ITERATIONS, f"all {turn.max_iterations} iterations are used up")


LOOKED = 96
Done = tuple[ToolFinished, ToolCall]
CIRCLING = (Stop.STALLED.value, Stop.REPEATING.value)


def iterate_replies(turn: Turn) -> Iterator[tuple[ModelReplied, tuple[Done, ...]]]:
    """Replies since the user last spoke, latest first, each with the results of its calls."""
    results: list[ToolFinished] = []
    for recorded in reversed(turn.events):
        event = recorded.event
        if isinstance(event, ToolFinished):
            results.append(event)
        elif isinstance(event, ModelReplied):
            done = (
                (one, event.calls[int(one.call_id.partition(".")[2])]) for one in reversed(results)
            )
            yield event, tuple(done)
            results = []
        elif isinstance(event, UserSaid | Steered):
            return


def iterate_results(turn: Turn) -> Iterator[tuple[Done, ...]]:
    """What the iterations did, latest first; those without a call are left out."""
    return (done for _, done in iterate_replies(turn) if done)


def has_new_results(turn: Turn) -> bool:
    """The latest iteration succeeded, brought only new results, and said nothing: no loop can be
    in that.
    """
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
    for recorded in reversed(turn.events):
        match recorded.event:
            case Coached(kind=kind) if kind in CIRCLING:
                return True
            case ModelReplied() | UserSaid() | Steered():
                return False
            case _:
                continue
    return False
